//! Giving segments back: the node never deletes what holds changes, the reader does.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use helenus_commitlog::{FileKind, FileName};

use crate::segments::{ListError, Segment, index_path, list};
use crate::state::State;
use crate::tail::Place;

/// What was given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
}

/// Deletes the segments before `place`, which must be durable; those with damage are kept.
pub(crate) fn release(folder: &Path, place: Place, state: &State) -> Result<Released, ListError> {
    let mut released = Released::default();
    let is_past = |segment: &Segment| {
        segment.id < place.segment || (segment.id == place.segment && place.finished)
    };
    for segment in list(folder)?.iter().filter(|segment| is_past(segment)) {
        if state.keeps(segment.id) {
            continue;
        }
        let Ok(file) = fs::metadata(&segment.log) else { continue };
        // Without changes a segment is the node's own to remove, unless it has forgotten it.
        if segment.index.is_none() && file.nlink() > 1 {
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
    remove_orphans(folder, place);
    Ok(released)
}

/// Indexes whose segment is gone: a release that was cut short, or a node that went on writing one.
fn remove_orphans(folder: &Path, place: Place) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| FileName::parse(name.to_str()?));
        let Some(name) = name.filter(|name| name.kind == FileKind::Index) else { continue };
        let log = path.with_file_name(format!("CommitLog-{}-{}.log", name.version, name.id));
        if name.id < place.segment
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
