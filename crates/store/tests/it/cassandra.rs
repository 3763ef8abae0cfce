//! What only a cluster can show: one session for many first uses, answers that get lost, a serial
//! consistency that stands, operations whose row has expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::backend::{Endpoint, StoreUrl};
use helenus_model::{Expected, Failure, Kind, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::cassandra::{
    CassandraStore, Consistency, Options, Replication, SerialConsistency,
};
use helenus_store::contract::{Append, Appended, EventStore, ReadEvents, Resolved};
use helenus_store::{Bounds, Ports};
use helenus_testkit::services::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::proxy::{Mode, Proxy};

/// Names another node to run on than the shared one.
pub(crate) const NODE_VARIABLE: &str = "HELENUS_TEST_CASSANDRA";

/// A keyspace of one test on the shared node, dropped with it.
pub(crate) struct Keyspace {
    name: String,
    address: String,
}

impl Keyspace {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let address = std::env::var(NODE_VARIABLE)
            .unwrap_or_else(|_| Registry::new().cassandra().unwrap().to_string());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Keyspace { name: format!("store_{}_{count}", std::process::id()), address }
    }

    fn endpoint(&self, address: &str) -> Endpoint {
        let url = format!("cassandra://{address}/{}", self.name);
        let StoreUrl::Cassandra(endpoint) = url.parse().unwrap() else { panic!("{url}") };
        endpoint
    }

    pub(crate) fn store(&self, options: Options, ports: Ports) -> CassandraStore {
        CassandraStore::new(self.endpoint(&self.address), options, ports).unwrap()
    }

    pub(crate) fn store_through(&self, proxy: &Proxy, options: Options) -> CassandraStore {
        self.store_at(proxy.address(), options)
    }

    pub(crate) fn store_at(&self, address: &str, options: Options) -> CassandraStore {
        CassandraStore::new(self.endpoint(address), options, Ports::system()).unwrap()
    }

    /// A column of a table, sorted.
    pub(crate) async fn column(&self, table: &str, column: &str) -> Vec<i64> {
        let query = format!("SELECT {column} FROM \"{}\".{table}", self.name);
        let rows = self.session().await.query_unpaged(query, ()).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let mut values: Vec<i64> =
            rows.rows::<(i64,)>().unwrap().map(|row| row.unwrap().0).collect();
        values.sort_unstable();
        values
    }

    pub(crate) fn store_with(
        &self,
        address: &str,
        options: Options,
        ports: Ports,
    ) -> CassandraStore {
        CassandraStore::new(self.endpoint(address), options, ports).unwrap()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn session(&self) -> Session {
        SessionBuilder::new().known_node(&self.address).build().await.unwrap()
    }
}

impl Keyspace {
    /// The node the keyspace is on.
    pub(crate) fn address(&self) -> &str {
        &self.address
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

fn fresh() -> OperationId {
    let ports = Ports::system();
    OperationId::generate(&*ports.clock, &*ports.random)
}

fn append(expected: Expected, operation: Option<OperationId>) -> Append {
    let events = vec![NewEvent::new("e", Payload::json(&serde_json::json!({})))];
    Append { operation_id: operation, ..Append::new(order(), expected, events) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_there_is_unavailable_and_nothing_was_applied() {
    let nowhere: StoreUrl = "cassandra://127.0.0.1:1/shop".parse().unwrap();
    let StoreUrl::Cassandra(nowhere) = nowhere else { panic!("{nowhere}") };
    let unreachable = CassandraStore::new(nowhere, Options::default(), Ports::system()).unwrap();
    let error = unreachable.append(append(Expected::Any, None)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("unavailable", Some(false)), "{error:?}");
    assert_eq!(error.kind(), Kind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn building_opens_nothing_and_first_uses_share_a_session() {
    let keyspace = Keyspace::new();
    let proxy = Proxy::start(&keyspace.address).await;
    let store = keyspace.store_through(&proxy, Options::default());
    assert_eq!(proxy.connections(), 0);
    let mut first_uses = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        first_uses.spawn(async move { store.append(append(Expected::Any, None)).await.unwrap() });
    }
    let appended = first_uses.join_all().await;
    let mut versions: Vec<i64> = appended.iter().map(|done| done.last().as_i64()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<i64>>());
    // One for the driver's own questions and one for ours; twenty sessions would make forty.
    assert!((1..=4).contains(&proxy.connections()), "{}", proxy.connections());
}

/// Appends while answers are lost as `mode` loses them, then resolves twice.
async fn lose_an_answer(store: &CassandraStore, proxy: &Proxy, mode: Mode) -> (Append, Resolved) {
    store.append(append(Expected::NoStream, None)).await.unwrap();
    let operation = fresh();
    let deadline = Some(Duration::from_millis(1_500));
    let expected = Expected::Exact(Version::FIRST);
    let request = Append { deadline, ..append(expected, Some(operation)) };
    proxy.set(mode);
    let error = store.append(request.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("unknown", None), "{error:?}");
    proxy.set(Mode::Forward);
    let resolved = store.resolve(&order(), operation).await.unwrap();
    assert_eq!(store.resolve(&order(), operation).await.unwrap(), resolved);
    (request, resolved)
}

fn impatient() -> Options {
    Options { request_timeout: Duration::from_millis(500), ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_after_the_write_resolves_as_applied() {
    let keyspace = Keyspace::new();
    let proxy = Proxy::start(&keyspace.address).await;
    let store = keyspace.store_through(&proxy, impatient());
    let (request, resolved) = lose_an_answer(&store, &proxy, Mode::DropAnswers).await;
    let second = Version::FIRST.next();
    assert_eq!(resolved, Resolved::Applied { first: second, last: second });
    let again = store.append(request).await.unwrap();
    assert_eq!(again, Appended::AlreadyApplied { first: second, last: second });
    assert_eq!(store.version(&order()).await.unwrap(), Some(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_lost_before_the_write_resolves_as_cancelled() {
    let keyspace = Keyspace::new();
    let proxy = Proxy::start(&keyspace.address).await;
    let store = keyspace.store_through(&proxy, impatient());
    let (request, resolved) = lose_an_answer(&store, &proxy, Mode::DropRequests).await;
    assert_eq!(resolved, Resolved::Cancelled);
    let error = store.append(request.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("cancelled", Some(false)));
    assert_eq!(store.version(&order()).await.unwrap(), Some(Version::FIRST));
    let renewed = Append { operation_id: Some(fresh()), ..request };
    assert_eq!(store.append(renewed).await.unwrap().last(), Version::FIRST.next());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_cut_off_is_settled_within_the_deadline() {
    let keyspace = Keyspace::new();
    let proxy = Proxy::start(&keyspace.address).await;
    let store = keyspace.store_through(&proxy, impatient());
    store.append(append(Expected::NoStream, None)).await.unwrap();
    for round in 1..=5 {
        let head = Version::new(round).unwrap();
        proxy.set(Mode::CutAfterRequest);
        let appended = store.append(append(Expected::Exact(head), None)).await.unwrap();
        assert_eq!((appended.first(), appended.last()), (head.next(), head.next()));
    }
    let events: Vec<_> = store.read(ReadEvents::forward(order())).try_collect().await.unwrap();
    assert_eq!(events.len(), 6);
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
    let window = Duration::from_secs(4);
    let bounds = Bounds { operation_window: window, ..Bounds::default() };
    let options = Options { bounds, ..Options::default() };
    let store = keyspace.store(options, Ports::system());
    // The tables first: ids age while a busy node makes them.
    store.version(&order()).await.unwrap();
    let dated = fresh();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_is_made_and_used_as_configured() {
    let keyspace = Keyspace::new();
    let copies = std::collections::BTreeMap::from([("datacenter1".to_owned(), 1)]);
    let options = Options {
        prefix: "shop_".to_owned(),
        events_table: Some("domain_events".to_owned()),
        replication: Replication::PerDataCentre(copies),
        consistency: Consistency::LocalQuorum,
        serial_consistency: SerialConsistency::LocalSerial,
        local_dc: Some("datacenter1".to_owned()),
        bounds: Bounds { append_bytes_max: 2_000, ..Bounds::default() },
        ..Options::default()
    };
    let store = keyspace.store(options, Ports::system());
    store.append(append(Expected::NoStream, None)).await.unwrap();
    let payload = Payload { content_type: "text/plain".to_owned(), bytes: vec![b'x'; 2_000] };
    let large = Append::new(order(), Expected::Any, vec![NewEvent::new("e", payload)]);
    assert_eq!(store.append(large).await.unwrap_err().code(), "too_large");

    let session = keyspace.session().await;
    let ask = async |query: String| {
        session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap()
    };
    let name = &keyspace.name;
    let made = ask(format!(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{name}'"
    ))
    .await;
    let (made,) = made.single_row::<(std::collections::BTreeMap<String, String>,)>().unwrap();
    assert!(made["class"].ends_with("NetworkTopologyStrategy"), "{made:?}");
    assert_eq!(made.get("datacenter1").map(String::as_str), Some("1"));
    assert_eq!(ask(format!("SELECT * FROM \"{name}\".domain_events")).await.rows_num(), 3);
    let recorded = ask(format!(
        "SELECT value FROM \"{name}\".shop_settings WHERE name = 'serial_consistency'"
    ))
    .await;
    assert_eq!(recorded.single_row::<(String,)>().unwrap().0, "LOCAL_SERIAL");
}
