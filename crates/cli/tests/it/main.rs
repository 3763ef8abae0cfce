//! The `helenus` command as a user meets it: what it prints, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and a proof prints what it found"
)]

#[cfg(feature = "service-tests")]
mod browser;
#[cfg(feature = "service-tests")]
mod capture;
mod configuration;
mod demo;
mod events;
#[cfg(feature = "service-tests")]
mod older_node;
#[cfg(feature = "service-tests")]
mod outage;
mod outbox;
mod project;
mod relay;
#[cfg(feature = "service-tests")]
mod replicas;
mod segments;
mod serve;
mod versions;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Exit code, stdout and stderr.
type Ended = (Option<i32>, String, String);

/// The command in `folder`, with none of the caller's environment.
fn helenus(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helenus"));
    command.current_dir(folder).env_clear().args(arguments);
    command
}

/// Exit code, stdout and stderr.
fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    ended(&helenus(folder, arguments).output().unwrap())
}

/// Runs a command that reads `input`.
fn fed(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = helenus(folder, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments does not read.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    ended(&child.wait_with_output().unwrap())
}
