//! What lies in a node's `cdc_raw` folder: segments in the order they were written, each with how
//! far it may be read.
//!
//! What the names and the indexes mean is `helenus_commitlog`'s; this only looks into the folder.

use std::collections::BTreeMap;
use std::io;
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
    let failed = ListError::new;
    let mut segments = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let Some(id) = path.file_name().and_then(|name| segment_id(name.to_str()?)) else {
            continue;
        };
        let index = index_of(&path).map_err(|error| failed(&path, error))?;
        segments.insert(id, Segment { id, log: path, index });
    }
    Ok(segments.into_values().collect())
}

/// What a segment's index says now; nothing while there is none, or while it is being rewritten.
pub fn index_of(log: &Path) -> io::Result<Option<CdcIndex>> {
    match std::fs::read_to_string(index_path(log)) {
        Ok(text) => Ok(CdcIndex::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a segment's index is.
#[must_use]
pub fn index_path(log: &Path) -> PathBuf {
    log.with_file_name(index_name(log))
}

fn segment_id(name: &str) -> Option<SegmentId> {
    let name = FileName::parse(name)?;
    (name.kind == FileKind::Segment).then_some(name.id)
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
        write("CommitLog-x-1.log", "");
        write("notes.txt", "");
        let found = list(dir.path()).unwrap();
        let found: Vec<_> = found.iter().map(|segment| (segment.id.0, segment.index)).collect();
        let index = |offset, completed| Some(CdcIndex { offset, completed });
        assert_eq!(found, [(99, index(512, true)), (100, None), (101, index(77, false))]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = list(Path::new("no/such/folder")).unwrap_err().to_string();
        assert_eq!(error, "no/such/folder cannot be read");
    }
}
