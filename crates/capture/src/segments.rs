//! What lies in a node's `cdc_raw` folder: segments in the order they were written, each with how
//! far it may be read.
//!
//! What the names and the indexes mean is `helenus_commitlog`'s; this only looks into the folder.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use helenus_commitlog::{CdcIndex, FileKind, FileName, SegmentId};
use helenus_model::{Failure, Kind};

/// A segment of the commit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Orders the segments of one node.
    pub id: SegmentId,
    /// The log's bytes.
    pub log: PathBuf,
    /// How far it may be read; nothing while the node has written no index.
    pub index: Option<CdcIndex>,
}

/// A folder that could not be looked through.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct ListError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl ListError {
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
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
    let mut segments = BTreeMap::new();
    for (name, log) in files(folder)? {
        if name.kind == FileKind::Segment {
            let index = index_of(&log).map_err(|error| ListError::new(&log, error))?;
            segments.insert(name.id, Segment { id: name.id, log, index });
        }
    }
    Ok(segments.into_values().collect())
}

/// Segments and indexes in `folder`, in no order, with what their names say.
pub(crate) fn files(folder: &Path) -> Result<Vec<(FileName, PathBuf)>, ListError> {
    let failed = |error| ListError::new(folder, error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        files.extend(name_of(&path).map(|name| (name, path)));
    }
    Ok(files)
}

/// What a segment's index says now; nothing while there is none, or while it is being rewritten.
pub fn index_of(log: &Path) -> io::Result<Option<CdcIndex>> {
    match std::fs::read(index_path(log)) {
        Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(CdcIndex::parse)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if name_of(log).is_some_and(has_no_index) { moved(log) } else { Ok(None) }
        }
        Err(error) => Err(error),
    }
}

/// Whether a segment is of a release that writes no indexes: 3.11.
pub(crate) const fn has_no_index(name: FileName) -> bool {
    name.version < 7
}

/// What the index of a segment would say that has none: it was moved into the folder when it was
/// complete. While it has another name somebody may still write it.
fn moved(log: &Path) -> io::Result<Option<CdcIndex>> {
    match std::fs::metadata(log) {
        Ok(file) if file.nlink() > 1 => Ok(None),
        Ok(file) => Ok(Some(CdcIndex { offset: file.len(), completed: true })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a segment's index is.
#[must_use]
pub fn index_path(log: &Path) -> PathBuf {
    log.with_file_name(index_name(log))
}

fn name_of(path: &Path) -> Option<FileName> {
    FileName::parse(path.file_name()?.to_str()?)
}

fn index_name(log: &Path) -> String {
    let stem = log.file_stem().unwrap_or_default().to_string_lossy();
    format!("{stem}_cdc.idx")
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
        // Of 3.11, which writes no indexes: one that was moved here, and one that has another name.
        write("CommitLog-6-97.log", "twelve bytes");
        write("CommitLog-6-98.log", "");
        std::fs::hard_link(dir.path().join("CommitLog-6-98.log"), dir.path().join("own")).unwrap();
        write("CommitLog-x-1.log", "");
        write("notes.txt", "");
        let found = list(dir.path()).unwrap();
        let found: Vec<_> = found.iter().map(|segment| (segment.id.0, segment.index)).collect();
        let index = |offset, completed| Some(CdcIndex { offset, completed });
        let old = [(97, index(12, true)), (98, None)];
        let new = [(99, index(512, true)), (100, None), (101, index(77, false))];
        assert_eq!(found, [&old[..], &new].concat());
        std::fs::write(dir.path().join("CommitLog-7-100_cdc.idx"), b"\xff").unwrap();
        assert_eq!(list(dir.path()).unwrap()[3].index, None, "garbage says nothing");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = list(Path::new("no/such/folder")).unwrap_err().to_string();
        assert_eq!(error, "no/such/folder cannot be read");
    }
}
