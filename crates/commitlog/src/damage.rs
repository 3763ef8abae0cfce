//! What can be wrong inside a segment, and where.
//!
//! A header that is wrong refuses the file ([`crate::HeaderError`]); everything here is local: it
//! costs one record or one section and the reading goes on. Nothing is skipped without one of
//! these being reported.

use helenus_cql::schema::TableId;
use thiserror::Error;

use crate::compression::InflateError;
use crate::header::SegmentId;
use crate::mutation;

/// A part of a segment that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("segment {segment} at {offset}: {reason}")]
pub struct Damage {
    /// The segment.
    pub segment: SegmentId,
    /// Logical offset of the record, marker or section; in uncompressed segments also the
    /// offset in the file.
    pub offset: u64,
    /// Offset in the file of the sync marker before it.
    pub section: u64,
    /// The table concerned, where that much could be read.
    pub table: Option<TableId>,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a part of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The checksum of a sync marker does not match.
    #[error("the sync marker's checksum does not match")]
    Marker,
    /// A marker with a position but without checksum: torn, or still being written.
    #[error("the sync marker is torn")]
    TornMarker,
    /// A good marker that points before itself or beyond the file.
    #[error("the sync marker points to {next}, outside the file")]
    Outside {
        /// Where it points.
        next: i64,
    },
    /// Nothing more is written where the node says that there is more.
    #[error("the log ends here, and the node says that it goes on to {durable}")]
    Short {
        /// How far the node says it is durable.
        durable: u64,
    },
    /// A compressed section too short for its own length.
    #[error("the section has no room for its length")]
    NoLength,
    /// A compressed section that could not be expanded.
    #[error("the section could not be expanded: {0}")]
    Inflate(Box<InflateError>),
    /// One to three bytes after the last record.
    #[error("{0} bytes are left over at the end of the section")]
    Leftover(usize),
    /// A record of no length, which ends a section early.
    #[error("a record of length 0 ends the section early")]
    ZeroSize,
    /// A record shorter than any mutation can be.
    #[error("a record of length {0} is too short to be a mutation")]
    SmallSize(i32),
    /// The checksum of a record's length does not match; the rest of the section is lost.
    #[error("the checksum of the record's length does not match")]
    SizeChecksum,
    /// A record that would go beyond its section.
    #[error("a record of length {size} with {left} bytes left in the section")]
    Overrun {
        /// Length of the payload.
        size: i32,
        /// Bytes left in the section.
        left: usize,
    },
    /// The checksum of a record does not match; the next record goes on.
    #[error("the record's checksum does not match")]
    PayloadChecksum,
    /// A whole record whose mutation could not be decoded.
    #[error("the mutation could not be decoded: {0}")]
    Mutation(Box<mutation::Error>),
}
