//! The segment that is being read, as far as the node says it may be.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use helenus_commitlog::{Damage, SegmentId};

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
            return Ok(Advanced::Finished(end.reason().map(|reason| Damage {
                segment: id,
                offset: at.logical,
                section: at.file,
                table: None,
                reason,
            })));
        }
    }

    /// Whether the node has left the segment without saying so in its index.
    fn is_left(&self, has_index: bool) -> bool {
        match std::fs::metadata(&self.path) {
            // It was removed under us; what is in it can still be read.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            // The node has dropped its own name of the file.
            Ok(file) if has_index && file.nlink() == 1 => true,
            // Segments are synced in their order: once a later one has been, this one has been whole. It
            // may never get an index, if it holds no changes.
            Ok(_) => self.path.parent().and_then(|folder| list(folder).ok()).is_some_and(|found| {
                found.iter().any(|other| other.id > self.segment && other.index.is_some())
            }),
        }
    }
}
