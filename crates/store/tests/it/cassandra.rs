//! What only a cluster can show: one session for many first uses, tables made once, a serial
//! consistency that stands, operations whose row has expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::backend::{Endpoint, StoreUrl};
use helenus_model::{Expected, Failure, Kind, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options, SerialConsistency};
use helenus_store::contract::{Append, Appended, EventStore, ReadEvents, Resolved};
use helenus_testkit::services::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinSet;
use uuid::Uuid;

/// A keyspace of one test on the shared node, dropped with it.
pub(crate) struct Keyspace {
    name: String,
    address: String,
}

impl Keyspace {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let address = Registry::new().cassandra().unwrap().to_string();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Keyspace { name: format!("store_{}_{count}", std::process::id()), address }
    }

    fn endpoint(&self) -> Endpoint {
        let url = format!("cassandra://{}/{}", self.address, self.name);
        let StoreUrl::Cassandra(endpoint) = url.parse().unwrap() else { panic!("{url}") };
        endpoint
    }

    pub(crate) fn store(&self, options: Options, ports: Ports) -> CassandraStore {
        CassandraStore::new(self.endpoint(), options, ports).unwrap()
    }

    async fn session(&self) -> Session {
        SessionBuilder::new().known_node(&self.address).build().await.unwrap()
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let (name, address) = (self.name.clone(), self.address.clone());
        // The test's own runtime cannot be waited for in a destructor.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let session = SessionBuilder::new().known_node(address).build().await.unwrap();
                let cql = format!("DROP KEYSPACE IF EXISTS \"{name}\"");
                session.query_unpaged(cql, ()).await.unwrap();
            });
        });
        if dropping.join().is_err() && !std::thread::panicking() {
            panic!("keyspace {} was not dropped", self.name);
        }
    }
}

fn order() -> StreamId {
    StreamId::new("order-1").unwrap()
}

fn append(expected: Expected, operation: Option<OperationId>) -> Append {
    let events = vec![NewEvent::new("e", Payload::json(&serde_json::json!({})))];
    Append { operation_id: operation, ..Append::new(order(), expected, events) }
}

async fn connections(session: &Session) -> usize {
    let rows = session.query_unpaged("SELECT port FROM system_views.clients", ()).await.unwrap();
    rows.into_rows_result().unwrap().rows_num()
}

#[tokio::test(flavor = "multi_thread")]
async fn building_opens_nothing_and_first_uses_share_a_session() {
    let keyspace = Keyspace::new();
    let nowhere: StoreUrl = "cassandra://127.0.0.1:1/shop".parse().unwrap();
    let StoreUrl::Cassandra(nowhere) = nowhere else { panic!("{nowhere}") };
    let unreachable = CassandraStore::new(nowhere, Options::default(), Ports::system()).unwrap();
    let error = unreachable.append(append(Expected::Any, None)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("unavailable", Some(false)), "{error:?}");
    assert_eq!(error.kind(), Kind::Unavailable);

    let store = keyspace.store(Options::default(), Ports::system());
    let mut first_uses = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        first_uses.spawn(async move { store.append(append(Expected::Any, None)).await.unwrap() });
    }
    let appended = first_uses.join_all().await;
    let mut versions: Vec<i64> = appended.iter().map(|done| done.last().as_i64()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<i64>>());
    // Other tests come and go; twenty sessions would have stayed.
    let session = keyspace.session().await;
    let before = connections(&session).await;
    for _ in 0..20 {
        store.append(append(Expected::Any, None)).await.unwrap();
    }
    assert!(before < 400, "{before} connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosts_own_session_is_used() {
    let keyspace = Keyspace::new();
    let session = Arc::new(keyspace.session().await);
    let options = Options {
        keyspace: Some(keyspace.name.clone()),
        events_table: Some("domain_events".to_owned()),
        ..Options::default()
    };
    let store = CassandraStore::with_session(Arc::clone(&session), options, Ports::system());
    store.unwrap().append(append(Expected::NoStream, None)).await.unwrap();
    let query = format!("SELECT count(*) FROM \"{}\".domain_events", keyspace.name);
    let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
    // The event, the head, the operation row.
    assert_eq!(rows.single_row::<(i64,)>().unwrap(), (3,));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_writers_serial_consistency_stands() {
    let keyspace = Keyspace::new();
    let at = |serial_consistency| {
        let options = Options { serial_consistency, ..Options::default() };
        keyspace.store(options, Ports::system())
    };
    at(SerialConsistency::LocalSerial).append(append(Expected::NoStream, None)).await.unwrap();
    let error = at(SerialConsistency::Serial).append(append(Expected::Any, None)).await;
    let error = error.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("invalid", Some(false)), "{error:?}");
    let again = at(SerialConsistency::LocalSerial).append(append(Expected::Any, None)).await;
    assert_eq!(again.unwrap().last().as_i64(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_outlives_its_row_in_its_events() {
    let keyspace = Keyspace::new();
    let window = Duration::from_secs(2);
    let options = Options { operation_window: window, ..Options::default() };
    let store = keyspace.store(options, Ports::system());
    let ports = Ports::system();
    let dated = OperationId::generate(&*ports.clock, &*ports.random);
    let undated = OperationId::from(Uuid::new_v4());
    let first = append(Expected::NoStream, Some(dated));
    let second = append(Expected::Exact(Version::FIRST), Some(undated));
    for request in [&first, &second] {
        store.append(request.clone()).await.unwrap();
    }
    store.append(append(Expected::Any, None)).await.unwrap();
    tokio::time::sleep(2 * window).await;
    for (request, version) in [(first, 1), (second, 2)] {
        let version = Version::new(version).unwrap();
        let again = store.append(request).await.unwrap();
        assert_eq!(again, Appended::AlreadyApplied { first: version, last: version });
    }
    // An append that names no version can no longer be told from a new one.
    let error = store.append(append(Expected::Any, Some(dated))).await.unwrap_err();
    assert_eq!(error.code(), "operation_expired");
    for _ in 0..2 {
        for (operation, version) in [(dated, 1), (undated, 2)] {
            let version = Version::new(version).unwrap();
            let resolved = store.resolve(&order(), operation).await.unwrap();
            assert_eq!(resolved, Resolved::Applied { first: version, last: version });
        }
    }
    let events: Vec<_> = store.read(ReadEvents::forward(order())).try_collect().await.unwrap();
    assert_eq!(events.len(), 3);
}
