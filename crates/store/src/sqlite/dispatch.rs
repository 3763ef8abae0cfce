//! Finding and settling staged messages in the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use helenus_model::limits::DISPATCH_BATCH_MAX;
use helenus_model::{MessageId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use super::{SqliteStore, rows, settings};
use crate::contract::{
    AfterParking, Backlog, Dispatch, Error, Identity, Outcome, Pending, Report, Settled,
};

impl Dispatch for SqliteStore {
    async fn identity(&self) -> Result<Identity, Error> {
        self.engine.read(|db| Ok(settings::identity(db)?)).await
    }

    async fn read_pending(&self, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        let limit = limit.min(DISPATCH_BATCH_MAX);
        self.engine
            .read(move |db| {
                let shards = settings::identity(db)?.shards;
                Ok(due(db, 0..shards, now, limit)?)
            })
            .await
    }

    async fn read_shard(
        &self,
        shard: u16,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Pending>, Error> {
        let limit = limit.min(DISPATCH_BATCH_MAX);
        self.engine.read(move |db| Ok(due(db, [shard], now, limit)?)).await
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

    async fn watermark(&self, shard: u16, now: Timestamp) -> Result<Timestamp, Error> {
        self.engine.read(move |db| Ok(oldest(db, shard)?.map_or(now, |due| due.min(now)))).await
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        self.engine.commits()
    }
}

/// What is due and not behind a message that holds its key. Each shard is one walk along the index,
/// taken no further than the merge needs it.
fn due(
    db: &Connection,
    shards: impl IntoIterator<Item = u16>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Pending>, helenus_sqlite::Error> {
    const WALK: &str = "SELECT next_attempt_at_utc, staged_seq FROM helenus_outbox_messages AS m
         WHERE state = 'pending' AND shard_id = ?1 AND next_attempt_at_utc <= ?2
           AND NOT EXISTS (SELECT 1 FROM helenus_outbox_held AS h
                           WHERE h.shard_id = ?1 AND h.ordering_key = m.ordering_key
                             AND h.staged_seq < m.staged_seq)
         ORDER BY next_attempt_at_utc, staged_seq";
    let mut found = Vec::new();
    if limit == 0 {
        return Ok(found);
    }
    let shards: Vec<u16> = shards.into_iter().collect();
    let mut queries = Vec::with_capacity(shards.len());
    for _ in &shards {
        queries.push(db.prepare_cached(WALK)?);
    }
    let mut walks = Vec::with_capacity(shards.len());
    for (query, shard) in queries.iter_mut().zip(&shards) {
        walks.push(query.query((shard, now.as_millis()))?);
    }
    let mut heads = BinaryHeap::new();
    for (index, walk) in walks.iter_mut().enumerate() {
        heads.extend(step(walk)?.map(|head| Reverse((head, index))));
    }
    let message =
        format!("SELECT {} FROM helenus_outbox_messages WHERE staged_seq = ?1", rows::COLUMNS);
    let mut message = db.prepare_cached(&message)?;
    while let Some(Reverse(((_, staged_seq), index))) = heads.pop() {
        let mut rows = message.query([staged_seq])?;
        if let Some(row) = rows.next()? {
            found.push(rows::pending(row)?);
        }
        if found.len() == limit {
            break;
        }
        if let Some(walk) = walks.get_mut(index) {
            heads.extend(step(walk)?.map(|head| Reverse((head, index))));
        }
    }
    Ok(found)
}

fn step(walk: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<(i64, i64)>> {
    walk.next()?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
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

fn oldest(db: &Connection, shard: u16) -> Result<Option<Timestamp>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(
        "SELECT min(next_attempt_at_utc) FROM helenus_outbox_messages
         WHERE state = 'pending' AND shard_id = ?1",
    )?;
    let oldest: Option<i64> = query.query_row([shard], |row| row.get(0))?;
    Ok(oldest.map(Timestamp::from_millis))
}

fn apply(db: &Connection, report: &Report) -> rusqlite::Result<Settled> {
    let recorded = match report.outcome {
        Outcome::Started => postpone(db, report, 1, None)?,
        Outcome::Succeeded => finish(db, report, "dispatched")?,
        Outcome::Skipped => finish(db, report, "skipped")?,
        Outcome::Failed { next_attempt_at } => {
            postpone(db, report, 0, next_attempt_at)? && hold(db, &report.message_id)?
        }
        Outcome::RetryScheduled { next_attempt_at } => {
            postpone(db, report, 0, Some(next_attempt_at))? && hold(db, &report.message_id)?
        }
        Outcome::Parked { key } => park(db, report, key)?,
    };
    if recorded {
        return Ok(Settled::Recorded);
    }
    let exists = db
        .prepare_cached("SELECT 1 FROM helenus_outbox_messages WHERE message_id = ?1")?
        .query_row([report.message_id.as_str()], |_| Ok(()))
        .optional()?;
    Ok(if exists.is_some() { Settled::AlreadySettled } else { Settled::NotFound })
}

fn finish(db: &Connection, report: &Report, state: &str) -> rusqlite::Result<bool> {
    let id = report.message_id.as_str();
    let mut update = db.prepare_cached(
        "UPDATE helenus_outbox_messages SET state = ?2, dispatched_at_utc = ?3
         WHERE message_id = ?1 AND state IN ('pending', 'parked')",
    )?;
    let done = update.execute(params![id, state, report.at.as_millis()])? == 1;
    if done {
        release(db, &report.message_id)?;
    }
    Ok(done)
}

fn postpone(
    db: &Connection,
    report: &Report,
    attempts: i64,
    next: Option<Timestamp>,
) -> rusqlite::Result<bool> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_outbox_messages
         SET dispatch_attempt_count = dispatch_attempt_count + ?2,
             next_attempt_at_utc = coalesce(?3, next_attempt_at_utc),
             last_error = coalesce(?4, last_error)
         WHERE message_id = ?1 AND state = 'pending'",
    )?;
    let next = next.map(Timestamp::as_millis);
    Ok(update.execute(params![report.message_id.as_str(), attempts, next, report.reason])? == 1)
}

fn park(db: &Connection, report: &Report, key: AfterParking) -> rusqlite::Result<bool> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_outbox_messages SET state = 'parked', last_error = coalesce(?2, last_error)
         WHERE message_id = ?1 AND state = 'pending'",
    )?;
    if update.execute(params![report.message_id.as_str(), report.reason])? == 0 {
        return Ok(false);
    }
    match key {
        AfterParking::Stop => hold(db, &report.message_id),
        AfterParking::GoOn => release(db, &report.message_id).map(|()| true),
    }
}

/// Makes later messages of the message's key wait for it; always true.
fn hold(db: &Connection, id: &MessageId) -> rusqlite::Result<bool> {
    let mut insert = db.prepare_cached(
        "INSERT INTO helenus_outbox_held
         SELECT shard_id, ordering_key, staged_seq, message_id FROM helenus_outbox_messages
         WHERE message_id = ?1 AND ordering_key IS NOT NULL
         ON CONFLICT DO NOTHING",
    )?;
    insert.execute([id.as_str()])?;
    Ok(true)
}

fn release(db: &Connection, id: &MessageId) -> rusqlite::Result<()> {
    // Mostly nobody waits, and every published message comes by here.
    let mut anyone = db.prepare_cached("SELECT 1 FROM helenus_outbox_held LIMIT 1")?;
    if !anyone.exists([])? {
        return Ok(());
    }
    let mut delete = db.prepare_cached(
        "DELETE FROM helenus_outbox_held
         WHERE (shard_id, ordering_key, staged_seq) IN
             (SELECT shard_id, ordering_key, staged_seq FROM helenus_outbox_messages
              WHERE message_id = ?1 AND ordering_key IS NOT NULL)",
    )?;
    delete.execute([id.as_str()])?;
    Ok(())
}
