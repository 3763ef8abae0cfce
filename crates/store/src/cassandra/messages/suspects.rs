//! Rows of the pending index whose message is not as they say, and since when they have been seen.
//!
//! A row that is ahead of its message is normal for a moment: the message is on its way. Only one
//! that stays so for the whole grace, on the clock of whoever looks, is settled; clocks of others
//! take no part in it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use helenus_model::limits::ORPHAN_GRACE;

/// More than this many are looked after later.
const SUSPECTS_MAX: usize = 10_000;

/// Shard, time in milliseconds, message.
type Key = (u16, i64, String);

#[derive(Debug, Default)]
pub(super) struct Suspects {
    seen: Mutex<HashMap<Key, Duration>>,
}

impl Suspects {
    /// Remembers a suspect; says whether it has been one for long enough.
    pub(super) fn is_due(&self, key: Key, elapsed: Duration) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SUSPECTS_MAX {
            // Those that were settled by somebody else never come back.
            seen.retain(|_, since| elapsed.saturating_sub(*since) < 2 * ORPHAN_GRACE);
        }
        if seen.len() >= SUSPECTS_MAX && !seen.contains_key(&key) {
            return false;
        }
        let since = *seen.entry(key).or_insert(elapsed);
        elapsed.saturating_sub(since) >= ORPHAN_GRACE
    }

    /// It was settled.
    pub(super) fn forget(&self, key: &Key) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
