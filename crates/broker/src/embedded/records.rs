//! The records of the file.

use std::sync::Arc;

use helenus_model::Timestamp;
use helenus_model::limits::RECORD_BYTES_MAX;
use rusqlite::{Connection, Row, params};

use super::headers;
use super::topics::{Found, find, find_or_create};
use crate::contract::{Error, Marker, NewRecord, Offset, Position, Record};
use crate::partition;

/// Publishes one record in the caller's transaction, into a topic that is made with so many
/// partitions if it is not there.
pub(super) fn append(
    db: &Connection,
    record: &NewRecord,
    create: Option<u32>,
) -> Result<Position, Error> {
    check_size(record)?;
    let found = find_or_create(db, &record.topic, create)?;
    let partition = record.key.as_ref().map_or(0, |key| partition::of_key(key, found.partitions));
    let offset = insert(db, &found, partition, record)?;
    Ok(Position { topic: Arc::clone(&record.topic), partition, offset })
}

/// Puts a marker where it belongs.
pub(super) fn mark(db: &Connection, marker: &Marker) -> Result<(), Error> {
    let found = find(db, &marker.topic)?;
    found.check(&marker.topic, marker.partition)?;
    let record = NewRecord {
        topic: marker.topic.as_str().into(),
        key: Some(marker.key.clone()),
        headers: Vec::new(),
        payload: marker.value.clone(),
        timestamp: Timestamp::EPOCH,
    };
    check_size(&record)?;
    insert(db, &found, marker.partition, &record).map(drop)
}

pub(super) fn check_size(record: &NewRecord) -> Result<(), Error> {
    let bytes = record.bytes_max();
    if bytes <= RECORD_BYTES_MAX {
        return Ok(());
    }
    Err(Error::TooLarge { topic: record.topic.to_string(), bytes, limit: RECORD_BYTES_MAX })
}

fn insert(
    db: &Connection,
    found: &Found,
    partition: u32,
    record: &NewRecord,
) -> Result<Offset, Error> {
    let offset: i64 = db
        .prepare_cached(
            "INSERT INTO helenus_topic_ends VALUES (?1, ?2, 1)
             ON CONFLICT DO UPDATE SET next_offset = next_offset + 1
             RETURNING next_offset - 1",
        )?
        .query_row((found.id, partition), |row| row.get(0))?;
    if found.compacted {
        db.prepare_cached(
            "DELETE FROM helenus_topic_records
             WHERE topic_id = ?1 AND partition = ?2 AND record_key = ?3",
        )?
        .execute(params![found.id, partition, record.key])?;
    }
    db.prepare_cached("INSERT INTO helenus_topic_records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            found.id,
            partition,
            offset,
            record.key,
            headers::encode(&record.headers),
            record.payload,
            record.timestamp.as_millis(),
        ])?;
    Ok(Offset(offset))
}

pub(super) fn read(db: &Connection, from: &Position, limit: i64) -> Result<Vec<Record>, Error> {
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
        records.push(record(row, from)?);
    }
    Ok(records)
}

pub(super) fn last(db: &Connection, topic: &str, partition: u32) -> Result<Option<Record>, Error> {
    let found = find(db, topic)?;
    found.check(topic, partition)?;
    let mut query = db.prepare_cached(
        "SELECT record_offset, record_key, headers, payload, timestamp
         FROM helenus_topic_records
         WHERE topic_id = ?1 AND partition = ?2 ORDER BY record_offset DESC LIMIT 1",
    )?;
    let mut rows = query.query((found.id, partition))?;
    let place = Position { topic: topic.into(), partition, offset: Offset::START };
    rows.next()?.map(|row| record(row, &place)).transpose()
}

fn record(row: &Row<'_>, place: &Position) -> Result<Record, Error> {
    let position = Position { offset: Offset(row.get(0)?), ..place.clone() };
    let encoded: Vec<u8> = row.get(2)?;
    let headers = headers::decode(&encoded).ok_or_else(|| {
        let message = format!("the headers of record {position}");
        Error::from(helenus_sqlite::Error::Corrupt { message })
    })?;
    let timestamp = Timestamp::from_millis(row.get(4)?);
    Ok(Record { position, key: row.get(1)?, headers, payload: row.get(3)?, timestamp })
}

/// A record by its topic, partition and offset.
pub(super) type Place = (i64, i64, i64);

/// At most `limit` records older than `before`. Compacted topics keep theirs.
pub(super) fn expired(
    db: &Connection,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<Place>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(
        "SELECT records.topic_id, records.partition, records.record_offset
         FROM helenus_topic_records AS records JOIN helenus_topics USING (topic_id)
         WHERE NOT compacted AND timestamp < ?1 LIMIT ?2",
    )?;
    let place = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    Ok(query.query_map((before.as_millis(), limit), place)?.collect::<Result<_, _>>()?)
}

/// Removes records; one that is gone already is no error.
pub(super) fn remove(db: &Connection, places: &[Place]) -> Result<(), Error> {
    let mut delete = db.prepare_cached(
        "DELETE FROM helenus_topic_records
         WHERE topic_id = ?1 AND partition = ?2 AND record_offset = ?3",
    )?;
    for place in places {
        delete.execute(*place)?;
    }
    Ok(())
}
