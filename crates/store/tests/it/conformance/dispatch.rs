//! Promises of finding and settling.

use std::time::Duration;

use helenus_model::{Message, MessageId, Timestamp};
use helenus_store::contract::{Dispatch, Outbox, Outcome, Report, Settled};

use super::{Fixture, START, message};

const MINUTE: Duration = Duration::from_secs(60);

async fn pending_ids<S: Dispatch>(fixture: &Fixture<S>, now: Timestamp) -> Vec<String> {
    let pending = fixture.store.read_pending(now, 100).await.unwrap();
    pending.into_iter().map(|pending| pending.message.message_id.to_string()).collect()
}

async fn report<S: Dispatch>(fixture: &Fixture<S>, id: &str, outcome: Outcome) -> Settled {
    let report = Report { message_id: MessageId::new(id).unwrap(), at: START, outcome };
    fixture.store.apply_reports(vec![report]).await.unwrap()[0]
}

pub(super) async fn pending_messages_come_in_staging_order<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    for id in ["c", "a", "b"] {
        fixture.store.enqueue(message(id)).await.unwrap();
    }
    assert_eq!(pending_ids(fixture, START).await, ["c", "a", "b"]);
}

pub(super) async fn a_read_is_bounded<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    for id in ["a", "b", "c"] {
        fixture.store.enqueue(message(id)).await.unwrap();
    }
    assert_eq!(fixture.store.read_pending(START, 2).await.unwrap().len(), 2);
    assert_eq!(fixture.store.read_pending(START, 0).await.unwrap(), []);
}

pub(super) async fn a_delayed_message_waits_for_its_time<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    let deliver_at = Some(START.plus(MINUTE));
    fixture.store.enqueue(Message { deliver_at, ..message("later") }).await.unwrap();
    fixture.store.enqueue(message("now")).await.unwrap();
    assert_eq!(pending_ids(fixture, START).await, ["now"]);
    let then = fixture.later(MINUTE);
    assert_eq!(pending_ids(fixture, then).await, ["now", "later"]);
}

pub(super) async fn a_settled_message_is_not_pending<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    for id in ["published", "skipped", "left"] {
        fixture.store.enqueue(message(id)).await.unwrap();
    }
    assert_eq!(report(fixture, "published", Outcome::Succeeded).await, Settled::Recorded);
    assert_eq!(report(fixture, "skipped", Outcome::Skipped).await, Settled::Recorded);
    assert_eq!(pending_ids(fixture, START).await, ["left"]);
}

pub(super) async fn a_failed_message_is_due_again_when_it_says<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    fixture.store.enqueue(message("a")).await.unwrap();
    fixture.store.enqueue(message("b")).await.unwrap();
    let next_attempt_at = START.plus(MINUTE);
    let failed = Outcome::Failed { next_attempt_at: Some(next_attempt_at) };
    assert_eq!(report(fixture, "a", failed).await, Settled::Recorded);
    let scheduled = Outcome::RetryScheduled { next_attempt_at: START.plus(2 * MINUTE) };
    assert_eq!(report(fixture, "b", scheduled).await, Settled::Recorded);
    assert_eq!(pending_ids(fixture, START).await, [""; 0]);
    assert_eq!(pending_ids(fixture, next_attempt_at).await, ["a"]);
    assert_eq!(pending_ids(fixture, START.plus(2 * MINUTE)).await, ["a", "b"]);
    // Without a time it stays due as it was.
    report(fixture, "a", Outcome::Failed { next_attempt_at: None }).await;
    assert_eq!(pending_ids(fixture, next_attempt_at).await, ["a"]);
}

pub(super) async fn a_started_attempt_is_counted<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    fixture.store.enqueue(message("a")).await.unwrap();
    for attempts in 1..=3 {
        report(fixture, "a", Outcome::Started).await;
        let pending = fixture.store.read_pending(START, 1).await.unwrap();
        assert_eq!(pending[0].attempt_count, attempts);
    }
}

pub(super) async fn a_settled_message_stays_settled<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    fixture.store.enqueue(message("a")).await.unwrap();
    report(fixture, "a", Outcome::Succeeded).await;
    let late = [
        Outcome::Started,
        Outcome::Succeeded,
        Outcome::Skipped,
        Outcome::Failed { next_attempt_at: Some(START) },
        Outcome::RetryScheduled { next_attempt_at: START },
    ];
    for outcome in late {
        assert_eq!(report(fixture, "a", outcome).await, Settled::AlreadySettled, "{outcome:?}");
    }
    assert_eq!(pending_ids(fixture, START).await, [""; 0]);
}

pub(super) async fn a_report_on_nothing_says_so<S: Dispatch>(fixture: &Fixture<S>) {
    assert_eq!(report(fixture, "nothing", Outcome::Succeeded).await, Settled::NotFound);
}

pub(super) async fn the_backlog_is_what_is_not_settled<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    let backlog = |now| fixture.store.backlog(now);
    let empty = backlog(START).await.unwrap();
    assert_eq!((empty.unpublished, empty.lag), (0, Duration::ZERO));
    fixture.store.enqueue(message("a")).await.unwrap();
    let deliver_at = Some(START.plus(10 * MINUTE));
    fixture.store.enqueue(Message { deliver_at, ..message("later") }).await.unwrap();
    let then = fixture.later(MINUTE);
    let waiting = backlog(then).await.unwrap();
    assert_eq!((waiting.unpublished, waiting.lag), (2, MINUTE));
    report(fixture, "a", Outcome::Succeeded).await;
    let waiting = backlog(then).await.unwrap();
    assert_eq!((waiting.unpublished, waiting.lag), (1, Duration::ZERO));
}
