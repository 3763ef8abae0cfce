//! `helenus capture` beside a real node, into Kafka: agent and node are killed, nothing is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use helenus::backend::BrokerUrl;
use helenus::broker::{Broker as _, Offset, Position};
use helenus::{Broker, BrokerOptions, Random, SeededRandom, SystemRandom};
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Registry, Spec};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use serde_json::Value;

use super::{helenus, run};

const TOPIC: &str = "shop.orders";

pub(crate) fn start(folder: &Path) -> Child {
    let mut command = helenus(folder, &["capture", "run"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

async fn connect(node: &Instance) -> Session {
    SessionBuilder::new().known_node(node.endpoint().to_string()).build().await.unwrap()
}

async fn insert(session: &Session, ids: std::ops::Range<i32>) {
    for id in ids {
        let statement = "INSERT INTO shop.orders (id, total, tags) VALUES (?, 12.50, {'a', 'b'})";
        session.query_unpaged(statement, (id,)).await.unwrap();
    }
}

/// Every event in the topic.
pub(crate) async fn events(broker: &Broker, topic: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let topics = broker.topics().await.unwrap();
    let Some(known) = topics.iter().find(|known| known.name == topic) else { return found };
    for partition in 0..known.partitions {
        let mut offset = Offset::START;
        loop {
            let from = Position { topic: topic.to_owned(), partition, offset };
            let records = broker.read(from, 5_000).await.unwrap();
            let Some(last) = records.last() else { break };
            offset = last.position.offset.next();
            let bodies = records.iter().map(|record| serde_json::from_slice(&record.payload));
            found.extend(bodies.map(|body| body.unwrap()));
        }
    }
    found
}

/// Waits until the topic holds what `is_there` looks for.
pub(crate) async fn until(broker: &Broker, topic: &str, is_there: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    for _ in 0..600 {
        let found = events(broker, topic).await;
        if is_there(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("what was written has not come within two minutes");
}

fn ids(events: &[Value]) -> BTreeSet<i64> {
    events.iter().filter_map(|event| event["primary_key"]["id"].as_i64()).collect()
}

fn configure(folder: &Path, node: &Instance, prefix: &str) -> Broker {
    let kafka = Registry::new().kafka().unwrap();
    let cdc_raw = node.dir().join("cdc_raw");
    let text = format!(
        "[broker]\nurl = \"kafka://{kafka}\"\n[capture]\nurl = \"cassandra://{}\"\ncdc_raw = {cdc_raw:?}\n\
         node = \"n1\"\ntopic_prefix = \"{prefix}\"\n",
        node.endpoint()
    );
    std::fs::write(folder.join("helenus.toml"), text).unwrap();
    let url: BrokerUrl = format!("kafka://{kafka}").parse().unwrap();
    Broker::open_with(&url, None, BrokerOptions::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_kills_of_agent_and_node_lose_nothing() {
    let _alone = serial().unwrap();
    let (kills, each) =
        if std::env::var_os("HELENUS_PROOF").is_some() { (40, 250) } else { (5, 60) };
    let seed = SystemRandom.next_u64();
    println!("seed {seed}");
    let random = SeededRandom::new(seed);
    let spec = Spec::cassandra().name("captured").commitlog_periodic("100ms");
    let mut node = Instance::start(spec.cdc_total_space("512MiB")).unwrap();
    let session = connect(&node).await;
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, total decimal, tags set<text>) WITH cdc = true",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = format!("capture{seed:x}");
    let topic = format!("{prefix}.{TOPIC}");
    let broker = configure(dir.path(), &node, &prefix);

    let mut written = 0;
    for _ in 0..kills {
        let mut agent = start(dir.path());
        insert(&session, written..written + each).await;
        written += each;
        // At any moment of its work, its start included.
        tokio::time::sleep(Duration::from_millis(random.below(900))).await;
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    // The node dies while an agent reads, and comes back.
    let mut agent = start(dir.path());
    insert(&session, written..written + each).await;
    written += each;
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.kill().unwrap();
    node.restart().unwrap();
    let session = connect(&node).await;
    insert(&session, written..written + each).await;
    written += each;

    let expected: BTreeSet<i64> = (0..i64::from(written)).collect();
    let found = until(&broker, &topic, |found| ids(found).is_superset(&expected)).await;
    let mut by_key = BTreeMap::<i64, BTreeSet<&str>>::new();
    for event in found.iter().filter(|event| event["scope"] == "row") {
        let key = event["primary_key"]["id"].as_i64().unwrap();
        by_key.entry(key).or_default().insert(event["event_id"].as_str().unwrap());
    }
    assert!(
        by_key.values().all(|ids| ids.len() == 1),
        "a change has one id, however often it comes"
    );
    let doubled = found.len() - by_key.len();

    session.query_unpaged("TRUNCATE shop.orders", ()).await.unwrap();
    insert(&session, written..written + 1).await;
    let found =
        until(&broker, &topic, |found| found.iter().any(|event| event["operation"] == "TRUNCATE"))
            .await;
    let told = found.iter().find(|event| event["operation"] == "TRUNCATE").unwrap();
    assert_eq!(told["source_table"], TOPIC);
    shows_its_status(dir.path());
    agent.kill().unwrap();
    agent.wait().unwrap();
    decodes_the_folder(dir.path());
    println!(
        "proof: seed {seed}: {kills} kills (SIGKILL) of the agent and one of the node during {written} \
         writes: 0 missing in Kafka, {doubled} repeated, each under its own event id"
    );
}

fn shows_its_status(folder: &Path) {
    let (code, out, err) = run(folder, &["capture", "status", "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&status["node"], &status["quarantined"]), (&Value::from("n1"), &Value::from(0)));
    assert!(status["limit_bytes"].as_u64() == Some(512 << 20), "{status}");
}

fn decodes_the_folder(folder: &Path) {
    // The schema that the node tells decodes what lies in its folder.
    let schema = folder.join("schema.json");
    let schema = schema.to_str().unwrap();
    let (code, _, err) = run(folder, &["capture", "schema", "--output", schema]);
    assert_eq!(code, Some(0), "{err}");
    let rows = ["segments", "rows", "--schema", schema, "--table", TOPIC];
    let (code, out, err) = run(folder, &rows);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.lines().count() <= 1, "the rows before the truncation are gone: {out}");
}

#[test]
fn what_is_not_configured_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, kind, words) in [
        (["--json", "capture", "run"], "not_configured", "capture.url"),
        (["--json", "capture", "schema"], "not_configured", "capture.url"),
        (["--json", "capture", "status"], "no_status", "helenus-capture/status.json"),
    ] {
        let (code, _, err) = run(dir.path(), &arguments);
        assert_eq!(code, Some(1));
        let error: Value = serde_json::from_str(&err).unwrap();
        assert_eq!(error["error"]["kind"], kind, "{err}");
        assert!(err.contains(words), "{err}");
    }
}
