//! Kafka, through librdkafka.
//!
//! The library's own threads do the work; what blocks on them runs on the runtime's blocking threads.
//! A topic's partitions are counted as every Kafka client counts them, so records of a key published
//! here and elsewhere share a partition.

mod clients;
mod deliveries;
mod error;
mod groups;
mod heap;
mod probe;
mod publish;
mod read;
mod topics;
mod transactions;

use std::fmt;
use std::sync::Arc;

use helenus_model::backend::Endpoint;
use helenus_model::limits::TOPIC_READ_MAX;
use tokio::task::{JoinError, spawn_blocking};

use crate::contract::{
    Bounds, Broker, NewRecord, Offset, Position, Record, Refusal, Retention, Topic,
};
use crate::{contract, partition};

use clients::Clients;
use publish::BATCH_BYTES;
use read::{Reader, partition_number};
use topics::{Admin, Known};

pub use clients::Options;
pub use error::Error;
pub use probe::probe;
pub use transactions::KafkaPublisher;

/// A compacted topic is cleaned soon and in small pieces, so that reading it stays short.
const COMPACTED: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "1048576"),
    ("segment.ms", "600000"),
    ("min.cleanable.dirty.ratio", "0.01"),
];

/// Topics of a Kafka cluster. Cheap to clone.
///
/// ```no_run
/// use helenus_broker::contract::Broker;
/// use helenus_broker::kafka::{KafkaBroker, Options};
/// use helenus_model::backend::BrokerUrl;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let BrokerUrl::Kafka(endpoint) = "kafka://localhost:9092".parse()? else { unreachable!() };
/// let broker = KafkaBroker::new(&endpoint, Options::default())?;
/// broker.create_topic("orders", 4).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KafkaBroker {
    shared: Arc<Shared>,
}

struct Shared {
    clients: Clients,
    topics: topics::Topics,
    readers: read::Readers,
    groups: groups::Groups,
    producers: publish::Producers,
    admin: Admin,
}

impl fmt::Debug for KafkaBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaBroker").field("clients", &self.shared.clients).finish()
    }
}

impl KafkaBroker {
    /// A broker that is not spoken to before it is first used. Settings are looked at now.
    pub fn new(endpoint: &Endpoint, options: Options) -> Result<Self, Error> {
        let clients = Clients::new(endpoint, options);
        let admin = Admin::new(&clients)?;
        Ok(KafkaBroker {
            shared: Arc::new(Shared {
                clients,
                topics: topics::Topics::default(),
                readers: read::Readers::default(),
                groups: groups::Groups::default(),
                producers: publish::Producers::default(),
                admin,
            }),
        })
    }

    /// How long each of these topics keeps its records. Those that are not there, or that this client
    /// may not ask about, are left out.
    pub async fn retentions(
        &self,
        topics: &[String],
    ) -> Result<Vec<(String, Retention)>, contract::Error> {
        self.shared.admin.retentions(self.clients(), topics).await
    }

    fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    /// Runs `work`, which may block, with a reader.
    async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader, &Clients) -> Result<T, contract::Error> + Send + 'static,
    ) -> Result<T, contract::Error> {
        let shared = Arc::clone(&self.shared);
        let done = spawn_blocking(move || {
            shared.readers.with(&shared.clients, |reader| work(reader, &shared.clients))
        });
        done.await.unwrap_or_else(panicked)
    }

    /// What is known of a topic; `None` if it is not there.
    async fn look_up(&self, topic: &str) -> Result<Option<Known>, contract::Error> {
        if let Some(known) = self.shared.topics.remembered(topic) {
            return Ok(known);
        }
        let name = topic.to_owned();
        let partitions =
            self.reading(move |reader, clients| topics::partitions(reader, clients, &name)).await?;
        let known = match partitions {
            None => None,
            Some(partitions) => {
                let record_bytes_max = self.shared.admin.record_bytes_max(topic).await;
                Some(Known { partitions, record_bytes_max })
            }
        };
        self.shared.topics.remember(topic, known);
        Ok(known)
    }

    async fn known(&self, topic: &str) -> Result<Known, contract::Error> {
        let known = self.look_up(topic).await?;
        known.ok_or_else(|| contract::Error::UnknownTopic { topic: topic.to_owned() })
    }

    async fn check(&self, topic: &str, partition: u32) -> Result<(), contract::Error> {
        let Known { partitions, .. } = self.known(topic).await?;
        if partition < partitions {
            return Ok(());
        }
        let topic = topic.to_owned();
        Err(contract::Error::UnknownPartition { topic, partition, partitions })
    }

    /// Where records go, or why one of them is refused.
    async fn place(&self, records: &[NewRecord]) -> Result<Placed, contract::Error> {
        let mut partitions = Vec::with_capacity(records.len());
        let mut batch_bytes = BATCH_BYTES;
        let mut last: Option<(&str, Known)> = None;
        for record in records {
            // Mostly one topic follows itself.
            let known = match last {
                Some((topic, known)) if *topic == *record.topic => known,
                _ => self.known(&record.topic).await?,
            };
            last = Some((&record.topic, known));
            check_size(record, known)?;
            batch_bytes = batch_bytes.min(known.record_bytes_max);
            let key = record.key.as_ref();
            let partition = key.map_or(0, |key| partition::of_key(key, known.partitions));
            partitions.push(partition_number(partition));
        }
        Ok(Placed { partitions, batch_bytes })
    }

    async fn create(
        &self,
        topic: &str,
        partitions: u32,
        settings: &[(&str, &str)],
    ) -> Result<(), contract::Error> {
        let invalid =
            |reason: String| Err(contract::Error::InvalidTopic { topic: topic.to_owned(), reason });
        if topic.is_empty() {
            return invalid("it has no name".to_owned());
        }
        if partitions == 0 {
            return invalid("it needs at least one partition".to_owned());
        }
        self.shared.admin.create(self.clients(), topic, partitions, settings).await?;
        // The cluster answers before every broker knows; whoever is told of the topic may use it.
        let deadline = tokio::time::Instant::now() + self.clients().options.timeout;
        let found = loop {
            self.shared.topics.forget(topic);
            match self.look_up(topic).await? {
                Some(known) => break known.partitions,
                None if tokio::time::Instant::now() >= deadline => {
                    return Err(contract::Error::UnknownTopic { topic: topic.to_owned() });
                }
                None => tokio::time::sleep(topics::LOOK_AGAIN).await,
            }
        };
        if found != partitions {
            return invalid(format!("it exists with {found} partitions, not {partitions}"));
        }
        Ok(())
    }
}

