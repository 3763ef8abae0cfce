//! `helenus capture` beside a node of the release before: the same log, the same care.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use helenus::{Broker, Random, SystemRandom};
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Registry, Service, Spec};
use scylla::client::session::Session;
use serde_json::Value;

use super::capture::{configure, connect, ids, until};
use super::outage::{insert, segments};
use super::serve::Service as Answering;
use super::{helenus, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_4_1_is_captured_through_its_death_and_given_its_segments_back() {
    let _alone = serial().unwrap();
    let spec =
        Spec::of(Service::Cassandra41).name("older").heap("512M").commitlog_periodic("100ms");
    let spec = spec.set("commitlog_compression", "[{class_name: LZ4Compressor}]");
    let mut node = Instance::start(spec.set("cdc_block_writes", "false")).unwrap();
    let session = connect(&node).await;
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, note text) WITH cdc = true",
        "CREATE TABLE shop.late (id int PRIMARY KEY, note text)",
        "CREATE TABLE shop.filler (id int PRIMARY KEY, note text)",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = format!("older{:x}", SystemRandom.next_u64());
    let topic = format!("{prefix}.shop.orders");
    let kafka = Registry::new().kafka().unwrap().to_string();
    let broker = configure(dir.path(), &node, &kafka, &prefix);
    let command = ["--json", "capture", "run", "--listen", "127.0.0.1:0"];
    let agent = Answering::begin(&mut helenus(dir.path(), &command));

    let told = async |count: i64| {
        let all: BTreeSet<i64> = (0..count).collect();
        until(&broker, &topic, |found| ids(found).is_superset(&all)).await;
    };
    insert(&session, "orders", 0..40).await;
    told(40).await;
    node.kill().unwrap();
    node.restart().unwrap();
    let session = connect(&node).await;
    insert(&session, "orders", 40..60).await;
    told(60).await;
    tells_of_a_table_that_is_captured_late(&session, &broker, &prefix).await;
    let ready = agent.until_ready_is(200, |told| told.contains("\"unread_bytes\":0"));
    // The node says in its settings how much may lie there.
    assert_eq!(ready["status"]["limit_bytes"].as_u64(), Some(4 << 30), "{ready}");
    assert_eq!(ready["status"]["deletes_unread"], true, "{ready}");
    doctor_warns_of_what_the_node_would_delete(dir.path(), &node);
    let cdc_raw = node.dir().join("cdc_raw");
    while segments(&cdc_raw).len() > 1 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(agent);
    // Here and gone while no agent was there to ask: only the log knows what it was.
    for statement in [
        "CREATE TABLE shop.brief (id int PRIMARY KEY, note text) WITH cdc = true",
        "INSERT INTO shop.brief (id, note) VALUES (7, 'kept')",
        "DROP TABLE shop.brief",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let _agent = Answering::begin(&mut helenus(dir.path(), &command));
    let brief = format!("{prefix}.shop.brief");
    let found = until(&broker, &brief, |found| ids(found).contains(&7)).await;
    let row = found.iter().find(|event| event["scope"] == "row").unwrap();
    assert_eq!(row["after_data"]["note"], "kept", "{row}");
}

/// That a table is captured from now on is written into a segment without changes, which nobody reads.
async fn tells_of_a_table_that_is_captured_late(session: &Session, broker: &Broker, prefix: &str) {
    insert(session, "late", 0..1).await;
    insert(session, "filler", 0..40).await;
    session.query_unpaged("ALTER TABLE shop.late WITH cdc = true", ()).await.unwrap();
    insert(session, "filler", 0..40).await;
    // Not as before: what was prepared before that statement is not logged for readers by the node.
    session.query_unpaged("INSERT INTO shop.late (id) VALUES (1)", ()).await.unwrap();
    let topic = format!("{prefix}.shop.late");
    until(broker, &topic, |found| ids(found).contains(&1)).await;
}

/// The node is found also where it is the store's.
fn doctor_warns_of_what_the_node_would_delete(folder: &Path, node: &Instance) {
    let configuration = std::fs::read_to_string(folder.join("helenus.toml")).unwrap();
    let url = format!("url = \"cassandra://{}\"\n", node.endpoint());
    let by_store = format!("[store]\n{url}{}", configuration.replace(&url, ""));
    for configuration in [&by_store, &configuration] {
        std::fs::write(folder.join("helenus.toml"), configuration).unwrap();
        let (_, out, err) = run(folder, &["doctor", "--json"]);
        let found: Value = serde_json::from_str(&out).unwrap();
        let mut checks = found["checks"].as_array().unwrap().iter();
        let check = checks.find(|check| check["check"] == "captured node");
        let check = check.unwrap_or_else(|| panic!("the node is looked at: {out}{err}"));
        assert_eq!(check["status"], "warning", "{check}");
        assert!(check["remedy"].as_str().unwrap().contains("cdc_block_writes: true"), "{check}");
    }
}
