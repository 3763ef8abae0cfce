//! Ordinary rows, written to a node of its own, and the segments they are in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_capture::node::Node;
use helenus_capture::segments::{index_path, list};
use helenus_model::backend::{Endpoint, StoreUrl};
use helenus_model::{Random, SystemClock, SystemRandom};
use helenus_testkit::services::{Instance, Spec};
use helenus_testkit::usage::settle;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::Result;

/// Requests under way at the same time.
const AT_ONCE: usize = 64;

pub(crate) const TABLE: &str = "bench.orders";

/// A node, and complete segments of its log in a folder beside it.
pub(crate) struct Saved {
    pub(crate) node: Instance,
    pub(crate) folder: PathBuf,
    /// The schema as `capture schema` writes it.
    pub(crate) schema: PathBuf,
    pub(crate) rows: usize,
    pub(crate) segments: usize,
    /// Keeps topics apart from other runs'.
    pub(crate) prefix: String,
    pub(crate) dir: tempfile::TempDir,
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Saved { rows, segments, .. } = self;
        write!(f, "{rows} inserts of 7 columns in {segments} segments of 1 MiB, Cassandra 5.0")
    }
}

pub(crate) async fn save(rows: usize) -> Result<Saved> {
    let mut node = Instance::start(Spec::cassandra().name("bench-capture"))?;
    write(&connect(&node).await?, rows).await?;
    // A node that ends politely completes its segments; it is asked for its schema afterwards.
    node.restart()?;
    let dir = tempfile::tempdir_in(".")?;
    let schema = dir.path().join("schema.json");
    let known = Node::new(endpoint(&node)?, Arc::new(SystemClock::new()));
    std::fs::write(&schema, known.schema().await?)?;
    let folder = dir.path().join("saved");
    let segments = copy(&node.dir().join("cdc_raw"), &folder)?;
    settle(node.pid().ok_or("the node has no process")?)?;
    let prefix = format!("bench{:x}", SystemRandom.next_u64());
    Ok(Saved { node, folder, schema, rows, segments, prefix, dir })
}

pub(crate) fn endpoint(node: &Instance) -> Result<Endpoint> {
    match format!("cassandra://{}", node.endpoint()).parse()? {
        StoreUrl::Cassandra(endpoint) => Ok(endpoint),
        StoreUrl::Sqlite(_) => Err("no cluster".into()),
    }
}

pub(crate) async fn connect(node: &Instance) -> Result<Session> {
    let session = SessionBuilder::new()
        .known_node(node.endpoint().to_string())
        .connection_timeout(Duration::from_secs(30))
        .build()
        .await?;
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS bench WITH replication =
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS bench.orders (customer text, number bigint, status text,
         total decimal, currency ascii, placed timestamp, note text,
         PRIMARY KEY (customer, number)) WITH cdc = true",
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    Ok(session)
}

const INSERT: &str =
    "INSERT INTO bench.orders (customer, number, status, total, currency, placed, note)
     VALUES (?, ?, 'placed', 12.50, 'EUR', '2026-11-15 12:00:00+0000', ?)";

async fn write(session: &Session, rows: usize) -> Result<()> {
    let insert = session.prepare(INSERT).await?;
    let note = "leave it with the neighbours, second floor, door on the left";
    stream::iter(0..i64::try_from(rows)?)
        .map(Ok::<_, Box<dyn std::error::Error + Send + Sync>>)
        .try_for_each_concurrent(AT_ONCE, async |number| {
            let customer = format!("customer-{}", number % 5_000);
            session.execute_unpaged(&insert, (customer, number, note)).await?;
            Ok(())
        })
        .await
}

/// Inserts one row.
pub(crate) async fn insert(session: &Session, number: i64) -> Result<()> {
    session.query_unpaged(INSERT, (format!("customer-{}", number % 50), number, "live")).await?;
    Ok(())
}

/// Puts the complete segments of a folder into another one, as further names of the same files.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<usize> {
    std::fs::create_dir_all(to)?;
    let mut count = 0;
    for segment in list(from)? {
        if !segment.index.is_some_and(|index| index.completed) {
            continue;
        }
        for path in [segment.log.clone(), index_path(&segment.log)] {
            std::fs::copy(&path, to.join(path.file_name().ok_or("a folder")?))?;
        }
        count += 1;
    }
    Ok(count)
}

/// Segments of a folder read one after the other, for those who need them in memory.
pub(crate) fn bytes(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let read = list(folder)?.into_iter().map(|segment| std::fs::read(segment.log));
    Ok(read.collect::<std::io::Result<_>>()?)
}
