//! From a URL to an open broker, and its contract on whichever it is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(feature = "kafka")]
use helenus_broker::contract::Retention;
use helenus_broker::contract::{
    self, Bounds, Error, NewRecord, Offset, Position, Record, Refusal, Topic, Transaction,
};
use helenus_broker::embedded::{EmbeddedBroker, EmbeddedPublisher};
#[cfg(feature = "kafka")]
use helenus_broker::kafka::{self, KafkaBroker, KafkaPublisher};
use helenus_model::backend::BrokerUrl;
use helenus_model::{Failure, Kind, Timestamp};

use crate::Store;

/// An open broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Embedded(EmbeddedBroker),
    #[cfg(feature = "kafka")]
    Kafka(KafkaBroker),
}

/// The publisher of a name on an open broker.
#[derive(Debug)]
pub struct Publisher {
    backend: PublisherBackend,
}

#[derive(Debug)]
enum PublisherBackend {
    Embedded(EmbeddedPublisher),
    #[cfg(feature = "kafka")]
    Kafka(KafkaPublisher),
}

/// How a broker is used.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Makes topics that are not there when something is published to them: the embedded broker with
    /// so many partitions, Kafka if its `auto.create.topics.enable` is on, as its settings say.
    pub create_topics: Option<u32>,
    /// How long a request to Kafka may take.
    pub timeout: Duration,
    /// Settings of librdkafka by their names.
    pub settings: BTreeMap<String, String>,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        let timeout = Duration::from_secs(30);
        BrokerOptions { create_topics: None, timeout, settings: BTreeMap::new() }
    }
}

/// Why a broker could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerOpenError {
    /// This program was built without that backend.
    #[error("this program was built without the backend of {url}")]
    NotBuilt {
        /// Where it was asked to.
        url: String,
    },
    /// The embedded broker lives in the store's file, and the store is not a file.
    #[error("the embedded broker lives in the store's file, and the store is not a file")]
    NoFile,
    /// The cluster cannot be used as it is configured.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
}

