//! A segment of a node's commit log, recorded from Cassandra 5.0: its changes as an agent publishes them,
//! and its rows as the node showed them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use helenus::backend::BrokerUrl;
use helenus::broker::{Broker as _, Offset, Position};
use helenus::capture::agent::Agent;
use helenus::capture::commitlog::Header;
use helenus::capture::cql::reconcile::TableState;
use helenus::capture::cql::update::Seconds;
use helenus::capture::offline::{Found, Wanted, scan};
use helenus::capture::options::Options;
use helenus::capture::schema::History;
use helenus::{Broker, Ports};
use helenus_server::Check;
use serde::Deserialize;

use super::pipeline::Run;
use crate::exit::Failed;

const SEGMENT: &[u8] = include_bytes!("../../../../commitlog/tests/fixtures/plain.log");
const SCHEMA: &str = include_str!("../../../../commitlog/tests/fixtures/schema.json");
const ANSWERS: &str = include_str!("../../../../commitlog/tests/fixtures/rows.json");
const DOCUMENT: &str = "schema.json";
/// Rows, static columns, deletions of ranges and partitions, ties, TTLs.
const TABLE: (&str, &str) = ("fx", "rows");

/// What the node answered, and when.
#[derive(Deserialize)]
struct Answers {
    at: HashMap<String, i64>,
    rows: HashMap<String, Vec<String>>,
}

pub(super) async fn run(path: &Path, run: &Run) -> Result<Vec<Check>, Failed> {
    let folder = tempfile::tempdir()
        .map_err(Failed::system("make a temporary folder", "look at the folder's rights"))?;
    let cdc_raw = folder.path().join("cdc_raw");
    let log = lay_out(&cdc_raw)
        .map_err(Failed::system("write a recorded segment", "make room in the folder"))?;
    let (seen, answered) = (rows(&log, &cdc_raw.with_file_name(DOCUMENT))?, answers());

    let ports = Ports::system();
    let store = super::open(path, &ports).await?;
    let broker = Broker::open(&BrokerUrl::Embedded, &store)?;
    let options = Options {
        topic_prefix: format!("{}.cassandra", run.prefix),
        ..Options::new(&cdc_raw, folder.path().join("state"))
    };
    let prefix = options.topic_prefix.clone();
    let clock = Arc::clone(&ports.clock);
    let agent = Agent::start(options, broker.clone(), SCHEMA.to_owned(), clock);
    let published = Box::pin(Box::pin(agent).await?.catch_up()).await?;
    let (topics, changes) = changes(&broker, &prefix).await?;
    store.close().await;
    let left = std::fs::read_dir(&cdc_raw).map_or(0, Iterator::count);
    let check = |name, ok, detail: String| Check { name, ok, detail };
    Ok(vec![
        check(
            "the changes in a Cassandra node's log are in topics",
            published > 0 && changes >= published && left == 0,
            format!(
                "{published} changes and announcements in {topics} topics, the segment released"
            ),
        ),
        check(
            "merged, they are the rows that the node showed",
            !seen.is_empty() && seen == answered,
            format!("{} rows, to the character", seen.len()),
        ),
    ])
}

/// The node's folder, with the segment and its index, and the schema beside it.
fn lay_out(cdc_raw: &Path) -> std::io::Result<std::path::PathBuf> {
    let header = Header::parse(SEGMENT).map_err(std::io::Error::other)?;
    let name = format!("CommitLog-7-{}", header.id);
    std::fs::create_dir(cdc_raw)?;
    std::fs::write(cdc_raw.with_file_name(DOCUMENT), SCHEMA)?;
    let index = format!("{}\nCOMPLETED", SEGMENT.len());
    std::fs::write(cdc_raw.join(format!("{name}_cdc.idx")), index)?;
    let log = cdc_raw.join(format!("{name}.log"));
    std::fs::write(&log, SEGMENT)?;
    Ok(log)
}

/// The table's rows, from the segment alone.
fn rows(log: &Path, schema: &Path) -> Result<Vec<String>, Failed> {
    let (keyspace, name) = TABLE;
    let mut history = History::open(schema)?;
    let mut state = TableState::default();
    let mut damaged = false;
    scan(log, &mut history, &Wanted::Table(keyspace, name), &mut |found| {
        let Found::Mutation(_, mutation) = found else { return };
        for update in mutation.updates.iter().filter(|update| &*update.table.name == name) {
            damaged |= state.apply(update).is_err();
        }
    })?;
    let Some(table) = history.table(keyspace, name).filter(|_| !damaged) else {
        return Ok(Vec::new());
    };
    let rows = state.select(&table, Seconds(recorded().at.get("plain").copied().unwrap_or(0)));
    let mut rows: Vec<String> = rows.flatten().collect();
    rows.sort();
    Ok(rows)
}

fn recorded() -> Answers {
    serde_json::from_str(ANSWERS).unwrap_or(Answers { at: HashMap::new(), rows: HashMap::new() })
}

/// The table's rows, as the node answered `SELECT JSON *`.
fn answers() -> Vec<String> {
    let (keyspace, name) = TABLE;
    let mut rows = recorded().rows.remove(&format!("{keyspace}.{name}")).unwrap_or_default();
    rows.sort();
    rows
}

/// How many topics the agent made, and how many records are in them.
async fn changes(broker: &Broker, prefix: &str) -> Result<(usize, u64), Failed> {
    let (mut made, mut count) = (0, 0);
    for topic in broker.topics().await?.iter().filter(|topic| topic.name.starts_with(prefix)) {
        made += 1;
        for partition in 0..topic.partitions {
            let topic = topic.name.as_str().into();
            let from = Position { topic, partition, offset: Offset::START };
            count += broker.read(from, 10_000).await?.len() as u64;
        }
    }
    Ok((made, count))
}
