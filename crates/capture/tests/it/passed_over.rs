//! Nothing is passed over in silence: what the log alone does not tell, what appears where nobody looks,
//! and options that would leave changes behind.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use helenus_broker::contract::{Broker, Offset, Position};
use helenus_broker::embedded::EmbeddedBroker;
use helenus_capture::agent::{Agent, AgentError, Pulse, SchemaSource, Terms};
use helenus_capture::commitlog::{Header, SegmentId};
use helenus_capture::cql::change::json::{Policy, Treatment};
use helenus_capture::cql::schema::Catalog;
use helenus_capture::offline::Truncation;
use helenus_capture::options::Options;
use helenus_model::{BackendError, Clock, Failure, SystemClock};
use serde_json::{Value, json};

use crate::agent::{broker, expected_of, ids, options, published, start};
use crate::folder::{Folders, LATER, PLAIN, SCHEMA};

/// A node whose schema and truncations are changed by the test.
#[derive(Clone, Default)]
pub(crate) struct Node {
    told: Arc<Mutex<(String, Pulse)>>,
    /// Not 0 while it does not answer.
    pub(crate) silent: Arc<AtomicUsize>,
    /// How it keeps its log.
    pub(crate) terms: Arc<Mutex<Terms>>,
}

impl Node {
    pub(crate) fn with(document: String) -> Self {
        let node = Node::default();
        node.change(document);
        node
    }

    pub(crate) fn change(&self, document: String) {
        let (told, pulse) = &mut *self.told.lock().unwrap();
        let version = pulse.schema_version.as_deref().unwrap_or_default();
        pulse.schema_version = Some(format!("{version}+"));
        *told = document;
    }

    pub(crate) fn truncate(&self, table: &str, at_ms: i64) {
        self.empty(table, Truncation { segment: SegmentId(7), offset: 8, at_ms });
    }

    pub(crate) fn truncate_at(&self, table: &str, segment: SegmentId) {
        self.empty(table, Truncation { segment, offset: 8, at_ms: 1 });
    }

    fn empty(&self, table: &str, truncation: Truncation) {
        let catalog = Catalog::from_document(SCHEMA).unwrap();
        let id = catalog.by_name("fx", table).unwrap().id;
        let truncations = &mut self.told.lock().unwrap().1.truncations;
        truncations.retain(|(table, _)| *table != id);
        truncations.push((id, truncation));
    }
}

impl SchemaSource for Node {
    async fn fetch(&self) -> Result<String, BackendError> {
        Ok(self.told.lock().unwrap().0.clone())
    }

    async fn pulse(&self) -> Result<Pulse, BackendError> {
        if self.silent.load(Ordering::SeqCst) > 0 {
            return Err(BackendError::new(AgentError::Reader));
        }
        Ok(self.told.lock().unwrap().1.clone())
    }

    async fn terms(&self) -> Option<Terms> {
        Some(*self.terms.lock().unwrap())
    }
}

pub(crate) async fn agent(
    folders: &Folders,
    broker: &EmbeddedBroker,
    node: &Node,
) -> Agent<EmbeddedBroker, Node> {
    let clock = Arc::new(SystemClock::new());
    Agent::start(options(folders), broker.clone(), node.clone(), clock).await.unwrap()
}

/// The schema with a change to its document.
pub(crate) fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut document = serde_json::from_str(SCHEMA).unwrap();
    change(&mut document);
    document.to_string()
}

/// The schema, with one table not captured.
pub(crate) fn without_cdc(table: &str) -> String {
    changed(|document| {
        let tables = document["tables"].as_array_mut().unwrap();
        let mut tables = tables.iter_mut();
        tables.find(|row| row["table_name"] == table).unwrap()["cdc"] = Value::Null;
    })
}

/// What was told of tables as wholes, each once.
pub(crate) async fn announced(broker: &EmbeddedBroker) -> Vec<(String, String)> {
    let mut told: Vec<(String, String)> = Vec::new();
    for event in published(broker).await.values().flatten() {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        if event["scope"] == "table" {
            told.push((text("operation"), text("source_table")));
        }
    }
    told.sort();
    let all = told.len();
    told.dedup();
    assert_eq!(all, told.len() * 8, "each in every partition, once");
    told
}

pub(crate) fn each_once(mut ids: Vec<String>) -> Vec<String> {
    ids.dedup();
    ids
}

#[tokio::test]
async fn capture_that_was_switched_on_where_nobody_reads_is_noticed_before_anything_is_released() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(without_cdc("rows"));
    folders.begin(PLAIN).complete();
    let mut agent = agent(&folders, &broker, &node).await;
    node.change(SCHEMA.to_owned());
    agent.catch_up().await.unwrap();
    assert_eq!(each_once(ids(&published(&broker).await)), expected_of(PLAIN));
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[tokio::test]
async fn an_agent_that_was_killed_in_a_segment_goes_back_when_a_table_is_captured_since() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(without_cdc("rows"));
    let mut segment = folders.begin(PLAIN);
    segment.write(segment.sections.len() - 2);
    segment.sync(segment.sections.len() - 2);
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert!(!published(&broker).await.contains_key("cassandra.fx.rows"));
    node.change(SCHEMA.to_owned());
    // The first to learn of it is killed before it reads.
    drop(agent(&folders, &broker, &node).await);
    segment.complete();
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert_eq!(each_once(ids(&published(&broker).await)), expected_of(PLAIN));
}

