//! Topics in the SQLite file: the broker that needs no server.
//!
//! Offsets are counted in the transaction that publishes, so a partition has no gaps, and what
//! shares the file can publish and settle in one commit.

mod headers;
mod publisher;
mod records;
mod topics;

use helenus_model::Timestamp;
use helenus_model::limits::{TOPIC_EXPIRE_MAX, TOPIC_READ_MAX};
use helenus_sqlite::{Component, Engine};
use rusqlite::{Connection, OptionalExtension, params};

use crate::contract::{Bounds, Broker, Error, NewRecord, Offset, Position, Record, Refusal, Topic};

pub use publisher::EmbeddedPublisher;

/// Old records removed with one commit.
const EXPIRED_A_COMMIT: usize = 500;

/// The broker's tables in the file.
pub static COMPONENT: Component = Component {
    name: "broker",
    migrations: &[
        include_str!("embedded/001-topics.sql"),
        include_str!("embedded/002-publishers.sql"),
    ],
};

/// Topics in a file that is open already, its [`COMPONENT`] up to date.
///
/// ```
/// use helenus_broker::contract::{Broker, NewRecord, Offset, Position};
/// use helenus_broker::embedded::{COMPONENT, EmbeddedBroker};
/// use helenus_model::Timestamp;
/// use helenus_sqlite::{Engine, Options};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// let broker = EmbeddedBroker::on(Engine::open(&path, Options::default(), &[&COMPONENT]).await?);
/// broker.create_topic("orders", 1).await?;
/// let record = NewRecord {
///     topic: "orders".into(),
///     key: Some(b"order-1".to_vec()),
///     headers: vec![],
///     payload: b"{}".to_vec(),
///     timestamp: Timestamp::EPOCH,
/// };
/// let positions = broker.publish(&[record]).await?;
/// assert_eq!(positions[0].offset, Offset::START);
/// let start = Position { topic: "orders".into(), partition: 0, offset: Offset::START };
/// assert_eq!(broker.read(start, 10).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EmbeddedBroker {
    engine: Engine,
    /// Partitions of topics that are made when something is published to them.
    create_topics: Option<u32>,
}

impl EmbeddedBroker {
    /// Uses an open file.
    pub fn on(engine: Engine) -> Self {
        EmbeddedBroker { engine, create_topics: None }
    }

    /// Makes topics that are not there, with so many partitions, when something is published to them.
    #[must_use]
    pub fn creating_topics(self, partitions: u32) -> Self {
        EmbeddedBroker { create_topics: Some(partitions), ..self }
    }

    /// Removes records older than `before` from topics that are not compacted, a bounded number at a
    /// time; how many are gone. Offsets go on from where they were.
    pub async fn expire(&self, before: Timestamp) -> Result<usize, Error> {
        let limit = i64::try_from(TOPIC_EXPIRE_MAX).unwrap_or(i64::MAX);
        let mut removed = 0;
        loop {
            // Looked for on a snapshot, removed in small commits: publishing goes on beside it.
            let find = move |db: &Connection| Ok::<_, Error>(records::expired(db, before, limit)?);
            let found = self.engine.read(find).await?;
            for some in found.chunks(EXPIRED_A_COMMIT) {
                let some = some.to_vec();
                self.engine.write(move |db| records::remove(db, &some)).await?;
            }
            removed += found.len();
            if found.len() < TOPIC_EXPIRE_MAX {
                return Ok(removed);
            }
        }
    }

    async fn create(&self, topic: &str, partitions: u32, compacted: bool) -> Result<(), Error> {
        let topic = topic.to_owned();
        let invalid = |reason: &str| {
            Err(Error::InvalidTopic { topic: topic.clone(), reason: reason.to_owned() })
        };
        if topic.is_empty() {
            return invalid("it has no name");
        }
        if partitions == 0 {
            return invalid("it needs at least one partition");
        }
        self.engine.write(move |db| topics::create(db, &topic, partitions, compacted)).await
    }
}

