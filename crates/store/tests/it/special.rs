//! Nodes that are not like the shared one: behind TLS and a login, of an older version, three of
//! them with one killed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::backend::{Endpoint, StoreUrl};
use helenus_model::{Expected, Failure, Kind, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, ClientCertificate, Options, Replication, Session};
use helenus_store::contract::{Append, EventStore, ReadEvents, Resolved};
use helenus_testkit::serial;
use helenus_testkit::services::{CA_FILE, CLIENT_FILES, Instance, Service, Spec};
use scylla::client::session_builder::SessionBuilder;
use secrecy::SecretString;
use tokio::task::JoinSet;

fn order(number: usize) -> StreamId {
    StreamId::new(format!("order-{number}")).unwrap()
}

fn append(stream: StreamId, expected: Expected) -> Append {
    let event = NewEvent::new("e", Payload::json(&serde_json::json!({})));
    Append::new(stream, expected, vec![event])
}

fn endpoint(url: &str) -> Endpoint {
    let StoreUrl::Cassandra(endpoint) = url.parse().unwrap() else { panic!("{url}") };
    endpoint
}

/// The error and everything below it, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn tls_and_a_login_are_asked_for_and_given() {
    let _serial = serial().unwrap();
    let spec = Spec::cassandra().name("tls").heap("512M").quick_compiler();
    let node = Instance::start(spec.with_passwords().with_tls(true)).unwrap();
    let file = |name: &str| node.dir().join(name);
    let own = ClientCertificate {
        certificate_file: file(CLIENT_FILES.0),
        key_file: file(CLIENT_FILES.1),
    };
    let url = format!("cassandra://{}/shop?tls=true", node.endpoint());
    let trusting = format!("{url}&ca_file={}", file(CA_FILE).display());
    let as_user = |url: &str, user: &str, password: &str, own: Option<&ClientCertificate>| {
        let mut endpoint = endpoint(url);
        let password = SecretString::from(password.to_owned());
        endpoint.set_credentials(Some(user.to_owned()), Some(password));
        let options = Options { client_certificate: own.cloned(), ..Options::default() };
        CassandraStore::new(endpoint, options, Ports::system()).unwrap()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let admin = as_user(&trusting, "cassandra", "cassandra", Some(&own));
        until_there_are_roles(&admin).await;
        let appended = admin.append(append(order(1), Expected::NoStream)).await.unwrap();
        assert_eq!(appended.last(), Version::FIRST);

        let missing = ClientCertificate { key_file: file("no.key"), ..own.clone() };
        for (what, store) in [
            ("not trusted", as_user(&url, "cassandra", "cassandra", Some(&own))),
            ("no certificate", as_user(&trusting, "cassandra", "cassandra", None)),
            ("no key", as_user(&trusting, "cassandra", "cassandra", Some(&missing))),
            ("wrong password", as_user(&trusting, "cassandra", "wrong", Some(&own))),
        ] {
            let error = store.append(append(order(1), Expected::Any)).await.unwrap_err();
            assert_eq!((error.code(), error.applied()), ("unavailable", Some(false)), "{what}");
        }
        let trusted = helenus_tls::client_config_as(Some(&file(CA_FILE)), Some(&own)).unwrap();
        let session = SessionBuilder::new()
            .known_node(node.endpoint().to_string())
            .user("cassandra", "cassandra")
            .tls_context(Some(trusted))
            .build()
            .await
            .unwrap();
        let as_user = |user: &str| as_user(&trusting, user, "hush", Some(&own));
        permissions(&session, as_user).await;
        assert_eq!(admin.version(&order(1)).await.unwrap(), Some(Version::FIRST));
    });
}

/// The first superuser is made some time after the node answers.
async fn until_there_are_roles(store: &CassandraStore) {
    for _ in 0..600 {
        match store.version(&order(1)).await {
            Err(error) if error.kind() == Kind::Unavailable => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            found => return assert_eq!(found.unwrap(), None),
        }
    }
    panic!("nobody may log in");
}

