//! What names and index files say of segments, as text: `CommitLog-7-1794.log`,
//! `CommitLog-7-1794_cdc.idx`, and the lines inside the latter.
//!
//! Only the parsing is here; directories and files are the caller's.

use crate::header::SegmentId;

/// The name of a file in `commitlog/` or `cdc_raw/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// The segment; replay order is by this number, never by name or file time.
    pub id: SegmentId,
    /// The version in the name, supported or not; the header says it again.
    pub version: u32,
    /// Which of the two files of a segment it is.
    pub kind: FileKind,
}

/// The two files a segment can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// The segment itself.
    Segment,
    /// Its index, which says how far it is durable.
    Index,
}

impl FileName {
    /// Reads a file name; `None` for any other file.
    ///
    /// ```
    /// use helenus_commitlog::{FileKind, FileName, SegmentId};
    ///
    /// let name = FileName::parse("CommitLog-7-1794769900060_cdc.idx").expect("an index");
    /// assert_eq!(name.id, SegmentId(1_794_769_900_060));
    /// assert_eq!((name.version, name.kind), (7, FileKind::Index));
    /// assert_eq!(FileName::parse("CommitLog.log"), None);
    /// ```
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("CommitLog-")?;
        let (rest, kind) = match rest.strip_suffix("_cdc.idx") {
            Some(rest) => (rest, FileKind::Index),
            None => (rest.strip_suffix(".log")?, FileKind::Segment),
        };
        let (version, id) = rest.split_once('-')?;
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(version) || !digits(id) {
            return None;
        }
        Some(Self { id: SegmentId(id.parse().ok()?), version: version.parse().ok()?, kind })
    }
}

/// What a `_cdc.idx` file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CdcIndex {
    /// Logical offset up to which the segment is durable. After a crash it may lie beyond the
    /// last record.
    pub offset: u64,
    /// The segment will not grow any more.
    pub completed: bool,
}

impl CdcIndex {
    /// Reads the file's text. The node rewrites it in place, so `None` (empty, or cut short)
    /// means: as before, read it again. A number cut short reads as a smaller one; never go back.
    ///
    /// ```
    /// use helenus_commitlog::CdcIndex;
    ///
    /// let index = CdcIndex::parse("1047659\nCOMPLETED").expect("an offset and a word");
    /// assert_eq!((index.offset, index.completed), (1_047_659, true));
    /// assert_eq!(CdcIndex::parse(""), None);
    /// assert_eq!(CdcIndex::parse("1047659\nCOMP"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (offset, completed) = match text.split_once('\n') {
            None => (text, false),
            Some((offset, word)) if word.trim_end() == "COMPLETED" => (offset, true),
            Some(_) => return None,
        };
        offset.trim_end().parse().ok().map(|offset| Self { offset, completed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_files() {
        for name in [
            "",
            "CommitLog-7-1.log.tmp",
            "CommitLog-7-.log",
            "CommitLog--1.log",
            "CommitLog-7-1",
            "CommitLog-+7-1.log",
            "CommitLog-7-99999999999999999999.log",
            "other-7-1.log",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn segments_sort_by_number() {
        let mut names = ["CommitLog-7-10.log", "CommitLog-8-9.log", "CommitLog-7-9_cdc.idx"];
        names.sort_by_key(|name| FileName::parse(name));
        assert_eq!(names, ["CommitLog-7-9_cdc.idx", "CommitLog-8-9.log", "CommitLog-7-10.log"]);
    }

    #[test]
    fn an_index_being_rewritten() {
        assert_eq!(CdcIndex::parse("12"), Some(CdcIndex { offset: 12, completed: false }));
        for torn in ["", "\n", "x", "-1", "12\nCOMPLETE", "12\nCOMPLETED\nmore"] {
            assert_eq!(CdcIndex::parse(torn), None, "{torn:?}");
        }
    }
}
