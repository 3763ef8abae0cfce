//! Programs that are published as Python packages, installed beside nothing else.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::{Context, Error, Result, cache, files};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether what a package needs is installed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Included,
    Nothing,
}

/// The directory of a package, as in `cqlsh==6.2.2`, downloaded on first use.
pub(super) fn package(package: &str, needs: Needs) -> Result<PathBuf> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = cache().join(package);
    if directory.is_dir() {
        return Ok(directory);
    }
    eprintln!("{package:<24} fetching with pip");
    let unfinished = cache().join(format!("{package}.new"));
    files::remove_tree(&unfinished)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=3"]);
    if needs == Needs::Nothing {
        pip.args(["--no-deps", "--only-binary=:all:"]);
    }
    let output = pip
        .arg("--target")
        .arg(&unfinished)
        .arg(package)
        .stdin(Stdio::null())
        .output()
        .or_fail(|| "run python3 -m pip (`apt-get install python3-pip`)".to_owned())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!("cannot install {package}: {}", text.trim_end())));
    }
    std::fs::rename(&unfinished, &directory)
        .or_fail(|| format!("write {}", directory.display()))?;
    Ok(directory)
}
