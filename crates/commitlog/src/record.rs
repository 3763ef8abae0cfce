//! Records inside a section: length, checksum, payload, checksum.
//!
//! Framing does not depend on what the payload says, so a record that cannot be decoded never
//! hides the next one. The decoding itself is in [`crate::mutation`].

use std::ops::Range;

use helenus_cql::schema::{Lookup, TableId};
use helenus_cql::wire::Reader;

use crate::damage::{Damage, Reason};
use crate::header::{SegmentId, Version};
use crate::mutation::{self, Mutation};

/// Cassandra takes nothing shorter for a mutation.
const PAYLOAD_LENGTH_MIN: usize = 10;
/// Length and its checksum before the payload, and the checksum after it.
const HEAD_LENGTH: usize = 8;
const TAIL_LENGTH: usize = 4;

/// A record with valid checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The segment it is in.
    pub segment: SegmentId,
    /// The segment's layout.
    pub version: Version,
    /// Offset in the file of the sync marker before it.
    pub section: u64,
    /// Logical offset of its first byte.
    pub start: u64,
    /// Logical offset just behind it; with the segment's id this is the position that Cassandra
    /// and its other readers store.
    pub end: u64,
    /// One mutation, undecoded.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Decodes the mutation. Damage here costs this record only.
    pub fn decode(&self, schema: &'a impl Lookup) -> Result<Mutation<'a>, Damage> {
        mutation::decode(self.payload, self.version, schema).map_err(|error| Damage {
            segment: self.segment,
            offset: self.start,
            section: self.section,
            table: error.table,
            reason: Reason::Mutation(error),
        })
    }

    /// The first table the mutation is about, without decoding it: enough to pass over records
    /// of tables nobody asked for.
    #[must_use]
    pub fn first_table(&self) -> Option<TableId> {
        first_table(self.payload)
    }
}

/// What the records of one section share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    pub(crate) segment: SegmentId,
    pub(crate) version: Version,
    /// Offset in the file of the section's marker.
    pub(crate) section: u64,
    /// Logical offset of the first record.
    pub(crate) records_at: u64,
    /// The end of the section is a guess: what is no record there is not damage.
    pub(crate) salvaged: bool,
}

/// The records of one section, in the order they were written, or damage in their place.
#[derive(Debug, Clone)]
pub struct SectionRecords<'a> {
    shared: Frames,
    body: &'a [u8],
    offset: usize,
}

impl<'a> SectionRecords<'a> {
    pub(crate) const fn new(shared: Frames, body: &'a [u8]) -> Self {
        Self { shared, body, offset: 0 }
    }

    /// Goes on where an earlier pass over the same section was ([`Self::offset`]).
    #[must_use]
    pub const fn starting_at(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// How far this pass is.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    fn damage(&self, at: usize, table: Option<TableId>, reason: Reason) -> Damage {
        Damage {
            segment: self.shared.segment,
            offset: self.shared.records_at + at as u64,
            section: self.shared.section,
            table,
            reason,
        }
    }
}

impl<'a> Iterator for SectionRecords<'a> {
    type Item = Result<Record<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.offset;
        match frame(self.body, at) {
            Frame::Record { payload, next } => {
                self.offset = next;
                Some(Ok(Record {
                    segment: self.shared.segment,
                    version: self.shared.version,
                    section: self.shared.section,
                    start: self.shared.records_at + at as u64,
                    end: self.shared.records_at + next as u64,
                    payload: self.body.get(payload)?,
                }))
            }
            Frame::Skip { reason, payload, next } => {
                self.offset = next;
                let table = self.body.get(payload).and_then(first_table);
                Some(Err(self.damage(at, table, reason)))
            }
            Frame::Stop(reason) => {
                self.offset = self.body.len();
                (!self.shared.salvaged).then(|| Err(self.damage(at, None, reason)))
            }
            Frame::End => None,
        }
    }
}

