//! The segment that is being read, as far as the node says it may be.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use helenus_commitlog::{Damage, Reason, SegmentId};

use crate::done::is_one_start;
use crate::reader::{Next, ReadError, SegmentReader};
use crate::segments::{Segment, index_of, list};
use crate::tail::Place;

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
}

pub(crate) enum Advanced {
    Section,
    Damage(Damage),
    Waiting,
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
        }
    }

    /// The marker that is read next.
    pub(crate) const fn place(&self) -> Place {
        Place { segment: self.segment, position: self.reader.position() }
    }

    /// Reads the next section as far as it may be read.
    pub(crate) fn advance(&mut self, read_ahead: bool) -> Result<Advanced, ReadError> {
        loop {
            let index = index_of(&self.path).unwrap_or(None);
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
                if !self.is_left(index.is_some()) {
                    return Ok(Advanced::Waiting);
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
    fn is_left(&self, has_index: bool) -> bool {
        match std::fs::metadata(&self.path) {
            // It was removed under us; what is in it can still be read.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            // The node has dropped its own name of the file; one without changes may have no index.
            Ok(file) if file.nlink() == 1 => has_index || self.is_before(|_| true),
            // Segments of one start are synced in their order: once a later one has been, this one has
            // been whole. Of another start it may be older, although its id is higher.
            Ok(_) => self.is_before(|other| is_one_start(self.segment, other)),
        }
    }

    /// Whether there is a segment with changes and a higher id.
    fn is_before(&self, counts: impl Fn(SegmentId) -> bool) -> bool {
        let found = self.path.parent().and_then(|folder| list(folder).ok()).unwrap_or_default();
        let mut later = found.iter().filter(|other| other.id > self.segment);
        later.any(|other| other.index.is_some() && counts(other.id))
    }
}
