//! Counter contexts: the shards a counter cell carries.
//!
//! A mutation carries the running total of one leader's shard, neither the increment nor the
//! counter's value; the value is the sum over the shards of all leaders, which is why contexts
//! are merged ([`crate::reconcile`]) before they are shown.

use std::collections::BTreeSet;

use super::ValueError;
use crate::wire::Reader;

/// How much a shard's writer could be trusted, weakest first; modern nodes write global shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardKind {
    /// Pre-2.1, of another node.
    Remote,
    /// Pre-2.1, of the node itself.
    Local,
    /// Since 2.1.
    Global,
}

/// One leader's part of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The leader.
    pub id: [u8; 16],
    /// Kind.
    pub kind: ShardKind,
    /// Logical clock: the larger one is the later total.
    pub clock: i64,
    /// Running total.
    pub count: i64,
}

/// The shards of one counter cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterContext {
    /// In stored order, which is by leader.
    pub shards: Vec<Shard>,
}

impl CounterContext {
    /// Reads a context; zero bytes are a context without shards.
    pub fn parse(bytes: &[u8]) -> Result<Self, ValueError> {
        if bytes.is_empty() {
            return Ok(Self { shards: Vec::new() });
        }
        let mut reader = Reader::new(bytes);
        let marked = reader.i16()?.unsigned_abs();
        let mut marks = BTreeSet::new();
        for _ in 0..marked {
            marks.insert(reader.i16()?);
        }
        let mut shards = Vec::with_capacity(reader.rest().len() / 32);
        while !reader.is_empty() {
            let kind = kind(&marks, shards.len());
            shards.push(Shard {
                id: reader.array()?,
                kind,
                clock: reader.i64()?,
                count: reader.i64()?,
            });
        }
        if marks.len() > shards.len() { Err(ValueError::Counter) } else { Ok(Self { shards }) }
    }

    /// The sum of the counts, wrapping as Cassandra's does.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.count))
    }
}

/// An index in the header marks its shard as local, an index less 32768 as global.
fn kind(marks: &BTreeSet<i16>, index: usize) -> ShardKind {
    let Ok(index) = i16::try_from(index) else { return ShardKind::Remote };
    if marks.contains(&index.wrapping_add(i16::MIN)) {
        ShardKind::Global
    } else if marks.contains(&index) {
        ShardKind::Local
    } else {
        ShardKind::Remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: u8, clock: i64, count: i64) -> Vec<u8> {
        [&[id; 16][..], &clock.to_be_bytes(), &count.to_be_bytes()].concat()
    }

    #[test]
    fn kinds_by_header() {
        let header = [0, 2, 0x80, 0x00, 0x00, 0x01];
        let bytes = [&header[..], &shard(1, 5, 10), &shard(2, 6, -3), &shard(3, 7, 1)].concat();
        let context = CounterContext::parse(&bytes).unwrap();
        let kinds: Vec<_> = context.shards.iter().map(|shard| shard.kind).collect();
        assert_eq!(kinds, [ShardKind::Global, ShardKind::Local, ShardKind::Remote]);
        assert_eq!(context.total(), 8);
        for cut in (1..bytes.len()).filter(|cut| *cut != 70) {
            assert!(CounterContext::parse(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn totals_wrap() {
        let bytes = [&[0u8, 0][..], &shard(1, 1, i64::MAX), &shard(2, 1, 1)].concat();
        assert_eq!(CounterContext::parse(&bytes).unwrap().total(), i64::MIN);
        assert_eq!(CounterContext::parse(&[]).unwrap().total(), 0);
    }
}
