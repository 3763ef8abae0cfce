//! From the call of `enqueue` until a consumer that reads committed records has the message.

use std::fmt;
use std::time::{Duration, Instant};

use helenus_broker::kafka::KafkaBroker;
use helenus_model::{ChannelId, Message, MessageId, Payload};
use helenus_relay::Relay;
use helenus_store::Ports;
use helenus_store::contract::Outbox;
use helenus_store::sqlite::SqliteStore;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message as _;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::{PARTITIONS, Result};

const WARM_UP: usize = 1_000;
const MESSAGES: usize = 10_000;
/// A thousand a second.
const EVERY: Duration = Duration::from_millis(1);

/// What was measured.
pub(crate) struct Latency {
    p50: Duration,
    p99: Duration,
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        write!(f, "p50 {:>6.1} ms   p99 {:>6.1} ms", millis(self.p50), millis(self.p99))
    }
}

pub(crate) async fn measure(
    relay: &Relay<SqliteStore, KafkaBroker>,
    store: &SqliteStore,
    address: &str,
    topic: &str,
) -> Result<Latency> {
    let shutdown = CancellationToken::new();
    let consumer = consumer(address, topic)?;
    let consuming = spawn_blocking(move || consume(&consumer));
    let measuring = async {
        let staged = stage(store, topic).await;
        let seen = consuming.await?;
        shutdown.cancel();
        let mut late: Vec<Duration> = (WARM_UP..MESSAGES)
            .map(|number| seen[number].saturating_duration_since(staged[number]))
            .collect();
        late.sort_unstable();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Latency {
            p50: late[late.len() / 2],
            p99: late[late.len() * 99 / 100],
        })
    };
    let (ended, measured) = tokio::join!(relay.run(shutdown.clone()), measuring);
    ended?;
    measured
}

async fn stage(store: &SqliteStore, topic: &str) -> Vec<Instant> {
    let mut ticks = tokio::time::interval(EVERY);
    let mut staging = JoinSet::new();
    let now = Ports::system().clock.now();
    for number in 0..MESSAGES {
        ticks.tick().await;
        let (store, topic) = (store.clone(), topic.to_owned());
        staging.spawn(async move {
            let id = MessageId::new(format!("m-{number}")).ok()?;
            let payload = Payload::json(&serde_json::json!(number));
            let channel = ChannelId::new(topic).ok()?;
            let message = Message {
                ordering_key: Some(format!("order-{}", number % 1_000)),
                ..Message::new(id, channel, "order.placed", payload, now)
            };
            let called = Instant::now();
            store.enqueue(message).await.ok()?;
            Some((number, called))
        });
    }
    let mut staged = vec![Instant::now(); MESSAGES];
    for (number, at) in staging.join_all().await.into_iter().flatten() {
        staged[number] = at;
    }
    staged
}

fn consumer(address: &str, topic: &str) -> Result<BaseConsumer> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("group.id", topic)
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "5")
        .create()?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset(topic, i32::try_from(partition)?, Offset::Beginning)?;
    }
    consumer.assign(&partitions)?;
    Ok(consumer)
}

/// When each message came.
fn consume(consumer: &BaseConsumer) -> Vec<Instant> {
    let mut seen = vec![None; MESSAGES];
    let mut left = MESSAGES;
    while left > 0 {
        let message = match consumer.poll(Duration::from_secs(60)) {
            Some(Ok(message)) => message,
            // The topic is new; not every broker thread knows it at once.
            Some(Err(_)) => continue,
            None => break,
        };
        let payload = message.payload().unwrap_or_default();
        let Ok(number) = serde_json::from_slice::<usize>(payload) else { continue };
        if seen[number].is_none() {
            seen[number] = Some(Instant::now());
            left -= 1;
        }
    }
    seen.into_iter().map(|at| at.unwrap_or_else(Instant::now)).collect()
}
