//! PostgreSQL from the system's packages, in a private cluster without passwords.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::start::Plan;
use super::{Context, Error, Result, files, find_program, privileges};

const MISSING: &str = "the PostgreSQL server is not installed: `apt-get install postgresql`, \
                       or run `cargo xtask test` once";

/// Where `initdb` and `postgres` are: on `PATH`, else Debian's newest.
#[must_use]
pub fn bin_directory() -> Option<PathBuf> {
    if let Some(initdb) = find_program("initdb") {
        return initdb.parent().map(PathBuf::from);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("initdb").is_file().then_some((version, bin))
        })
        .max()
        .map(|(_, bin)| bin)
}

/// The installed version, as in `15.12`.
pub(super) fn version() -> Result<String> {
    let bin = bin_directory().ok_or_else(|| Error::new(MISSING))?;
    let output = Command::new(bin.join("postgres"))
        .arg("--version")
        .output()
        .or_fail(|| "run postgres".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    Ok(word.unwrap_or("of unknown version").to_owned())
}

/// Initialises the data directory once and returns the command.
pub(super) fn prepare(plan: &Plan<'_>) -> Result<Vec<OsString>> {
    let bin = bin_directory().ok_or_else(|| Error::new(MISSING))?;
    let user = if privileges::user_exists("postgres") { "postgres" } else { "nobody" };
    let mut command = privileges::drop_to(user, plan.directory)?;
    let data = plan.directory.join("data");
    if !data.join("PG_VERSION").is_file() {
        initialise(&command, &bin, plan, &data)?;
    }
    command.push(bin.join("postgres").into());
    command.extend(["-D".into(), data.into()]);
    command.extend(["-p".into(), plan.port("postgres").to_string().into()]);
    let defaults = [
        ("listen_addresses", plan.host),
        ("unix_socket_directories", ""),
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("wal_level", "logical"),
        ("max_connections", "200"),
        ("shared_buffers", "64MB"),
    ];
    let settings = &plan.spec.settings;
    let defaults = defaults.into_iter().filter(|(key, _)| !settings.contains_key(*key));
    let overrides = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in defaults.chain(overrides) {
        command.extend(["-c".into(), format!("{key}={value}").into()]);
    }
    Ok(command)
}

fn initialise(prefix: &[OsString], bin: &Path, plan: &Plan<'_>, data: &Path) -> Result<()> {
    // A half-made cluster of a run that was killed.
    files::remove_tree(data)?;
    let mut words = prefix.to_vec();
    words.push(bin.join("initdb").into());
    words.extend(["-D".into(), data.into()]);
    words.extend(
        ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"].map(Into::into),
    );
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::new("no initdb command"));
    };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(plan.directory)
        .stdin(Stdio::null())
        .output()
        .or_fail(|| "run initdb".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::new(format!(
        "initdb failed: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    )))
}
