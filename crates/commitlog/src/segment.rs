//! A whole segment in memory, record by record.
//!
//! The convenient face of [`Walker`] and record framing: it expands compressed sections into one
//! buffer that it reuses, goes on after damage, and says at the end why it ended. It does not
//! decode mutations, so that a caller can pass over tables it does not want.

use crate::damage::{Damage, Reason};
use crate::header::{Header, HeaderError};
use crate::record::Record;
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
/// assert!(changes > 70);
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

/// The section being read, and how far it has been.
#[derive(Debug, Clone, Copy)]
struct Current<'a> {
    section: Section<'a>,
    offset: usize,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8], walker: Walker, options: Options) -> Self {
        Self { bytes, walker, options, expanded: Vec::new(), current: None, end: None }
    }

    /// The next record, or damage in its place; `None` at the end.
    pub fn next_record(&mut self) -> Option<Result<Record<'_>, Damage>> {
        while self.current.is_none_or(|current| current.offset >= self.body(&current).len()) {
            if let Err(damage) = self.next_section()? {
                return Some(Err(damage));
            }
        }
        let current = self.current.as_mut()?;
        let body = current.section.plain().unwrap_or(&self.expanded);
        let mut records = current.section.records(body).starting_at(current.offset);
        let next = records.next();
        current.offset = records.offset();
        next
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

    fn body<'s>(&'s self, current: &Current<'s>) -> &'s [u8] {
        current.section.plain().unwrap_or(&self.expanded)
    }

    /// Steps to the next section; `None` at the end of the segment.
    fn next_section(&mut self) -> Option<Result<(), Damage>> {
        self.current = None;
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
            self.current = Some(Current { section, offset: 0 });
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
        self.current = Some(Current { section, offset: 0 });
        Ok(())
    }
}
