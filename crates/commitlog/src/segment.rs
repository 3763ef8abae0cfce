//! A whole segment in memory, record by record.
//!
//! The convenient face of [`Walker`] and record framing: it expands compressed sections into one
//! buffer that it reuses, goes on after damage, and says at the end why it ended. It does not
//! decode mutations, so that a caller can pass over tables it does not want.

use crate::damage::{Damage, Reason};
use crate::header::{Header, HeaderError};
use crate::record::{Frame, Record, first_table, frame};
use crate::section::{End, Position, Section, Step, Walker};

/// How a segment is read.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Sections that claim to expand to more than this are damage.
    pub section_bytes_max: usize,
    /// Logical offset beyond which no section is read: what `_cdc.idx` says is durable.
    pub until: Option<u64>,
    /// The segment will not grow any more: a torn or wild marker is damage, and the records
    /// after it are read as far as their own checksums vouch for them.
    pub complete: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { section_bytes_max: 512 << 20, until: None, complete: false }
    }
}

/// A segment whose header is valid.
///
/// ```
/// use helenus_commitlog::{End, Options, Segment};
/// use helenus_cql::schema::Catalog;
///
/// # let file = include_bytes!("../tests/fixtures/plain.log");
/// # let document = include_str!("../tests/fixtures/schema.json");
/// let schema = Catalog::from_document(document)?;
/// let segment = Segment::parse(file)?;
/// let mut records = segment.records(Options::default());
/// let mut changes = 0;
/// while let Some(next) = records.next_record() {
///     match next.and_then(|record| record.decode(&schema)) {
///         Ok(mutation) => changes += mutation.updates.len(),
///         Err(damage) => eprintln!("{damage}"), // one record or section lost, the next goes on
///     }
/// }
/// assert_eq!(changes, 108);
/// assert_eq!(records.end(), Some(End::Unwritten));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    header: Header,
    bytes: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads the header of a file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        Ok(Self { header: Header::parse(bytes)?, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The records from the first one on.
    #[must_use]
    pub fn records(&self, options: Options) -> Records<'a> {
        Records::new(self.bytes, Walker::new(self.header), options)
    }

    /// The records from a marker reached before ([`Records::position`]).
    #[must_use]
    pub fn records_from(&self, position: Position, options: Options) -> Records<'a> {
        Records::new(self.bytes, Walker::resume(self.header, position), options)
    }
}

/// The records of one segment, in the order they were written.
#[derive(Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    walker: Walker,
    options: Options,
    expanded: Vec<u8>,
    current: Option<Current<'a>>,
    end: Option<End>,
}

/// The section being read.
#[derive(Debug, Clone, Copy)]
struct Current<'a> {
    section: Section<'a>,
    offset: usize,
    salvaged: bool,
}

/// What the search for the next record found, without borrowing from the buffer.
enum Found {
    Record(std::ops::Range<usize>, usize),
    Damage(Damage),
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8], walker: Walker, options: Options) -> Self {
        Self { bytes, walker, options, expanded: Vec::new(), current: None, end: None }
    }

    /// The next record, or damage in its place; `None` at the end.
    pub fn next_record(&mut self) -> Option<Result<Record<'_>, Damage>> {
        let found = loop {
            if self.current.is_none()
                && let Err(damage) = self.next_section()?
            {
                break Found::Damage(damage);
            }
            if let Some(found) = self.next_frame() {
                break found;
            }
        };
        match found {
            Found::Damage(damage) => Some(Err(damage)),
            Found::Record(payload, next) => self.record(payload, next).map(Ok),
        }
    }

    /// The marker behind the last section that was taken up: where to resume once everything up
    /// to it has been handled. While records are still coming this is ahead of them.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.walker.position()
    }

    /// Why the reading ended; `None` while it has not.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    fn record(&self, payload: std::ops::Range<usize>, next: usize) -> Option<Record<'_>> {
        let current = self.current.as_ref()?;
        let body = current.section.plain().unwrap_or(&self.expanded);
        let base = current.section.records_at();
        let length = payload.len() as u64 + 12;
        let end = base + next as u64;
        Some(Record {
            segment: current.section.segment,
            version: self.walker.header().version,
            section: current.section.start.file,
            start: end - length,
            end,
            payload: body.get(payload)?,
        })
    }

    /// Steps to the next section; `None` at the end of the segment.
    fn next_section(&mut self) -> Option<Result<(), Damage>> {
        if self.end.is_some() {
            return None;
        }
        let at = self.walker.position();
        let window =
            usize::try_from(at.file).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let end = match self.walker.step(window, self.bytes.len() as u64, self.options.until) {
            Step::Section(section) => return Some(self.enter(section)),
            Step::Need(_) => End::File,
            Step::End(end) => end,
        };
        self.end = Some(end);
        let reason = end.reason().filter(|_| self.options.complete)?;
        if !matches!(reason, Reason::Marker)
            && let Some(section) = self.walker.salvage(window)
        {
            self.current = Some(Current { section, offset: 0, salvaged: true });
        }
        let damage = Damage {
            segment: self.walker.header().id,
            offset: at.logical,
            section: at.file,
            table: None,
            reason,
        };
        Some(Err(damage))
    }

    fn enter(&mut self, section: Section<'a>) -> Result<(), Damage> {
        if section.plain().is_none() {
            section.inflate(self.options.section_bytes_max, &mut self.expanded)?;
        }
        self.current = Some(Current { section, offset: 0, salvaged: false });
        Ok(())
    }

    /// The next frame of the current section; `None` when the section is finished.
    fn next_frame(&mut self) -> Option<Found> {
        let current = self.current.as_mut()?;
        let body = current.section.plain().unwrap_or(&self.expanded);
        let at = current.offset;
        let (reason, table) = match frame(body, at) {
            Frame::Record { payload, next } => {
                current.offset = next;
                return Some(Found::Record(payload, next));
            }
            Frame::Skip { reason, payload, next } => {
                current.offset = next;
                (reason, body.get(payload).and_then(first_table))
            }
            Frame::Stop(reason) => {
                let section = current.section;
                let salvaged = current.salvaged;
                self.current = None;
                if salvaged {
                    return None;
                }
                return Some(Found::Damage(damage(&section, at, None, reason)));
            }
            Frame::End => {
                self.current = None;
                return None;
            }
        };
        Some(Found::Damage(damage(&current.section, at, table, reason)))
    }
}

fn damage(
    section: &Section<'_>,
    at: usize,
    table: Option<helenus_cql::schema::TableId>,
    reason: Reason,
) -> Damage {
    Damage {
        segment: section.segment,
        offset: section.records_at() + at as u64,
        section: section.start.file,
        table,
        reason,
    }
}
