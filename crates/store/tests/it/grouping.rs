//! Appends that share a batch: each caller gets its own true outcome, whatever becomes of the
//! others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{Expected, Failure, NewEvent, OperationId, Payload, StreamId};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{Append, AppendError, Appended, EventStore, ReadEvents, Resolved};
use helenus_testkit::gate::{Gate, Kind};
use tokio::task::JoinSet;

use crate::cassandra::Keyspace;
use crate::proxy::{Mode, Proxy};

fn hot() -> StreamId {
    StreamId::new("hot").unwrap()
}

fn request(count: usize) -> Append {
    let ports = Ports::system();
    let operation = OperationId::generate(&*ports.clock, &*ports.random);
    let event = NewEvent::new("e", Payload::json(&serde_json::json!({})));
    let append = Append::new(hot(), Expected::Any, vec![event; count]);
    Append { operation_id: Some(operation), ..append }
}

type Outcomes = Vec<(Append, Result<Appended, AppendError>)>;

/// Sends all of them at once.
async fn together(store: &CassandraStore, requests: Vec<Append>) -> Outcomes {
    let mut writers = JoinSet::new();
    for request in requests {
        let store = store.clone();
        writers.spawn(async move { (request.clone(), store.append(request).await) });
    }
    writers.join_all().await
}

/// The operation of every stored event, by version.
async fn stored(store: &CassandraStore) -> BTreeMap<i64, OperationId> {
    let events = store.read(ReadEvents::forward(hot()));
    let owners = events.map_ok(|event| (event.version.as_i64(), event.operation_id));
    owners.try_collect().await.unwrap()
}

