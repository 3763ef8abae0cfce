//! The bytes of a Cassandra commit log segment, decoded; without I/O.
//!
//! ```text
//! file ── Header ── Walker ── Section ── Record ── mutation::decode ── PartitionUpdate …
//!          refuse    sync      expand     framing     schema
//!          or not    markers              checksums
//! ```
//!
//! [`Segment`] does the first four steps over a file in memory; a reader that tails a growing
//! file drives [`Walker`] itself and resumes at a [`Position`]. [`mutation::decode`] needs the
//! schema ([`helenus_cql::schema::Catalog`]) and borrows values from the payload. Merging what
//! comes out is `helenus_cql::reconcile`'s.
//!
//! Nothing here panics on any input, allocates by a length the input merely claims, or skips
//! anything without reporting [`Damage`]. Files, directories, `_cdc.idx` and time are the
//! caller's.
#![deny(clippy::indexing_slicing)]

mod compression;
mod damage;
mod file;
mod header;
pub mod mutation;
mod record;
mod section;
mod segment;

pub use compression::{Compression, InflateError};
pub use damage::{Damage, Reason};
pub use file::{CdcIndex, FileKind, FileName};
pub use header::{Header, HeaderError, SegmentId, Version};
pub use mutation::Mutation;
pub use record::{Record, SectionRecords};
pub use section::{End, Position, Section, Step, Walker};
pub use segment::{Options, Records, Segment};
