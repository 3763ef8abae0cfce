//! The segment that is being read, as far as the node says it may be.

use std::io;
use std::path::PathBuf;

use helenus_commitlog::{Damage, Reason, SegmentId};

use crate::done::is_one_start;
use crate::reader::{Next, ReadError, SegmentReader};
use crate::segments::{Segment, index_of, list};
use crate::tail::{Place, TailError};

/// A segment that is being read.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) segment: SegmentId,
    path: PathBuf,
    pub(crate) reader: SegmentReader,
    /// How far the open section has been handed out.
    pub(crate) open: Option<usize>,
    /// How far the segment was durable when last looked at; never less than before.
    durable: u64,
    /// Nothing more will be written to it.
    complete: bool,
    /// Somebody removed its name from the folder while it was read.
    pub(crate) is_unnamed: bool,
}

pub(crate) enum Advanced {
    Section,
    Damage(Damage),
    Waiting,
    /// The same, and somebody has removed its name since: whoever opens it again does not find it.
    Removed,
    Finished(Option<Damage>),
}

impl Current {
    pub(crate) fn new(segment: &Segment, reader: SegmentReader) -> Self {
        Current {
            segment: segment.id,
            path: segment.log.clone(),
            reader,
            open: None,
            durable: 0,
            complete: false,
            is_unnamed: false,
        }
    }

    /// The marker that is read next.
    pub(crate) const fn place(&self) -> Place {
        Place { segment: self.segment, position: self.reader.position() }
    }

    /// Reads the next section as far as it may be read.
    pub(crate) fn advance(&mut self, read_ahead: bool) -> Result<Advanced, TailError> {
        loop {
            let index = index_of(&self.path).map_err(|error| self.failed(error))?;
            if let Some(index) = index {
                self.durable = self.durable.max(index.offset);
            }
            self.complete |= index.is_some_and(|index| index.completed);
            let until = if self.complete || read_ahead { None } else { Some(self.durable) };
            let at = self.reader.position();
            let id = self.reader.header().id;
            let end = match self.reader.next_section(until)? {
                Next::Section(_) => {
                    self.open = Some(0);
                    return Ok(Advanced::Section);
                }
                Next::Damage(damage) => return Ok(Advanced::Damage(damage)),
                Next::End(end) => end,
            };
            if !self.complete {
                let was_unnamed = self.is_unnamed;
                if !self.is_left(index.is_some())? {
                    let is_news = self.is_unnamed && !was_unnamed;
                    return Ok(if is_news { Advanced::Removed } else { Advanced::Waiting });
                }
                // Once more, without a bound.
                self.complete = true;
                continue;
            }
            // What lies behind a torn marker is for a person to look at: the segment is kept.
            let reason = match end.reason() {
                None => self.is_short()?.then_some(Reason::Short { durable: self.durable }),
                reason => reason,
            };
            return Ok(Advanced::Finished(reason.map(|reason| Damage {
                segment: id,
                offset: at.logical,
                section: at.file,
                table: None,
                reason,
            })));
        }
    }

    /// Whether the log ends before it should. After a restart a node writes the file's own length into
    /// the index, whatever is in the file.
    fn is_short(&self) -> Result<bool, ReadError> {
        let end = self.reader.position().logical;
        Ok(end < self.durable && self.reader.length()? != self.durable)
    }

    /// Whether the node has left the segment without saying so in its index.
    fn is_left(&mut self, has_index: bool) -> Result<bool, TailError> {
        let is_named = self.path.try_exists().map_err(|error| self.failed(error))?;
        self.is_unnamed = !is_named;
        match (is_named, self.reader.names()?) {
            // It was removed under us, and the node has no name of its own for it any more. What is in it
            // can still be read.
            (false, 0) => Ok(true),
            // The node has dropped its own name of the file; one without changes may have no index.
            (true, 1) => Ok(has_index || self.is_before(|_| true)?),
            // Segments of one start are synced in their order: once a later one has been, this one has
            // been whole. Of another start it may be older, although its id is higher.
            _ => self.is_before(|other| is_one_start(self.segment, other)),
        }
    }

    /// Whether there is a segment with changes and a higher id.
    fn is_before(&self, counts: impl Fn(SegmentId) -> bool) -> Result<bool, TailError> {
        let Some(folder) = self.path.parent() else { return Ok(false) };
        let found = list(folder)?;
        let mut later = found.iter().filter(|other| other.id > self.segment);
        Ok(later.any(|other| other.index.is_some() && counts(other.id)))
    }

    fn failed(&self, error: io::Error) -> ReadError {
        ReadError::new(&self.path, error)
    }
}