/// Where records go.
struct Placed {
    /// The partition of each.
    partitions: Vec<i32>,
    /// The largest batch that each of their topics takes: `max.message.bytes` is one of batches.
    batch_bytes: usize,
}

fn check_size(record: &NewRecord, known: Known) -> Result<(), contract::Error> {
    let (bytes, limit) = (record.bytes_max(), known.record_bytes_max);
    if bytes <= limit {
        return Ok(());
    }
    Err(contract::Error::TooLarge { topic: record.topic.to_string(), bytes, limit })
}

/// A blocking task ends early only by a panic, which goes on here.
fn panicked<T>(error: JoinError) -> T {
    std::panic::resume_unwind(error.into_panic())
}

impl Broker for KafkaBroker {
    type Publisher = KafkaPublisher;

    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), contract::Error> {
        self.create(topic, partitions, &[]).await
    }

    async fn create_compacted_topic(
        &self,
        topic: &str,
        partitions: u32,
    ) -> Result<(), contract::Error> {
        self.create(topic, partitions, &COMPACTED).await?;
        let policy = self.shared.admin.setting(topic, "cleanup.policy").await;
        if policy.is_none_or(|policy| policy == "compact") {
            return Ok(());
        }
        let reason = "it exists and is not compacted".to_owned();
        Err(contract::Error::InvalidTopic { topic: topic.to_owned(), reason })
    }

    async fn topics(&self) -> Result<Vec<Topic>, contract::Error> {
        self.reading(topics::list).await
    }

    async fn bounds(&self, topic: &str) -> Result<Vec<Bounds>, contract::Error> {
        let Known { partitions, .. } = self.known(topic).await?;
        let topic = topic.to_owned();
        self.reading(move |reader, clients| {
            let partitions = (0..partitions).map(partition_number);
            partitions.map(|partition| reader.bounds(clients, &topic, partition)).collect()
        })
        .await
    }

    async fn refusals(&self, records: &[NewRecord]) -> Result<Vec<Refusal>, contract::Error> {
        let mut refusals = Vec::new();
        let mut last: Option<(&str, Known)> = None;
        for (index, record) in records.iter().enumerate() {
            let same = last.filter(|(topic, _)| **topic == *record.topic);
            let known = match same {
                Some((_, known)) => Ok(known),
                None => self.known(&record.topic).await,
            };
            last = known.as_ref().ok().map(|known| (&*record.topic, *known));
            let checked = known.and_then(|known| check_size(record, known));
            match checked {
                Ok(()) => {}
                Err(error @ contract::Error::Backend(_)) => return Err(error),
                Err(error) => refusals.push(Refusal { index, error }),
            }
        }
        Ok(refusals)
    }

    async fn publish(&self, records: &[NewRecord]) -> Result<Vec<Position>, contract::Error> {
        let placed = self.place(records).await?;
        self.shared.producers.publish(self.clients(), records, &placed).await
    }

    async fn publisher(&self, name: &str) -> Result<KafkaPublisher, contract::Error> {
        KafkaPublisher::take(self.clone(), name).await
    }

    async fn read(&self, from: Position, limit: usize) -> Result<Vec<Record>, contract::Error> {
        self.check(&from.topic, from.partition).await?;
        let limit = limit.min(TOPIC_READ_MAX);
        self.reading(move |reader, clients| reader.read(clients, &from, limit)).await
    }

    async fn last(&self, topic: &str, partition: u32) -> Result<Option<Record>, contract::Error> {
        self.check(topic, partition).await?;
        let topic = topic.to_owned();
        self.reading(move |reader, clients| reader.last(clients, &topic, partition)).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Offset>, contract::Error> {
        self.check(topic, partition).await?;
        let (shared, group, topic) = (Arc::clone(&self.shared), group.to_owned(), topic.to_owned());
        let found = spawn_blocking(move || {
            let group = shared.groups.get(&shared.clients, &group)?;
            group.committed(&shared.clients, &topic, partition)
        });
        found.await.unwrap_or_else(panicked)
    }

    async fn commit(&self, group: &str, next: Position) -> Result<(), contract::Error> {
        self.check(&next.topic, next.partition).await?;
        let (shared, group) = (Arc::clone(&self.shared), group.to_owned());
        let done = spawn_blocking(move || {
            let group = shared.groups.get(&shared.clients, &group)?;
            group.commit(&shared.clients, &next)
        });
        done.await.unwrap_or_else(panicked)
    }
}
