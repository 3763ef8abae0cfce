//! Publishing beside other loaders, and reading through versions beside the bare driver.
//!
//! `cargo xtask bench versions [publish|reads|switch]… [--rows N] [--rounds N] [--reads N]`. Figures
//! are printed, never asserted: compare the ratios, which come from one run on one node.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::large_futures,
    reason = "a benchmark measures and prints"
)]

mod load;
mod publish;
mod reads;
mod switch;

use std::sync::Arc;

use helenus_model::Timestamp;
use helenus_store::Ports;
use helenus_store::cassandra::Options;
use helenus_testkit::services::{Instance, Spec};
use helenus_versions::cassandra::CassandraVersions;
use helenus_versions::publish::{Publish, SchemaFrom};
use helenus_versions::{TableName, TableSchema};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const KEYSPACE: &str = "bench";
const PARTS: [&str; 3] = ["publish", "reads", "switch"];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Rows that are loaded.
    rows: u64,
    /// Alternating runs, of which the median counts.
    rounds: usize,
    /// Reads of one run.
    reads: usize,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let [first, address, file] = words.as_slice()
        && first == load::CHILD
    {
        return runtime.block_on(load::child(address, file));
    }
    let mut size = Size { rows: 500_000, rounds: 7, reads: 20_000 };
    let mut parts = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let told = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            Ok(told.parse()?)
        };
        match word.as_str() {
            "--rows" => size.rows = number()?,
            "--rounds" => size.rounds = usize::try_from(number()?)?.max(1),
            "--reads" => size.reads = usize::try_from(number()?)?,
            part if PARTS.contains(&part) => parts.push(part.to_owned()),
            other => return Err(format!("'{other}' is none of {}", PARTS.join(", ")).into()),
        }
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    // A node of its own, so that the processor time it prints is of this bench alone.
    let node = Instance::start(node())?;
    if wanted("publish") {
        publish::run(&runtime, &node, size)?;
    }
    if wanted("reads") {
        runtime.block_on(reads::run(&node, size))?;
    }
    if wanted("switch") {
        runtime.block_on(switch::run(&node, size))?;
    }
    Ok(())
}

/// A node with the settings that Cassandra comes with, where those of tests differ: these are made for
/// many short segments and little memory.
fn node() -> Spec {
    Spec::cassandra()
        .name("bench")
        .heap("2G")
        .set("cdc_enabled", "false")
        .set("commitlog_segment_size", "32MiB")
        .set("commitlog_total_space", "8192MiB")
        .set("commitlog_sync_period", "10000ms")
        .set("memtable_heap_space", "512MiB")
        .set("memtable_offheap_space", "512MiB")
        .set("memtable_flush_writers", "2")
        .set("concurrent_reads", "32")
        .set("concurrent_writes", "32")
        .set("concurrent_compactors", "2")
}

/// Versions on the node, in the keyspace of the bench.
async fn versions(address: &str) -> Result<CassandraVersions> {
    let session = SessionBuilder::new().known_node(address).build().await?;
    on(Arc::new(session)).await
}

async fn on(session: Arc<Session>) -> Result<CassandraVersions> {
    let options = Options { keyspace: Some(KEYSPACE.to_owned()), ..Options::default() };
    Ok(Box::pin(CassandraVersions::on(session, options, Ports::system())).await?)
}

/// A run of `file` into the table `name`, as the command line makes it.
fn run_of(name: &str, file: &str, data_ts: i64) -> Result<Publish> {
    let schema = SchemaFrom::Given(TableSchema::parse(&load::create(name))?);
    let data_ts = Timestamp::from_millis(data_ts);
    let run_id = format!("{name}-{}", data_ts.as_millis());
    let table = TableName::new(KEYSPACE, name);
    Ok(Publish { schema, ..Publish::new(table, data_ts, &run_id, vec![file.into()]) })
}

/// The median of what several runs gave.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
