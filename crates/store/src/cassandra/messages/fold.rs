//! What several reports on one message come to: a function over values.

use helenus_model::Timestamp;

use super::rows::Standing;
use crate::contract::{AfterParking, Outcome, Report, Settled};

/// What is to be written of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The attempts that were counted.
    pub(super) attempts: i32,
    /// Why, if somebody said.
    pub(super) reason: Option<String>,
    /// When it is due from now on.
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Whether its key waits for it from now on; `None` leaves that as it is.
    pub(super) holds: Option<bool>,
    /// When it was parked.
    pub(super) parked_at: Option<Timestamp>,
    /// As what, and when it was done.
    pub(super) done: Option<(&'static str, Timestamp)>,
}

impl Change {
    pub(super) fn is_empty(&self) -> bool {
        *self == Change::default()
    }

    /// Whether it leaves the pending index.
    pub(super) fn leaves(&self) -> bool {
        self.done.is_some() || self.parked_at.is_some()
    }
}

/// Applies reports in their order to a message that stands so.
pub(super) fn fold(mut standing: Standing, reports: &[&Report]) -> (Vec<Settled>, Change) {
    let mut change = Change::default();
    let settled = reports.iter().map(|report| step(&mut standing, &mut change, report)).collect();
    (settled, change)
}

fn step(standing: &mut Standing, change: &mut Change, report: &Report) -> Settled {
    let finishes = matches!(report.outcome, Outcome::Succeeded | Outcome::Skipped);
    match standing {
        Standing::Pending => {}
        Standing::Parked if finishes => {}
        Standing::Parked | Standing::Done | Standing::Cancelled => return Settled::AlreadySettled,
    }
    match report.outcome {
        Outcome::Started => change.attempts += 1,
        Outcome::Succeeded => change.done = Some(("dispatched", report.at)),
        Outcome::Skipped => change.done = Some(("skipped", report.at)),
        Outcome::Failed { next_attempt_at } => {
            change.next_attempt_at = next_attempt_at.or(change.next_attempt_at);
            change.holds = Some(true);
        }
        Outcome::RetryScheduled { next_attempt_at } => {
            change.next_attempt_at = Some(next_attempt_at);
            change.holds = Some(true);
        }
        Outcome::Parked { key } => {
            change.parked_at = Some(report.at);
            change.holds = Some(key == AfterParking::Stop);
        }
    }
    if report.reason.is_some() {
        change.reason.clone_from(&report.reason);
    }
    if change.done.is_some() {
        *standing = Standing::Done;
        change.holds = Some(false);
    } else if change.parked_at.is_some() {
        *standing = Standing::Parked;
    }
    Settled::Recorded
}

#[cfg(test)]
mod tests {
    use helenus_model::MessageId;

    use super::*;

    fn folded(standing: Standing, outcomes: &[Outcome]) -> (Vec<Settled>, Change) {
        let report = |outcome: &Outcome| {
            Report::new(MessageId::new("m").unwrap(), Timestamp::EPOCH, *outcome)
        };
        let reports: Vec<Report> = outcomes.iter().map(report).collect();
        fold(standing, &reports.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_is_done_stays_done() {
        let stop = Outcome::Parked { key: AfterParking::Stop };
        for standing in [Standing::Done, Standing::Cancelled] {
            for outcome in [Outcome::Started, Outcome::Succeeded, Outcome::Skipped, stop] {
                let (settled, change) = folded(standing, &[outcome]);
                assert_eq!(settled, [Settled::AlreadySettled]);
                assert!(change.is_empty(), "{change:?}");
            }
        }
        let (settled, change) =
            folded(Standing::Pending, &[stop, Outcome::Started, Outcome::Skipped]);
        assert_eq!(settled, [Settled::Recorded, Settled::AlreadySettled, Settled::Recorded]);
        assert_eq!((change.holds, change.attempts), (Some(false), 0));
        assert_eq!(change.done, Some(("skipped", Timestamp::EPOCH)));
    }

    #[test]
    fn an_attempt_and_its_failure_are_one_change() {
        let later = Timestamp::from_millis(5);
        let failed = Outcome::Failed { next_attempt_at: Some(later) };
        let (_, change) = folded(Standing::Pending, &[Outcome::Started, failed]);
        let expected = Change {
            attempts: 1,
            next_attempt_at: Some(later),
            holds: Some(true),
            ..Change::default()
        };
        assert_eq!(change, expected);
    }
}
