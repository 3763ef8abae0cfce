//! What an agent publishes, remembers and gives back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helenus_broker::contract::{Broker, Offset, Position};
use helenus_broker::embedded::{self, EmbeddedBroker};
use helenus_capture::agent::{Agent, SchemaSource, Status, Terms};
use helenus_capture::cql::change::json::{Policy, Treatment};
use helenus_capture::options::Options;
use helenus_commitlog::Segment;
use helenus_cql::change::{Origin, split};
use helenus_cql::schema::Catalog;
use helenus_model::{BackendError, Failure as _, SystemClock};
use helenus_sqlite::Engine;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::folder::{Folders, PLAIN, SCHEMA};

pub(crate) async fn broker(folders: &Folders) -> (EmbeddedBroker, Engine) {
    let path = folders.path("topics.db");
    let engine = Engine::open(&path, Default::default(), &[&embedded::COMPONENT]).await.unwrap();
    (EmbeddedBroker::on(engine.clone()), engine)
}

pub(crate) fn options(folders: &Folders) -> Options {
    Options { node: "n1".into(), ..Options::new(folders.cdc_raw(), folders.path("state")) }
}

pub(crate) async fn start(
    options: Options,
    broker: &EmbeddedBroker,
) -> Agent<EmbeddedBroker, String> {
    let clock = Arc::new(SystemClock::new());
    Agent::start(options, broker.clone(), SCHEMA.to_owned(), clock).await.unwrap()
}

/// Every published event by topic; in each partition's order.
pub(crate) async fn published(broker: &EmbeddedBroker) -> BTreeMap<String, Vec<Value>> {
    let mut found = BTreeMap::new();
    for topic in broker.topics().await.unwrap() {
        let mut events = Vec::new();
        for partition in 0..topic.partitions {
            let from =
                Position { topic: topic.name.as_str().into(), partition, offset: Offset::START };
            for record in broker.read(from, 10_000).await.unwrap() {
                events.push(serde_json::from_slice(&record.payload).unwrap());
            }
        }
        found.insert(topic.name, events);
    }
    found
}

