//! The chain of sync sections: where one ends, whether it may be read, what comes next.
//!
//! [`Walker`] holds no bytes and does no I/O, so that the same code reads a whole file and tails
//! a growing one: the caller hands in whatever window of the file it has. "Nothing more so far"
//! is an [`End`] of its own and never mistaken for damage; only the caller knows whether the
//! segment is complete, so only the caller can turn a torn marker into a loss.

use helenus_cql::wire::Reader;

use crate::compression::{Compression, inflate};
use crate::damage::{Damage, Reason};
use crate::header::{Header, SegmentId, Version, hash_id};
use crate::record::{Frames, SectionRecords};

/// Length of a sync marker.
pub(crate) const MARKER_LENGTH: usize = 8;

/// Where a sync marker is.
///
/// Logical offsets count uncompressed bytes; Cassandra's `_cdc.idx` and its own readers speak of
/// those. In an uncompressed segment both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Offset in the file.
    pub file: u64,
    /// Offset in the uncompressed stream.
    pub logical: u64,
}

/// One section between two markers.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The segment it belongs to.
    pub segment: SegmentId,
    /// Its marker.
    pub start: Position,
    /// The marker after it, which is where reading resumes.
    pub end: Position,
    version: Version,
    compression: Compression,
    /// Cut from a file whose markers are wrong: it ends where its records do.
    salvaged: bool,
    /// Uncompressed length as claimed; `None` where there was no room for it.
    claimed: Option<u32>,
    body: &'a [u8],
}

impl<'a> Section<'a> {
    /// Logical offset of the first record.
    #[must_use]
    pub const fn records_at(&self) -> u64 {
        self.start.logical + MARKER_LENGTH as u64
    }

    /// The records of an uncompressed section, straight from the input.
    #[must_use]
    pub const fn plain(&self) -> Option<&'a [u8]> {
        match self.compression {
            Compression::None => Some(self.body),
            _ => None,
        }
    }

    /// The records in `body`, which is what [`Section::plain`] or [`Section::inflate`] gave.
    #[must_use]
    pub const fn records<'b>(&self, body: &'b [u8]) -> SectionRecords<'b> {
        SectionRecords::new(
            Frames {
                segment: self.segment,
                version: self.version,
                section: self.start.file,
                records_at: self.records_at(),
                salvaged: self.salvaged,
            },
            body,
        )
    }

    /// Expands a compressed section into `out`, whose storage is reused; at most `limit` bytes.
    pub fn inflate(&self, limit: usize, out: &mut Vec<u8>) -> Result<(), Damage> {
        out.clear();
        if self.compression == Compression::None {
            out.extend_from_slice(self.body);
            return Ok(());
        }
        let claimed = self.claimed.and_then(|length| usize::try_from(length).ok());
        let claimed = claimed.ok_or_else(|| self.damage(Reason::NoLength))?;
        inflate(self.compression, self.body, claimed, limit, out)
            .map_err(|error| self.damage(Reason::Inflate(Box::new(error))))
    }

    const fn damage(&self, reason: Reason) -> Damage {
        Damage {
            segment: self.segment,
            offset: self.start.logical,
            section: self.start.file,
            table: None,
            reason,
        }
    }
}

/// Why the walk stopped. The position at which it stopped is the walker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No room for another marker: the file ends here.
    File,
    /// A marker of zeros: nothing more has been written so far.
    Unwritten,
    /// The next section ends beyond the offset up to which the caller wants to read.
    Bound,
    /// A position without checksum. In a growing file: read again later.
    Torn,
    /// A checksum that does not match. In a growing file: read again once, then damage.
    BadMarker,
    /// A good marker that points outside the file. In a growing file: read again later.
    Outside {
        /// Where it points.
        next: i64,
    },
}

impl End {
    /// True for the ends that every sound segment has.
    #[must_use]
    pub const fn is_clean(self) -> bool {
        matches!(self, Self::File | Self::Unwritten | Self::Bound)
    }

    /// What the end means in a segment that will not grow any more; `None` for a clean one.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::File | Self::Unwritten | Self::Bound => None,
            Self::Torn => Some(Reason::TornMarker),
            Self::BadMarker => Some(Reason::Marker),
            Self::Outside { next } => Some(Reason::Outside { next }),
        }
    }
}

/// What [`Walker::step`] found.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// A section; the walker now stands behind it.
    Section(Section<'a>),
    /// The file goes on, but the window does not: so many bytes from the walker's position are
    /// needed.
    Need(u64),
    /// The walk is over, for now or for good; the walker has not moved.
    End(End),
}

