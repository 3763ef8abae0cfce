//! What goes wrong around an agent: brokers that hang or refuse, logs that come back or are cut, names
//! that change while it runs.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use helenus_broker::contract::{
    Bounds, Broker, Error, NewRecord, Offset, Position, Record, Refusal, Topic,
};
use helenus_broker::embedded::EmbeddedBroker;
use helenus_capture::agent::{Agent, AgentError, Terms};
use helenus_capture::commitlog::{Header, SegmentId};
use helenus_capture::cql::change::json::{Policy, Treatment};
use helenus_capture::options::Options;
use helenus_model::{Failure as _, ManualClock, SystemClock, Timestamp};
use serde_json::{Value, json};

use crate::agent::{broker, expected_of, ids, options, published, start};
use crate::folder::{Folders, LATER, PLAIN, SCHEMA};
use crate::passed_over::{Node, agent, announced, changed, each_once, without_cdc};

/// A broker that does not answer when it is told so, and refuses one topic.
#[derive(Clone)]
struct Wayward {
    inner: EmbeddedBroker,
    hangs: Arc<AtomicBool>,
    refuses: &'static str,
    /// Partitions that it says every topic has, as long as this is not negative.
    says: Arc<AtomicI64>,
}

impl Wayward {
    fn new(inner: &EmbeddedBroker, refuses: &'static str) -> Self {
        let says = Arc::new(AtomicI64::new(-1));
        Wayward { inner: inner.clone(), hangs: Arc::default(), refuses, says }
    }
}

impl Broker for Wayward {
    type Publisher = <EmbeddedBroker as Broker>::Publisher;

    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
        if topic == self.refuses {
            let (topic, reason) = (topic.to_owned(), "it collides".to_owned());
            return Err(Error::InvalidTopic { topic, reason });
        }
        self.inner.create_topic(topic, partitions).await
    }

    async fn create_compacted_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
        self.inner.create_compacted_topic(topic, partitions).await
    }

    async fn topics(&self) -> Result<Vec<Topic>, Error> {
        let mut topics = self.inner.topics().await?;
        if let Ok(partitions) = u32::try_from(self.says.load(Ordering::SeqCst)) {
            topics.iter_mut().for_each(|topic| topic.partitions = partitions);
        }
        Ok(topics)
    }

    async fn bounds(&self, topic: &str) -> Result<Vec<Bounds>, Error> {
        self.inner.bounds(topic).await
    }

    async fn refusals(&self, records: &[NewRecord]) -> Result<Vec<Refusal>, Error> {
        self.inner.refusals(records).await
    }

    async fn publish(&self, records: &[NewRecord]) -> Result<Vec<Position>, Error> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.inner.publish(records).await
    }

    async fn publisher(&self, name: &str) -> Result<Self::Publisher, Error> {
        self.inner.publisher(name).await
    }

    async fn read(&self, from: Position, limit: usize) -> Result<Vec<Record>, Error> {
        self.inner.read(from, limit).await
    }

    async fn last(&self, topic: &str, partition: u32) -> Result<Option<Record>, Error> {
        self.inner.last(topic, partition).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Offset>, Error> {
        self.inner.committed(group, topic, partition).await
    }

    async fn commit(&self, group: &str, next: Position) -> Result<(), Error> {
        self.inner.commit(group, next).await
    }
}

fn id(segment: &[u8]) -> SegmentId {
    Header::parse(segment).unwrap().id
}

#[tokio::test]
async fn an_agent_that_is_dropped_while_it_publishes_releases_nothing() {
    let folders = Folders::new();
    let (embedded, _engine) = broker(&folders).await;
    let wayward = Wayward::new(&embedded, "");
    folders.begin(PLAIN).complete();
    let clock = Arc::new(SystemClock::new());
    let mut agent =
        Agent::start(options(&folders), wayward.clone(), SCHEMA.to_owned(), clock).await.unwrap();
    wayward.hangs.store(true, Ordering::SeqCst);
    tokio::time::timeout(Duration::from_millis(300), agent.catch_up()).await.unwrap_err();
    wayward.hangs.store(false, Ordering::SeqCst);
    // It has lost its place and says so; the next one has not.
    assert!(matches!(agent.catch_up().await, Err(AgentError::Reader)));
    assert_eq!(folders.raw_files().len(), 2);
    drop(agent);
    start(options(&folders), &embedded).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&embedded).await), expected_of(PLAIN));
}

