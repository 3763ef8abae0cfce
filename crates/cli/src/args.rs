//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Move data into and out of Apache Cassandra without losing, doubling or inventing a change.
#[derive(Debug, Parser)]
#[command(name = "helenus", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing to do.")]
pub(crate) struct Arguments {
    /// Configuration file; helenus.toml in this folder if it is there
    #[arg(short, long, global = true, value_name = "FILE", env = "HELENUS_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Print data and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// How log lines on stderr are written
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole pipeline on the embedded backends, with a live page, and check it
    Demo(Demo),
    /// Write a commented helenus.toml
    Init(Init),
    /// Check configuration, files and services, each with its remedy
    Doctor,
    /// Print a script that completes commands for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for every command
    Man {
        /// Write the pages into this folder
        #[arg(long, value_name = "FOLDER")]
        directory: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// How long messages are produced
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,

    /// Port of the live page on 127.0.0.1; any free one if not given
    #[arg(long, default_value_t = 0, value_name = "P")]
    pub(crate) port: u16,

    /// Keep the store file here instead of in a folder that is removed afterwards
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// File to write
    #[arg(default_value = "helenus.toml")]
    pub(crate) file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}
