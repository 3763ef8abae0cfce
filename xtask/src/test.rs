//! `cargo xtask test`: everything, against real services; `--embedded`: what needs none.
//!
//! May be killed at any moment: services it started say so in their records, private instances
//! name their test process, and the next run ends both.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, bail};
use helenus_testkit::services::{
    self, DIRECTORY_VARIABLE, Service, Spec, StartedBy, Up, clear_failed, sweep_private,
};

use crate::arguments::{Arguments, unknown};
use crate::packages;
use crate::phases::Phases;

pub(crate) const HELP: &str = "\
Usage: cargo xtask test [--embedded] [-- ARGUMENTS OF CARGO TEST]

All tests. Installs the system packages that are missing (apt, with sudo unless root), starts
Cassandra, Kafka, a schema registry, PostgreSQL and Redis under target/services/, runs every test
of the workspace with all features, and stops what it started. Services from `cargo xtask services
up` are used and left running.

  --embedded   only the tests that need no service and no package

  cargo xtask test -- -p helenus-store            one package
  cargo xtask test -- -- --nocapture some_test    arguments for the test binaries
";

const ALL_FEATURES: &[&str] = &["--all-features"];

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut embedded = false;
    let mut cargo_arguments = Vec::new();
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--embedded" => embedded = true,
            "--" => cargo_arguments = arguments.rest(),
            _ => return Err(unknown("option", &word, ["--embedded", "--"])),
        }
    }
    let mut phases = Phases::begin();
    let code = if embedded {
        phases.run("tests", || cargo_test(&[], &cargo_arguments))
    } else {
        full(&mut phases, &cargo_arguments)
    };
    eprintln!("\n{}", phases.line());
    code
}

/// The full run: packages, services, tests, and services down again whatever happened.
pub(crate) fn full(phases: &mut Phases, cargo_arguments: &[String]) -> anyhow::Result<ExitCode> {
    let _lock = only_run()?;
    phases.run("system packages", packages::install_missing)?;
    // First, so that a test that does not compile costs no start of services.
    let built = phases.run("tests built", || build(cargo_arguments))?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    let outcome = phases
        .run("services up", services_up)
        .and_then(|()| phases.run("tests", || cargo_test(ALL_FEATURES, cargo_arguments)));
    let stopped = phases.run("services down", stop_what_tests_started);
    let code = outcome?;
    stopped?;
    Ok(code)
}

/// Two runs in one checkout would stop each other's services; the second waits.
fn only_run() -> anyhow::Result<File> {
    std::fs::create_dir_all(services::root())?;
    let path = services::root().join("test.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    if file.try_lock().is_err() {
        eprintln!("another `cargo xtask test` runs in this checkout; waiting for it");
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

fn services_up() -> anyhow::Result<()> {
    sweep_private()?;
    clear_failed()?;
    let specs = Service::SINGLE_NODE.map(Spec::of);
    services::up(&specs, Up { started_by: StartedBy::Test, keep_data: false })?;
    Ok(())
}

fn stop_what_tests_started() -> anyhow::Result<()> {
    let private = sweep_private()?;
    let stopped = services::down(&Service::ALL, Some(StartedBy::Test))?;
    let names: Vec<&str> = stopped.iter().map(|stopped| stopped.service.name()).collect();
    match (names.as_slice(), private) {
        ([], 0) => eprintln!("nothing to stop"),
        (names, 0) => eprintln!("stopped {}", names.join(", ")),
        (names, count) => eprintln!("stopped {} and {count} private instances", names.join(", ")),
    }
    Ok(())
}

/// Compiles every test.
fn build(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let own = arguments.iter().take_while(|word| *word != "--").cloned().collect::<Vec<_>>();
    let mut command = test_command(ALL_FEATURES, &own);
    let status = command.arg("--no-run").status().context("cannot run cargo")?;
    Ok(exit_code(status))
}

/// Runs `cargo test`, showing its output and counting its tests: none is a failure.
fn cargo_test(features: &[&str], arguments: &[String]) -> anyhow::Result<ExitCode> {
    let mut child = test_command(features, arguments)
        .env(DIRECTORY_VARIABLE, services::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let tests_run = show_and_count(BufReader::new(output))?;
    let status = child.wait()?;
    eprintln!("{tests_run} tests run");
    if status.success() && tests_run == 0 {
        bail!("no test was run");
    }
    Ok(exit_code(status))
}

fn test_command(features: &[&str], arguments: &[String]) -> Command {
    let names_packages =
        arguments.iter().take_while(|word| *word != "--").any(|word| is_package_option(word));
    let scope: &[&str] = if names_packages { &[] } else { &["--workspace"] };
    let mut command = crate::cargo();
    command.arg("test").args(scope).args(features).arg("--locked").args(arguments);
    command
}

/// Cargo's exit code is ours; 1 where a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

fn is_package_option(word: &str) -> bool {
    word.starts_with("-p") || word.starts_with("--package") || word == "--workspace"
}

fn show_and_count(mut output: impl BufRead) -> anyhow::Result<u64> {
    let mut stdout = std::io::stdout().lock();
    let mut line = Vec::new();
    let mut tests_run = 0;
    while output.read_until(b'\n', &mut line)? > 0 {
        stdout.write_all(&line)?;
        tests_run += tests_in(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(tests_run)
}

/// Tests passed and failed in a line such as `test result: ok. 3 passed; 0 failed; …`.
fn tests_in(line: &str) -> u64 {
    let Some((_, counts)) = line.split_once("test result: ") else { return 0 };
    let words: Vec<&str> = counts.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| matches!(pair[1], "passed;" | "failed;"))
        .filter_map(|pair| pair[0].parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_result_lines() {
        let ok = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out;";
        assert_eq!(tests_in(ok), 12);
        assert_eq!(tests_in("test result: FAILED. 2 passed; 1 failed; 0 ignored;"), 3);
        assert_eq!(tests_in("running 12 tests"), 0);
    }
}
