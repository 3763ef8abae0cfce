//! When a message was staged: a moment that never repeats within a process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use helenus_model::{Random, Timestamp};
use scylla::value::CqlTimeuuid;

/// A wall clock set back further than this is believed; the order of a key is its clock's then.
const STEP_BACK_MAX: Duration = Duration::from_secs(60);

/// Units of a time-based UUID in a microsecond.
const TICKS: u64 = 10;

/// 1582-10-15, from which time-based UUIDs count, to 1970.
const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;

/// A message's place among those of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cassandra) struct Stamp {
    /// Orders messages of a key.
    pub(in crate::cassandra) seq: CqlTimeuuid,
    /// The same moment, as far as a clock tells it.
    pub(in crate::cassandra) at: Timestamp,
}

/// Gives stamps that rise strictly.
#[derive(Debug)]
pub(in crate::cassandra) struct Stamps {
    last: Mutex<u64>,
    node: [u8; 6],
    sequence: u16,
}

impl Stamps {
    pub(in crate::cassandra) fn new(random: &dyn Random) -> Self {
        let [a, b, c, d, e, f, g, h] = random.next_u64().to_be_bytes();
        // The lowest bit of the first byte says that it is no network card's address.
        let node = [a | 1, b, c, d, e, f];
        Stamps { last: Mutex::new(0), node, sequence: u16::from_be_bytes([g, h]) }
    }

    pub(in crate::cassandra) fn next(&self, now: Timestamp) -> Stamp {
        let now = u64::try_from(now.as_micros()).unwrap_or(0).saturating_mul(TICKS);
        let step_back = u64::try_from(STEP_BACK_MAX.as_micros()).unwrap_or(u64::MAX) * TICKS;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let after =
            if now.saturating_add(step_back) < *last { now } else { last.saturating_add(1) };
        *last = now.max(after);
        self.stamp(*last)
    }

    fn stamp(&self, ticks: u64) -> Stamp {
        let ticks_then = ticks.saturating_add(GREGORIAN);
        let builder =
            uuid::Builder::from_gregorian_timestamp(ticks_then, self.sequence, &self.node);
        let seq = CqlTimeuuid::from(builder.into_uuid());
        let micros = i64::try_from(ticks / TICKS).unwrap_or(i64::MAX);
        Stamp { seq, at: Timestamp::from_micros(micros) }
    }
}

#[cfg(test)]
mod tests {
    use helenus_model::SeededRandom;

    use super::*;

    #[test]
    fn stamps_rise_even_if_the_clock_does_not() {
        let stamps = Stamps::new(&SeededRandom::new(1));
        let now = Timestamp::from_millis(1_794_744_000_000);
        let mut last = stamps.next(now);
        assert_eq!(last.at, now);
        for back in [0, 0, 1, 59] {
            let next = stamps.next(now.minus(Duration::from_secs(back)));
            assert!(next.seq > last.seq && next.at >= last.at, "{next:?} after {last:?}");
            last = next;
        }
        let (seconds, nanos) = last.seq.as_ref().get_timestamp().unwrap().to_unix();
        assert_eq!(Timestamp::EPOCH.plus(Duration::new(seconds, nanos / 1_000 * 1_000)), last.at);
        let hour_ago = now.minus(Duration::from_secs(3600));
        assert_eq!(stamps.next(hour_ago).at, hour_ago, "a clock that was far ahead is set right");
    }
}