#[tokio::test]
async fn what_was_written_before_capture_was_switched_off_is_published() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    let mut segment = folders.begin(PLAIN);
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    node.change(without_cdc("rows"));
    segment.complete();
    // Twice: what the first has learned must not be forgotten by the second.
    drop(agent(&folders, &broker, &node).await);
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected_of(PLAIN));
    // What comes later is not.
    folders.begin(LATER).complete();
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    let found = published(&broker).await;
    let of_rows = &found["cassandra.fx.rows"];
    assert!(
        of_rows.iter().all(|event| event["position"]["segment"] != json!(1_794_782_860_259_i64))
    );
}

#[tokio::test]
async fn without_the_node_segments_are_read_and_kept() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    let agent = agent(&folders, &broker, &node).await;
    folders.begin(PLAIN).complete();
    folders.begin(LATER).complete();
    node.silent.store(1, Ordering::SeqCst);
    let mut told = agent.watch();
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(agent.run(stop.clone()));
    let both = [expected_of(PLAIN), expected_of(LATER)].concat().len() as u64;
    let is_there = |status: &Option<helenus_capture::agent::Status>| {
        status.as_ref().is_some_and(|status| status.published >= both && status.node_away.is_some())
    };
    told.wait_for(is_there).await.unwrap();
    assert_eq!(folders.raw_files().len(), 4, "all is published, nothing is given back");
    node.silent.store(0, Ordering::SeqCst);
    while !folders.raw_files().is_empty() {
        told.changed().await.unwrap();
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_segment_that_never_gets_an_index_is_left_when_a_later_one_has_one() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let options = Options { read_ahead: true, ..options(&folders) };
    let mut agent = start(options, &broker).await;
    let segment = folders.begin(PLAIN);
    agent.catch_up().await.unwrap();
    // The node was restarted, and has dropped its own name of it.
    fs::remove_file(&segment.own).unwrap();
    folders.begin(LATER).complete();
    agent.catch_up().await.unwrap();
    let found = published(&broker).await;
    assert_eq!(ids(&found), expected_of(LATER));
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[tokio::test]
async fn a_segment_that_is_removed_under_the_agent_is_read_to_its_end() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut agent = start(options(&folders), &broker).await;
    let mut segment = folders.begin(PLAIN);
    segment.write(segment.sections.len() - 1);
    segment.sync(0);
    agent.catch_up().await.unwrap();
    assert!(ids(&published(&broker).await).len() < expected_of(PLAIN).len());
    folders.empty_raw();
    fs::remove_file(&segment.own).unwrap();
    folders.begin(LATER).complete();
    agent.catch_up().await.unwrap();
    let mut both = [expected_of(PLAIN), expected_of(LATER)].concat();
    both.sort();
    assert_eq!(ids(&published(&broker).await), both);
}

#[tokio::test]
async fn what_was_read_before_a_segment_that_cannot_be_is_published_before_it_is_given_back() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let agent = start(options(&folders), &broker).await;
    folders.begin(PLAIN).complete();
    // A folder can be opened and not read, like a file on a disk that fails.
    let later = format!("CommitLog-7-{}", Header::parse(LATER).unwrap().id);
    let broken = folders.cdc_raw().join(format!("{later}.log"));
    fs::create_dir(&broken).unwrap();
    fs::write(folders.cdc_raw().join(format!("{later}_cdc.idx")), "512\nCOMPLETED").unwrap();
    let mut told = agent.watch();
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(agent.run(stop.clone()));
    while folders.raw_files().len() > 2 {
        told.changed().await.unwrap();
    }
    assert_eq!(ids(&published(&broker).await), expected_of(PLAIN));
    assert!(told.borrow().as_ref().unwrap().waiting_for.is_some(), "and what is wrong is told");
    // The disk is mended.
    fs::remove_dir(&broken).unwrap();
    folders.begin(LATER).complete();
    while !folders.raw_files().is_empty() {
        told.changed().await.unwrap();
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    let mut both = [expected_of(PLAIN), expected_of(LATER)].concat();
    both.sort();
    assert_eq!(ids(&published(&broker).await), both);
}

