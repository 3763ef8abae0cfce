//! Giving segments back: the node never deletes what holds changes, the reader does.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use helenus_commitlog::{FileKind, FileName};

use crate::segments::{has_no_index, index_path};
use crate::state::State;

/// What was given back.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    /// What could not be deleted, and why.
    pub(crate) failure: Option<String>,
}

/// Deletes the segments that are done with, which must be durable; those with damage are kept. Also
/// indexes whose segment is gone: a release that was cut short, or a node that went on writing one.
pub(crate) fn release(files: &[(FileName, PathBuf)], state: &State) -> Released {
    let mut released = Released::default();
    for (name, path) in files {
        let given_back = match name.kind {
            FileKind::Segment => give_back(*name, path, state),
            FileKind::Index => remove_orphan(*name, path, state).map(|()| None),
        };
        match given_back {
            Ok(Some(bytes)) => {
                released.segments += 1;
                released.bytes += bytes;
            }
            Ok(None) => {}
            Err(error) => released.failure = Some(format!("{}: {error}", path.display())),
        }
    }
    released
}

/// Deletes a segment, if it is ours to delete; how many bytes it had.
fn give_back(name: FileName, log: &Path, state: &State) -> io::Result<Option<u64>> {
    let file = match fs::metadata(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let index = index_path(log);
    let is_ours = if has_no_index(name) || index.try_exists()? {
        state.done().contains(name.id)
    } else {
        // Without changes a segment is the node's own to remove, unless it has forgotten it.
        file.nlink() == 1 && state.done().is_past(name.id)
    };
    if !is_ours || state.keeps(name.id) {
        return Ok(None);
    }
    remove(log)?;
    remove(&index)?;
    Ok(Some(file.len()))
}

fn remove_orphan(name: FileName, index: &Path, state: &State) -> io::Result<()> {
    let log = index.with_file_name(format!("CommitLog-{}-{}.log", name.version, name.id));
    let is_orphan = state.done().contains(name.id) && !log.try_exists()?;
    if is_orphan { remove(index) } else { Ok(()) }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