/// What is at an offset of a section's records.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Frame {
    /// A good record: where its payload is and where the next record starts.
    Record { payload: Range<usize>, next: usize },
    /// A record that cannot be used; reading goes on at `next`.
    Skip { reason: Reason, payload: Range<usize>, next: usize },
    /// Nothing more can be read in this section.
    Stop(Reason),
    /// The section is finished.
    End,
}

/// Reads the frame at `offset`.
fn frame(body: &[u8], offset: usize) -> Frame {
    let rest = body.get(offset..).unwrap_or_default();
    if rest.is_empty() {
        return Frame::End;
    }
    let mut reader = Reader::new(rest);
    let Ok(size_bytes) = reader.array::<4>() else {
        return Frame::Stop(Reason::Leftover(rest.len()));
    };
    let size = i32::from_be_bytes(size_bytes);
    if size == 0 {
        return Frame::Stop(Reason::ZeroSize);
    }
    let Some(length) = usize::try_from(size).ok().filter(|length| *length >= PAYLOAD_LENGTH_MIN)
    else {
        return Frame::Stop(Reason::SmallSize(size));
    };
    let mut crc = crc32fast::Hasher::new();
    crc.update(&size_bytes);
    match reader.u32() {
        Ok(stored) if stored == crc.clone().finalize() => {}
        Ok(_) => return Frame::Stop(Reason::SizeChecksum),
        Err(short) => return Frame::Stop(Reason::Overrun { size, left: short.left }),
    }
    let left = reader.rest().len();
    let (Ok(payload), Ok(stored)) = (reader.take(length), reader.u32()) else {
        return Frame::Stop(Reason::Overrun { size, left });
    };
    crc.update(payload);
    let start = offset + HEAD_LENGTH;
    let payload = start..start + length;
    let next = payload.end + TAIL_LENGTH;
    if stored == crc.finalize() {
        Frame::Record { payload, next }
    } else {
        Frame::Skip { reason: Reason::PayloadChecksum, payload, next }
    }
}

/// The first table id of a mutation.
fn first_table(payload: &[u8]) -> Option<TableId> {
    let mut reader = Reader::new(payload);
    reader.unsigned_vint().ok()?;
    reader.array().ok().map(TableId::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: &[u8]) -> Vec<u8> {
        let size = i32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut bytes = size.to_vec();
        bytes.extend(crc32fast::hash(&size).to_be_bytes());
        bytes.extend(payload);
        let whole = [&size[..], payload].concat();
        bytes.extend(crc32fast::hash(&whole).to_be_bytes());
        bytes
    }

    #[test]
    fn good_records_follow_each_other() {
        let body = [record(&[1; 12]), record(&[2; 30])].concat();
        assert_eq!(frame(&body, 0), Frame::Record { payload: 8..20, next: 24 });
        assert_eq!(frame(&body, 24), Frame::Record { payload: 32..62, next: 66 });
        assert_eq!(frame(&body, 66), Frame::End);
        assert_eq!(frame(&body, 1000), Frame::End);
    }

    #[test]
    fn what_stops_a_section_and_what_only_costs_a_record() {
        let good = record(&[1; 12]);
        let mut flipped = good.clone();
        flipped[10] ^= 1;
        let expected = Frame::Skip { reason: Reason::PayloadChecksum, payload: 8..20, next: 24 };
        assert_eq!(frame(&flipped, 0), expected);
        let mut flipped = good.clone();
        flipped[5] ^= 1;
        assert_eq!(frame(&flipped, 0), Frame::Stop(Reason::SizeChecksum));
        assert_eq!(frame(&[0; 40], 0), Frame::Stop(Reason::ZeroSize));
        assert_eq!(frame(&[1, 2, 3], 0), Frame::Stop(Reason::Leftover(3)));
        assert_eq!(frame(&record(&[1; 9]), 0), Frame::Stop(Reason::SmallSize(9)));
        assert_eq!(frame(&[0xff; 40], 0), Frame::Stop(Reason::SmallSize(-1)));
        for cut in 4..good.len() {
            assert!(matches!(
                frame(&good[..cut], 0),
                Frame::Stop(Reason::Overrun { size: 12, .. })
            ));
        }
    }
}