impl Broker for EmbeddedBroker {
    type Publisher = EmbeddedPublisher;

    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
        self.create(topic, partitions, false).await
    }

    async fn create_compacted_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
        self.create(topic, partitions, true).await
    }

    async fn topics(&self) -> Result<Vec<Topic>, Error> {
        self.engine
            .read(|db| {
                let mut query = db.prepare_cached(
                    "SELECT topic, partitions FROM helenus_topics ORDER BY topic",
                )?;
                let topic = |row: &rusqlite::Row<'_>| {
                    Ok(Topic { name: row.get(0)?, partitions: row.get(1)? })
                };
                Ok(query.query_map([], topic)?.collect::<Result<_, _>>()?)
            })
            .await
    }

    async fn bounds(&self, topic: &str) -> Result<Vec<Bounds>, Error> {
        let topic = topic.to_owned();
        self.engine.read(move |db| topics::bounds(db, &topic)).await
    }

    async fn refusals(&self, records: &[NewRecord]) -> Result<Vec<Refusal>, Error> {
        let mut refusals = Vec::new();
        let known = match self.create_topics {
            Some(_) => None,
            None => Some(self.topics().await?),
        };
        let is_known = |topic: &str| {
            known.as_ref().is_none_or(|known| known.iter().any(|known| known.name == topic))
        };
        for (index, record) in records.iter().enumerate() {
            if !is_known(&record.topic) {
                let error = Error::UnknownTopic { topic: record.topic.to_string() };
                refusals.push(Refusal { index, error });
            } else if let Err(error) = records::check_size(record) {
                refusals.push(Refusal { index, error });
            }
        }
        Ok(refusals)
    }

    async fn publish(&self, records: &[NewRecord]) -> Result<Vec<Position>, Error> {
        let (records, create) = (records.to_vec(), self.create_topics);
        self.engine
            .write(move |db| {
                records.iter().map(|record| records::append(db, record, create)).collect()
            })
            .await
    }

    async fn publisher(&self, name: &str) -> Result<EmbeddedPublisher, Error> {
        EmbeddedPublisher::take(self.engine.clone(), name.to_owned(), self.create_topics).await
    }

    async fn read(&self, from: Position, limit: usize) -> Result<Vec<Record>, Error> {
        let limit = i64::try_from(limit.min(TOPIC_READ_MAX)).unwrap_or(i64::MAX);
        self.engine.read(move |db| records::read(db, &from, limit)).await
    }

    async fn last(&self, topic: &str, partition: u32) -> Result<Option<Record>, Error> {
        let topic = topic.to_owned();
        self.engine.read(move |db| records::last(db, &topic, partition)).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Offset>, Error> {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        self.engine
            .read(move |db| {
                topics::find(db, &topic)?.check(&topic, partition)?;
                let offset = db
                    .prepare_cached(
                        "SELECT next_offset FROM helenus_consumer_offsets
                         WHERE consumer_group = ?1 AND topic = ?2 AND partition = ?3",
                    )?
                    .query_row(params![group, topic, partition], |row| row.get(0))
                    .optional()?;
                Ok(offset.map(Offset))
            })
            .await
    }

    async fn commit(&self, group: &str, next: Position) -> Result<(), Error> {
        let group = group.to_owned();
        self.engine
            .write(move |db| {
                topics::find(db, &next.topic)?.check(&next.topic, next.partition)?;
                db.prepare_cached(
                    "INSERT INTO helenus_consumer_offsets VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT DO UPDATE SET next_offset = excluded.next_offset",
                )?
                .execute(params![
                    group,
                    next.topic,
                    next.partition,
                    next.offset.0
                ])?;
                Ok(())
            })
            .await
    }
}

impl From<helenus_sqlite::Error> for Error {
    fn from(error: helenus_sqlite::Error) -> Self {
        Error::Backend(error.into())
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        helenus_sqlite::Error::from(error).into()
    }
}