/// What users that may not do something are told, with the tables there and without them.
async fn permissions(session: &Session, as_user: impl Fn(&str) -> CassandraStore) {
    for cql in [
        "CREATE ROLE nobody WITH PASSWORD = 'hush' AND LOGIN = true",
        "CREATE ROLE reader WITH PASSWORD = 'hush' AND LOGIN = true",
        "GRANT SELECT ON KEYSPACE shop TO reader",
    ] {
        session.query_unpaged(cql, ()).await.unwrap();
    }
    for (user, permission) in
        [("nobody", "no SELECT permission"), ("reader", "no MODIFY permission")]
    {
        let error = as_user(user).append(append(order(1), Expected::Any)).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("invalid", Some(false)), "{error:?}");
        assert!(told(&error).contains(permission), "{}", told(&error));
        assert!(error.remedy().unwrap().contains("grant"), "{:?}", error.remedy());
    }
    session.query_unpaged("DROP TABLE shop.helenus_settings", ()).await.unwrap();
    let error = as_user("reader").append(append(order(1), Expected::Any)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("invalid", Some(false)), "{error:?}");
    assert!(told(&error).contains("no CREATE permission"), "{}", told(&error));
}

#[test]
fn cassandra_4_1_keeps_every_promise() {
    let _serial = serial().unwrap();
    let spec = Spec::of(Service::Cassandra41).name("older").heap("768M").quick_compiler();
    let node = Instance::start(spec).unwrap();
    let suite = Command::new(std::env::current_exe().unwrap())
        .args(["conformance::cassandra::", "--test-threads=4"])
        .env(crate::cassandra::NODE_VARIABLE, node.endpoint().to_string())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&suite.stdout);
    assert!(suite.status.success(), "{printed}");
    assert!(!printed.contains("running 0 tests"), "{printed}");
}

/// A store of the whole cluster, as a process of its own would have one.
fn of_three(cluster: &Instance) -> CassandraStore {
    let addresses: Vec<String> = cluster.endpoints().iter().map(ToString::to_string).collect();
    let url = format!("cassandra://{}/shop", addresses.join(","));
    let options = Options { replication: Replication::Simple(3), ..Options::default() };
    CassandraStore::new(endpoint(&url), options, Ports::system()).unwrap()
}

#[test]
fn three_nodes_lose_the_one_that_runs_the_rounds() {
    let _serial = serial().unwrap();
    let spec = Spec::cluster3().name("three").quick_compiler();
    let mut cluster = Instance::start(spec).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (one, two) = (of_three(&cluster), of_three(&cluster));
    let address = cluster.endpoint().to_string();
    // The tables first, so that what is traced is appends.
    runtime.block_on(one.append(append(order(0), Expected::NoStream))).unwrap();
    for node in 0..3 {
        cluster.nodetool_node(node, &["settraceprobability", "1"]).unwrap();
    }
    runtime.block_on(async {
        one.append(append(order(1), Expected::NoStream)).await.unwrap();
        for version in 1..20 {
            let store = if version % 2 == 0 { &one } else { &two };
            let head = Version::new(version).unwrap();
            store.append(append(order(1), Expected::Exact(head))).await.unwrap();
        }
    });
    let coordinators = runtime.block_on(async {
        let session = SessionBuilder::new().known_node(&address).build().await.unwrap();
        batch_coordinators(&session, 20).await
    });
    assert_eq!(coordinators.len(), 1, "{coordinators:?}");
    let pinned = coordinators.first().unwrap().to_string();
    for node in 0..3 {
        cluster.nodetool_node(node, &["settraceprobability", "0"]).unwrap();
    }

    let stopping = Arc::new(AtomicBool::new(false));
    let writers = runtime.block_on(async { writers(&[one.clone(), two.clone()], &stopping) });
    runtime.block_on(reaches(&one, 30));
    let index = cluster.endpoints().iter().position(|node| node.host == pinned).unwrap();
    cluster.kill_node(index).unwrap();
    runtime.block_on(async {
        let first = order(1);
        let from = patiently(|| one.version(&first)).await.unwrap().as_i64();
        reaches(&two, from + 40).await;
        stopping.store(true, Ordering::Relaxed);
        check(&one, writers.join_all().await.concat()).await;
    });
}

