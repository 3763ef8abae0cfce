//! Giving segments back: the node never deletes what holds changes, the reader does.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use helenus_commitlog::{FileKind, FileName};

use crate::done::Done;
use crate::segments::{ListError, index_path, list};
use crate::state::State;

/// What was given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
}

/// Deletes the segments that are done with, which must be durable; those with damage are kept.
pub(crate) fn release(folder: &Path, state: &State) -> Result<Released, ListError> {
    let mut released = Released::default();
    for segment in list(folder)? {
        let Ok(file) = fs::metadata(&segment.log) else { continue };
        // Without changes a segment is the node's own to remove, unless it has forgotten it.
        let is_forgotten = || file.nlink() == 1 && state.done().is_past(segment.id);
        let is_ours = match segment.index {
            Some(_) => state.done().contains(segment.id),
            None => is_forgotten(),
        };
        if !is_ours || state.keeps(segment.id) {
            continue;
        }
        match remove(&segment.log).and_then(|()| remove(&index_path(&segment.log))) {
            Ok(()) => {
                released.segments += 1;
                released.bytes += file.len();
            }
            Err(error) => {
                tracing::warn!(%error, file = %segment.log.display(), "cannot be released")
            }
        }
    }
    remove_orphans(folder, state.done());
    Ok(released)
}

/// Indexes whose segment is gone: a release that was cut short, or a node that went on writing one.
fn remove_orphans(folder: &Path, done: &Done) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| FileName::parse(name.to_str()?));
        let Some(name) = name.filter(|name| name.kind == FileKind::Index) else { continue };
        let log = path.with_file_name(format!("CommitLog-{}-{}.log", name.version, name.id));
        if done.contains(name.id)
            && !log.try_exists().unwrap_or(true)
            && let Err(error) = remove(&path)
        {
            tracing::warn!(%error, file = %path.display(), "cannot be released");
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
