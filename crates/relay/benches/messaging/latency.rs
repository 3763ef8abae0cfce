//! From the call of `enqueue` until a consumer that reads committed records has the message.

use std::fmt;
use std::time::{Duration, Instant};

use helenus_broker::kafka::KafkaBroker;
use helenus_model::{ChannelId, Message, MessageId, Payload};
use helenus_relay::Relay;
use helenus_store::Ports;
use helenus_store::contract::{Dispatch, Leases, Outbox};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message as _;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::{PARTITIONS, Result};

/// How many messages, and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Messages a second.
    pub(crate) rate: usize,
    /// Messages in all; those of the first second do not count.
    pub(crate) messages: usize,
}

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

pub(crate) async fn measure<S>(
    relay: &Relay<S, KafkaBroker>,
    store: &S,
    address: &str,
    topic: &str,
    pace: Pace,
) -> Result<Latency>
where
    S: Outbox + Dispatch + Leases + Clone + 'static,
{
    let shutdown = CancellationToken::new();
    let consumer = consumer(address, topic)?;
    let consuming = spawn_blocking(move || consume(&consumer, pace.messages));
    let measuring = async {
        let staged = stage(store, topic, pace).await;
        let seen = consuming.await?;
        shutdown.cancel();
        let (staged, seen) = (staged?, seen?);
        let mut late: Vec<Duration> = (pace.rate..pace.messages)
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

async fn stage<S>(store: &S, topic: &str, pace: Pace) -> Result<Vec<Instant>>
where
    S: Outbox + Clone + 'static,
{
    let mut ticks =
        tokio::time::interval(Duration::from_secs(1) / u32::try_from(pace.rate).unwrap_or(1));
    let mut staging = JoinSet::new();
    let now = Ports::system().clock.now();
    for number in 0..pace.messages {
        ticks.tick().await;
        let (store, topic) = (store.clone(), topic.to_owned());
        staging.spawn(async move {
            let id = MessageId::new(format!("m-{number}"))?;
            let payload = Payload::json(&serde_json::json!(number));
            let channel = ChannelId::new(topic)?;
            let message = Message {
                ordering_key: Some(format!("order-{}", number % 1_000)),
                ..Message::new(id, channel, "order.placed", payload, now)
            };
            let called = Instant::now();
            store.enqueue(message).await?;
            Ok((number, called))
        });
    }
    let mut staged = staging.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    staged.sort_unstable();
    Ok(staged.into_iter().map(|(_, at)| at).collect())
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
fn consume(consumer: &BaseConsumer, messages: usize) -> Result<Vec<Instant>> {
    /// Longest silence before the first message and between two.
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut seen = vec![None; messages];
    let (mut left, mut last) = (messages, Instant::now());
    while left > 0 {
        if last.elapsed() > PATIENCE {
            return Err(format!("{left} of {messages} messages did not come").into());
        }
        // Nothing or an error: the topic is new, and not every broker thread knows it at once.
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let number: usize = serde_json::from_slice(message.payload().unwrap_or_default())?;
        last = Instant::now();
        if seen[number].is_none() {
            seen[number] = Some(last);
            left -= 1;
        }
    }
    Ok(seen.into_iter().flatten().collect())
}
