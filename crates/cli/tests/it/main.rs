//! The `helenus` command as a user meets it: what it prints, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and a proof prints what it found"
)]

#[cfg(feature = "service-tests")]
mod browser;
mod configuration;
mod demo;
mod events;
mod relay;
mod segments;
mod versions;

use std::path::Path;
use std::process::{Command, Output};

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
