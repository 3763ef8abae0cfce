//! The serial group: tests that kill, pause or fill a service run one at a time, machine-wide
//! within a checkout, whatever binary they live in. `cargo test` runs the tests of one binary in
//! threads and `cargo xtask test` may overlap with a hand-started run, so a mutex is not enough.

use std::fs::File;

use crate::services::{Context, Result, root};

/// Held for as long as a test disturbs services; the next test of the group waits for its drop.
#[derive(Debug)]
pub struct SerialGuard {
    /// The kernel releases the lock when the file closes, also after a crash.
    _lock: File,
}

/// Waits for the serial group and enters it.
pub fn serial() -> Result<SerialGuard> {
    let path = root().join("serial.lock");
    Ok(SerialGuard { _lock: lock_file(&path)? })
}

/// Opens (or creates) a lock file and waits until this process alone holds it.
pub(crate) fn lock_file(path: &std::path::Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).or_fail(|| format!("create {}", parent.display()))?;
    }
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .or_fail(|| format!("open {}", path.display()))?;
    file.lock().or_fail(|| format!("lock {}", path.display()))?;
    Ok(file)
}
