//! One segment's file, section by section.
//!
//! Holds one section at a time, whatever the size of the file, and can go on where an earlier reader
//! was: what may be read and where a section ends is `helenus_commitlog`'s [`Walker`]. Files are read
//! with `pread`, never mapped: they grow, and the node may truncate or remove them.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use helenus_commitlog::{
    Damage, End, FileKind, FileName, Header, HeaderError, Position, Section, SectionRecords,
    SegmentId, Step, Walker,
};
use helenus_model::{Failure, Kind};

/// Bytes of the longest header: its parameters' length has 16 bits.
const HEADER_BYTES_MAX: usize = 18 + u16::MAX as usize;

/// Bytes a section may expand to. A node's segments have 32 MiB unless it is told otherwise.
const SECTION_BYTES_MAX: usize = 512 << 20;

/// A segment that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct ReadError {
    path: PathBuf,
    #[source]
    source: Box<Cause>,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("the header is that of segment {header}, the name that of segment {name}")]
    Id { name: SegmentId, header: SegmentId },
}

impl ReadError {
    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        Self { path: path.to_owned(), source: Box::new(error.into()) }
    }

    /// True if the file is not there: the node has removed it, or somebody else.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(&*self.source, Cause::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl Failure for ReadError {
    fn kind(&self) -> Kind {
        match &*self.source {
            Cause::Io(_) => Kind::Unavailable,
            Cause::Header(HeaderError::Checksum { .. }) => Kind::Corrupt,
            Cause::Header(_) | Cause::Id { .. } => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match &*self.source {
            Cause::Io(_) => "unreadable",
            Cause::Header(HeaderError::Encrypted { .. }) => "encrypted",
            Cause::Header(HeaderError::Checksum { .. }) => "header_checksum",
            Cause::Header(HeaderError::Compressor(_)) => "unsupported_compressor",
            // Releases count up one by one; what is far off never was a version.
            Cause::Header(HeaderError::Version(1..=32)) => "unsupported_version",
            Cause::Header(_) => "not_a_segment",
            Cause::Id { .. } => "id_mismatch",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(Cow::from(match self.code() {
            "unreadable" => "check the path, and that this user may read it",
            "encrypted" => "read it on a node without transparent data encryption",
            "header_checksum" => "take the file from the node again; this copy is damaged",
            "unsupported_compressor" => "let the node use one of Cassandra's own compressors",
            "unsupported_version" => "use a release that reads this version",
            "id_mismatch" => {
                "give the file the name that the node gave it, or take it from there again"
            }
            _ => "name CommitLog-*.log files, or the folder they are in",
        }))
    }
}

/// An open segment.
#[derive(Debug)]
pub struct SegmentReader {
    path: PathBuf,
    file: File,
    walker: Walker,
    /// The marker before the section in the window.
    current: Option<Position>,
    /// The section being read, marker included.
    window: Vec<u8>,
    /// The same expanded, where it is compressed.
    expanded: Vec<u8>,
}

/// What comes next in a segment.
#[derive(Debug)]
pub enum Next<'a> {
    /// A section; the reader stands behind it now.
    Section(OpenSection<'a>),
    /// A section that cannot be expanded; the reader stands behind it now.
    Damage(Damage),
    /// Nothing more, for now or for good.
    End(End),
}

/// A section and its records.
#[derive(Debug)]
pub struct OpenSection<'a> {
    section: Section<'a>,
    body: &'a [u8],
}

impl<'a> OpenSection<'a> {
    /// Its records, in the order they were written.
    #[must_use]
    pub fn records(&self) -> SectionRecords<'a> {
        self.section.records(self.body)
    }

    /// The marker behind it: where to go on once its records are done with.
    #[must_use]
    pub const fn end(&self) -> Position {
        self.section.end
    }
}

