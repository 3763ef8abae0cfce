//! A store, a broker and what tests do with both.

use std::collections::BTreeMap;
use std::time::Duration;

use helenus_broker::contract::{Broker, Offset, Position, Record};
use helenus_broker::embedded::{self, EmbeddedBroker};
use helenus_model::{ChannelId, Message, MessageId, Payload, Timestamp};
use helenus_relay::{Backoff, Options, Relay, Totals};
use helenus_sqlite::Engine;
use helenus_store::Ports;
use helenus_store::contract::Outbox;
use helenus_store::sqlite::{self, SqliteStore};

pub(crate) struct Shop<B> {
    pub(crate) store: SqliteStore,
    pub(crate) broker: B,
    pub(crate) ports: Ports,
    /// Keeps topics apart from other tests'.
    prefix: String,
    _dir: tempfile::TempDir,
}

/// A store in a file of its own.
pub(crate) async fn store() -> (SqliteStore, Ports, Engine, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let components = [&sqlite::COMPONENT, &embedded::COMPONENT];
    let path = dir.path().join("shop.db");
    let engine = Engine::open(path, helenus_sqlite::Options::default(), &components).await.unwrap();
    let ports = Ports::system();
    (SqliteStore::on(engine.clone(), ports.clone()), ports, engine, dir)
}

pub(crate) async fn embedded() -> Shop<EmbeddedBroker> {
    let (store, ports, engine, dir) = store().await;
    let broker = EmbeddedBroker::on(engine);
    Shop { store, broker, ports, prefix: String::new(), _dir: dir }
}

#[cfg(feature = "service-tests")]
pub(crate) async fn kafka() -> Shop<helenus_broker::kafka::KafkaBroker> {
    let (store, ports, _, dir) = store().await;
    let broker = crate::kafka::shared();
    let prefix = format!("relay.{}.", ports.random.uuid().simple());
    Shop { store, broker, ports, prefix, _dir: dir }
}

/// Options of tests that wait for failures.
pub(crate) fn quick() -> Options {
    let backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(100) };
    Options { backoff, ..Options::default() }
}

impl<B: Broker<Publisher: 'static> + Clone + 'static> Shop<B> {
    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) async fn create(&self, name: &str, partitions: u32) {
        self.broker.create_topic(&self.topic(name), partitions).await.unwrap();
    }

    /// Message number `number` of `key`.
    pub(crate) fn message(&self, channel: &str, key: &str, number: usize) -> Message {
        Message {
            ordering_key: Some(key.to_owned()),
            ..Message::new(
                MessageId::new(format!("{channel}/{key}/{number}")).unwrap(),
                ChannelId::new(self.topic(channel)).unwrap(),
                "order.placed",
                Payload::json(&serde_json::json!(number)),
                self.ports.clock.now(),
            )
        }
    }

    pub(crate) async fn stage(&self, channel: &str, key: &str, number: usize) {
        self.store.enqueue(self.message(channel, key, number)).await.unwrap();
    }

    pub(crate) fn relay(&self, options: Options) -> Relay<SqliteStore, B> {
        Relay::new(self.store.clone(), self.broker.clone(), options, self.ports.clone())
    }

    pub(crate) async fn drain(&self, options: Options) -> Totals {
        self.relay(options).run_until_empty(Default::default()).await.unwrap()
    }

    pub(crate) async fn records(&self, name: &str) -> Vec<Record> {
        records(&self.broker, &self.topic(name)).await
    }

    /// The numbers published under each key, in their order.
    pub(crate) async fn published(&self, name: &str) -> BTreeMap<String, Vec<usize>> {
        let mut published: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for record in self.records(name).await {
            let key = String::from_utf8(record.key.unwrap()).unwrap();
            published
                .entry(key)
                .or_default()
                .push(serde_json::from_slice(&record.payload).unwrap());
        }
        published
    }

    pub(crate) async fn states(&self) -> BTreeMap<String, u32> {
        let count = |db: &helenus_sqlite::rusqlite::Connection| {
            let mut query =
                db.prepare("SELECT state, count(*) FROM helenus_outbox_messages GROUP BY state")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()
        };
        let counted = self
            .store
            .engine()
            .read(move |db| -> Result<_, helenus_sqlite::Error> { Ok(count(db)?) });
        counted.await.unwrap()
    }
}

/// The moment before all others.
pub(crate) const LONG_AGO: Timestamp = Timestamp::from_millis(1);

/// All records of a topic, partition after partition.
pub(crate) async fn records(broker: &impl Broker, topic: &str) -> Vec<Record> {
    let mut records = Vec::new();
    for partition in 0..broker.bounds(topic).await.unwrap().len() {
        let partition = u32::try_from(partition).unwrap();
        let mut from = Position { topic: topic.into(), partition, offset: Offset::START };
        loop {
            let more = broker.read(from.clone(), 10_000).await.unwrap();
            let Some(last) = more.last() else { break };
            from.offset = last.position.offset.next();
            records.extend(more);
        }
    }
    records
}
