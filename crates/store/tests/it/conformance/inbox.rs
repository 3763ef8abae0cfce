//! Promises of the consumer's memory.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{ChannelId, Failure, Fingerprint, MessageId};
use helenus_store::contract::{Begun, Inbox, Receipt, Received, Work};
use helenus_store::once::once;

use super::{Fixture, START};

pub(super) fn received(id: &str) -> Received {
    Received {
        message_id: MessageId::new(id).unwrap(),
        channel_id: ChannelId::new("orders").unwrap(),
        message_type: "order.placed".to_owned(),
        correlation_id: Some("request-1".to_owned()),
        tenant_id: None,
        received_at: START,
    }
}

pub(super) async fn a_message_is_marked_once<S: Inbox>(fixture: &Fixture<S>) {
    assert_eq!(fixture.store.mark_processed(received("a")).await.unwrap(), Receipt::First);
    assert_eq!(fixture.store.mark_processed(received("a")).await.unwrap(), Receipt::Repeated);
    assert_eq!(fixture.store.mark_processed(received("b")).await.unwrap(), Receipt::First);
}

pub(super) async fn a_receipt_has_all_its_fields<S: Inbox>(fixture: &Fixture<S>) {
    let id = MessageId::new("a").unwrap();
    assert_eq!(fixture.store.receipt(&id).await.unwrap(), None);
    fixture.store.mark_processed(received("a")).await.unwrap();
    assert_eq!(fixture.store.receipt(&id).await.unwrap(), Some(received("a")));
}

const LEASE: Duration = Duration::from_secs(30);

async fn begin<S: Inbox>(fixture: &Fixture<S>, owner: &str) -> Begun {
    fixture.store.begin(received("a"), None, owner, LEASE).await.unwrap()
}

fn work(begun: Begun) -> Work {
    let Begun::Yours(work) = begun else { panic!("{begun:?}") };
    work
}

pub(super) async fn a_message_is_worked_on_by_one_at_a_time<S: Inbox>(fixture: &Fixture<S>) {
    let first = work(begin(fixture, "one").await);
    assert_eq!(begin(fixture, "two").await, Begun::Busy { until: START.plus(LEASE) });
    fixture.later(LEASE / 2);
    assert!(fixture.store.keep(&first, LEASE).await.unwrap());
    fixture.later(LEASE / 2);
    assert!(matches!(begin(fixture, "two").await, Begun::Busy { .. }), "it was renewed");
    let id = MessageId::new("a").unwrap();
    assert_eq!(fixture.store.receipt(&id).await.unwrap(), None, "not processed yet");
    fixture.later(LEASE);
    let second = work(begin(fixture, "two").await);
    assert!(second.epoch > first.epoch, "{second:?} after {first:?}");
    assert!(!fixture.store.keep(&first, LEASE).await.unwrap(), "it has passed on");
    assert!(!fixture.store.finish(&first, b"late".to_vec()).await.unwrap());
    assert!(fixture.store.finish(&second, b"done".to_vec()).await.unwrap());
    let processed = Begun::Processed { result: b"done".to_vec() };
    assert_eq!(begin(fixture, "three").await, processed);
    assert_eq!(fixture.store.receipt(&id).await.unwrap(), Some(received("a")));
    assert_eq!(fixture.store.mark_processed(received("a")).await.unwrap(), Receipt::Repeated);
}

pub(super) async fn a_message_that_is_given_up_is_free_at_once<S: Inbox>(fixture: &Fixture<S>) {
    let first = work(begin(fixture, "one").await);
    fixture.store.give_up(&first).await.unwrap();
    let second = work(begin(fixture, "two").await);
    assert!(second.epoch > first.epoch);
    fixture.store.give_up(&first).await.unwrap();
    assert!(matches!(begin(fixture, "three").await, Begun::Busy { .. }));
}

pub(super) async fn a_duplicate_gets_the_first_answer<S: Inbox>(fixture: &Fixture<S>) {
    let ports = fixture.ports();
    let hash = |text: &str| Some(Fingerprint::new().text(text).hash());
    let runs = AtomicU32::new(0);
    let handle = |fails: bool, result: &'static str| {
        let runs = &runs;
        move |_: Work| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let failed = std::io::Error::other("the bank is closed");
            if fails { Err(failed) } else { Ok(result.as_bytes().to_vec()) }
        }
    };
    let failing = handle(true, "");
    let failed = once(&fixture.store, &ports, received("a"), hash("x"), LEASE, failing).await;
    assert_eq!(failed.unwrap_err().code(), "handler_failed");
    for (repeated, answer) in [(false, "first"), (true, "second")] {
        let handler = handle(false, answer);
        let done = once(&fixture.store, &ports, received("a"), hash("x"), LEASE, handler).await;
        let done = done.unwrap();
        assert_eq!((done.result.as_slice(), done.repeated), (&b"first"[..], repeated));
    }
    let other = handle(false, "other");
    let other = once(&fixture.store, &ports, received("a"), hash("y"), LEASE, other).await;
    let error = other.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("content_mismatch", Some(false)));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

pub(super) async fn every_message_of_the_inbox_is_listed<S: Inbox>(fixture: &Fixture<S>) {
    let first = work(begin(fixture, "one").await);
    fixture.store.mark_processed(received("b")).await.unwrap();
    let mut entries: Vec<_> = fixture.store.entries().try_collect().await.unwrap();
    entries.sort_by_key(|entry| entry.received.message_id.clone());
    let [begun, marked] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((begun.received.clone(), begun.epoch), (received("a"), first.epoch));
    assert_eq!((begun.processed_at, begun.lease_until), (None, Some(START.plus(LEASE))));
    assert_eq!((marked.received.clone(), marked.processed_at), (received("b"), Some(START)));
    let looked = fixture.store.look(&received("a").message_id).await.unwrap();
    assert_eq!(looked.as_ref(), Some(begun));
}
