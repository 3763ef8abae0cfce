//! Promises of looking after an outbox.

use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{Failure, Message, MessageId};
use helenus_store::contract::{
    Acquired, AfterParking, Dispatch, Inbox, Leases, MessageState, Outbox, Outcome, Reconciled,
    Report, Sweep, Swept, Upkeep,
};
use helenus_store::lanes::lease_name;
use helenus_store::tending::keep_reconciled;

use super::inbox::received;
use super::{Fixture, START, message};

const HOUR: Duration = Duration::from_secs(3600);

async fn report<S: Dispatch>(fixture: &Fixture<S>, id: &str, outcome: Outcome) {
    let report = Report {
        reason: Some("the topic is gone".to_owned()),
        ..Report::new(MessageId::new(id).unwrap(), START, outcome)
    };
    fixture.store.apply_reports(vec![report]).await.unwrap();
}

async fn listed<S: Upkeep>(fixture: &Fixture<S>, state: MessageState) -> Vec<String> {
    let messages: Vec<_> = fixture.store.messages(state).try_collect().await.unwrap();
    let mut ids: Vec<String> =
        messages.into_iter().map(|message| message.message_id.to_string()).collect();
    ids.sort();
    ids
}

pub(super) async fn messages_are_listed_by_their_state<S>(fixture: &Fixture<S>)
where
    S: Outbox + Dispatch + Upkeep,
{
    for id in ["a", "b", "c", "d"] {
        fixture.store.enqueue(message(id)).await.unwrap();
    }
    report(fixture, "b", Outcome::Parked { key: AfterParking::GoOn }).await;
    report(fixture, "c", Outcome::Succeeded).await;
    report(fixture, "d", Outcome::Skipped).await;
    assert_eq!(listed(fixture, MessageState::Pending).await, ["a"]);
    assert_eq!(listed(fixture, MessageState::Dispatched).await, ["c", "d"]);
    assert_eq!(listed(fixture, MessageState::Cancelled).await, [""; 0]);
    let parked: Vec<_> = fixture.store.messages(MessageState::Parked).try_collect().await.unwrap();
    let [parked] = parked.as_slice() else { panic!("{parked:?}") };
    assert_eq!((parked.state.as_str(), parked.message_id.as_str()), ("parked", "b"));
    assert_eq!(parked.last_error.as_deref(), Some("the topic is gone"));
    assert_eq!(parked.payload, Some(message("b").payload));
    assert_eq!((parked.created_at, parked.next_attempt_at), (START, Some(START)));
}

pub(super) async fn a_sweep_removes_what_is_done_and_old<S>(fixture: &Fixture<S>)
where
    S: Outbox + Dispatch + Inbox + Upkeep,
{
    for id in ["done", "pending", "parked"] {
        fixture.store.enqueue(message(id)).await.unwrap();
    }
    report(fixture, "done", Outcome::Succeeded).await;
    report(fixture, "parked", Outcome::Parked { key: AfterParking::Stop }).await;
    fixture.store.mark_processed(received("done")).await.unwrap();
    let now = fixture.later(2 * HOUR);
    let sweep = |before, dry_run| Sweep {
        done_before: before,
        processed_before: before,
        limit: 100,
        dry_run,
    };
    let none = fixture.store.sweep(sweep(START, false)).await.unwrap();
    assert_eq!(none, Swept::default(), "nothing is old enough");
    let expected = fixture.store.sweep(sweep(now.minus(HOUR), true)).await.unwrap();
    assert_eq!((expected.messages, listed(fixture, MessageState::Dispatched).await.len()), (1, 1));
    let swept = fixture.store.sweep(sweep(now.minus(HOUR), false)).await.unwrap();
    assert_eq!(swept, expected);
    assert_eq!(listed(fixture, MessageState::Dispatched).await, [""; 0]);
    assert_eq!(listed(fixture, MessageState::Pending).await, ["pending"]);
    assert_eq!(listed(fixture, MessageState::Parked).await, ["parked"]);
}

pub(super) async fn another_number_of_shards_loses_nothing<S>(fixture: &Fixture<S>)
where
    S: Outbox + Dispatch + Upkeep,
{
    let keyed = |number: u32| Message {
        ordering_key: Some(format!("key-{}", number % 7)),
        ..message(&format!("{number:02}"))
    };
    for number in 0..30 {
        fixture.store.enqueue(keyed(number)).await.unwrap();
    }
    let held = Outcome::Failed { next_attempt_at: Some(START.plus(HOUR)) };
    report(fixture, "00", held).await;
    let due = || async { fixture.store.read_pending(START, 100).await.unwrap() };
    let ids = |pending: &[helenus_store::contract::Pending]| {
        let mut ids: Vec<_> =
            pending.iter().map(|pending| pending.message.message_id.to_string()).collect();
        ids.sort();
        ids
    };
    let before = due().await;
    assert_eq!(before.len(), 25, "a held key leaves out four messages behind it");
    let moved = fixture.store.reshard(5).await.unwrap();
    assert!(moved > 0);
    assert_eq!(fixture.store.identity().await.unwrap().shards, 5);
    let after = due().await;
    assert_eq!(ids(&after), ids(&before));
    assert!(after.iter().all(|pending| pending.shard < 5));
    assert_eq!(fixture.store.reshard(5).await.unwrap(), 0, "the same again moves nothing");
}

pub(super) async fn shards_do_not_change_while_a_relay_holds_a_lane<S>(fixture: &Fixture<S>)
where
    S: Dispatch + Leases + Upkeep,
{
    let before = fixture.store.identity().await.unwrap();
    let lane = lease_name(3);
    let taken = fixture.store.acquire(&lane, "relay-1", HOUR).await.unwrap();
    let Acquired::Held(lease) = taken else { panic!("{taken:?}") };
    let error = fixture.store.reshard(5).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("relays_run", Some(false)), "{error}");
    assert_eq!(fixture.store.identity().await.unwrap(), before);
    assert_eq!(fixture.store.holder(&lane).await.unwrap().unwrap().owner, "relay-1");
    fixture.store.release(&lease).await.unwrap();
    fixture.store.reshard(5).await.unwrap();
    assert_eq!(fixture.store.identity().await.unwrap().shards, 5);
    for lane in 0..before.shards {
        assert_eq!(fixture.store.holder(&lease_name(lane)).await.unwrap(), None, "lane {lane}");
    }
}

pub(super) async fn a_store_is_reconciled_again_and_again<S: Upkeep>(fixture: &Fixture<S>) {
    let (told, mut rounds) = tokio::sync::mpsc::unbounded_channel();
    let keeping = keep_reconciled(&fixture.store, Duration::from_millis(1), |round| {
        told.send(round).unwrap();
    });
    let listening = async {
        for _ in 0..2 {
            assert_eq!(rounds.recv().await.unwrap().unwrap(), Reconciled::default());
        }
    };
    tokio::select! {
        () = keeping => panic!("it goes on until it is dropped"),
        () = listening => {}
    }
}

pub(super) async fn nothing_is_left_to_reconcile_after_staging<S>(fixture: &Fixture<S>)
where
    S: Outbox + Upkeep,
{
    fixture.store.enqueue(message("a")).await.unwrap();
    assert_eq!(fixture.store.reconcile(true).await.unwrap(), Reconciled::default());
    assert_eq!(fixture.store.reconcile(false).await.unwrap(), Reconciled::default());
    assert_eq!(fixture.store.scan(false).await.unwrap(), Reconciled::default());
    assert_eq!(fixture.store.extend_ttl(HOUR).await.unwrap(), 0);
}
