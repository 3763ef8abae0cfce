//! How fast messages get from an outbox in SQLite into Kafka, and what that costs over a bare producer.
//!
//! `cargo xtask bench messaging [MESSAGES]`. Figures are printed, never asserted: compare the ratios,
//! which come from one run on one machine.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "a benchmark measures and prints"
)]

mod backlog;
mod bare;
mod latency;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use helenus_broker::contract::Broker;
use helenus_broker::kafka::{KafkaBroker, Options as KafkaOptions};
use helenus_model::backend::BrokerUrl;
use helenus_relay::{Mode, Options, Relay};
use helenus_sqlite::Engine;
use helenus_store::Ports;
use helenus_store::sqlite::{self, SqliteStore};
use helenus_testkit::services::Registry;
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Messages of a backlog unless told otherwise.
const MESSAGES: usize = 500_000;
/// Messages in a transaction, for both.
const BATCH: usize = 5_000;
const PARTITIONS: u32 = 4;

fn main() -> Result<()> {
    let messages = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(MESSAGES);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(messages))
}

async fn run(messages: usize) -> Result<()> {
    let address = Registry::new().kafka()?.to_string();
    let BrokerUrl::Kafka(endpoint) = format!("kafka://{address}").parse()? else {
        return Err("not a Kafka URL".into());
    };
    let broker = KafkaBroker::new(&endpoint, KafkaOptions::default())?;
    let dir = tempfile::tempdir_in(".")?;
    println!("256 B payloads, all headers, one Kafka broker at {address}, SQLite synchronous=FULL");
    throughput(&broker, &address, dir.path(), messages).await?;
    for (name, mode, wake_up) in [
        ("at-least-once", Mode::AtLeastOnce, true),
        ("exactly-once", Mode::ExactlyOnce, true),
        ("exactly-once, polling only", Mode::ExactlyOnce, false),
    ] {
        let store = open(&dir.path().join(format!("{mode:?}-{wake_up}.db"))).await?;
        let topic = topic(&broker).await?;
        let options = Options { mode, wake_up, ..Options::default() };
        let relay = Relay::new(store.clone(), broker.clone(), options, Ports::system());
        let latency = latency::measure(&relay, &store, &address, &topic).await?;
        println!("enqueue to consumer, 1,000 msg/s, {name:<27} {latency}");
    }
    idle(&broker, dir.path()).await
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

async fn throughput(
    broker: &KafkaBroker,
    address: &str,
    dir: &Path,
    messages: usize,
) -> Result<()> {
    let bare = bare::publish(address, &topic(broker).await?, messages)?;
    println!("bare transactional producer, {BATCH} a transaction   {bare:>9.0} msg/s");
    for mode in [Mode::ExactlyOnce, Mode::AtLeastOnce] {
        let store = open(&dir.join(format!("backlog-{mode:?}.db"))).await?;
        backlog::seed(&store, &topic(broker).await?, messages).await?;
        let options = Options { mode, batch: BATCH, catch_up_batch: BATCH, ..Options::default() };
        let relay = Relay::new(store.clone(), broker.clone(), options, Ports::system());
        let started = Instant::now();
        let totals = relay.run_until_empty(CancellationToken::new()).await?;
        let rate = totals.published as f64 / started.elapsed().as_secs_f64();
        println!(
            "relay from a backlog of {messages}, {mode:?}      {rate:>9.0} msg/s   {:.0} % of the bare producer",
            100.0 * rate / bare
        );
        store.engine().close().await;
    }
    Ok(())
}

/// Processor time of this process while its relay has nothing to do.
async fn idle(broker: &KafkaBroker, dir: &Path) -> Result<()> {
    const LOOK: Duration = Duration::from_secs(20);
    let store = open(&dir.join("idle.db")).await?;
    let relay = Relay::new(store, broker.clone(), Options::default(), Ports::system());
    let shutdown = CancellationToken::new();
    let watching = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = processor_ticks();
        tokio::time::sleep(LOOK).await;
        shutdown.cancel();
        processor_ticks() - before
    };
    let (ended, ticks) = tokio::join!(relay.run(shutdown.clone()), watching);
    ended?;
    // The kernel counts in hundredths of a second.
    let share = ticks as f64 / 100.0 / LOOK.as_secs_f64();
    println!(
        "idle relay                                          {:>8.2} % of a core",
        100.0 * share
    );
    Ok(())
}

/// User and system time of this process, in the kernel's ticks.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
