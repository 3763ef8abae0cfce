//! What a relay has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much was done since the relay was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages published.
    pub published: u64,
    /// Messages found to be published already: settled after a take-over, or told of before.
    pub duplicates_suppressed: u64,
    /// Attempts that were refused.
    pub failed: u64,
    /// Messages given up.
    pub parked: u64,
    /// Times a lane was taken over.
    pub take_overs: u64,
    /// Times the store or the broker was away.
    pub outages: u64,
}

/// Where the time of a relay's lanes went, over all of them: lanes work beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Reading what is due.
    pub reading: Duration,
    /// Making records and asking whether the broker takes them.
    pub planning: Duration,
    /// Publishing.
    pub publishing: Duration,
    /// Recording what was published.
    pub settling: Duration,
}

/// Counts while lanes work.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) published: AtomicU64,
    pub(crate) duplicates_suppressed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) parked: AtomicU64,
    pub(crate) take_overs: AtomicU64,
    pub(crate) outages: AtomicU64,
    pub(crate) reading: AtomicU64,
    pub(crate) planning: AtomicU64,
    pub(crate) publishing: AtomicU64,
    pub(crate) settling: AtomicU64,
}

impl Counters {
    pub(crate) fn totals(&self) -> Totals {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Totals {
            published: count(&self.published),
            duplicates_suppressed: count(&self.duplicates_suppressed),
            failed: count(&self.failed),
            parked: count(&self.parked),
            take_overs: count(&self.take_overs),
            outages: count(&self.outages),
        }
    }

    pub(crate) fn profile(&self) -> Profile {
        let time = |counter: &AtomicU64| Duration::from_micros(counter.load(Ordering::SeqCst));
        Profile {
            reading: time(&self.reading),
            planning: time(&self.planning),
            publishing: time(&self.publishing),
            settling: time(&self.settling),
        }
    }
}

/// Adds time, in microseconds.
pub(crate) fn add_time(counter: &AtomicU64, more: Duration) {
    let micros = u64::try_from(more.as_micros()).unwrap_or(u64::MAX);
    counter.fetch_add(micros, Ordering::SeqCst);
}

pub(crate) fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::SeqCst);
}