impl SegmentReader {
    /// Opens a segment at its first section. If its name is that of a segment, the header must have
    /// the same id: the order of the segments goes by it. Any other name will do.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |source: Cause| ReadError { path: path.to_owned(), source: Box::new(source) };
        let file = File::open(path).map_err(|error| failed(error.into()))?;
        let mut head = Vec::new();
        fill(&file, 0, HEADER_BYTES_MAX, &mut head).map_err(|error| failed(error.into()))?;
        let header = Header::parse(&head).map_err(|error| failed(error.into()))?;
        if let Some(name) = segment_id(path).filter(|name| *name != header.id) {
            return Err(failed(Cause::Id { name, header: header.id }));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            walker: Walker::new(header),
            current: None,
            window: Vec::new(),
            expanded: Vec::new(),
        })
    }

    /// Goes on at a marker that an earlier reader of the same segment stood at.
    pub fn seek(&mut self, position: Position) {
        self.current = None;
        self.walker = Walker::resume(*self.walker.header(), position);
    }

    /// The segment's header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        self.walker.header()
    }

    /// The marker that is read next.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.walker.position()
    }

    /// Reads the next section that ends at or before the logical offset `until`.
    pub fn next_section(&mut self, until: Option<u64>) -> Result<Next<'_>, ReadError> {
        let length = self.length()?;
        self.current = None;
        let mut walker = self.walker;
        let mut needed = self.fill(8)?;
        if let Step::Need(bytes) = walker.step(&self.window, length, until) {
            needed = bytes;
        }
        self.fill(needed)?;
        let mut walker = self.walker;
        let section = match walker.step(&self.window, length, until) {
            Step::Section(section) => section,
            Step::End(end) => return Ok(Next::End(end)),
            // The file has become shorter meanwhile.
            Step::Need(_) => return Ok(Next::End(End::File)),
        };
        self.walker = walker;
        self.current = Some(section.start);
        let body = match section.plain() {
            Some(body) => body,
            None => match section.inflate(SECTION_BYTES_MAX, &mut self.expanded) {
                Ok(()) => &self.expanded,
                Err(damage) => return Ok(Next::Damage(damage)),
            },
        };
        Ok(Next::Section(OpenSection { section, body }))
    }

    /// The section that was read last, once more and from memory.
    #[must_use]
    pub fn current_section(&self) -> Option<OpenSection<'_>> {
        let mut walker = Walker::resume(*self.header(), self.current?);
        match walker.step(&self.window, u64::MAX, None) {
            Step::Section(section) => {
                let body = section.plain().unwrap_or(&self.expanded);
                Some(OpenSection { section, body })
            }
            Step::Need(_) | Step::End(_) => None,
        }
    }

    /// The rest of an uncompressed segment whose next marker is torn or points outside, as far as the
    /// records' own checksums vouch for it.
    pub fn salvage(&mut self) -> Result<Option<OpenSection<'_>>, ReadError> {
        let rest = self.length()?.saturating_sub(self.position().file);
        self.fill(rest)?;
        let section = self.walker.salvage(&self.window);
        Ok(section.and_then(|section| Some(OpenSection { body: section.plain()?, section })))
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> Result<u64, ReadError> {
        let metadata = self.file.metadata();
        metadata.map(|metadata| metadata.len()).map_err(|error| self.failed(error))
    }

    /// Names that the file has: the one in the folder, and the node's own.
    pub(crate) fn names(&self) -> Result<u64, ReadError> {
        let metadata = self.file.metadata();
        metadata.map(|metadata| metadata.nlink()).map_err(|error| self.failed(error))
    }

    /// Has so many bytes from the next marker on in the window, or as many as there are.
    fn fill(&mut self, bytes: u64) -> Result<u64, ReadError> {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        let at = self.walker.position().file;
        let filled = fill(&self.file, at, wanted, &mut self.window);
        filled.map(|()| bytes).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> ReadError {
        ReadError::new(&self.path, error)
    }
}

