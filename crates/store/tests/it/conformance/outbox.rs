//! Promises of staging.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_model::{Failure, Kind, Message};
use helenus_store::contract::{Dispatch, EnqueueError, Enqueued, Outbox};

use super::{Fixture, START, message};

pub(super) async fn a_staged_message_is_pending_with_all_its_fields<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    let pair = |key: &str| BTreeMap::from([(key.to_owned(), "wert ü".to_owned())]);
    let staged = Message {
        ordering_key: Some("order-1".to_owned()),
        correlation_id: Some("request-1".to_owned()),
        tenant_id: Some("tenant-1".to_owned()),
        headers: pair("header"),
        metadata: pair("metadata"),
        ..message("m-1")
    };
    assert_eq!(fixture.store.enqueue(staged.clone()).await.unwrap(), Enqueued::Enqueued);
    let pending = fixture.store.read_pending(START, 10).await.unwrap();
    let [found] = pending.as_slice() else { panic!("{pending:?}") };
    assert_eq!(found.message, staged);
    assert_eq!((found.attempt_count, found.created_at, found.eligible_at), (0, START, START));
}

pub(super) async fn staging_twice_stages_once<S: Outbox + Dispatch>(fixture: &Fixture<S>) {
    for expected in [Enqueued::Enqueued, Enqueued::Duplicate, Enqueued::Duplicate] {
        assert_eq!(fixture.store.enqueue(message("m-1")).await.unwrap(), expected);
    }
    assert_eq!(fixture.store.read_pending(START, 10).await.unwrap().len(), 1);
}

pub(super) async fn other_content_under_a_known_id_is_refused<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    fixture.store.enqueue(message("m-1")).await.unwrap();
    let other = Message { message_type: "order.cancelled".to_owned(), ..message("m-1") };
    let error = fixture.store.enqueue(other).await.unwrap_err();
    assert!(matches!(error, EnqueueError::ContentMismatch { .. }), "{error}");
    assert_eq!((error.kind(), error.applied()), (Kind::Conflict, Some(false)));
    let pending = fixture.store.read_pending(START, 10).await.unwrap();
    assert_eq!(pending[0].message, message("m-1"));
}

pub(super) async fn an_invalid_message_is_refused_and_not_staged<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    let untyped = Message { message_type: String::new(), ..message("m-1") };
    let error = fixture.store.enqueue(untyped).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (Kind::Invalid, Some(false)));
    assert_eq!(fixture.store.read_pending(START, 10).await.unwrap(), []);
}

pub(super) async fn many_writers_of_one_id_stage_it_once<S>(fixture: &Fixture<S>)
where
    S: Outbox + Dispatch + Clone + 'static,
{
    let mut writers = tokio::task::JoinSet::new();
    let barrier = Arc::new(tokio::sync::Barrier::new(32));
    for _ in 0..32 {
        let (store, barrier) = (fixture.store.clone(), Arc::clone(&barrier));
        writers.spawn(async move {
            barrier.wait().await;
            store.enqueue(message("m-1")).await.unwrap()
        });
    }
    let outcomes = writers.join_all().await;
    let first = outcomes.iter().filter(|outcome| **outcome == Enqueued::Enqueued).count();
    assert_eq!(first, 1, "{outcomes:?}");
    assert_eq!(fixture.store.read_pending(START, 10).await.unwrap().len(), 1);
}

pub(super) async fn a_batch_is_staged_message_by_message<S: Outbox + Dispatch>(
    fixture: &Fixture<S>,
) {
    let keyed = |id: &str, key: &str| Message { ordering_key: Some(key.to_owned()), ..message(id) };
    fixture.store.enqueue(message("known")).await.unwrap();
    let other = Message { message_type: "other".to_owned(), ..keyed("known", "k") };
    let batch = vec![keyed("a", "k"), message("known"), other, keyed("b", "k"), keyed("c", "free")];
    let outcomes = fixture.store.enqueue_all(batch).await;
    let [first, known, mismatch, behind, free] = outcomes.as_slice() else {
        panic!("{outcomes:?}")
    };
    assert_eq!(*first.as_ref().unwrap(), Enqueued::Enqueued);
    assert_eq!(*known.as_ref().unwrap(), Enqueued::Duplicate);
    assert!(matches!(mismatch, Err(EnqueueError::ContentMismatch { .. })), "{mismatch:?}");
    let refused = behind.as_ref().unwrap_err();
    assert_eq!((refused.code(), refused.applied()), ("behind", Some(false)));
    assert_eq!(*free.as_ref().unwrap(), Enqueued::Enqueued);
    let pending = fixture.store.read_pending(START, 10).await.unwrap();
    assert_eq!(pending.len(), 3, "{pending:?}");
    assert_eq!(fixture.store.enqueue_all(Vec::new()).await.len(), 0);
}
