//! Kafka goes away while changes are captured: the log stays where it is, and comes when Kafka is back.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use helenus::{Random, SystemRandom};
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use serde_json::{Value, json};

use super::capture::{configure, connect, ids, until};
use super::serve::{Service, has_what_rules_ask_for};
use super::{helenus, run};

/// A row of 60 KB: a dozen and a half fill a segment.
async fn write(session: &Session, table: &str, id: i32) -> Result<(), ExecutionError> {
    let statement = format!("INSERT INTO shop.{table} (id, note) VALUES (?, ?)");
    session.query_unpaged(statement, (id, "x".repeat(60_000))).await.map(drop)
}

pub(crate) async fn insert(session: &Session, table: &str, numbers: Range<i32>) {
    for id in numbers {
        write(session, table, id).await.unwrap();
    }
}

/// Segments with changes that lie in the folder.
pub(crate) fn segments(cdc_raw: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(cdc_raw).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.strip_suffix("_cdc.idx")?.to_owned())).collect()
}

fn status(folder: &Path) -> Value {
    let (code, out, err) = run(folder, &["capture", "status", "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    serde_json::from_str(&out).unwrap()
}

/// Writes until the node refuses: the first row that it refused, and why.
async fn fill(session: &Session, from: i32) -> (i32, String) {
    for id in from..1_000 {
        if let Err(error) = write(session, "orders", id).await {
            return (id, error.to_string());
        }
    }
    panic!("the node takes more than fits");
}

fn tells_that_it_is_well(agent: &Service) {
    let ready = agent.until_ready_is(200, |told| told.contains("\"published\":10"));
    assert_eq!((&ready["reasons"], &ready["status"]["node"]), (&json!([]), &json!("n1")));
    let exported = agent.get("/metrics").1;
    has_what_rules_ask_for(&exported, |group| group == "helenus-capture");
    assert!(exported.contains("\nhelenus_capture_published_total 10\n"), "{exported}");
    assert_eq!((agent.get("/healthz").0, agent.get("/engine/snapshot").0), (200, 404));
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_waits_for_kafka_releases_nothing_meanwhile_and_catches_up() {
    let _alone = serial().unwrap();
    let away = match std::env::var_os("HELENUS_PROOF") {
        Some(_) => Duration::from_secs(180),
        None => Duration::ZERO,
    };
    let spec = Spec::cassandra().name("outage").heap("512M").commitlog_periodic("100ms");
    let node = Instance::start(spec.cdc_total_space("16MiB")).unwrap();
    let mut kafka = Instance::start(Spec::kafka().name("outage-kafka").heap("256M")).unwrap();
    let session = connect(&node).await;
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, note text) WITH cdc = true",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = format!("outage{:x}", SystemRandom.next_u64());
    let topic = format!("{prefix}.shop.orders");
    let address = kafka.endpoint().to_string();
    let broker = configure(dir.path(), &node, &address, &prefix);
    let command = ["--json", "capture", "run", "--listen", "127.0.0.1:0"];
    let agent = Service::begin(&mut helenus(dir.path(), &command));
    insert(&session, "orders", 0..10).await;
    let before: BTreeSet<i64> = (0..10).collect();
    until(&broker, &topic, |found| ids(found).is_superset(&before)).await;
    tells_that_it_is_well(&agent);

    kafka.kill().unwrap();
    let cdc_raw = node.dir().join("cdc_raw");
    let mut kept = segments(&cdc_raw);
    for begin in (10..90).step_by(20) {
        insert(&session, "orders", begin..begin + 20).await;
        let now = segments(&cdc_raw);
        assert!(now.is_superset(&kept), "{kept:?} -> {now:?}");
        kept = now;
    }
    assert!(kept.len() > 3, "{kept:?}");
    while status(dir.path())["waiting_for"].is_null() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let waits = agent.until_ready_is(503, |told| told.contains("changes wait"));
    assert!(waits["status"]["unread_bytes"].as_u64() > Some(0), "{waits}");
    assert!(waits["status"]["seconds_left"].as_u64() > Some(0), "{waits}");
    tokio::time::sleep(away).await;
    // Until there is no room left: then the node refuses, and the agent has said so.
    let (next, refused) = fill(&session, 90).await;
    assert!(refused.contains("write request"), "{refused}");
    agent.until_ready_is(503, |told| told.contains("\"seconds_left\":0"));
    let now = segments(&cdc_raw);
    assert!(now.is_superset(&kept), "{kept:?} -> {now:?}");

    kafka.restart().unwrap();
    while write(&session, "orders", next).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all: BTreeSet<i64> = (0..=i64::from(next)).collect();
    let found = until(&broker, &topic, |found| ids(found).is_superset(&all)).await;
    // What was published and acknowledged is given back, up to the segment being written.
    while segments(&cdc_raw).len() > 1 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while !status(dir.path())["waiting_for"].is_null() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    agent.until_ready_is(200, |_| true);
    println!(
        "proof: Kafka killed (SIGKILL) and away for {} s during {} writes over {} segments, until the node \
         refused more: none released, 0 missing afterwards, {} records for {} changes",
        away.as_secs(),
        all.len(),
        now.len(),
        found.len(),
        all.len()
    );
}
