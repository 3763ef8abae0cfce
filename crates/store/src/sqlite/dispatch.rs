//! Finding and settling staged messages in the file.

use helenus_model::limits::DISPATCH_BATCH_MAX;
use helenus_model::{MessageId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteStore, rows};
use crate::contract::{Backlog, Dispatch, Error, Outcome, Pending, Report, Settled};

impl Dispatch for SqliteStore {
    async fn read_pending(&self, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        let limit = i64::try_from(limit.min(DISPATCH_BATCH_MAX)).unwrap_or(i64::MAX);
        self.engine.read(move |db| Ok(due(db, now, limit)?)).await
    }

    async fn apply_reports(&self, reports: Vec<Report>) -> Result<Vec<Settled>, Error> {
        let apply_all = move |db: &Connection| -> rusqlite::Result<_> {
            reports.iter().map(|report| apply(db, report)).collect()
        };
        self.engine.write(move |db| Ok(apply_all(db).map_err(helenus_sqlite::Error::from)?)).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, Error> {
        self.engine.read(move |db| Ok(backlog(db, now)?)).await
    }
}

fn due(db: &Connection, now: Timestamp, limit: i64) -> Result<Vec<Pending>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(&format!(
        "SELECT {} FROM helenus_outbox_messages
         WHERE state = 'pending' AND next_attempt_at_utc <= ?1
         ORDER BY next_attempt_at_utc, staged_seq LIMIT ?2",
        rows::COLUMNS
    ))?;
    let mut found = query.query((now.as_millis(), limit))?;
    let mut pending = Vec::new();
    while let Some(row) = found.next()? {
        pending.push(rows::pending(row)?);
    }
    Ok(pending)
}

fn backlog(db: &Connection, now: Timestamp) -> Result<Backlog, helenus_sqlite::Error> {
    let (unpublished, oldest): (i64, Option<i64>) = db.query_row(
        "SELECT count(*), min(next_attempt_at_utc) FROM helenus_outbox_messages
         WHERE state = 'pending'",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let lag = oldest.map(|due| now.since(Timestamp::from_millis(due))).unwrap_or_default();
    Ok(Backlog { unpublished: u64::try_from(unpublished).unwrap_or(0), lag })
}

fn apply(db: &Connection, report: &Report) -> rusqlite::Result<Settled> {
    let done = |state: &str| settle(db, &report.message_id, state, report.at);
    let changed = match report.outcome {
        Outcome::Started => postpone(db, &report.message_id, 1, None)?,
        Outcome::Succeeded => done("dispatched")?,
        Outcome::Skipped => done("skipped")?,
        Outcome::Failed { next_attempt_at } => {
            postpone(db, &report.message_id, 0, next_attempt_at)?
        }
        Outcome::RetryScheduled { next_attempt_at } => {
            postpone(db, &report.message_id, 0, Some(next_attempt_at))?
        }
    };
    if changed {
        return Ok(Settled::Recorded);
    }
    let exists = db
        .prepare_cached("SELECT 1 FROM helenus_outbox_messages WHERE message_id = ?1")?
        .query_row([report.message_id.as_str()], |_| Ok(()))
        .optional()?;
    Ok(if exists.is_some() { Settled::AlreadySettled } else { Settled::NotFound })
}

fn settle(db: &Connection, id: &MessageId, state: &str, at: Timestamp) -> rusqlite::Result<bool> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_outbox_messages SET state = ?2, dispatched_at_utc = ?3
         WHERE message_id = ?1 AND state = 'pending'",
    )?;
    Ok(update.execute(params![id.as_str(), state, at.as_millis()])? == 1)
}

fn postpone(
    db: &Connection,
    id: &MessageId,
    attempts: i64,
    next: Option<Timestamp>,
) -> rusqlite::Result<bool> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_outbox_messages
         SET dispatch_attempt_count = dispatch_attempt_count + ?2,
             next_attempt_at_utc = coalesce(?3, next_attempt_at_utc)
         WHERE message_id = ?1 AND state = 'pending'",
    )?;
    Ok(update.execute(params![id.as_str(), attempts, next.map(Timestamp::as_millis)])? == 1)
}
