//! Topics in the SQLite file: the broker that needs no server.
//!
//! Offsets are counted in the transaction that publishes, so a partition has no gaps, and what
//! shares the file can publish and settle in one commit.

use helenus_model::limits::TOPIC_READ_MAX;
use helenus_sqlite::{Component, Engine};
use rusqlite::{Connection, OptionalExtension, params};

use crate::contract::{Broker, Error, NewRecord, Offset, Position, Record, Topic};
use crate::partition;

mod headers;

/// The broker's tables in the file.
pub static COMPONENT: Component =
    Component { name: "broker", migrations: &[include_str!("embedded/001-topics.sql")] };

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
///     topic: "orders".to_owned(),
///     key: Some(b"order-1".to_vec()),
///     headers: vec![],
///     payload: b"{}".to_vec(),
///     timestamp: Timestamp::EPOCH,
/// };
/// let positions = broker.publish(vec![record]).await?;
/// assert_eq!(positions[0].offset, Offset::START);
/// let start = Position { topic: "orders".to_owned(), partition: 0, offset: Offset::START };
/// assert_eq!(broker.read(start, 10).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EmbeddedBroker {
    engine: Engine,
}

impl EmbeddedBroker {
    /// Uses an open file.
    pub fn on(engine: Engine) -> Self {
        EmbeddedBroker { engine }
    }
}

impl Broker for EmbeddedBroker {
    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), Error> {
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
        self.engine.write(move |db| create(db, &topic, partitions)).await
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

    async fn publish(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, Error> {
        self.engine.write(move |db| records.iter().map(|record| append(db, record)).collect()).await
    }

    async fn read(&self, from: Position, limit: usize) -> Result<Vec<Record>, Error> {
        let limit = i64::try_from(limit.min(TOPIC_READ_MAX)).unwrap_or(i64::MAX);
        self.engine.read(move |db| read(db, &from, limit)).await
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
                find(db, &topic)?.check(&topic, partition)?;
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
                find(db, &next.topic)?.check(&next.topic, next.partition)?;
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

/// A topic as the tables know it.
struct Found {
    id: i64,
    partitions: u32,
}

impl Found {
    fn check(&self, topic: &str, partition: u32) -> Result<(), Error> {
        if partition < self.partitions {
            return Ok(());
        }
        let (topic, partitions) = (topic.to_owned(), self.partitions);
        Err(Error::UnknownPartition { topic, partition, partitions })
    }
}

fn lookup(db: &Connection, topic: &str) -> rusqlite::Result<Option<Found>> {
    db.prepare_cached("SELECT topic_id, partitions FROM helenus_topics WHERE topic = ?1")?
        .query_row([topic], |row| Ok(Found { id: row.get(0)?, partitions: row.get(1)? }))
        .optional()
}

fn find(db: &Connection, topic: &str) -> Result<Found, Error> {
    lookup(db, topic)?.ok_or_else(|| Error::UnknownTopic { topic: topic.to_owned() })
}

fn create(db: &Connection, topic: &str, partitions: u32) -> Result<(), Error> {
    match lookup(db, topic)? {
        Some(found) if found.partitions == partitions => Ok(()),
        Some(found) => {
            let reason =
                format!("it exists with {} partitions, not {partitions}", found.partitions);
            Err(Error::InvalidTopic { topic: topic.to_owned(), reason })
        }
        None => {
            db.prepare_cached("INSERT INTO helenus_topics (topic, partitions) VALUES (?1, ?2)")?
                .execute(params![topic, partitions])?;
            Ok(())
        }
    }
}

/// Publishes one record in the caller's transaction.
pub fn append(transaction: &Connection, record: &NewRecord) -> Result<Position, Error> {
    let found = find(transaction, &record.topic)?;
    let partition = record.key.as_ref().map_or(0, |key| partition::of_key(key, found.partitions));
    let offset: i64 = transaction
        .prepare_cached(
            "INSERT INTO helenus_topic_ends VALUES (?1, ?2, 1)
             ON CONFLICT DO UPDATE SET next_offset = next_offset + 1
             RETURNING next_offset - 1",
        )?
        .query_row((found.id, partition), |row| row.get(0))?;
    transaction
        .prepare_cached("INSERT INTO helenus_topic_records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            found.id,
            partition,
            offset,
            record.key,
            headers::encode(&record.headers),
            record.payload,
            record.timestamp.as_millis(),
        ])?;
    Ok(Position { topic: record.topic.clone(), partition, offset: Offset(offset) })
}

fn read(db: &Connection, from: &Position, limit: i64) -> Result<Vec<Record>, Error> {
    let found = find(db, &from.topic)?;
    found.check(&from.topic, from.partition)?;
    let mut query = db.prepare_cached(
        "SELECT record_offset, record_key, headers, payload, timestamp
         FROM helenus_topic_records
         WHERE topic_id = ?1 AND partition = ?2 AND record_offset >= ?3
         ORDER BY record_offset LIMIT ?4",
    )?;
    let mut rows = query.query(params![found.id, from.partition, from.offset.0, limit])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let position = Position { offset: Offset(row.get(0)?), ..from.clone() };
        let encoded: Vec<u8> = row.get(2)?;
        let headers = headers::decode(&encoded).ok_or_else(|| {
            let message = format!("the headers of record {position}");
            Error::from(helenus_sqlite::Error::Corrupt { message })
        })?;
        let timestamp = helenus_model::Timestamp::from_millis(row.get(4)?);
        records.push(Record {
            position,
            key: row.get(1)?,
            headers,
            payload: row.get(3)?,
            timestamp,
        });
    }
    Ok(records)
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