impl Failure for BrokerOpenError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            BrokerOpenError::NotBuilt { .. } => "not_built",
            BrokerOpenError::NoFile => "no_file",
            #[cfg(feature = "kafka")]
            BrokerOpenError::Kafka(error) => error.code(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            BrokerOpenError::NotBuilt { .. } => "use broker.url = \"embedded:\"",
            BrokerOpenError::NoFile => {
                "use store.url = \"sqlite:helenus.db\", or broker.url = \"kafka://host\""
            }
            #[cfg(feature = "kafka")]
            BrokerOpenError::Kafka(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

impl Broker {
    /// Opens the broker at `url`; the embedded one lives in the store's file. A cluster is not spoken
    /// to before it is first used.
    pub fn open(url: &BrokerUrl, store: &Store) -> Result<Broker, BrokerOpenError> {
        Self::open_with(url, Some(store), BrokerOptions::default())
    }

    /// The same with options; a broker of its own needs no store.
    pub fn open_with(
        url: &BrokerUrl,
        store: Option<&Store>,
        options: BrokerOptions,
    ) -> Result<Broker, BrokerOpenError> {
        let backend = match url {
            BrokerUrl::Embedded => {
                let engine = store.and_then(Store::engine).ok_or(BrokerOpenError::NoFile)?;
                let broker = EmbeddedBroker::on(engine.clone());
                Backend::Embedded(match options.create_topics {
                    Some(partitions) => broker.creating_topics(partitions),
                    None => broker,
                })
            }
            #[cfg(feature = "kafka")]
            BrokerUrl::Kafka(endpoint) => {
                let BrokerOptions { create_topics, timeout, settings } = options;
                let create_topics = create_topics.is_some();
                let options = kafka::Options { create_topics, timeout, settings };
                Backend::Kafka(KafkaBroker::new(endpoint, options)?)
            }
            #[cfg(not(feature = "kafka"))]
            BrokerUrl::Kafka(_) => {
                return Err(BrokerOpenError::NotBuilt { url: url.to_string() });
            }
        };
        Ok(Broker { backend })
    }
}

impl Broker {
    /// Removes records of embedded topics that are older than `before`, a bounded number at a time,
    /// except from compacted ones; gives how many. Kafka removes its own, so nothing is done there.
    pub async fn expire(&self, before: Timestamp) -> Result<usize, Error> {
        match &self.backend {
            Backend::Embedded(broker) => broker.expire(before).await,
            #[cfg(feature = "kafka")]
            Backend::Kafka(_) => Ok(0),
        }
    }

    /// How long these topics of Kafka keep their records. Topics that are not there are left out, and
    /// so are embedded ones, which keep theirs until they are [expired](Self::expire).
    #[cfg(feature = "kafka")]
    pub async fn retentions(&self, topics: &[String]) -> Result<Vec<(String, Retention)>, Error> {
        match &self.backend {
            Backend::Embedded(_) => Ok(Vec::new()),
            Backend::Kafka(broker) => broker.retentions(topics).await,
        }
    }
}

/// Calls the same method of whichever backend it is.
macro_rules! on_backend {
    ($kind:ident, $self:expr, $broker:ident => $call:expr) => {
        match $self {
            $kind::Embedded($broker) => $call,
            #[cfg(feature = "kafka")]
            $kind::Kafka($broker) => $call,
        }
    };
}

impl contract::Publisher for Publisher {
    async fn publish(&mut self, transaction: Transaction) -> Result<(), Error> {
        on_backend!(PublisherBackend, &mut self.backend, own => own.publish(transaction).await)
    }

    async fn finish(self) -> Result<(), Error> {
        on_backend!(PublisherBackend, self.backend, own => own.finish().await)
    }
}

impl contract::Broker for Broker {
    type Publisher = Publisher;

    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
        on_backend!(Backend, &self.backend, own => own.create_topic(topic, partitions).await)
    }

    async fn create_compacted_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
        on_backend!(Backend, &self.backend, own => {
            own.create_compacted_topic(topic, partitions).await
        })
    }

    async fn topics(&self) -> Result<Vec<Topic>, Error> {
        on_backend!(Backend, &self.backend, own => own.topics().await)
    }

    async fn bounds(&self, topic: &str) -> Result<Vec<Bounds>, Error> {
        on_backend!(Backend, &self.backend, own => own.bounds(topic).await)
    }

    async fn refusals(&self, records: &[NewRecord]) -> Result<Vec<Refusal>, Error> {
        on_backend!(Backend, &self.backend, own => own.refusals(records).await)
    }

    async fn publish(&self, records: &[NewRecord]) -> Result<Vec<Position>, Error> {
        on_backend!(Backend, &self.backend, own => own.publish(records).await)
    }

    async fn publisher(&self, name: &str) -> Result<Publisher, Error> {
        let backend = match &self.backend {
            Backend::Embedded(broker) => PublisherBackend::Embedded(broker.publisher(name).await?),
            #[cfg(feature = "kafka")]
            Backend::Kafka(broker) => PublisherBackend::Kafka(broker.publisher(name).await?),
        };
        Ok(Publisher { backend })
    }

    async fn read(&self, from: Position, limit: usize) -> Result<Vec<Record>, Error> {
        on_backend!(Backend, &self.backend, own => own.read(from, limit).await)
    }

    async fn last(&self, topic: &str, partition: u32) -> Result<Option<Record>, Error> {
        on_backend!(Backend, &self.backend, own => own.last(topic, partition).await)
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Offset>, Error> {
        on_backend!(Backend, &self.backend, own => own.committed(group, topic, partition).await)
    }

    async fn commit(&self, group: &str, next: Position) -> Result<(), Error> {
        on_backend!(Backend, &self.backend, own => own.commit(group, next).await)
    }
}