/// The nodes that coordinated conditional batches, once there are traces of `count` of them.
async fn batch_coordinators(session: &Session, count: usize) -> BTreeSet<IpAddr> {
    loop {
        let query = "SELECT coordinator, request, duration FROM system_traces.sessions";
        let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
        let rows = rows.rows::<(IpAddr, Option<String>, Option<i32>)>().unwrap();
        let batches: Vec<IpAddr> = rows
            .map(Result::unwrap)
            .filter(|(_, request, _)| request.as_deref().is_some_and(|it| it.contains("batch")))
            .map(|(coordinator, ..)| coordinator)
            .collect();
        if batches.len() >= count {
            return batches.into_iter().collect();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

type Outcome = (StreamId, OperationId, Option<(Version, Version)>);

/// Writers of four streams that go on until they are stopped, and what each append came to.
fn writers(stores: &[CassandraStore], stopping: &Arc<AtomicBool>) -> JoinSet<Vec<Outcome>> {
    let mut writers = JoinSet::new();
    for number in 0..8 {
        let (store, stopping) = (stores[number % 2].clone(), Arc::clone(stopping));
        writers.spawn(async move {
            let ports = Ports::system();
            let mut outcomes = Vec::new();
            while !stopping.load(Ordering::Relaxed) {
                let operation = OperationId::generate(&*ports.clock, &*ports.random);
                let stream = order(1 + number % 4);
                let request = Append {
                    operation_id: Some(operation),
                    ..append(stream.clone(), Expected::Any)
                };
                let span = match store.append(request).await {
                    Ok(done) => Some((done.first(), done.last())),
                    Err(error) if error.applied().is_none() => {
                        match patiently(|| store.resolve(&stream, operation)).await {
                            Resolved::Applied { first, last } => Some((first, last)),
                            Resolved::Cancelled => None,
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.applied(), Some(false));
                        None
                    }
                };
                outcomes.push((stream, operation, span));
            }
            outcomes
        });
    }
    writers
}

/// Asks again for as long as the answer is that it may: a node that was killed is still asked for
/// some seconds by its peers.
async fn patiently<T, E, F>(ask: impl Fn() -> F) -> T
where
    E: Failure,
    F: Future<Output = Result<T, E>>,
{
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
}

async fn reaches(store: &CassandraStore, version: i64) {
    let first = order(1);
    while patiently(|| store.version(&first)).await.map_or(0, Version::as_i64) < version {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Each version once, no gap, every applied operation where it was said to be, and nothing else.
async fn check(store: &CassandraStore, outcomes: Vec<Outcome>) {
    for number in 1..=4 {
        let stream = order(number);
        let read = || store.read(ReadEvents::forward(stream.clone())).try_collect();
        let events: Vec<_> = patiently(read).await;
        let stored: BTreeMap<i64, OperationId> =
            events.iter().map(|event| (event.version.as_i64(), event.operation_id)).collect();
        let told = outcomes.iter().filter(|(of, ..)| *of == stream);
        // The first stream began with twenty appends of its own.
        let before = if number == 1 { 20 } else { 0 };
        let mut counted = before;
        for (_, operation, span) in told {
            let owned = stored.values().filter(|owner| *owner == operation).count();
            match span {
                Some((first, last)) => {
                    assert_eq!((first, owned), (last, 1));
                    assert_eq!(stored.get(&first.as_i64()), Some(operation));
                    counted += 1;
                }
                None => assert_eq!(owned, 0),
            }
        }
        assert_eq!(stored.len(), counted, "{stream}");
        assert_eq!(stored.keys().copied().last(), i64::try_from(counted).ok());
    }
}