/// The ids of all changes, without what was announced of tables.
pub(crate) fn ids(published: &BTreeMap<String, Vec<Value>>) -> Vec<String> {
    let events = published.values().flatten().filter(|event| event["scope"] != "table");
    let mut ids: Vec<String> =
        events.map(|event| event["event_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// The ids of all changes of tables with CDC in the segment.
fn expected() -> Vec<String> {
    expected_of(PLAIN)
}

pub(crate) fn expected_of(segment: &[u8]) -> Vec<String> {
    let catalog = Catalog::from_document(SCHEMA).unwrap();
    let mut ids = Vec::new();
    let mut records = Segment::parse(segment).unwrap().records(Default::default());
    while let Some(record) = records.next_record() {
        for update in record.unwrap().decode(&catalog).unwrap().updates {
            if update.table.cdc {
                let events = split(update, &Origin::default()).unwrap();
                ids.extend(events.iter().map(|event| event.event_id.to_string()));
            }
        }
    }
    ids.sort();
    ids
}

pub(crate) fn status(folders: &Folders) -> Status {
    serde_json::from_slice(&fs::read(folders.path("state/status.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn every_change_is_published_once_and_the_segment_given_back_when_it_is_complete() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut segment = folders.begin(PLAIN);
    // Taken before the log was written, which tells what changed since.
    let document = SCHEMA.replacen('{', "{\"taken_at_us\": 1,", 1);
    let clock = Arc::new(SystemClock::new());
    let agent = Agent::start(options(&folders), broker.clone(), document, clock).await;
    let mut agent = agent.unwrap();
    assert_eq!(agent.catch_up().await.unwrap(), 0, "there is no index yet");
    // What is written but not durable is not read.
    segment.write(2);
    segment.sync(0);
    agent.catch_up().await.unwrap();
    let early = ids(&published(&broker).await).len();
    segment.sync(2);
    agent.catch_up().await.unwrap();
    assert!(ids(&published(&broker).await).len() > early);
    assert_eq!(folders.raw_files().len(), 2, "nothing is given back before it is complete");
    segment.complete();
    agent.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected());
    assert_eq!(folders.raw_files(), [""; 0]);
    assert!(segment.own.try_exists().unwrap(), "the node's own name is the node's");
    let found = published(&broker).await;
    assert!(found.contains_key("cassandra.fx.rows"));
    // The statements end by dropping a column: every partition is told.
    let told = found["cassandra.fx.readded"].iter().filter(|event| event["scope"] == "table");
    let told: Vec<_> = told.collect();
    let copies = told.iter().filter(|event| event["event_id"] == told[0]["event_id"]).count();
    assert_eq!((told[0]["operation"].as_str(), copies), (Some("ALTER"), 8));
}

#[tokio::test]
async fn an_agent_that_dies_after_any_batch_loses_nothing() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut segment = folders.begin(PLAIN);
    for number in 0..segment.sections.len() {
        segment.write(number);
        segment.sync(number);
        // A new agent each time, which knows only what is on the disk.
        let mut agent = start(options(&folders), &broker).await;
        agent.catch_up().await.unwrap();
    }
    segment.complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(
        ids(&published(&broker).await),
        expected(),
        "and doubles nothing when it ended well"
    );
    assert_eq!(folders.raw_files(), [""; 0]);
    // A node that crashed links its segments once more when it starts.
    let mut again = folders.begin(PLAIN);
    again.complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected());
}

#[tokio::test]
async fn a_position_that_was_not_saved_repeats_changes_under_the_same_ids() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut segment = folders.begin(PLAIN);
    segment.write(1);
    segment.sync(1);
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    fs::remove_file(folders.path("state/position.json")).unwrap();
    segment.complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    let mut found = ids(&published(&broker).await);
    assert!(found.len() > expected().len());
    found.dedup();
    assert_eq!(found, expected());
}

#[tokio::test]
async fn reading_ahead_goes_beyond_what_is_durable_and_needs_no_index() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut segment = folders.begin(PLAIN);
    segment.write(1);
    let options = Options { read_ahead: true, ..options(&folders) };
    let mut agent = start(options, &broker).await;
    agent.catch_up().await.unwrap();
    let before = ids(&published(&broker).await).len();
    segment.complete();
    agent.catch_up().await.unwrap();
    assert!(before > 0);
    assert_eq!(ids(&published(&broker).await), expected());
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[tokio::test]
async fn while_the_broker_is_away_nothing_is_saved_or_given_back() {
    let folders = Folders::new();
    let (broker, engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    let agent = start(options(&folders), &broker).await;
    engine.close().await;
    let stop = CancellationToken::new();
    let running = tokio::task::spawn(agent.run(stop.clone()));
    let waits = async {
        loop {
            let told = fs::read(folders.path("state/status.json")).ok();
            let told = told.and_then(|text| serde_json::from_slice::<Status>(&text).ok());
            if told.is_some_and(|status| status.waiting_for.is_some()) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    waits.await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(folders.raw_files().len(), 2);
    let saved = fs::read(folders.path("state/position.json")).unwrap();
    let saved: Value = serde_json::from_slice(&saved).unwrap();
    assert_eq!((&saved["segment"], &saved["done"]), (&Value::Null, &serde_json::json!([])));
    let (broker, _engine) = self::broker(&folders).await;
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected());
}

#[tokio::test]
async fn a_damaged_record_is_quarantined_and_its_segment_kept() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut bytes = PLAIN.to_vec();
    let mut records = Segment::parse(PLAIN).unwrap().records(Default::default());
    let catalog = Catalog::from_document(SCHEMA).unwrap();
    let victim = loop {
        let record = records.next_record().unwrap().unwrap();
        let updates = record.decode(&catalog).unwrap().updates;
        if updates[0].table.cdc {
            break usize::try_from(record.start).unwrap();
        }
    };
    bytes[victim + 20] ^= 1;
    folders.begin(&bytes).complete();
    let mut agent = start(options(&folders), &broker).await;
    agent.catch_up().await.unwrap();
    let found = ids(&published(&broker).await);
    assert!(found.len() < expected().len() && found.len() + 3 > expected().len());
    assert_eq!(folders.raw_files().len(), 2, "the segment is kept");
    let kept = fs::read_dir(folders.path("state/quarantine")).unwrap().next().unwrap().unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(kept.path()).unwrap()).unwrap();
    assert_eq!(kept["offset"], victim);
    assert_eq!(kept["reason"], "the record's checksum does not match");
    drop(agent);
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), found, "it is not read again");
    assert_eq!(folders.raw_files().len(), 2);
    assert_eq!(status(&folders).quarantined, 1);
}

