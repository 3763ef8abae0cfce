//! The topics of the file.

use rusqlite::{Connection, OptionalExtension, params};

use crate::contract::{Bounds, Error, Offset};

/// A topic as the tables know it.
pub(super) struct Found {
    pub(super) id: i64,
    pub(super) partitions: u32,
    pub(super) compacted: bool,
}

impl Found {
    pub(super) fn check(&self, topic: &str, partition: u32) -> Result<(), Error> {
        if partition < self.partitions {
            return Ok(());
        }
        let (topic, partitions) = (topic.to_owned(), self.partitions);
        Err(Error::UnknownPartition { topic, partition, partitions })
    }
}

pub(super) fn lookup(db: &Connection, topic: &str) -> rusqlite::Result<Option<Found>> {
    db.prepare_cached(
        "SELECT topic_id, partitions, compacted FROM helenus_topics WHERE topic = ?1",
    )?
    .query_row([topic], |row| {
        Ok(Found { id: row.get(0)?, partitions: row.get(1)?, compacted: row.get(2)? })
    })
    .optional()
}

pub(super) fn find(db: &Connection, topic: &str) -> Result<Found, Error> {
    lookup(db, topic)?.ok_or_else(|| Error::UnknownTopic { topic: topic.to_owned() })
}

/// The topic, made with so many partitions if it is not there.
pub(super) fn find_or_create(
    db: &Connection,
    topic: &str,
    partitions: Option<u32>,
) -> Result<Found, Error> {
    match (lookup(db, topic)?, partitions) {
        (Some(found), _) => Ok(found),
        (None, Some(partitions)) => {
            create(db, topic, partitions, false)?;
            find(db, topic)
        }
        (None, None) => Err(Error::UnknownTopic { topic: topic.to_owned() }),
    }
}

pub(super) fn create(
    db: &Connection,
    topic: &str,
    partitions: u32,
    compacted: bool,
) -> Result<(), Error> {
    let invalid = |reason: String| Err(Error::InvalidTopic { topic: topic.to_owned(), reason });
    match lookup(db, topic)? {
        Some(found) if found.partitions != partitions => {
            invalid(format!("it exists with {} partitions, not {partitions}", found.partitions))
        }
        Some(found) if compacted && !found.compacted => {
            invalid("it exists and is not compacted".to_owned())
        }
        Some(_) => Ok(()),
        None => {
            db.prepare_cached(
                "INSERT INTO helenus_topics (topic, partitions, compacted) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![topic, partitions, compacted])?;
            Ok(())
        }
    }
}

pub(super) fn bounds(db: &Connection, topic: &str) -> Result<Vec<Bounds>, Error> {
    let found = find(db, topic)?;
    let mut query = db.prepare_cached(
        "SELECT next_offset,
                (SELECT min(record_offset) FROM helenus_topic_records AS records
                 WHERE records.topic_id = ?1 AND records.partition = ?2)
         FROM helenus_topic_ends WHERE topic_id = ?1 AND partition = ?2",
    )?;
    let mut bounds = Vec::new();
    for partition in 0..found.partitions {
        let ends: Option<(i64, Option<i64>)> = query
            .query_row((found.id, partition), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (end, start) = ends.unwrap_or_default();
        bounds.push(Bounds { start: Offset(start.unwrap_or(end)), end: Offset(end) });
    }
    Ok(bounds)
}