#[tokio::test]
async fn what_was_published_before_a_failure_is_not_published_again() {
    let folders = Folders::new();
    let (embedded, _engine) = broker(&folders).await;
    // No time passes: only the failure is a reason to make the position durable.
    let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
    let mut first = folders.begin(PLAIN);
    first.write(0);
    first.sync(0);
    let started = Agent::start(options(&folders), embedded.clone(), SCHEMA.to_owned(), clock);
    let mut agent = started.await.unwrap();
    agent.catch_up().await.unwrap();
    first.complete();
    let mut second = folders.begin(LATER);
    fs::create_dir(&second.index).unwrap();
    agent.catch_up().await.unwrap();
    assert_eq!(ids(&published(&embedded).await), expected_of(PLAIN));
    // Killed: nothing is written any more.
    drop(agent);
    fs::remove_dir(&second.index).unwrap();
    second.complete();
    start(options(&folders), &embedded).await.catch_up().await.unwrap();
    let mut both = [expected_of(PLAIN), expected_of(LATER)].concat();
    both.sort();
    assert_eq!(ids(&published(&embedded).await), both);
}

#[tokio::test]
async fn a_topic_that_the_broker_refuses_stops_no_other() {
    let folders = Folders::new();
    let (embedded, _engine) = broker(&folders).await;
    let wayward = Wayward::new(&embedded, "cassandra.fx.rows");
    folders.begin(PLAIN).complete();
    let clock = Arc::new(SystemClock::new());
    let mut agent =
        Agent::start(options(&folders), wayward, SCHEMA.to_owned(), clock).await.unwrap();
    agent.catch_up().await.unwrap();
    let found = published(&embedded).await;
    assert!(!found.contains_key("cassandra.fx.rows"));
    let quarantined = fs::read_dir(folders.path("state/quarantine")).unwrap();
    let mut all = ids(&found);
    for entry in quarantined {
        let kept: Value =
            serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let event: Value = serde_json::from_str(kept["event"].as_str().unwrap()).unwrap();
        assert_eq!(event["source_table"], "fx.rows");
        all.push(event["event_id"].as_str().unwrap().to_owned());
    }
    all.sort();
    assert_eq!(all, expected_of(PLAIN), "each is published or in the quarantine");
}

#[tokio::test]
async fn truncations_in_the_log_that_a_first_agent_finds_are_told() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    let node = Node::with(SCHEMA.to_owned());
    node.truncate_at("scalars", SegmentId(id(PLAIN).0 - 1));
    node.truncate_at("rows", id(PLAIN));
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert_eq!(emptied(&broker).await, ["fx.rows"]);
}

/// Tables that somebody was told were emptied.
async fn emptied(broker: &EmbeddedBroker) -> Vec<String> {
    let told = announced(broker).await.into_iter().filter(|(what, _)| what == "TRUNCATE");
    told.map(|(_, table)| table).collect()
}

#[tokio::test]
async fn truncations_from_before_a_first_agent_are_no_news_to_a_second() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    node.truncate("scalars", 1);
    let mut first = agent(&folders, &broker, &node).await;
    node.silent.store(1, Ordering::SeqCst);
    folders.begin(PLAIN).complete();
    first.catch_up().await.unwrap();
    drop(first);
    node.silent.store(0, Ordering::SeqCst);
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert_eq!(emptied(&broker).await, [""; 0]);
}

#[tokio::test]
async fn a_truncation_from_before_a_table_was_captured_is_no_news() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(without_cdc("rows"));
    let mut first = agent(&folders, &broker, &node).await;
    first.catch_up().await.unwrap();
    node.truncate("rows", 1);
    first.catch_up().await.unwrap();
    drop(first);
    node.change(SCHEMA.to_owned());
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    assert_eq!(emptied(&broker).await, [""; 0]);
}

