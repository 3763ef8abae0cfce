//! `cargo xtask fixtures`: records real bytes for tests that run without a server.

use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::arguments::{Arguments, unknown};
use crate::packages;

pub(crate) const HELP: &str = "\
Usage: cargo xtask fixtures [cassandra] [cassandra41]

Records commit log segments from private Cassandra nodes into crates/commitlog/tests/fixtures, with
the schema and the rows the nodes answer: from 5.0 one segment for each kind of compression and one of
the later format, from 4.1 a plain and a compressed one. Without a release, both. Takes some minutes;
installs the system packages that are missing.
";

const RELEASES: [&str; 2] = ["cassandra", "cassandra41"];

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut releases = Vec::new();
    while let Some(word) = arguments.next() {
        if !RELEASES.contains(&word.as_str()) {
            return Err(unknown("release", &word, RELEASES));
        }
        releases.push(word);
    }
    packages::install_missing()?;
    let mut command = crate::cargo();
    command.args(["run", "--locked", "--package", "helenus-testkit", "--features", "clients"]);
    let status = command
        .args(["--example", "record_segments", "--"])
        .args(releases)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the recording ended with {status}");
    }
    Ok(ExitCode::SUCCESS)
}
