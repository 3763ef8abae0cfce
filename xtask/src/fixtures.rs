//! `cargo xtask fixtures`: records real bytes for tests that run without a server.

use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::arguments::{Arguments, unknown};
use crate::packages;

pub(crate) const HELP: &str = "\
Usage: cargo xtask fixtures

Records commit log segments from a private Cassandra node into crates/commitlog/tests/fixtures, with
the schema and the rows the node answers: one segment for each kind of compression, and one of the
later format. Takes some minutes; installs the system packages that are missing.
";

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(word) = arguments.next() {
        return Err(unknown("option", &word, ["--help"]));
    }
    packages::install_missing()?;
    let mut command = crate::cargo();
    command.args(["run", "--locked", "--package", "helenus-testkit", "--features", "clients"]);
    let status =
        command.args(["--example", "record_segments"]).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the recording ended with {status}");
    }
    Ok(ExitCode::SUCCESS)
}
