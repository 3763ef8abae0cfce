//! Redis from the system's packages, in memory only.

use std::ffi::OsString;
use std::process::Command;

use super::start::Plan;
use super::{Context, Error, Result, find_program, privileges};

/// Enough for every test to have a database of its own.
const DATABASES: &str = "1024";

fn program() -> Result<std::path::PathBuf> {
    find_program("redis-server").ok_or_else(|| {
        Error::new(
            "redis-server is not installed: `apt-get install redis-server`, \
             or run `cargo xtask test` once",
        )
    })
}

/// The installed version, as in `7.0.15`.
pub(super) fn version() -> Result<String> {
    let output = Command::new(program()?)
        .arg("--version")
        .output()
        .or_fail(|| "run redis-server".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(word.unwrap_or("of unknown version").to_owned())
}

/// The command.
pub(super) fn prepare(plan: &Plan<'_>) -> Result<Vec<OsString>> {
    let mut command = privileges::drop_to("nobody", plan.directory)?;
    command.push(program()?.into());
    let port = plan.port("redis").to_string();
    let directory = plan.directory.display().to_string();
    let defaults = [
        ("port", port.as_str()),
        ("bind", plan.host),
        ("dir", directory.as_str()),
        ("save", ""),
        ("appendonly", "no"),
        ("databases", DATABASES),
        ("daemonize", "no"),
    ];
    let settings = &plan.spec.settings;
    let defaults = defaults.into_iter().filter(|(key, _)| !settings.contains_key(*key));
    let overrides = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in defaults.chain(overrides) {
        command.extend([format!("--{key}").into(), value.into()]);
    }
    Ok(command)
}
