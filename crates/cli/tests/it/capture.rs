//! `helenus capture` beside a real node, into Kafka: agent and node are killed, nothing is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use helenus::backend::BrokerUrl;
use helenus::broker::{Broker as _, Offset, Position};
use helenus::{Broker, BrokerOptions, Random, SeededRandom, SystemRandom};
use helenus_testkit::isolated::Keyspace;
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Registry, Spec};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use serde_json::{Value, json};

use super::{helenus, run};

const TOPIC: &str = "shop.orders";
const CREATE: &str = "CREATE TABLE shop.orders (id int PRIMARY KEY, total decimal, tags set<text>, \
                      note text) WITH cdc = true";
/// As many as the agent makes unless it is told otherwise.
const PARTITIONS: usize = 8;

pub(crate) fn start(folder: &Path) -> Child {
    let mut command = helenus(folder, &["capture", "run"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

pub(crate) async fn connect(node: &Instance) -> Session {
    SessionBuilder::new().known_node(node.endpoint().to_string()).build().await.unwrap()
}

/// Rows of which a thousand fill a segment.
async fn insert(session: &Session, ids: std::ops::Range<i32>) {
    let statement =
        "INSERT INTO shop.orders (id, total, tags, note) VALUES (?, 12.50, {'a', 'b'}, ?)";
    let insert = session.prepare(statement).await.unwrap();
    let note = "x".repeat(1_000);
    for id in ids {
        session.execute_unpaged(&insert, (id, note.as_str())).await.unwrap();
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
            let from = Position { topic: topic.into(), partition, offset };
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
pub(crate) async fn until(
    broker: &Broker,
    topic: &str,
    is_there: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    for _ in 0..600 {
        let found = events(broker, topic).await;
        if is_there(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("what was written has not come within two minutes");
}

pub(crate) fn ids(events: &[Value]) -> BTreeSet<i64> {
    events.iter().filter_map(|event| event["primary_key"]["id"].as_i64()).collect()
}

pub(crate) fn configure(folder: &Path, node: &Instance, kafka: &str, prefix: &str) -> Broker {
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
        if std::env::var_os("HELENUS_PROOF").is_some() { (40, 250) } else { (5, 250) };
    let seed = SystemRandom.next_u64();
    println!("seed {seed}");
    let random = SeededRandom::new(seed);
    let spec = Spec::cassandra().name("captured").commitlog_periodic("100ms");
    let mut node = Instance::start(spec.cdc_total_space("512MiB")).unwrap();
    let session = connect(&node).await;
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        CREATE,
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = format!("capture{seed:x}");
    let topic = format!("{prefix}.{TOPIC}");
    let kafka = Registry::new().kafka().unwrap().to_string();
    let broker = configure(dir.path(), &node, &kafka, &prefix);

    let session = Arc::new(session);
    let mut written = 0;
    for number in 0..kills {
        let mut command = helenus(dir.path(), &["capture", "run"]);
        let mut agent = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // Most die at any moment of their work, some while they start.
        if number % 5 != 0 {
            let mut line = String::new();
            BufReader::new(agent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        }
        let (writer, ids) = (Arc::clone(&session), written..written + each);
        let mut writing = tokio::task::JoinSet::new();
        writing.spawn(async move { insert(&writer, ids).await });
        written += each;
        tokio::time::sleep(Duration::from_millis(random.below(1_200))).await;
        agent.kill().unwrap();
        agent.wait().unwrap();
        writing.join_all().await;
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

    tells_of_the_table(&session, &broker, &topic, written).await;
    shows_its_status(dir.path(), true);
    agent.kill().unwrap();
    agent.wait().unwrap();
    shows_its_status(dir.path(), false);
    decodes_the_folder(dir.path());
    captures_into_a_file(&session, &node, written + 2).await;
    println!(
        "proof: seed {seed}: {kills} kills (SIGKILL) of the agent and one of the node during {written} \
         writes: 0 missing in Kafka, {doubled} repeated, each under its own event id"
    );
}

/// Empties the table, and drops it and creates it again: everybody who reads a part of the topic is told.
async fn tells_of_the_table(session: &Session, broker: &Broker, topic: &str, next: i32) {
    let told = |found: &[Value], operation: &str| -> Vec<Value> {
        found.iter().filter(|event| event["operation"] == operation).cloned().collect()
    };
    // No change follows that would make somebody read the segment.
    session.query_unpaged("TRUNCATE shop.orders", ()).await.unwrap();
    let found = until(broker, topic, |found| told(found, "TRUNCATE").len() >= PARTITIONS).await;
    let truncated = told(&found, "TRUNCATE");
    assert!(truncated.iter().all(|event| event["event_id"] == truncated[0]["event_id"]));
    assert_eq!(truncated[0]["source_table"], TOPIC);
    assert!(truncated[0]["position"]["segment"].is_i64(), "{}", truncated[0]);

    insert(session, next..next + 1).await;
    session.query_unpaged("DROP TABLE shop.orders", ()).await.unwrap();
    session.query_unpaged(CREATE, ()).await.unwrap();
    insert(session, next + 1..next + 2).await;
    let is_there = |found: &[Value]| {
        ids(found).contains(&i64::from(next + 1)) && told(found, "RECREATE").len() >= PARTITIONS
    };
    let found = until(broker, topic, is_there).await;
    assert!(told(&found, "DROP").len() >= PARTITIONS, "the old one went");
    let announced = &told(&found, "RECREATE")[0];
    let table_of = |id: i32| {
        let mut changes = found.iter().filter(|event| event["primary_key"]["id"] == id);
        changes.next().unwrap()["table_id"].clone()
    };
    assert_eq!(announced["previous_table_id"], table_of(next));
    assert_eq!(announced["table_id"], table_of(next + 1));
    assert_ne!(announced["table_id"], announced["previous_table_id"]);
}

fn shows_its_status(folder: &Path, is_running: bool) {
    let (code, out, err) = run(folder, &["capture", "status", "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&status["node"], &status["quarantined"]), (&Value::from("n1"), &Value::from(0)));
    assert!(status["limit_bytes"].as_u64() == Some(512 << 20), "{status}");
    assert_eq!(
        (&status["running"], &status["deletes_unread"]),
        (&json!(is_running), &json!(false))
    );
    assert!(status["segments_with_changes"].is_u64(), "{status}");
}

/// The command with its topics in the store's file.
async fn captures_into_a_file(session: &Session, node: &Instance, id: i32) {
    let dir = tempfile::tempdir().unwrap();
    let configuration = format!(
        "[broker]\nurl = \"embedded:\"\n[capture]\nurl = \"cassandra://{}\"\ncdc_raw = {:?}\n",
        node.endpoint(),
        node.dir().join("cdc_raw")
    );
    std::fs::write(dir.path().join("helenus.toml"), configuration).unwrap();
    insert(session, id..id + 1).await;
    let mut agent = start(dir.path());
    let topic = format!("cassandra.{TOPIC}");
    let is_there = |out: &str| {
        let lines = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().any(|record| record["payload"]["primary_key"]["id"] == id)
    };
    let read = ["topics", "read", &topic, "--from-beginning", "--until-end", "--json"];
    let mut tries = 0;
    while !is_there(&run(dir.path(), &read).1) {
        assert!(tries < 600, "what was written has not come within two minutes");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
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

/// The error of `capture run`; doctor gives the same advice.
fn refused(folder: &Path, configuration: &str) -> Value {
    std::fs::write(folder.join("helenus.toml"), configuration).unwrap();
    let (code, out, err) = run(folder, &["--json", "capture", "run"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!(error["error"]["applied"], false, "{err}");
    let (code, out, _) = run(folder, &["doctor", "--json"]);
    assert_eq!(code, Some(1), "{out}");
    let doctor: Value = serde_json::from_str(&out).unwrap();
    let mut checks = doctor["checks"].as_array().unwrap().iter();
    let remedy = &error["error"]["remedy"];
    assert!(remedy.is_string() && checks.any(|check| check["remedy"] == *remedy), "{err}{out}");
    error["error"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_captured_is_told_by_capture_and_by_doctor() {
    let registry = Registry::new();
    let kafka = registry.kafka().unwrap();
    let keyspace = Keyspace::create().await;
    let url = keyspace.url();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let configured = |node: &str, cdc_raw: &Path, more: &str| {
        format!(
            "[broker]\nurl = \"kafka://{kafka}\"\n[capture]\nurl = \"{node}\"\n\
             cdc_raw = {cdc_raw:?}\n{more}"
        )
    };
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let check = |kind: &str, configuration: String, words: &[&str]| {
        let error = refused(folder, &configuration);
        assert_eq!(error["kind"], kind, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        assert!(file.try_exists().unwrap(), "nothing is deleted");
    };
    let nobody = "cassandra://127.0.0.1:1";
    check("unavailable", configured(nobody, folder, ""), &["127.0.0.1:1"]);
    check("other_folder", configured(&url, folder, ""), &["cdc_raw_directory"]);

    // Outboxes whose relays are to be told.
    let raw = "helenus_outbox_messages";
    let hints = |table: &str| format!("hints = [\"{}.{table}\"]\n", keyspace.name);
    let missing = folder.join("missing");
    let with = |table: &str| configured(&url, &missing, &hints(table));
    check("no_outbox", with(raw), &[raw]);
    let line = r#"{"channel_id": "orders", "message_type": "x", "payload": 1}"#;
    let (code, _, err) = super::fed(folder, &["outbox", "--store", &url, "enqueue"], line);
    assert_eq!(code, Some(0), "{err}");
    check("outbox_without_cdc", with(raw), &["ALTER TABLE", raw]);
    let alter = format!("ALTER TABLE {raw} WITH cdc = true");
    keyspace.session.query_unpaged(alter, ()).await.unwrap();
    // All is well but for the folder.
    check("unreadable", with(raw), &["missing"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_change_data_capture_is_refused() {
    let _alone = serial().unwrap();
    let spec = Spec::cassandra().name("without-cdc").heap("512M").quick_compiler();
    let node = Instance::start(spec.set("cdc_enabled", "false")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kafka = Registry::new().kafka().unwrap().to_string();
    let configuration = format!(
        "[broker]\nurl = \"kafka://{kafka}\"\n[capture]\nurl = \"cassandra://{}\"\ncdc_raw = {:?}\n",
        node.endpoint(),
        node.dir().join("cdc_raw")
    );
    let error = refused(dir.path(), &configuration);
    assert_eq!(error["kind"], "cdc_off", "{error}");
    assert!(error.to_string().contains("cdc_enabled: true"), "{error}");
}

#[test]
fn what_is_not_configured_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, kind, words) in [
        (&["run"][..], "not_configured", "capture.url"),
        (&["run", "--listen", "0.0.0.0:0"], "unprotected", "auth.tokens"),
        (&["schema"], "not_configured", "capture.url"),
        (&["status"], "no_status", "helenus-capture/status.json"),
    ] {
        let (code, _, err) = run(dir.path(), &[&["--json", "capture"], arguments].concat());
        assert_eq!(code, Some(1));
        let error: Value = serde_json::from_str(&err).unwrap();
        assert_eq!(error["error"]["kind"], kind, "{err}");
        assert!(err.contains(words), "{err}");
    }
}
