//! Appends that share a batch: each caller gets its own true outcome, whatever becomes of the
//! others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{Expected, Failure, NewEvent, OperationId, Payload, StreamId};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{Append, AppendError, Appended, EventStore, ReadEvents, Resolved};
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