/// The id in the name of a segment; `None` for any other file.
pub(crate) fn segment_id(path: &Path) -> Option<SegmentId> {
    let name = FileName::parse(path.file_name()?.to_str()?)?;
    (name.kind == FileKind::Segment).then_some(name.id)
}

/// Reads up to `wanted` bytes at an offset; fewer at the end of the file.
fn fill(file: &File, at: u64, wanted: usize, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    // The file bounds what is set aside: a length in it may be wrong.
    let left = file.metadata()?.len().saturating_sub(at);
    out.resize(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)), 0);
    let mut read = 0;
    while read < out.len() {
        let Some(rest) = out.get_mut(read..) else { break };
        match file.read_at(rest, at + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.truncate(read);
    Ok(())
}

#[cfg(test)]
mod tests {
    use helenus_commitlog::{Options, Segment};

    use super::*;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../commitlog/tests/fixtures");

    #[test]
    fn a_file_gives_what_the_same_bytes_in_memory_give() {
        for name in ["plain", "lz4", "snappy", "deflate", "zstd", "v8"] {
            let path = PathBuf::from(format!("{FIXTURES}/{name}.log"));
            let bytes = std::fs::read(&path).unwrap();
            let mut expected = Vec::new();
            let mut records = Segment::parse(&bytes).unwrap().records(Options::default());
            while let Some(record) = records.next_record() {
                expected.push(record.unwrap().payload.to_vec());
            }
            let mut found = Vec::new();
            let mut reader = SegmentReader::open(&path).unwrap();
            let end = loop {
                // Another reader goes on where the last one was.
                let position = reader.position();
                reader = SegmentReader::open(&path).unwrap();
                reader.seek(position);
                match reader.next_section(None).unwrap() {
                    Next::Section(section) => {
                        let records = section.records().map(|record| record.unwrap());
                        found.extend(records.map(|record| record.payload.to_vec()));
                    }
                    Next::Damage(damage) => panic!("{damage}"),
                    Next::End(end) => break end,
                }
            };
            assert_eq!(found, expected, "{name}");
            assert_eq!(Some(end), records.end(), "{name}");
        }
    }

    #[test]
    fn what_is_no_segment_is_told_from_what_is_damaged_or_not_supported() {
        let dir = tempfile::tempdir().unwrap();
        let mut header = std::fs::read(format!("{FIXTURES}/plain.log")).unwrap();
        let check = |bytes: &[u8], code: &str| {
            let path = dir.path().join("CommitLog-7-1.log");
            std::fs::write(&path, bytes).unwrap();
            let error = SegmentReader::open(&path).unwrap_err();
            assert_eq!(error.code(), code, "{error:?}");
            assert!(error.remedy().is_some());
        };
        check(b"", "not_a_segment");
        check(b"hello, world and more", "not_a_segment");
        check(&[0, 0, 0, 9], "unsupported_version");
        header[10] ^= 1;
        check(&header, "header_checksum");
        header[10] ^= 1;
        check(&header, "id_mismatch");
        let missing = SegmentReader::open(&dir.path().join("none")).unwrap_err();
        assert!(missing.is_missing() && missing.code() == "unreadable");
    }
    #[test]
    fn the_name_of_a_segment_must_be_that_of_its_header() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(format!("{FIXTURES}/plain.log")).unwrap();
        let id = Header::parse(&bytes).unwrap().id;
        let open = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            SegmentReader::open(&path).map(|reader| reader.header().id)
        };
        assert_eq!(open(&format!("CommitLog-7-{id}.log")).unwrap(), id);
        assert_eq!(open("a copy.log").unwrap(), id, "names of other files say nothing");
        let refused = open(&format!("CommitLog-7-{}.log", id.0 + 1)).unwrap_err();
        assert_eq!((refused.code(), refused.kind()), ("id_mismatch", Kind::Invalid));
        let reason = std::error::Error::source(&refused).unwrap().to_string();
        assert!(reason.contains(&id.to_string()), "{reason}");
    }
}
