//! The tasks of the repository: `cargo xtask COMMAND`.
//!
//! Plain Rust with few dependencies, because it is built before anything else: before the system
//! packages it installs, and again on every CI run.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a terminal program for developers: it prints, owns real time and reads its own tables"
)]

mod arguments;
mod ci;
mod fixtures;
mod measure;
mod metadata;
mod packages;
mod phases;
mod services;
mod test;
mod tidy;

use std::io::Write;
use std::process::{self, ExitCode};

use arguments::{Arguments, UsageError};
use helenus_testkit::services::workspace;

/// A command: its name, what it does in a line, its help, and its code.
struct Command {
    name: &'static str,
    summary: &'static str,
    help: &'static str,
    run: fn(Arguments) -> anyhow::Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        summary: "run all tests against real services",
        help: test::HELP,
        run: test::run,
    },
    Command {
        name: "ci",
        summary: "run everything a change must pass",
        help: ci::HELP,
        run: ci::run,
    },
    Command {
        name: "services",
        summary: "start, stop and list real services",
        help: services::HELP,
        run: services::run,
    },
    Command {
        name: "tidy",
        summary: "check layers, sources and licences",
        help: tidy::HELP,
        run: tidy::run,
    },
    Command {
        name: "bench",
        summary: "measure one scenario",
        help: measure::BENCH_HELP,
        run: measure::bench,
    },
    Command {
        name: "proof",
        summary: "run reliability proofs at full size",
        help: measure::PROOF_HELP,
        run: measure::proof,
    },
    Command {
        name: "fixtures",
        summary: "record what decoders are tested with, from real services",
        help: fixtures::HELP,
        run: fixtures::run,
    },
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_env();
    match dispatch(&mut arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

fn dispatch(arguments: &mut Arguments) -> anyhow::Result<ExitCode> {
    let Some(name) = arguments.next() else {
        eprint!("{}", overview());
        return Ok(ExitCode::from(2));
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        show(&overview())?;
        return Ok(ExitCode::SUCCESS);
    }
    let command = COMMANDS
        .iter()
        .find(|command| command.name == name)
        .ok_or_else(|| arguments::unknown("command", &name, COMMANDS.iter().map(|c| c.name)))?;
    if arguments.asks_for_help() {
        show(command.help)?;
        return Ok(ExitCode::SUCCESS);
    }
    (command.run)(std::mem::take(arguments))
}

/// Writes to stdout; a reader that has seen enough is no error.
fn show(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The cargo that runs us, at the root of the workspace.
fn cargo() -> process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = process::Command::new(program);
    command.current_dir(workspace());
    command
}

fn overview() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND\n\nCommands:\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<10} {}\n", command.name, command.summary));
    }
    text.push_str("\n`cargo xtask COMMAND --help` says more.\n");
    text
}
