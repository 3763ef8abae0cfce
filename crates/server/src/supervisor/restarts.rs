//! When a task that failed is started again. No clock, no task: what happened goes in, what to do
//! comes out.

use std::time::Duration;

use helenus_model::{Backoff, Kind, Random};

/// How tasks are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long to wait after a failure, longer after each in a row.
    pub backoff: Backoff,
    /// A task that ran for so long was well: its next failure is a first one.
    pub steady_after: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        let (first, longest) = (Duration::from_millis(500), Duration::from_secs(30));
        Policy { backoff: Backoff { first, longest }, steady_after: Duration::from_secs(10) }
    }
}

/// What becomes of a task that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is started again after this time.
    After(Duration),
    /// It is not: what it met does not pass, and going on could do harm.
    Never,
}

/// The failures of one task.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    policy: Policy,
    in_a_row: u32,
}

impl Restarts {
    /// Of a task that has not failed.
    pub fn new(policy: Policy) -> Self {
        Restarts { policy, in_a_row: 0 }
    }

    /// What to do about a failure after having run for so long.
    pub fn failed(&mut self, kind: Kind, ran_for: Duration, random: &dyn Random) -> Next {
        if matches!(kind, Kind::Corrupt | Kind::Fatal) {
            return Next::Never;
        }
        if ran_for >= self.policy.steady_after {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        Next::After(self.policy.backoff.after(self.in_a_row, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_model::SeededRandom;

    const SECOND: Duration = Duration::from_secs(1);

    fn wait(next: Next) -> Duration {
        let Next::After(wait) = next else { panic!("{next:?}") };
        wait
    }

    #[test]
    fn failures_in_a_row_wait_longer_and_a_steady_run_ends_the_row() {
        let backoff = Backoff { first: SECOND, longest: 8 * SECOND };
        let random = SeededRandom::new(7);
        let mut restarts = Restarts::new(Policy { backoff, steady_after: 10 * SECOND });
        let mut failed = |ran_for| wait(restarts.failed(Kind::Unavailable, ran_for, &random));
        for doubled in [1, 2, 4, 8, 8, 8] {
            let waited = failed(SECOND);
            assert!(waited <= doubled * SECOND && waited >= doubled * SECOND / 2, "{waited:?}");
        }
        assert!(failed(10 * SECOND) <= SECOND, "it had been well");
        assert!(failed(9 * SECOND) > SECOND / 2, "it had not");
    }

    #[test]
    fn tasks_that_fail_together_do_not_come_back_together() {
        let random = SeededRandom::new(7);
        let mut waits: Vec<Duration> = (0..20)
            .map(|_| {
                let mut restarts = Restarts::new(Policy::default());
                wait(restarts.failed(Kind::Unavailable, Duration::ZERO, &random))
            })
            .collect();
        waits.sort();
        waits.dedup();
        assert!(waits.len() > 10, "{waits:?}");
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        for (kind, is_tried) in [
            (Kind::Corrupt, false),
            (Kind::Fatal, false),
            (Kind::Invalid, true),
            (Kind::OutcomeUnknown, true),
        ] {
            let mut restarts = Restarts::new(Policy::default());
            let next = restarts.failed(kind, Duration::ZERO, &SeededRandom::new(1));
            assert_eq!(next != Next::Never, is_tried, "{kind:?}");
        }
    }
}
