//! Promises of finding and settling.

use std::time::Duration;

use helenus_model::{Message, MessageId, Timestamp};
use helenus_store::contract::{AfterParking, Dispatch, Outbox, Outcome, Report, Settled};

use super::{Fixture, START, message};

const MINUTE: Duration = Duration::from_secs(60);

async fn pending_ids<S: Dispatch>(fixture: &Fixture<S>, now: Timestamp) -> Vec<String> {
    let pending = fixture.store.read_pending(now, 100).await.unwrap();
    pending.into_iter().map(|pending| pending.message.message_id.to_string()).collect()
}

async fn report<S: Dispatch>(fixture: &Fixture<S>, id: &str, outcome: Outcome) -> Settled {
    let report = Report::new(MessageId::new(id).unwrap(), START, outcome);
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

fn keyed(id: &str, key: &str) -> Message {
    Message { ordering_key: Some(key.to_owned()), ..message(id) }
}

pub(super) async fn a_store_keeps_its_identity<S: Dispatch>(fixture: &Fixture<S>) {
    let identity = fixture.store.identity().await.unwrap();
    assert_eq!(identity.shards, 16);
    assert_eq!(identity.store_id.get_version_num(), 4);
    assert_eq!(fixture.store.identity().await.unwrap(), identity);
}

pub(super) async fn shards_share_the_messages_and_a_key_is_in_one<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    for number in 0..40 {
        let key = format!("key-{}", number % 5);
        fixture.store.enqueue(keyed(&format!("{number:02}"), &key)).await.unwrap();
        fixture.store.enqueue(message(&format!("alone-{number}"))).await.unwrap();
    }
    let shards = fixture.store.identity().await.unwrap().shards;
    let (mut found, mut used) = (Vec::new(), 0);
    let mut shard_of_key = std::collections::BTreeMap::new();
    for shard in 0..shards {
        let pending = fixture.store.read_shards(vec![shard], START, 100).await.unwrap();
        used += u32::from(!pending.is_empty());
        for pending in pending {
            assert_eq!(pending.shard, shard);
            if let Some(key) = pending.message.ordering_key {
                assert_eq!(*shard_of_key.entry(key).or_insert(shard), shard);
            }
            found.push(pending.message.message_id.to_string());
        }
    }
    found.sort();
    let mut all = pending_ids(fixture, START).await;
    all.sort();
    assert_eq!(found, all);
    assert!(used > 4, "{used} of {shards} shards are used");
}

pub(super) async fn a_message_that_failed_holds_its_key<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    for (id, key) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")] {
        fixture.store.enqueue(keyed(id, key)).await.unwrap();
    }
    let later = Outcome::Failed { next_attempt_at: Some(START.plus(MINUTE)) };
    report(fixture, "a2", later).await;
    assert_eq!(pending_ids(fixture, START).await, ["a1", "b1"], "what is before it goes on");
    report(fixture, "a1", Outcome::RetryScheduled { next_attempt_at: START.plus(MINUTE) }).await;
    assert_eq!(pending_ids(fixture, START).await, ["b1"]);
    let then = START.plus(MINUTE);
    assert_eq!(pending_ids(fixture, then).await, ["b1", "a1"], "a2 still waits for a1");
    report(fixture, "a1", Outcome::Succeeded).await;
    assert_eq!(pending_ids(fixture, then).await, ["b1", "a2"]);
    report(fixture, "a2", Outcome::Skipped).await;
    assert_eq!(pending_ids(fixture, START).await, ["a3", "b1"]);
}

pub(super) async fn a_delayed_message_holds_nobody<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    let deliver_at = Some(START.plus(MINUTE));
    fixture.store.enqueue(Message { deliver_at, ..keyed("a1", "a") }).await.unwrap();
    fixture.store.enqueue(keyed("a2", "a")).await.unwrap();
    assert_eq!(pending_ids(fixture, START).await, ["a2"]);
}

pub(super) async fn a_parked_message_is_not_due_and_its_key_does_as_told<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    for (id, key) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
        fixture.store.enqueue(keyed(id, key)).await.unwrap();
    }
    let failed = Outcome::Failed { next_attempt_at: None };
    report(fixture, "b1", failed).await;
    for (id, key) in [("a1", AfterParking::Stop), ("b1", AfterParking::GoOn)] {
        assert_eq!(report(fixture, id, Outcome::Parked { key }).await, Settled::Recorded);
        assert_eq!(report(fixture, id, failed).await, Settled::AlreadySettled);
        assert_eq!(report(fixture, id, Outcome::Started).await, Settled::AlreadySettled);
    }
    let waiting = fixture.store.backlog(START).await.unwrap();
    assert_eq!(waiting.unpublished, 2, "parked messages are not in the backlog");
    assert_eq!(pending_ids(fixture, START).await, ["b2"]);
    assert_eq!(report(fixture, "a1", Outcome::Skipped).await, Settled::Recorded);
    assert_eq!(pending_ids(fixture, START).await, ["a2", "b2"]);
}

pub(super) async fn reports_of_one_message_in_one_call_are_applied_in_order<S>(fixture: &Fixture<S>)
where
    S: Outbox + Dispatch,
{
    for id in ["a", "b"] {
        fixture.store.enqueue(message(id)).await.unwrap();
    }
    let next_attempt_at = Some(START.plus(MINUTE));
    let reports = [
        ("a", Outcome::Started),
        ("b", Outcome::Started),
        ("a", Outcome::Failed { next_attempt_at }),
        ("b", Outcome::Succeeded),
        ("b", Outcome::Started),
        ("c", Outcome::Succeeded),
    ];
    let reports = reports.map(|(id, outcome)| Report {
        reason: Some("the broker was away".to_owned()),
        ..Report::new(MessageId::new(id).unwrap(), START, outcome)
    });
    let settled = fixture.store.apply_reports(reports.to_vec()).await.unwrap();
    let [recorded, late, missing] = [Settled::Recorded, Settled::AlreadySettled, Settled::NotFound];
    assert_eq!(settled, [recorded, recorded, recorded, recorded, late, missing]);
    assert_eq!(pending_ids(fixture, START).await, [""; 0]);
    let pending = fixture.store.read_pending(START.plus(MINUTE), 10).await.unwrap();
    assert_eq!((pending.len(), pending[0].attempt_count), (1, 1));
}

pub(super) async fn the_watermark_stays_behind_what_is_pending<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    fixture.store.enqueue(message("a")).await.unwrap();
    let pending = fixture.store.read_pending(START, 1).await.unwrap();
    let shard = pending[0].shard;
    let then = fixture.later(60 * MINUTE);
    fixture.store.read_shards(vec![shard], then, 1).await.unwrap();
    assert!(fixture.store.watermark(shard, then).await.unwrap() <= START);
    report(fixture, "a", Outcome::Succeeded).await;
    assert_eq!(fixture.store.read_shards(vec![shard], then, 1).await.unwrap(), []);
    let watermark = fixture.store.watermark(shard, then).await.unwrap();
    assert!(watermark > START && watermark <= then, "{watermark}");
}

pub(super) async fn staging_wakes_who_waits<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    let mut wakeups = fixture.store.wakeups();
    wakeups.mark_unchanged();
    fixture.store.enqueue(message("a")).await.unwrap();
    wakeups.changed().await.unwrap();
}
