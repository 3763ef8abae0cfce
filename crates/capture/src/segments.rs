//! What lies in a node's `cdc_raw` folder: segments in the order they were written, each with how
//! far it may be read.
//!
//! The node writes `CommitLog-<version>-<id>.log` and, once a change of a captured table has been
//! synced, `CommitLog-<version>-<id>_cdc.idx`: the offset up to which the log is on the disk, and
//! `COMPLETED` when the segment is closed. The index is rewritten in place, so a reader may find
//! it empty or cut; that means "as before", not damage.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use helenus_model::{Failure, Kind};

/// A segment of the commit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Orders the segments of one node.
    pub id: i64,
    /// The log's bytes.
    pub log: PathBuf,
    /// How far it may be read; nothing while the node has written no index.
    pub index: Option<Index>,
}

/// What a segment's index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Logical offset up to which the log is on the disk.
    pub synced_to: u64,
    /// Whether the segment is closed.
    pub completed: bool,
}

/// A folder that could not be looked through.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct ListError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Failure for ListError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "unreadable"
    }

    fn remedy(&self) -> Option<std::borrow::Cow<'static, str>> {
        Some("name the node's cdc_raw_directory, readable for this user".into())
    }
}

/// The segments in `folder`, oldest first. Other files are left alone.
pub fn list(folder: &Path) -> Result<Vec<Segment>, ListError> {
    let failed = |path: &Path, source| ListError { path: path.to_owned(), source };
    let mut segments = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let Some(id) = path.file_name().and_then(|name| segment_id(name.to_str()?)) else {
            continue;
        };
        let index = match std::fs::read_to_string(path.with_file_name(index_name(&path))) {
            Ok(text) => parse_index(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&path, error)),
        };
        segments.insert(id, Segment { id, log: path, index });
    }
    Ok(segments.into_values().collect())
}

fn segment_id(name: &str) -> Option<i64> {
    let (version, id) = name.strip_prefix("CommitLog-")?.strip_suffix(".log")?.split_once('-')?;
    version.parse::<u32>().ok()?;
    id.parse().ok()
}

fn index_name(log: &Path) -> String {
    let stem = log.file_stem().unwrap_or_default().to_string_lossy();
    format!("{stem}_cdc.idx")
}

/// What an index file says; nothing if it is empty or being rewritten.
///
/// ```
/// use helenus_capture::segments::{Index, parse_index};
///
/// assert_eq!(parse_index("4096"), Some(Index { synced_to: 4096, completed: false }));
/// assert_eq!(parse_index("4096\nCOMPLETED"), Some(Index { synced_to: 4096, completed: true }));
/// assert_eq!(parse_index(""), None);
/// ```
pub fn parse_index(text: &str) -> Option<Index> {
    let (offset, completed) = match text.split_once('\n') {
        Some((offset, "COMPLETED")) => (offset, true),
        Some(_) => return None,
        None => (text, false),
    };
    Some(Index { synced_to: offset.parse().ok()?, completed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_listed_by_id_with_what_their_index_says() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("CommitLog-7-100.log", "");
        write("CommitLog-7-99.log", "");
        write("CommitLog-7-99_cdc.idx", "512\nCOMPLETED");
        write("CommitLog-7-101.log", "");
        write("CommitLog-7-101_cdc.idx", "77");
        write("CommitLog-x-1.log", "");
        write("notes.txt", "");
        let found = list(dir.path()).unwrap();
        let found: Vec<_> = found.iter().map(|segment| (segment.id, segment.index)).collect();
        let index = |synced_to, completed| Some(Index { synced_to, completed });
        assert_eq!(found, [(99, index(512, true)), (100, None), (101, index(77, false))]);
    }

    #[test]
    fn an_index_that_is_being_rewritten_says_nothing() {
        for text in ["", "12x", "12\nCOMPL", "\nCOMPLETED", "-1"] {
            assert_eq!(parse_index(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = list(Path::new("no/such/folder")).unwrap_err().to_string();
        assert_eq!(error, "no/such/folder cannot be read");
    }
}