#[tokio::test]
async fn a_truncation_of_a_node_whose_clock_was_set_back_is_told() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    node.truncate_at("rows", SegmentId(9));
    let mut agent = agent(&folders, &broker, &node).await;
    agent.catch_up().await.unwrap();
    node.truncate_at("rows", SegmentId(5));
    for _ in 0..2 {
        agent.catch_up().await.unwrap();
    }
    assert_eq!(emptied(&broker).await, ["fx.rows"]);
}

#[tokio::test]
async fn a_truncation_is_told_to_as_many_partitions_as_there_are_by_then() {
    for (says, copies) in [(16, 16), (0, 8)] {
        let folders = Folders::new();
        let (embedded, _engine) = broker(&folders).await;
        let wayward = Wayward::new(&embedded, "");
        let node = Node::with(SCHEMA.to_owned());
        let clock = Arc::new(SystemClock::new());
        folders.begin(PLAIN).complete();
        let agent = Agent::start(options(&folders), wayward.clone(), node.clone(), clock);
        let mut agent = agent.await.unwrap();
        agent.catch_up().await.unwrap();
        wayward.says.store(says, Ordering::SeqCst);
        node.truncate("rows", 1);
        agent.catch_up().await.unwrap();
        let found = published(&embedded).await;
        let told = found["cassandra.fx.rows"].iter();
        let told = told.filter(|event| event["operation"] == "TRUNCATE").count();
        assert_eq!(told, copies, "of a topic that has {says} partitions by now");
    }
}

#[tokio::test]
async fn a_table_that_was_captured_and_is_gone_keeps_no_agent_from_starting() {
    let without = changed(|document| {
        for part in ["tables", "columns"] {
            let rows = document[part].as_array_mut().unwrap();
            rows.retain(|row| row["table_name"] != "rows");
        }
    });
    for after in [without, without_cdc("rows")] {
        let folders = Folders::new();
        let (broker, _engine) = broker(&folders).await;
        let node = Node::with(SCHEMA.to_owned());
        let start = || {
            let tables = ["fx.rows", "fx.scalars"].map(|table| table.parse().unwrap());
            let options = Options { tables: tables.into(), ..options(&folders) };
            Agent::start(options, broker.clone(), node.clone(), Arc::new(SystemClock::new()))
        };
        let mut segment = folders.begin(PLAIN);
        start().await.unwrap().catch_up().await.unwrap();
        node.change(after);
        segment.complete();
        start().await.unwrap().catch_up().await.unwrap();
        let changes = |event: &&Value| event["scope"] != "table";
        let found = published(&broker).await;
        assert!(found["cassandra.fx.rows"].iter().any(|event| changes(&event)));
        assert!(found["cassandra.fx.scalars"].iter().any(|event| changes(&event)));
    }
}

#[tokio::test]
async fn an_agent_that_cannot_write_its_state_publishes_nothing() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    // No file can be made there, as on a disk that is full.
    fs::create_dir_all(folders.path("state/position.new")).unwrap();
    let clock = Arc::new(SystemClock::new());
    let schema = SCHEMA.to_owned();
    let refused = Agent::start(options(&folders), broker.clone(), schema, clock).await.unwrap_err();
    assert_eq!(refused.code(), "state_unusable");
    assert!(published(&broker).await.is_empty());
}

#[tokio::test]
async fn a_node_that_was_away_is_asked_for_its_settings_again() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
    let time = Arc::clone(&clock);
    let agent = Agent::start(options(&folders), broker, node.clone(), time).await;
    let mut agent = agent.unwrap();
    let told = agent.watch();
    node.silent.store(1, Ordering::SeqCst);
    agent.catch_up().await.unwrap();
    assert!(told.borrow().as_ref().unwrap().node_away.is_some());
    node.silent.store(0, Ordering::SeqCst);
    *node.terms.lock().unwrap() =
        Terms { total_space: Some(1 << 30), is_cdc_off: true, deletes_unread: true };
    clock.advance(Duration::from_secs(2));
    agent.catch_up().await.unwrap();
    let told = told.borrow().clone().unwrap();
    assert_eq!((told.node_away, told.limit_bytes), (None, Some(1 << 30)));
    assert!(told.deletes_unread);
    assert_eq!(told.waiting_for.unwrap(), "change data capture is off at the node");
}

