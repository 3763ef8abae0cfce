//! Kafka goes away while changes are captured: the log stays where it is, and comes when Kafka is back.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use helenus::{Random, SystemRandom};
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use scylla::client::session::Session;
use serde_json::Value;

use super::capture::{configure, connect, ids, start, until};
use super::run;

/// Rows of 60 KB: a dozen and a half fill a segment.
async fn insert(session: &Session, numbers: Range<i32>) {
    let note = "x".repeat(60_000);
    for id in numbers {
        let statement = "INSERT INTO shop.orders (id, note) VALUES (?, ?)";
        session.query_unpaged(statement, (id, note.as_str())).await.unwrap();
    }
}

/// Segments with changes that lie in the folder.
fn segments(cdc_raw: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(cdc_raw).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| Some(name.strip_suffix("_cdc.idx")?.to_owned())).collect()
}

fn status(folder: &Path) -> Value {
    let (code, out, err) = run(folder, &["capture", "status", "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_waits_for_kafka_releases_nothing_meanwhile_and_catches_up() {
    let _alone = serial().unwrap();
    let away = match std::env::var_os("HELENUS_PROOF") {
        Some(_) => Duration::from_secs(180),
        None => Duration::ZERO,
    };
    let spec = Spec::cassandra().name("outage").heap("512M").commitlog_periodic("100ms");
    let node = Instance::start(spec).unwrap();
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
    let mut agent = start(dir.path());
    insert(&session, 0..10).await;
    let before: BTreeSet<i64> = (0..10).collect();
    until(&broker, &topic, |found| ids(found).is_superset(&before)).await;

    kafka.kill().unwrap();
    let cdc_raw = node.dir().join("cdc_raw");
    let mut kept = segments(&cdc_raw);
    for begin in (10..90).step_by(20) {
        insert(&session, begin..begin + 20).await;
        let now = segments(&cdc_raw);
        assert!(now.is_superset(&kept), "{kept:?} -> {now:?}");
        kept = now;
    }
    assert!(kept.len() > 3, "{kept:?}");
    while status(dir.path())["waiting_for"].is_null() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(away).await;
    let now = segments(&cdc_raw);
    assert!(now.is_superset(&kept), "{kept:?} -> {now:?}");
    let told = status(dir.path());
    assert!(told["seconds_left"].is_u64() || told["limit_bytes"].is_u64(), "{told}");

    kafka.restart().unwrap();
    let all: BTreeSet<i64> = (0..90).collect();
    let found = until(&broker, &topic, |found| ids(found).is_superset(&all)).await;
    // What was published and acknowledged is given back, up to the segment being written.
    while segments(&cdc_raw).len() > 1 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while !status(dir.path())["waiting_for"].is_null() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    println!(
        "proof: Kafka killed (SIGKILL) and away for {} s during {} writes over {} segments: none released, \
         0 missing afterwards, {} records for {} changes",
        away.as_secs(),
        all.len(),
        kept.len(),
        found.len(),
        all.len()
    );
}
