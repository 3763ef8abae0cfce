//! From a URL to an open backend: the one table that says which backends there are.

use std::borrow::Cow;
use std::path::Path;

use helenus_broker::contract as broker;
use helenus_broker::embedded::{self, EmbeddedBroker};
use helenus_model::backend::{BrokerUrl, StoreUrl};
use helenus_model::{Failure, Kind, Message, MessageId, Timestamp};
use helenus_sqlite::{Component, Engine, Inspection, OpenError, Options};
use helenus_store::Ports;
use helenus_store::contract as store;
use helenus_store::sqlite::{self, SqliteStore};

/// All parts that share the file bring their tables, whichever of them is used.
static COMPONENTS: [&Component; 2] = [&sqlite::COMPONENT, &embedded::COMPONENT];

/// Examines a store file, every page of it; creates and changes nothing.
pub async fn inspect(path: impl AsRef<Path>) -> Result<Inspection, OpenError> {
    helenus_sqlite::inspect(path, &COMPONENTS).await
}

/// An open store. Cheap to clone.
///
/// See the crate's documentation for an example.
#[derive(Clone, Debug)]
pub struct Store {
    sqlite: SqliteStore,
}

/// An open broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {
    embedded: EmbeddedBroker,
}

/// Why a store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// The file cannot be used.
    #[error(transparent)]
    Sqlite(#[from] OpenError),
    /// This release does not keep messages there.
    #[error("this release keeps messages in SQLite files only, not in {url}")]
    NotYet {
        /// Where it was asked to.
        url: String,
    },
}

/// Why a broker could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerOpenError {
    /// This release does not publish there.
    #[error("this release publishes to the embedded broker only, not to {url}")]
    NotYet {
        /// Where it was asked to.
        url: String,
    },
}

impl Failure for StoreOpenError {
    fn kind(&self) -> Kind {
        match self {
            StoreOpenError::Sqlite(error) => error.kind(),
            StoreOpenError::NotYet { .. } => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            StoreOpenError::Sqlite(error) => error.code(),
            StoreOpenError::NotYet { .. } => "not_yet",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            StoreOpenError::Sqlite(error) => error.remedy(),
            StoreOpenError::NotYet { .. } => Some("use store.url = \"sqlite:helenus.db\"".into()),
        }
    }
}

impl Failure for BrokerOpenError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "not_yet"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("use broker.url = \"embedded:\"".into())
    }
}

impl Store {
    /// Opens the store at `url`; a SQLite file is created where there is none.
    pub async fn open(url: &StoreUrl, ports: Ports) -> Result<Store, StoreOpenError> {
        match url {
            StoreUrl::Sqlite(path) => {
                let engine = Engine::open(path, Options::default(), &COMPONENTS).await?;
                Ok(Store { sqlite: SqliteStore::on(engine, ports) })
            }
            StoreUrl::Cassandra(_) => Err(StoreOpenError::NotYet { url: url.to_string() }),
        }
    }

    /// Changes whenever this process has committed something: what a relay waits on.
    pub fn commits(&self) -> tokio::sync::watch::Receiver<u64> {
        self.sqlite.engine().commits()
    }

    /// Finishes what is queued and closes the store, for its clones too.
    pub async fn close(&self) {
        self.sqlite.engine().close().await;
    }
}

impl Broker {
    /// Opens the broker at `url`; the embedded one lives in the store's file.
    pub fn open(url: &BrokerUrl, store: &Store) -> Result<Broker, BrokerOpenError> {
        match url {
            BrokerUrl::Embedded => {
                Ok(Broker { embedded: EmbeddedBroker::on(store.sqlite.engine().clone()) })
            }
            BrokerUrl::Kafka(_) => Err(BrokerOpenError::NotYet { url: url.to_string() }),
        }
    }
}

impl store::Outbox for Store {
    async fn enqueue(&self, message: Message) -> Result<store::Enqueued, store::EnqueueError> {
        self.sqlite.enqueue(message).await
    }
}

impl store::Dispatch for Store {
    async fn read_pending(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<store::Pending>, store::Error> {
        self.sqlite.read_pending(now, limit).await
    }

    async fn apply_reports(
        &self,
        reports: Vec<store::Report>,
    ) -> Result<Vec<store::Settled>, store::Error> {
        self.sqlite.apply_reports(reports).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<store::Backlog, store::Error> {
        self.sqlite.backlog(now).await
    }
}

impl store::Inbox for Store {
    async fn mark_processed(
        &self,
        received: store::Received,
    ) -> Result<store::Receipt, store::Error> {
        self.sqlite.mark_processed(received).await
    }

    async fn receipt(
        &self,
        message_id: &MessageId,
    ) -> Result<Option<store::Received>, store::Error> {
        self.sqlite.receipt(message_id).await
    }
}

impl broker::Broker for Broker {
    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), broker::Error> {
        self.embedded.create_topic(topic, partitions).await
    }

    async fn topics(&self) -> Result<Vec<broker::Topic>, broker::Error> {
        self.embedded.topics().await
    }

    async fn publish(
        &self,
        records: Vec<broker::NewRecord>,
    ) -> Result<Vec<broker::Position>, broker::Error> {
        self.embedded.publish(records).await
    }

    async fn read(
        &self,
        from: broker::Position,
        limit: usize,
    ) -> Result<Vec<broker::Record>, broker::Error> {
        self.embedded.read(from, limit).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<broker::Offset>, broker::Error> {
        self.embedded.committed(group, topic, partition).await
    }

    async fn commit(&self, group: &str, next: broker::Position) -> Result<(), broker::Error> {
        self.embedded.commit(group, next).await
    }
}