#[tokio::test]
async fn segments_with_lower_ids_than_those_before_are_read() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(LATER).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    // The node's clock was set back, and its log emptied.
    folders.begin(PLAIN).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    let mut both = [expected_of(PLAIN), expected_of(LATER)].concat();
    both.sort();
    assert_eq!(ids(&published(&broker).await), both);
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[tokio::test]
async fn tables_that_were_emptied_are_told_of_once_though_no_change_follows() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    node.truncate("scalars", 1);
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert_eq!(announced(&broker).await, [], "what was before is no news");
    node.truncate("rows", 2);
    for _ in 0..2 {
        agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    }
    let told = ("TRUNCATE".to_owned(), "fx.rows".to_owned());
    assert_eq!(announced(&broker).await, [told]);
}

#[tokio::test]
async fn a_change_of_tables_is_told_of_though_its_first_witness_dies() {
    let folders = Folders::new();
    let (broker, engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    node.change(changed(|document| {
        for part in ["tables", "columns"] {
            let rows = document[part].as_array_mut().unwrap();
            rows.retain(|row| row["table_name"] != "rows");
        }
    }));
    engine.close().await;
    // Nobody hears this one.
    drop(agent(&folders, &broker, &node).await);
    let (broker, _engine) = crate::agent::broker(&folders).await;
    for _ in 0..2 {
        agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    }
    let told = ("DROP".to_owned(), "fx.rows".to_owned());
    assert_eq!(announced(&broker).await, [told]);
}

#[tokio::test]
async fn records_are_dated_when_they_are_published_so_that_brokers_keep_them() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let before = SystemClock::new().now();
    folders.begin(PLAIN).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    let mut seen = 0;
    for topic in broker.topics().await.unwrap() {
        for partition in 0..topic.partitions {
            let topic = topic.name.as_str().into();
            let from = Position { topic, partition, offset: Offset::START };
            for record in broker.read(from, 1_000).await.unwrap() {
                assert!(record.timestamp.as_millis() >= before.as_millis(), "{record:?}");
                seen += 1;
            }
        }
    }
    assert!(seen >= expected_of(PLAIN).len());
}

async fn refused(folders: &Folders, broker: &EmbeddedBroker, options: Options) -> AgentError {
    let clock = Arc::new(SystemClock::new());
    let schema = changed(|document| {
        let tables = document["tables"].as_array_mut().unwrap();
        let mut other = tables.iter().find(|row| row["table_name"] == "rows").unwrap().clone();
        other["keyspace_name"] = json!("fx_a");
        other["id"] = json!("00000000-0000-0000-0000-000000000001");
        other["table_name"] = json!("b");
        tables.push(other.clone());
        other["keyspace_name"] = json!("fx");
        other["id"] = json!("00000000-0000-0000-0000-000000000002");
        other["table_name"] = json!("a_b");
        tables.push(other.clone());
        other["id"] = json!("00000000-0000-0000-0000-000000000003");
        other["table_name"] = json!("plain");
        other["cdc"] = Value::Null;
        tables.push(other.clone());
        other["id"] = json!("00000000-0000-0000-0000-000000000004");
        other["keyspace_name"] = json!("fx_u");
        other["cdc"] = json!(true);
        tables.push(other);
        let unlogged = json!({"keyspace_name": "fx_u", "durable_writes": false});
        document["keyspaces"].as_array_mut().unwrap().push(unlogged);
        let all = [("fx_a", "b"), ("fx", "a_b"), ("fx", "plain"), ("fx_u", "plain")];
        for (keyspace, table) in all {
            document["columns"].as_array_mut().unwrap().push(json!({
                "keyspace_name": keyspace, "table_name": table, "column_name": "p",
                "kind": "partition_key", "position": 0, "type": "int",
            }));
        }
    });
    let error = Agent::start(options, broker.clone(), schema, clock).await.unwrap_err();
    assert!(error.remedy().is_some(), "{error}");
    assert_eq!(folders.raw_files().len(), 2, "nothing is released");
    error
}

#[tokio::test]
async fn options_that_would_lose_changes_are_refused() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    let with = |tables: &[&str]| Options {
        tables: tables.iter().map(|table| table.parse().unwrap()).collect(),
        ..options(&folders)
    };
    for (tables, code, word) in [
        (&["fx.row"][..], "unknown_table", "fx.row"),
        (&["fx.plain"], "table_without_cdc", "fx.plain"),
        (&["fx_u.plain"], "table_not_logged", "durable_writes = false"),
        (&["fx_u.*"], "table_not_logged", "fx_u.*"),
        (&["fx.*", "fx_a.b"], "topics_collide", "cassandra.fx_a.b"),
        (&["xf.*"], "unknown_table", "xf.*"),
    ] {
        let error = refused(&folders, &broker, with(tables)).await;
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let masks = [("fx.row.v".to_owned(), Treatment::Drop)].into();
    let masked = Options { policy: Policy::new(masks, b"salt"), ..options(&folders) };
    let error = refused(&folders, &broker, masked).await;
    assert_eq!(error.code(), "unknown_table", "{error}");
    let _first = start(options(&folders), &broker).await;
    let second = Options { state: folders.path("other"), ..options(&folders) };
    let error = refused(&folders, &broker, second).await;
    assert_eq!(error.code(), "folder_in_use", "{error}");
}
