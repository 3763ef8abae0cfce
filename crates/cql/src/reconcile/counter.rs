//! Counters: one running total for every node that ever led a write.
//!
//! A node drops the shards that a deletion covers as it meets them, which makes its answer depend
//! on the order of arrival. Here every shard keeps the latest timestamp it was seen with and
//! deletions are weighed when the value is read; for writes that arrive in order that is the same.

use std::collections::BTreeMap;

use super::cell::covers;
use crate::update::{Cell, Content, Deletion, Timestamp};
use crate::value::{CounterContext, Shard, ShardKind, ValueError};

/// A counter cell, merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CounterState {
    /// A deleted counter: increments do not bring it back.
    tombstone: Option<Deletion>,
    shards: BTreeMap<[u8; 16], Total>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Total {
    /// Stronger kind, later clock, larger count win, in this order.
    rank: (ShardKind, i64, i64),
    timestamp: Timestamp,
}

impl CounterState {
    /// Takes one cell as it was written.
    pub fn new(cell: &Cell<&[u8]>) -> Result<Self, ValueError> {
        let timestamp = cell.timestamp;
        match cell.content {
            Content::Deleted(at) => {
                Ok(Self { tombstone: Some(Deletion { timestamp, at }), shards: BTreeMap::new() })
            }
            Content::Live(value) | Content::Expiring(value, _) => {
                let mut state = Self::default();
                for shard in CounterContext::parse(value)?.shards {
                    state.add(shard, timestamp);
                }
                Ok(state)
            }
        }
    }

    /// Takes over what another has seen.
    pub fn merge(&mut self, other: Self) {
        self.tombstone = self.tombstone.max(other.tombstone);
        for (id, total) in other.shards {
            self.join(id, total);
        }
    }

    /// The counter's value, unless it was deleted: `own` is the deletion of its row, `above` that
    /// of its range or partition. A tombstone is lifted by the former only, as on a node that has
    /// not yet written the row to disk.
    #[must_use]
    pub fn value(&self, own: Option<Deletion>, above: Option<Deletion>) -> Option<i64> {
        if self.tombstone.is_some_and(|tombstone| !covers(own, tombstone.timestamp)) {
            return None;
        }
        let deletion = own.max(above);
        let counts = self.shards.values().filter(|total| !covers(deletion, total.timestamp));
        counts.map(|total| total.rank.2).reduce(i64::wrapping_add)
    }

    fn add(&mut self, shard: Shard, timestamp: Timestamp) {
        let rank = (shard.kind, shard.clock, shard.count);
        self.join(shard.id, Total { rank, timestamp });
    }

    fn join(&mut self, id: [u8; 16], total: Total) {
        let known = self.shards.entry(id).or_insert(total);
        known.rank = known.rank.max(total.rank);
        known.timestamp = known.timestamp.max(total.timestamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::Seconds;

    fn increment(timestamp: i64, id: u8, clock: i64, count: i64) -> CounterState {
        let head = [0, 1, 0x80, 0];
        let bytes = [&head[..], &[id; 16], &clock.to_be_bytes(), &count.to_be_bytes()].concat();
        let cell = Cell { timestamp: Timestamp(timestamp), content: Content::Live(&bytes[..]) };
        CounterState::new(&cell).unwrap()
    }

    fn merged(states: &[CounterState]) -> CounterState {
        let mut all = CounterState::default();
        states.iter().for_each(|state| all.merge(state.clone()));
        all
    }

    #[test]
    fn totals_of_leaders_add_up() {
        let states = [increment(1, 1, 1, 5), increment(2, 1, 2, 8), increment(3, 2, 1, -3)];
        assert_eq!(merged(&states).value(None, None), Some(5));
        assert_eq!(CounterState::default().value(None, None), None);
    }

    #[test]
    fn a_tombstone_beats_later_increments_until_its_row_is_deleted() {
        let tombstone = Cell { timestamp: Timestamp(2), content: Content::Deleted(Seconds(9)) };
        let tombstone = CounterState::new(&tombstone).unwrap();
        let state = merged(&[increment(1, 1, 1, 5), tombstone, increment(7, 1, 2, 6)]);
        assert_eq!(state.value(None, None), None);
        let deletion =
            |timestamp| Some(Deletion { timestamp: Timestamp(timestamp), at: Seconds(9) });
        assert_eq!(state.value(None, deletion(2)), None);
        assert_eq!(state.value(deletion(2), None), Some(6));
        assert_eq!(state.value(deletion(7), None), None);
    }

    #[test]
    fn a_deletion_removes_the_shards_it_covers() {
        let state = merged(&[increment(1, 1, 1, 5), increment(3, 2, 1, 7)]);
        let deletion = Deletion { timestamp: Timestamp(2), at: Seconds(0) };
        assert_eq!(state.value(None, Some(deletion)), Some(7));
    }
}
