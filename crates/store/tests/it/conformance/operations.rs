//! Promises about operations: applied once, settled for good, told apart under contention.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_model::{Clock, Expected, Failure, Kind, OperationId, SeededRandom};
use helenus_store::contract::{Append, AppendError, Appended, EventStore, Resolved};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Fixture;
use super::events::{all, append, applied, event, stream_id, version};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// An operation id that says when it was made. Its seed is none that a store is given.
pub(super) fn dated<S>(fixture: &Fixture<S>, seed: u64) -> OperationId {
    OperationId::generate(&*fixture.clock, &SeededRandom::new(1_000_000 + seed))
}

pub(super) fn with(operation_id: OperationId, append: Append) -> Append {
    Append { operation_id: Some(operation_id), ..append }
}

pub(super) fn already(first: i64, last: i64) -> Appended {
    Appended::AlreadyApplied { first: version(first), last: version(last) }
}

pub(super) async fn the_same_operation_again_is_applied_once<S: EventStore>(fixture: &Fixture<S>) {
    let store = &fixture.store;
    for (seed, expected) in
        [Expected::NoStream, Expected::Exact(version(2)), Expected::Any].into_iter().enumerate()
    {
        let operation = dated(fixture, seed as u64);
        let request = || with(operation, append("s", expected, 2));
        let first = 2 * i64::try_from(seed).unwrap() + 1;
        assert_eq!(store.append(request()).await.unwrap(), applied(first, first + 1));
        assert_eq!(store.append(request()).await.unwrap(), already(first, first + 1));
    }
    // However much has been appended since, and whatever it expects by now.
    let operation = dated(fixture, 1);
    for expected in [Expected::Exact(version(2)), Expected::Any, Expected::Exists] {
        let again = with(operation, append("s", expected, 2));
        assert_eq!(store.append(again).await.unwrap(), already(3, 4));
    }
    assert_eq!(all(store, "s").await.len(), 6);
}

pub(super) async fn an_operation_is_known_by_its_stream<S: EventStore>(fixture: &Fixture<S>) {
    let operation = dated(fixture, 1);
    for stream in ["a", "b"] {
        let request = with(operation, append(stream, Expected::NoStream, 1));
        assert_eq!(fixture.store.append(request).await.unwrap(), applied(1, 1));
    }
}

pub(super) async fn other_content_under_a_known_operation_is_refused<S: EventStore>(
    fixture: &Fixture<S>,
) {
    let operation = dated(fixture, 1);
    fixture.store.append(with(operation, append("s", Expected::NoStream, 2))).await.unwrap();
    for (expected, count) in [(Expected::NoStream, 1), (Expected::Any, 3)] {
        let other = with(operation, append("s", expected, count));
        let error = fixture.store.append(other).await.unwrap_err();
        assert!(matches!(error, AppendError::OperationMismatch { .. }), "{error}");
        assert_eq!((error.code(), error.applied()), ("operation_mismatch", Some(false)));
    }
    assert_eq!(all(&fixture.store, "s").await.len(), 2);
}

pub(super) async fn a_cancelled_operation_never_applies<S: EventStore>(fixture: &Fixture<S>) {
    let (store, stream) = (&fixture.store, stream_id("s"));
    let operation = dated(fixture, 1);
    for _ in 0..2 {
        assert_eq!(store.resolve(&stream, operation).await.unwrap(), Resolved::Cancelled);
    }
    for expected in [Expected::NoStream, Expected::Any] {
        let error = store.append(with(operation, append("s", expected, 1))).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("cancelled", Some(false)), "{error}");
    }
    assert_eq!(store.version(&stream).await.unwrap(), None);
    store.append(append("s", Expected::NoStream, 1)).await.unwrap();
    assert_eq!(store.resolve(&stream, operation).await.unwrap(), Resolved::Cancelled);
}

pub(super) async fn an_applied_operation_resolves_to_its_versions<S: EventStore>(
    fixture: &Fixture<S>,
) {
    let (store, stream) = (&fixture.store, stream_id("s"));
    let operations = [dated(fixture, 1), dated(fixture, 2), OperationId::from(Uuid::from_u128(3))];
    for operation in operations {
        store.append(with(operation, append("s", Expected::Any, 3))).await.unwrap();
    }
    for _ in 0..2 {
        for (index, operation) in (0..).zip(operations) {
            let (first, last) = (version(3 * index + 1), version(3 * index + 3));
            let resolved = store.resolve(&stream, operation).await.unwrap();
            assert_eq!(resolved, Resolved::Applied { first, last });
        }
    }
}

pub(super) async fn an_old_operation_is_settled_or_refused<S: EventStore>(fixture: &Fixture<S>) {
    let store = &fixture.store;
    let (sent, never_sent) = (dated(fixture, 1), dated(fixture, 2));
    let request = || with(sent, append("s", Expected::NoStream, 2));
    store.append(request()).await.unwrap();
    fixture.later(13 * HOUR);
    assert_eq!(store.append(request()).await.unwrap(), already(1, 2));
    let other = with(sent, append("s", Expected::NoStream, 1));
    let error = store.append(other).await.unwrap_err();
    assert_eq!(error.code(), "operation_mismatch");
    for expected in [Expected::Any, Expected::Exact(version(2))] {
        let late = with(never_sent, append("s", expected, 1));
        let error = store.append(late).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("operation_expired", Some(false)));
    }
    assert_eq!(all(store, "s").await.len(), 2);
}

