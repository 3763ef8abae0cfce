//! How fast messages get from an outbox into Kafka, and what that costs over the bare things beneath.
//!
//! `cargo xtask bench messaging [throughput|latency|idle|pending|cassandra] [MESSAGES] [--full]`, all of
//! them unless some are named. Figures are printed, never asserted: compare the ratios, which come from
//! one run on one machine.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a benchmark measures and prints"
)]

mod backlog;
mod bare;
mod cassandra;
mod idle;
mod latency;
mod pending;
mod throughput;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use helenus_broker::contract::Broker;
use helenus_broker::kafka::{KafkaBroker, Options as KafkaOptions};
use helenus_model::backend::BrokerUrl;
use helenus_relay::{Mode, Options, Relay};
use helenus_sqlite::Engine;
use helenus_store::Ports;
use helenus_store::sqlite::{self, SqliteStore};
use helenus_testkit::services::Registry;
use helenus_testkit::usage::{settle_disk, stolen_time};

/// As the command has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PARTITIONS: u32 = 4;
const PARTS: [&str; 5] = ["throughput", "latency", "idle", "pending", "cassandra"];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Messages of a backlog in a file.
    backlog: usize,
    /// Messages of a backlog on a cluster.
    cluster_backlog: usize,
    /// Messages that were dispatched before a read, in a file and on a cluster.
    dispatched: (usize, usize),
    /// Seconds of each latency run.
    seconds: usize,
}

const SMALL: Size = Size {
    backlog: 500_000,
    cluster_backlog: 20_000,
    dispatched: (1_000_000, 20_000),
    seconds: 10,
};
const FULL: Size = Size {
    backlog: 500_000,
    cluster_backlog: 200_000,
    dispatched: (1_000_000, 200_000),
    seconds: 30,
};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut size = if words.iter().any(|word| word == "--full") { FULL } else { SMALL };
    if let Some(messages) = words.iter().find_map(|word| word.parse().ok()) {
        size.backlog = messages;
        size.cluster_backlog = messages.min(size.cluster_backlog);
        size.dispatched = (messages, messages.min(size.dispatched.1));
    }
    let is_name = |word: &&str| !word.starts_with("--") && word.parse::<usize>().is_err();
    let named: Vec<&str> = words.iter().map(String::as_str).filter(is_name).collect();
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
        return Err(format!("'{unknown}' is none of {}", PARTS.join(", ")).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&|part| named.is_empty() || named.contains(&part), size))
}

async fn run(wanted: &(dyn Fn(&str) -> bool + Sync), size: Size) -> Result<()> {
    let address = Registry::new().kafka()?.to_string();
    let BrokerUrl::Kafka(endpoint) = format!("kafka://{address}").parse()? else {
        return Err("not a Kafka URL".into());
    };
    let broker = KafkaBroker::new(&endpoint, KafkaOptions::default())?;
    let dir = tempfile::tempdir_in(".")?;
    println!("256 B payloads, all headers, one Kafka broker at {address}, SQLite synchronous=FULL");
    // First: the clients and stores of the others would count as the relay's.
    if wanted("idle") {
        idle::run(&broker, dir.path()).await?;
    }
    // Before the gigabytes of the next part, which the disk goes on writing for a while.
    if wanted("latency") {
        latencies(&broker, &address, dir.path(), size).await?;
    }
    if wanted("throughput") {
        throughput::run(&broker, &address, dir.path(), size.backlog).await?;
    }
    if wanted("pending") {
        pending::sqlite(dir.path(), size.dispatched.0).await?;
    }
    if wanted("cassandra") {
        cassandra::run(&broker, &address, size).await?;
    }
    Ok(())
}

async fn latencies(broker: &KafkaBroker, address: &str, dir: &Path, size: Size) -> Result<()> {
    const RATE: usize = 1_000;
    const WARM_UPS: usize = 4;
    let pace = latency::Pace { rate: RATE, messages: RATE * size.seconds };
    let measure = async |name: &str, mode, wake_up| -> Result<()> {
        let topic = topic(broker).await?;
        let store = open(&dir.join(format!("{topic}.db"))).await?;
        let options = Options { mode, wake_up, ..Options::default() };
        let relay = Relay::new(store.clone(), broker.clone(), options, Ports::system());
        settle_disk()?;
        let (began, stolen) = (Instant::now(), stolen_time()?);
        let latency = latency::measure(&relay, &store, address, &topic, pace).await?;
        let stolen = (stolen_time()? - stolen).as_secs_f64() / began.elapsed().as_secs_f64();
        println!(
            "enqueue to consumer, {RATE} msg/s, {name:<27} {latency}   {:.0} % of a core was taken by other machines",
            stolen * 100.0
        );
        Ok(())
    };
    // A broker compiles itself while it works: its first transactions take several times as long.
    for _ in 0..WARM_UPS {
        measure("exactly-once, warming up", Mode::ExactlyOnce, true).await?;
    }
    measure("at-least-once", Mode::AtLeastOnce, true).await?;
    measure("exactly-once", Mode::ExactlyOnce, true).await?;
    measure("exactly-once, polling only", Mode::ExactlyOnce, false).await?;
    Ok(())
}

async fn open(path: &Path) -> Result<SqliteStore> {
    let components = [&sqlite::COMPONENT];
    let engine = Engine::open(path, helenus_sqlite::Options::default(), &components).await?;
    Ok(SqliteStore::on(engine, Ports::system()))
}

async fn topic(broker: &KafkaBroker) -> Result<String> {
    let topic = format!("bench.{}", Ports::system().random.uuid().simple());
    broker.create_topic(&topic, PARTITIONS).await?;
    Ok(topic)
}
