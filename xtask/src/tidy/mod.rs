//! `cargo xtask tidy`: the habits of this repository that no compiler checks.
//!
//! What is asserted: the dependency graph between the crates ([`layers`]), what sources may and
//! must contain ([`sources`]), licences of dependencies ([`licences`]).

mod layers;
mod licences;
mod sources;

use std::process::ExitCode;

use anyhow::bail;
use helenus_testkit::services::workspace;

use crate::arguments::{Arguments, unknown};
use crate::metadata;

pub(crate) const HELP: &str = "\
Usage: cargo xtask tidy

Checks what no compiler does: each source file opens with its purpose and stays within 800 lines,
crates depend only on lower layers, pure crates do no I/O, drivers stay in the folder named after
them, no ignored tests, no paths of somebody's machine, licences of dependencies.
";

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(word) = arguments.next() {
        return Err(unknown("option", &word, ["--help"]));
    }
    check()?;
    Ok(ExitCode::SUCCESS)
}

/// Fails with every finding, one a line.
pub(crate) fn check() -> anyhow::Result<()> {
    let packages = metadata::packages()?;
    let sources = sources::read(workspace())?;
    let mut findings = sources::check(&sources);
    findings.extend(layers::check(&packages));
    findings.extend(licences::check(&packages));
    findings.extend(licences::check_deny_toml(&workspace().join("deny.toml")));
    if findings.is_empty() {
        eprintln!("{} sources, {} packages: tidy", sources.len(), packages.len());
        return Ok(());
    }
    bail!("{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        if let Err(findings) = super::check() {
            panic!("{findings}");
        }
    }
}
