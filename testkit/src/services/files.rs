//! Removing what may not be there.

use std::io::ErrorKind;
use std::path::Path;

use super::{Error, Result};

/// Removes a directory and what is in it.
pub(super) fn remove_tree(directory: &Path) -> Result<()> {
    absence_is_fine(directory, std::fs::remove_dir_all(directory))
}

/// Removes a file.
pub(super) fn remove_file(file: &Path) -> Result<()> {
    absence_is_fine(file, std::fs::remove_file(file))
}

fn absence_is_fine(path: &Path, outcome: std::io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::new(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
