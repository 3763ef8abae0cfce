//! From the moment a node has synced a change until it can be read from Kafka.
//!
//! The node says how far its log is synced in `_cdc.idx`, which is looked at all the time; an event says
//! where in the log it was.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use helenus_capture::node::Node;
use helenus_capture::segments::list;
use helenus_model::{Random, SystemClock, SystemRandom};
use helenus_testkit::services::{Instance, Registry, Spec};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::spawn_blocking;

use crate::load::{TABLE, connect, endpoint, insert};
use crate::{Result, agent};

const SYNC_PERIOD: &str = "100ms";
const PARTITIONS: i32 = 8;
/// Two hundred changes a second.
const EVERY: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(1);

/// When each change came, by its number, and the segment and offset it was read at.
type Seen = HashMap<i64, (Instant, (i64, u64))>;
/// When each segment was synced how far.
type Synced = Vec<(Instant, i64, u64)>;

pub(crate) async fn measure(changes: usize) -> Result<()> {
    let spec = Spec::cassandra().name("bench-live").commitlog_periodic(SYNC_PERIOD);
    let node = Instance::start(spec)?;
    let session = connect(&node).await?;
    let kafka = Registry::new().kafka()?.to_string();
    let dir = tempfile::tempdir_in(".")?;
    let schema = dir.path().join("schema.json");
    let known = Node::new(endpoint(&node)?, Arc::new(SystemClock::new()));
    std::fs::write(&schema, known.schema().await?)?;
    let prefix = format!("live{:x}", SystemRandom.next_u64());
    let cdc_raw = node.dir().join("cdc_raw");
    let _agent = agent::start(&cdc_raw, &dir.path().join("state"), &prefix, &kafka, &schema)?;
    // The first change makes the topic.
    insert(&session, -1).await?;
    let topic = format!("{prefix}.{TABLE}");
    let consumer = consumer(&kafka, &topic).await?;
    let consuming = spawn_blocking(move || consume(&consumer, changes));
    let done = Done::default();
    let watching = {
        let (done, cdc_raw) = (Arc::clone(&done.0), cdc_raw.clone());
        spawn_blocking(move || watch(&cdc_raw, &done))
    };
    let mut ticks = tokio::time::interval(EVERY);
    for number in 0..i64::try_from(changes)? {
        ticks.tick().await;
        insert(&session, number).await?;
    }
    let seen = consuming.await??;
    drop(done);
    let synced = watching.await?;
    let mut late: Vec<Duration> = seen
        .values()
        .filter_map(|(at, place)| Some(at.saturating_duration_since(when(&synced, *place)?)))
        .collect();
    late.sort_unstable();
    let millis = |part: usize| late[(late.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "from the node's sync to Kafka, {} changes, one in {EVERY:?}, commitlog_sync_period {SYNC_PERIOD}: \
         p50 {:.1} ms, p99 {:.1} ms (goal: 250 ms)",
        late.len(),
        millis(50),
        millis(99)
    );
    Ok(())
}

/// Ends the watching, also when the bench fails.
#[derive(Default)]
struct Done(Arc<AtomicBool>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// When the log was first seen to be synced as far as this.
fn when(synced: &Synced, (segment, offset): (i64, u64)) -> Option<Instant> {
    let is_past = |(_, id, end): &&(Instant, i64, u64)| *id == segment && *end >= offset;
    synced.iter().find(is_past).map(|(at, ..)| *at)
}

/// Looks at the indexes until told to stop.
fn watch(cdc_raw: &Path, done: &AtomicBool) -> Synced {
    let mut synced = Synced::new();
    let mut last = HashMap::new();
    while !done.load(Ordering::Relaxed) {
        for segment in list(cdc_raw).unwrap_or_default() {
            let Some(index) = segment.index else { continue };
            let offset = if index.completed { u64::MAX } else { index.offset };
            if last.insert(segment.id, offset) != Some(offset) {
                synced.push((Instant::now(), segment.id.0, offset));
            }
        }
        std::thread::sleep(LOOK);
    }
    synced
}

async fn consumer(kafka: &str, topic: &str) -> Result<BaseConsumer> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .set("group.id", topic)
        .set("fetch.wait.max.ms", "5")
        .create()?;
    // The topic is there when the first change is.
    let broker = agent::broker(kafka)?;
    while helenus_broker::contract::Broker::bounds(&broker, topic).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&partitions)?;
    Ok(consumer)
}

/// Reads until every change has come.
fn consume(consumer: &BaseConsumer, changes: usize) -> Result<Seen> {
    /// Longest silence between two changes.
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut seen = Seen::new();
    let mut last = Instant::now();
    while seen.len() < changes {
        if last.elapsed() > PATIENCE {
            return Err(format!("only {} of {changes} changes came", seen.len()).into());
        }
        // Nothing or an error: not every broker thread knows a new topic at once.
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let at = Instant::now();
        last = at;
        let event: serde_json::Value =
            serde_json::from_slice(message.payload().unwrap_or_default())?;
        let number = event["primary_key"]["number"].as_i64();
        let segment = event["position"]["segment"].as_i64();
        let offset = event["position"]["offset"].as_u64();
        if let (Some(number @ 0..), Some(segment), Some(offset)) = (number, segment, offset) {
            seen.entry(number).or_insert((at, (segment, offset)));
        }
    }
    Ok(seen)
}
