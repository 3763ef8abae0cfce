//! Root gives up its privileges for servers that refuse to run as root or should not.
//!
//! The checkout may lie where the lesser user cannot look (`/root` is 0700). Then the process
//! keeps the one capability that lets it walk there, and nothing else of root.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Context, Error, Result};

/// The words to put before a command so that it runs as `user` inside `directory`, which is given
/// to that user. Empty when we are not root, and so already somebody lesser.
pub(super) fn drop_to(user: &str, directory: &Path) -> Result<Vec<OsString>> {
    if !is_root() {
        return Ok(Vec::new());
    }
    let owned = Command::new("chown")
        .args(["-R", user])
        .arg(directory)
        .status()
        .or_fail(|| "run chown".to_owned())?;
    if !owned.success() {
        return Err(Error::new(format!("cannot give {} to user {user}", directory.display())));
    }
    let group = primary_group(user)?;
    let mut plain: Vec<OsString> =
        ["setpriv", "--reuid", user, "--regid", &group, "--clear-groups"].map(Into::into).into();
    if reaches(&plain, directory) {
        return Ok(plain);
    }
    plain
        .extend(["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"].map(Into::into));
    if reaches(&plain, directory) {
        return Ok(plain);
    }
    Err(Error::new(format!(
        "user {user} cannot reach {}; move the checkout out of private directories",
        directory.display()
    )))
}

/// Whether this process is root.
pub(super) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether a user of that name exists.
pub(super) fn user_exists(user: &str) -> bool {
    primary_group(user).is_ok()
}

fn primary_group(user: &str) -> Result<String> {
    let output = Command::new("id").args(["-g", user]).output().or_fail(|| "run id".to_owned())?;
    if !output.status.success() {
        return Err(Error::new(format!("there is no user {user}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn reaches(prefix: &[OsString], directory: &Path) -> bool {
    let Some((program, arguments)) = prefix.split_first() else { return false };
    Command::new(program)
        .args(arguments)
        // Not `test -w`: access(2) answers for the real user, without its capabilities.
        .args(["sh", "-c", "cd \"$1\" && : >reach && rm reach", "sh"])
        .arg(directory)
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