/// Walks the sync markers of one segment.
///
/// ```
/// use helenus_commitlog::{End, Header, Step, Walker};
///
/// # let file = [
/// #     0, 0, 0, 7, 0, 0, 1, 0xa1, 0xe0, 0x9f, 0x52, 0x1c, 0, 2, 0x7b, 0x7d, 0x78, 0x88, 0xc5, 0x6d,
/// #     0, 0, 0, 28, 0x12, 0x7b, 0x96, 0xfb, 0, 0, 0, 0, 0, 0, 0, 0,
/// # ];
/// let header = Header::parse(&file)?;
/// let mut walker = Walker::new(header);
/// let length = file.len() as u64;
/// assert!(matches!(walker.step(&file[20..], length, None), Step::Section(_)));
/// // The walker stands at 28: a tailing reader stores this position and comes back to it.
/// assert_eq!(walker.position().file, 28);
/// assert!(matches!(walker.step(&file[28..], length, None), Step::End(End::Unwritten)));
/// # Ok::<(), helenus_commitlog::HeaderError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Walker {
    header: Header,
    position: Position,
}

impl Walker {
    /// A walker at the first marker.
    #[must_use]
    pub const fn new(header: Header) -> Self {
        let first = header.length as u64;
        Self { header, position: Position { file: first, logical: first } }
    }

    /// A walker at a marker reached before.
    #[must_use]
    pub const fn resume(header: Header, position: Position) -> Self {
        Self { header, position }
    }

    /// The marker the next step reads.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The segment's header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Reads one section. `window` starts at the walker's position in the file, `file_length` is
    /// the length of the whole file now, and no section is returned that ends beyond the logical
    /// offset `until` (what `_cdc.idx` says is durable).
    pub fn step<'a>(&mut self, window: &'a [u8], file_length: u64, until: Option<u64>) -> Step<'a> {
        if file_length < self.position.file.saturating_add(MARKER_LENGTH as u64) {
            return Step::End(End::File);
        }
        let mut reader = Reader::new(window);
        let (Ok(next), Ok(crc)) = (reader.i32(), reader.u32()) else {
            return Step::Need(MARKER_LENGTH as u64);
        };
        if let Some(end) = self.refuse(next, crc, file_length) {
            return Step::End(end);
        }
        let length = i64::from(next).cast_unsigned().saturating_sub(self.position.file);
        let body_length = length.saturating_sub(MARKER_LENGTH as u64);
        let Some(body) = usize::try_from(body_length).ok().and_then(|n| reader.take(n).ok()) else {
            return Step::Need(length);
        };
        let section = self.section(length, body);
        if until.is_some_and(|until| section.end.logical > until) {
            return Step::End(End::Bound);
        }
        self.position = section.end;
        Step::Section(section)
    }

    /// The rest of an uncompressed file as one section, for a complete segment whose last marker
    /// is torn or points outside: its records carry their own checksums.
    #[must_use]
    pub fn salvage<'a>(&self, window: &'a [u8]) -> Option<Section<'a>> {
        let body = window.get(MARKER_LENGTH..)?;
        (self.header.compression == Compression::None)
            .then(|| Section { salvaged: true, ..self.section(window.len() as u64, body) })
    }

    fn refuse(&self, next: i32, crc: u32, file_length: u64) -> Option<End> {
        if crc != self.checksum() {
            return Some(match (next, crc) {
                (0, 0) => End::Unwritten,
                (_, 0) => End::Torn,
                _ => End::BadMarker,
            });
        }
        let next = i64::from(next);
        let first = self.position.file + MARKER_LENGTH as u64;
        let inside = u64::try_from(next).is_ok_and(|next| next >= first && next <= file_length);
        (!inside).then_some(End::Outside { next })
    }

    fn section<'a>(&self, length: u64, body: &'a [u8]) -> Section<'a> {
        let mut reader = Reader::new(body);
        let (claimed, expanded) = match self.header.compression {
            Compression::None => (None, body.len() as u64),
            _ => {
                let claimed = reader.i32().ok().and_then(|length| u32::try_from(length).ok());
                (claimed, u64::from(claimed.unwrap_or(0)))
            }
        };
        let start = self.position;
        Section {
            segment: self.header.id,
            start,
            end: Position {
                file: start.file.saturating_add(length),
                logical: start.logical.saturating_add(MARKER_LENGTH as u64 + expanded),
            },
            version: self.header.version,
            compression: self.header.compression,
            salvaged: false,
            claimed,
            body: reader.rest(),
        }
    }

    fn checksum(&self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        hash_id(&mut crc, self.header.id);
        // Positions fit 32 bits in every segment Cassandra can write; others match no checksum.
        crc.update(&u32::try_from(self.position.file).unwrap_or(u32::MAX).to_be_bytes());
        crc.finalize()
    }
}