/// A schema that lacks a table until it is asked a second time.
struct Late(Arc<AtomicUsize>, usize);

impl SchemaSource for Late {
    async fn fetch(&self) -> Result<String, BackendError> {
        let asked = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(if asked >= self.1 { SCHEMA.to_owned() } else { without("rows") })
    }

    async fn terms(&self) -> Option<Terms> {
        Some(Terms { total_space: Some(1 << 30), ..Terms::default() })
    }
}

fn without(table: &str) -> String {
    let mut document: Value = serde_json::from_str(SCHEMA).unwrap();
    for part in ["tables", "columns"] {
        let rows = document[part].as_array_mut().unwrap();
        rows.retain(|row| row["table_name"] != table);
    }
    document.to_string()
}

#[tokio::test]
async fn an_unknown_table_is_asked_for_and_quarantined_if_nobody_knows_it() {
    for (knows_after, quarantined) in [(1, false), (usize::MAX, true)] {
        let folders = Folders::new();
        let (broker, _engine) = broker(&folders).await;
        folders.begin(PLAIN).complete();
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Late(Arc::clone(&asked), knows_after);
        let clock = Arc::new(SystemClock::new());
        let agent = Agent::start(options(&folders), broker.clone(), source, clock).await;
        agent.unwrap().catch_up().await.unwrap();
        assert_eq!(
            asked.load(Ordering::SeqCst),
            2,
            "at the start and for the first of its records"
        );
        let found = published(&broker).await;
        let kept = fs::read_dir(folders.path("state/quarantine")).unwrap().count();
        assert_eq!(found.contains_key("cassandra.fx.rows"), !quarantined);
        assert_eq!(kept, usize::from(quarantined), "one file for all of a batch");
        assert!(found["cassandra.fx.scalars"].len() > 5, "other tables go on");
        if quarantined {
            assert_eq!(folders.raw_files().len(), 2, "what could not be decoded can be read later");
        } else {
            assert_eq!(ids(&found), expected());
        }
    }
}

#[tokio::test]
async fn tables_are_chosen_and_columns_masked() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    let masks = [
        ("fx.scalars.t".to_owned(), Treatment::Hash),
        ("fx.scalars.bl".to_owned(), Treatment::Drop),
    ];
    let options = Options {
        tables: vec!["fx.scalars".parse().unwrap()],
        policy: Policy::new(masks.into(), b"salt"),
        topic_prefix: "shop".to_owned(),
        ..options(&folders)
    };
    start(options, &broker).await.catch_up().await.unwrap();
    let found = published(&broker).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["shop.fx.scalars"]);
    let events = &found["shop.fx.scalars"];
    assert!(events.iter().any(|event| event["after_data"]["t"]["$hash"].is_string()));
    assert!(events.iter().all(|event| event["columns"].get("bl").is_none()));
}

#[tokio::test]
async fn a_mask_of_a_column_that_is_not_there_is_refused() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    let masks = [("fx.scalars.tt".to_owned(), Treatment::Hash)];
    let options = Options { policy: Policy::new(masks.into(), b"salt"), ..options(&folders) };
    let clock = Arc::new(SystemClock::new());
    let refused =
        Agent::start(options, broker.clone(), SCHEMA.to_owned(), clock).await.unwrap_err();
    assert_eq!(refused.code(), "unknown_column");
    assert!(refused.to_string().contains("fx.scalars.tt"), "{refused}");
    assert!(published(&broker).await.is_empty());
}

#[tokio::test]
async fn segments_that_are_none_are_kept_and_passed_over() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let write = |name: &str, bytes: &[u8]| fs::write(folders.cdc_raw().join(name), bytes).unwrap();
    write("CommitLog-9-5.log", &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5]);
    write("CommitLog-9-5_cdc.idx", b"12\nCOMPLETED");
    // Garbage of a node that stopped: no changes, and nobody but this folder has it.
    write("CommitLog-7-6.log", &PLAIN[..20]);
    folders.begin(PLAIN).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected());
    assert_eq!(folders.raw_files(), ["CommitLog-9-5.log", "CommitLog-9-5_cdc.idx"]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_is_refused_at_once() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let options = Options::new(Path::new("no/such/folder"), folders.path("state"));
    let clock = Arc::new(SystemClock::new());
    let refused = Agent::start(options, broker, SCHEMA.to_owned(), clock).await.unwrap_err();
    assert_eq!(refused.to_string(), "no/such/folder cannot be read");
}