#[tokio::test]
async fn a_segment_is_not_left_because_of_one_of_an_earlier_start_with_a_higher_id() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    // It cannot be expanded, and is kept.
    let mut damaged = LATER.to_vec();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    folders.begin(&damaged).complete();
    let mut agent = start(options(&folders), &broker).await;
    agent.catch_up().await.unwrap();
    let before = ids(&published(&broker).await);
    assert_eq!(folders.raw_files().len(), 2);
    // The node's clock was set back, and its log emptied.
    let mut segment = folders.begin(PLAIN);
    segment.write(1);
    segment.sync(1);
    agent.catch_up().await.unwrap();
    segment.complete();
    agent.catch_up().await.unwrap();
    let mut all = [before, expected_of(PLAIN)].concat();
    all.sort();
    assert_eq!(ids(&published(&broker).await), all);
}

#[tokio::test]
async fn a_segment_that_was_gone_and_comes_back_is_read() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut segment = folders.begin(PLAIN);
    segment.write(1);
    segment.sync(1);
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    // The node made room, and went on with another.
    folders.empty_raw();
    folders.begin(LATER).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    // It was restarted, and what it replayed is there again.
    let log = folders.cdc_raw().join(segment.own.file_name().unwrap());
    fs::hard_link(&segment.own, log).unwrap();
    segment.complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    let mut both = [expected_of(PLAIN), expected_of(LATER)].concat();
    both.sort();
    assert_eq!(each_once(ids(&published(&broker).await)), each_once(both));
}

#[tokio::test]
async fn what_was_captured_between_two_schemas_is_published() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut document: Value = serde_json::from_str(&without_cdc("readded")).unwrap();
    // Taken after everything: the log tells that capture was on before.
    document["taken_at_us"] = json!(i64::MAX);
    let node = Node::with(document.to_string());
    folders.begin(PLAIN).complete();
    folders.begin(LATER).complete();
    agent(&folders, &broker, &node).await.catch_up().await.unwrap();
    let found = published(&broker).await;
    let segments = found["cassandra.fx.readded"].iter().map(|event| &event["position"]["segment"]);
    assert!(segments.into_iter().any(|segment| *segment == json!(id(LATER).0)));
}

#[tokio::test]
async fn a_masked_column_that_is_renamed_ends_the_agent_before_it_is_shown() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let node = Node::with(SCHEMA.to_owned());
    let masks = [("fx.rows.c2".to_owned(), Treatment::Hash)].into();
    let options = Options { policy: Policy::new(masks, b"salt"), ..options(&folders) };
    let clock = Arc::new(SystemClock::new());
    let mut agent = Agent::start(options, broker.clone(), node.clone(), clock).await.unwrap();
    node.change(changed(|document| {
        let columns = document["columns"].as_array_mut().unwrap();
        let is_c2 = |row: &&mut Value| row["table_name"] == "rows" && row["column_name"] == "c2";
        columns.iter_mut().find(is_c2).unwrap()["column_name"] = json!("renamed");
    }));
    folders.begin(PLAIN).complete();
    let refused = agent.catch_up().await.unwrap_err();
    assert_eq!(refused.code(), "unknown_column", "{refused}");
    let found = published(&broker).await;
    assert!(found.values().flatten().all(|event| event["primary_key"]["renamed"].is_null()));
}

#[tokio::test]
async fn a_log_that_ends_before_the_node_says_is_kept() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut cut = PLAIN.to_vec();
    let mut segment = folders.begin(PLAIN);
    let sections = segment.sections.clone();
    segment.complete();
    // A bad block reads as zeros, where a marker was.
    cut[sections[0]..sections[0] + 8].fill(0);
    fs::write(&segment.own, &cut).unwrap();
    let index = folders.cdc_raw().join(format!("CommitLog-7-{}_cdc.idx", id(PLAIN)));
    fs::write(index, format!("{}\nCOMPLETED", sections.last().unwrap())).unwrap();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(folders.raw_files().len(), 2);
    let mut kept = fs::read_dir(folders.path("state/quarantine")).unwrap();
    let told = fs::read_to_string(kept.next().unwrap().unwrap().path()).unwrap();
    assert!(told.contains("goes on to"), "{told}");
}