fn owned(owners: &mut BTreeMap<i64, OperationId>, request: &Append, first: i64, last: i64) {
    for version in first..=last {
        let before = owners.insert(version, request.operation_id.unwrap());
        assert_eq!(before, None, "version {version} belongs to two");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_stream_gives_each_its_own_versions() {
    let keyspace = Keyspace::new();
    let (one, two) = (
        keyspace.store(Options::default(), Ports::system()),
        keyspace.store(Options::default(), Ports::system()),
    );
    let requests = |count: usize| (0..count).map(|index| request(index % 3 + 1)).collect();
    let known: Vec<Append> = requests(4);
    let cancelled: Vec<Append> = requests(4);
    let mut owners = BTreeMap::new();
    for request in &known {
        let done = one.append(request.clone()).await.unwrap();
        owned(&mut owners, request, done.first().as_i64(), done.last().as_i64());
    }
    for request in &cancelled {
        one.resolve(&hot(), request.operation_id.unwrap()).await.unwrap();
    }
    // New ones, ones that were applied and ones that were cancelled, from two processes' worth of
    // stores at once.
    let mixed = [requests(60), known.clone(), cancelled.clone()].concat();
    let (of_one, of_two) = tokio::join!(together(&one, mixed), together(&two, requests(40)));
    for (request, outcome) in of_one.into_iter().chain(of_two) {
        let operation = request.operation_id;
        let is_one_of = |some: &[Append]| some.iter().any(|other| other.operation_id == operation);
        match outcome {
            Ok(Appended::Applied { first, last }) => {
                assert!(!is_one_of(&known) && !is_one_of(&cancelled));
                owned(&mut owners, &request, first.as_i64(), last.as_i64());
            }
            Ok(Appended::AlreadyApplied { .. }) => assert!(is_one_of(&known)),
            Err(AppendError::Cancelled { .. }) => assert!(is_one_of(&cancelled)),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(stored(&one).await, owners);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_sent_many_times_at_once_is_applied_once() {
    let keyspace = Keyspace::new();
    let store = keyspace.store(Options::default(), Ports::system());
    let mut owners = BTreeMap::new();
    for _ in 0..5 {
        let (twin, other) = (request(2), request(1));
        let rival = Append { operation_id: other.operation_id, ..request(3) };
        let sent = [request(1), twin.clone(), other, twin.clone(), rival, twin.clone(), twin];
        let (mut mismatches, mut known) = (0, 0);
        for (request, outcome) in together(&store, sent.to_vec()).await {
            match outcome {
                Ok(Appended::Applied { first, last }) => {
                    owned(&mut owners, &request, first.as_i64(), last.as_i64());
                }
                Ok(Appended::AlreadyApplied { .. }) => known += 1,
                Err(AppendError::OperationMismatch { .. }) => mismatches += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!((known, mismatches), (3, 1));
    }
    assert_eq!(stored(&store).await, owners);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_group_is_resolved_for_each() {
    for mode in [Mode::DropAnswers, Mode::DropRequests, Mode::CutAfterRequest] {
        let keyspace = Keyspace::new();
        let proxy = Proxy::start(keyspace.address()).await;
        let options = Options { request_timeout: Duration::from_millis(500), ..Options::default() };
        let store = keyspace.store_through(&proxy, options);
        let begin = request(1);
        store.append(begin.clone()).await.unwrap();
        let mut owners = BTreeMap::new();
        owned(&mut owners, &begin, 1, 1);
        let deadline = Some(Duration::from_millis(2_500));
        let requests = (0..24).map(|index| Append { deadline, ..request(index % 2 + 1) });
        let requests: Vec<Append> = requests.collect();
        let mut losing = JoinSet::new();
        let all = together(&store, requests);
        losing.spawn(async move {
            // Into the middle of it.
            tokio::time::sleep(Duration::from_millis(15)).await;
            proxy.set(mode);
            tokio::time::sleep(Duration::from_millis(3_000)).await;
            proxy.set(Mode::Forward);
            proxy
        });
        let outcomes = all.await;
        let _proxy = losing.join_all().await;
        for (request, outcome) in outcomes {
            let operation = request.operation_id.unwrap();
            let resolved = store.resolve(&hot(), operation).await.unwrap();
            match (&outcome, resolved) {
                (Ok(done), Resolved::Applied { first, last }) => {
                    assert_eq!((done.first(), done.last()), (first, last), "{mode:?}");
                }
                (Err(error), _) if error.applied().is_none() => {}
                (Err(error), Resolved::Cancelled) => assert_eq!(error.applied(), Some(false)),
                other => panic!("{mode:?}: {other:?}"),
            }
            if let Resolved::Applied { first, last } = resolved {
                owned(&mut owners, &request, first.as_i64(), last.as_i64());
            }
        }
        assert_eq!(stored(&store).await, owners, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gives_up_takes_nobody_with_it() {
    let keyspace = Keyspace::new();
    let gate = Gate::start(keyspace.address()).await;
    let store = keyspace.store_at(gate.address(), Options::default());
    let mut owners = BTreeMap::new();
    let begin = request(1);
    store.append(begin.clone()).await.unwrap();
    owned(&mut owners, &begin, 1, 1);
    // Whoever of the group is given up, its leader among them, and whatever becomes of its batch.
    for (given_up, is_cut) in (0..4).flat_map(|index| [(index, false), (index, true)]) {
        let alone = request(1);
        let mut first = gate.stop_next(Kind::Batch);
        let leading = tokio::spawn({
            let (store, alone) = (store.clone(), alone.clone());
            async move { store.append(alone).await }
        });
        let hold = first.sent().await;
        let group: Vec<Append> = (0..4).map(|index| request(index % 2 + 1)).collect();
        let mut waiting: Vec<_> = group
            .iter()
            .map(|request| {
                let (store, request) = (store.clone(), request.clone());
                tokio::spawn(async move { store.append(request).await })
            })
            .collect();
        // Nothing tells that they wait; those that do not yet are a group of their own later.
        tokio::time::sleep(Duration::from_millis(50)).await;
        hold.let_through();
        let answer = first.answered().await;
        let mut second = gate.stop_next(Kind::Batch);
        answer.let_through();
        let done = leading.await.unwrap().unwrap();
        owned(&mut owners, &alone, done.first().as_i64(), done.last().as_i64());
        let hold = second.sent().await;
        waiting.remove(given_up).abort();
        if is_cut {
            drop(hold);
        } else {
            hold.let_through();
            second.answered().await.let_through();
        }
        let mut outcomes = Vec::new();
        for task in waiting {
            outcomes.push(task.await.unwrap().unwrap());
        }
        for (index, request) in group.iter().enumerate() {
            let resolved = store.resolve(&hot(), request.operation_id.unwrap()).await.unwrap();
            let told = (index != given_up)
                .then(|| &outcomes[if index < given_up { index } else { index - 1 }]);
            match (resolved, told) {
                (Resolved::Applied { first, last }, told) => {
                    let span = told.map(|told| (told.first(), told.last()));
                    assert!(span.is_none_or(|span| span == (first, last)));
                    owned(&mut owners, request, first.as_i64(), last.as_i64());
                }
                // The one that was given up may not have been sent.
                (Resolved::Cancelled, told) => assert_eq!(told, None),
            }
        }
        assert_eq!(stored(&store).await, owners, "{given_up} {is_cut}");
    }
}
