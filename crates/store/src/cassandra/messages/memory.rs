//! What a process knows of the shards it reads: from where on there may be something to do.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helenus_model::Timestamp;

use super::suspects::Suspects;

#[derive(Debug, Default)]
pub(super) struct Memory {
    shards: Mutex<HashMap<u16, Shard>>,
    pub(super) suspects: Suspects,
}

/// Times of the wall clock say where in the index; times of the stop-watch say when it was looked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shard {
    /// Nothing is left before this but what was staged very late.
    pub(super) watermark: Option<Timestamp>,
    /// The watermark as it was last stored.
    stored: Option<Timestamp>,
    /// Nothing is left before this but what was staged late.
    pub(super) cursor: Option<Timestamp>,
    /// The earliest that this process put in since the last read began.
    lowered: Option<Timestamp>,
    /// When the shard was last looked at a little before the cursor, since the watermark, and from
    /// its start.
    pub(super) looked: [Option<Duration>; 3],
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Shard>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is known any more.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// What is known of a shard as a read of it begins.
    pub(super) fn take(&self, shard: u16) -> Shard {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        if let Some(lowered) = shard.lowered.take() {
            shard.cursor = shard.cursor.map(|cursor| cursor.min(lowered));
            shard.watermark = shard.watermark.map(|watermark| watermark.min(lowered));
        }
        *shard
    }

    /// From where the read goes.
    pub(super) fn put(&self, shard: u16, known: Shard) {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        *shard = Shard { lowered: shard.lowered, stored: shard.stored, ..known };
    }

    /// A read from `start` found that nothing is left until `cursor`; says whether the watermark has
    /// moved so far that it should be stored. Another read that began meanwhile knows better.
    pub(super) fn advance(
        &self,
        shard: u16,
        start: Timestamp,
        cursor: Timestamp,
        watermark: Timestamp,
        step: Duration,
    ) -> bool {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        if shard.cursor != Some(start) {
            return false;
        }
        shard.cursor = Some(cursor);
        shard.watermark = shard.watermark.max(Some(watermark));
        let store = shard.stored.is_none_or(|stored| watermark.since(stored) >= step);
        if store {
            shard.stored = Some(watermark);
        }
        store
    }

    /// Something was put into the shard that is due then.
    pub(super) fn lower(&self, shard: u16, due: Timestamp) {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        shard.lowered = Some(shard.lowered.map_or(due, |lowered| lowered.min(due)));
    }

    /// Until when nothing is left, if the shard was read.
    pub(super) fn watermark(&self, shard: u16) -> Option<Timestamp> {
        let shard = self.lock().get(&shard).copied()?;
        let lowered = shard.lowered;
        shard.watermark.map(|watermark| lowered.map_or(watermark, |due| due.min(watermark)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_while_a_read_goes_on_is_not_passed_over() {
        let at = Timestamp::from_millis;
        let memory = Memory::default();
        let read = |start| {
            let known = memory.take(0);
            let cursor = known.cursor.map_or(at(start), |cursor| cursor.min(at(start)));
            memory.put(0, Shard { cursor: Some(cursor), ..known });
            cursor
        };
        let start = read(100);
        memory.lower(0, at(50));
        memory.advance(0, start, at(200), at(200), Duration::ZERO);
        assert_eq!(memory.watermark(0), Some(at(50)));
        let second = read(200);
        assert_eq!(second, at(50));
        // A read that began before does not undo it.
        memory.advance(0, start, at(300), at(300), Duration::ZERO);
        assert_eq!(memory.take(0).cursor, Some(at(50)));
    }
}