pub(super) async fn an_undated_operation_is_recognised_by_its_events<S: EventStore>(
    fixture: &Fixture<S>,
) {
    let operation = OperationId::from(Uuid::from_u128(5));
    let request = || with(operation, append("s", Expected::NoStream, 2));
    assert_eq!(fixture.store.append(request()).await.unwrap(), applied(1, 2));
    fixture.later(48 * HOUR);
    assert_eq!(fixture.store.append(request()).await.unwrap(), already(1, 2));
}

pub(super) async fn a_deadline_that_ends_first_leaves_an_outcome_to_resolve<S: EventStore>(
    fixture: &Fixture<S>,
) {
    // Opens whatever is opened on first use.
    fixture.store.append(append("other", Expected::NoStream, 1)).await.unwrap();
    let operation = dated(fixture, 1);
    let deadline = Some(Duration::ZERO);
    let hurried = Append { deadline, ..with(operation, append("s", Expected::NoStream, 1)) };
    let stored = match fixture.store.append(hurried).await {
        // It was faster than the clock.
        Ok(_) => 1,
        Err(error) if error.kind() == Kind::OutcomeUnknown => {
            assert_eq!((error.code(), error.applied()), ("unknown", None));
            match fixture.store.resolve(&stream_id("s"), operation).await.unwrap() {
                Resolved::Applied { .. } => 1,
                Resolved::Cancelled => 0,
            }
        }
        Err(error) => {
            assert_eq!((error.kind(), error.applied()), (Kind::Timeout, Some(false)));
            0
        }
    };
    assert_eq!(all(&fixture.store, "s").await.len(), stored);
}

pub(super) async fn writers_of_few_streams_get_each_version_once<S>(fixture: &Fixture<S>)
where
    S: EventStore + Clone + 'static,
{
    const WRITERS: u64 = 32;
    const STREAMS: u64 = 3;
    const APPENDS: u64 = 6;
    let mut writers = JoinSet::new();
    let barrier = Arc::new(Barrier::new(usize::try_from(WRITERS).unwrap()));
    for writer in 0..WRITERS {
        let (store, barrier) = (fixture.store.clone(), Arc::clone(&barrier));
        let clock = Arc::clone(&fixture.clock);
        writers.spawn(async move {
            barrier.wait().await;
            let mut done = Vec::new();
            for turn in 0..APPENDS {
                let stream = format!("s{}", (writer + turn) % STREAMS);
                let seed = 1_000_000 + writer * 1_000 + turn;
                let operation = OperationId::generate(&*clock, &SeededRandom::new(seed));
                let head = store.version(&stream_id(&stream)).await.unwrap();
                let expected = match head {
                    _ if writer % 2 == 0 => Expected::Any,
                    Some(head) => Expected::Exact(head),
                    None => Expected::NoStream,
                };
                let count = usize::try_from(turn % 3 + 1).unwrap();
                let outcome = store.append(with(operation, append(&stream, expected, count))).await;
                done.push((stream, operation, outcome));
            }
            done
        });
    }
    let outcomes: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    let mut owners: BTreeMap<(String, i64), OperationId> = BTreeMap::new();
    for (stream, operation, outcome) in outcomes {
        match outcome {
            Ok(appended) => {
                for version in appended.first().as_i64()..=appended.last().as_i64() {
                    let twice = owners.insert((stream.clone(), version), operation);
                    assert_eq!(twice, None, "{stream} {version}");
                }
            }
            Err(AppendError::Conflict { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    let mut stored = BTreeMap::new();
    for stream in (0..STREAMS).map(|number| format!("s{number}")) {
        for event in all(&fixture.store, &stream).await {
            stored.insert((stream.clone(), event.version.as_i64()), event.operation_id);
        }
    }
    assert!(owners.len() >= 30, "{}", owners.len());
    assert_eq!(stored, owners);
}

pub(super) async fn append_and_cancel_agree_who_won<S>(fixture: &Fixture<S>)
where
    S: EventStore + Clone + 'static,
{
    for round in 0..20 {
        let operation = dated(fixture, round);
        let stream = format!("s{round}");
        let request = with(
            operation,
            Append::new(stream_id(&stream), Expected::NoStream, vec![event("raced")]),
        );
        let id = stream_id(&stream);
        let (appended, resolved) = if round % 2 == 0 {
            tokio::join!(fixture.store.append(request), fixture.store.resolve(&id, operation))
        } else {
            let resolve = fixture.store.resolve(&id, operation);
            let (resolved, appended) = tokio::join!(resolve, fixture.store.append(request));
            (appended, resolved)
        };
        let stored = all(&fixture.store, &stream).await.len();
        match (appended, resolved.unwrap()) {
            (Ok(appended), Resolved::Applied { first, last }) => {
                assert_eq!((appended.first(), appended.last()), (first, last));
                assert_eq!(stored, 1);
            }
            (Err(AppendError::Cancelled { .. }), Resolved::Cancelled) => assert_eq!(stored, 0),
            other => panic!("round {round} at {}: {other:?}", fixture.clock.now()),
        }
        assert_eq!(fixture.store.version(&id).await.unwrap().is_some(), stored == 1);
    }
}
