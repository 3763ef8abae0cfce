//! How fast rows are written: as fast as is allowed, and as the cluster takes them.
//!
//! One more request under way for each round of answers, half as many after a time-out or a node
//! that says that it has too much to do.

use std::time::Duration;

use helenus_store::Ports;

use crate::tables::LoadOptions;

/// Requests under way at the start.
const IN_FLIGHT_START: f64 = 16.0;

/// An answer that took longer says that there is enough under way.
const SLOW: Duration = Duration::from_millis(400);

/// The longest pause before a write is sent again.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How many requests are under way, and when the next may start.
pub(super) struct Pace<'a> {
    ports: &'a Ports,
    in_flight: f64,
    in_flight_max: f64,
    since_backing_off: u32,
    rows_per_second: Option<f64>,
    /// When the rows sent so far are used up, at the rate that is allowed.
    next_at: Duration,
}

impl<'a> Pace<'a> {
    pub(super) fn new(ports: &'a Ports, options: &LoadOptions) -> Self {
        let in_flight_max = u32::try_from(options.in_flight_max.max(1)).unwrap_or(u32::MAX);
        let in_flight_max = f64::from(in_flight_max);
        Pace {
            ports,
            in_flight: IN_FLIGHT_START.min(in_flight_max),
            in_flight_max,
            since_backing_off: u32::MAX,
            rows_per_second: options.rows_per_second.map(|rate| f64::from(rate.max(1))),
            next_at: Duration::ZERO,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 2^32")]
        let whole = self.in_flight as usize;
        whole.max(1)
    }

    /// How long a group has to wait: for its turn at the allowed rate, and longer each time it
    /// is sent again.
    pub(super) fn turn(&mut self, rows: usize, attempt: u32) -> Duration {
        let mut wait = Duration::ZERO;
        if attempt > 0 {
            let millis = 10_u64 << attempt.min(8);
            let jitter = self.ports.random.below(millis);
            wait = Duration::from_millis(millis + jitter).min(PAUSE_MAX);
        }
        if let Some(rate) = self.rows_per_second.filter(|_| attempt == 0) {
            let now = self.ports.clock.elapsed();
            let start = self.next_at.max(now);
            let rows = u32::try_from(rows).unwrap_or(u32::MAX);
            self.next_at = start + Duration::from_secs_f64(f64::from(rows) / rate);
            wait = wait.max(start.saturating_sub(now));
        }
        wait
    }

    pub(super) fn answered(&mut self, took: Duration) {
        self.since_backing_off = self.since_backing_off.saturating_add(1);
        if took > SLOW {
            self.back_off(0.9);
        } else {
            self.in_flight = (self.in_flight + 1.0 / self.in_flight).min(self.in_flight_max);
        }
    }

    pub(super) fn overloaded(&mut self) {
        self.back_off(0.5);
    }

    /// Once for all that is under way: what was sent before cannot know better.
    fn back_off(&mut self, factor: f64) {
        if f64::from(self.since_backing_off) >= self.in_flight {
            self.in_flight = (self.in_flight * factor).max(1.0);
            self.since_backing_off = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helenus_model::{ManualClock, SystemRandom, Timestamp};

    use super::*;

    fn ports() -> (Ports, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
        (Ports { clock: Arc::clone(&clock) as _, random: Arc::new(SystemRandom) }, clock)
    }

    #[test]
    fn a_group_waits_for_its_turn_at_the_rate_that_is_allowed() {
        let (ports, clock) = ports();
        let options = LoadOptions { rows_per_second: Some(100), ..LoadOptions::default() };
        let mut pace = Pace::new(&ports, &options);
        let tenths = |tenths: u64| Duration::from_millis(tenths * 100);
        let waits: Vec<Duration> = (0..4).map(|_| pace.turn(10, 0)).collect();
        assert_eq!(waits, [tenths(0), tenths(1), tenths(2), tenths(3)]);
        clock.advance(tenths(3));
        assert_eq!(pace.turn(5, 0), tenths(1), "its turn is where it was");
        clock.advance(tenths(50));
        assert_eq!(pace.turn(10, 0), tenths(0), "nothing is saved up");
        assert_eq!(pace.turn(10, 0), tenths(1));
        let again = pace.turn(10, 1);
        assert!(again < tenths(1), "{again:?}: what is sent again has had its turn");
        let mut unlimited = Pace::new(&ports, &LoadOptions::default());
        assert!((0..100).all(|_| unlimited.turn(1_000, 0).is_zero()));
    }

    #[test]
    fn each_time_a_write_is_sent_again_it_waits_longer() {
        let (ports, _) = ports();
        let mut pace = Pace::new(&ports, &LoadOptions::default());
        for attempt in 1..=20 {
            let wait = pace.turn(10, attempt);
            let least = Duration::from_millis(10 << attempt.min(8)).min(PAUSE_MAX);
            assert!(wait >= least && wait <= PAUSE_MAX, "{attempt}: {wait:?}");
        }
    }

    #[test]
    fn what_is_under_way_grows_with_answers_and_is_halved_once_when_there_is_too_much() {
        let (ports, _) = ports();
        let options = LoadOptions { in_flight_max: 40, ..LoadOptions::default() };
        let mut pace = Pace::new(&ports, &options);
        assert_eq!(pace.in_flight(), 16);
        for _ in 0..10_000 {
            pace.answered(Duration::from_millis(1));
        }
        assert_eq!(pace.in_flight(), 40, "never more than allowed");
        // All that was under way fails: that is one reason to slow down, not forty.
        for _ in 0..40 {
            pace.overloaded();
        }
        assert_eq!(pace.in_flight(), 20);
        for _ in 0..25 {
            pace.answered(Duration::from_millis(1));
        }
        pace.overloaded();
        assert_eq!(pace.in_flight(), 10);
        for _ in 0..2_000 {
            pace.answered(SLOW * 2);
        }
        assert_eq!(pace.in_flight(), 1, "and never none");
    }
}
