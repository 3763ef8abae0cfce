//! Finding and settling staged messages in the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use helenus_model::limits::DISPATCH_BATCH_MAX;
use helenus_model::{MessageId, Timestamp};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::{CachedStatement, Connection, params};
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

    async fn read_shards(
        &self,
        shards: Vec<u16>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Pending>, Error> {
        let limit = limit.min(DISPATCH_BATCH_MAX);
        self.engine.read(move |db| Ok(due(db, shards, now, limit)?)).await
    }

    async fn apply_reports(&self, reports: Vec<Report>) -> Result<Vec<Settled>, Error> {
        let apply_all = move |db: &Connection| -> rusqlite::Result<_> {
            let mut recording = Reports::new(db)?;
            reports.iter().map(|report| recording.apply(report)).collect()
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
    let mut found = Vec::new();
    if limit == 0 {
        return Ok(found);
    }
    let shards: Vec<u16> = shards.into_iter().collect();
    let mut queries = Vec::with_capacity(shards.len());
    for shard in &shards {
        queries.push(db.prepare_cached(&walk_of(*shard))?);
    }
    let mut walks = Vec::with_capacity(shards.len());
    for (query, shard) in queries.iter_mut().zip(&shards) {
        walks.push((*shard, query.query([now.as_millis()])?));
    }
    let mut heads = BinaryHeap::new();
    for (index, (_, walk)) in walks.iter_mut().enumerate() {
        heads.extend(step(walk)?.map(|head| Reverse((head, index))));
    }
    let mut waits = Waits::new(db)?;
    while let Some(Reverse(((eligible_at, staged_seq), index))) = heads.pop() {
        let Some((shard, walk)) = walks.get_mut(index) else { break };
        if let Some(row) = walk.get() {
            let (message, created_at) = rows::message(row)?;
            if !waits.waits(*shard, message.ordering_key.as_deref(), staged_seq)? {
                let (shard, eligible_at) = (*shard, Timestamp::from_millis(eligible_at));
                let attempt_count = row.get(rows::COLUMNS)?;
                found.push(Pending { message, shard, attempt_count, created_at, eligible_at });
            }
        }
        if found.len() == limit {
            break;
        }
        heads.extend(step(walk)?.map(|head| Reverse((head, index))));
    }
    Ok(found)
}

/// The messages of a shard, from the first one due on. The shard is in the text: statements are kept
/// prepared by their texts, and those of all shards are in use at once.
fn walk_of(shard: u16) -> String {
    format!(
        "SELECT {}, dispatch_attempt_count, next_attempt_at_utc, staged_seq
         FROM helenus_outbox_dispatch CROSS JOIN helenus_outbox_contents USING (staged_seq)
         WHERE state = 'pending' AND shard_id = {shard} AND next_attempt_at_utc <= ?1
         ORDER BY next_attempt_at_utc, staged_seq",
        rows::CONTENT
    )
}

/// When the next message of a walk is due, and its number.
fn step(walk: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<(i64, i64)>> {
    let next = walk.next()?;
    next.map(|row| Ok((row.get(rows::COLUMNS + 1)?, row.get(rows::COLUMNS + 2)?))).transpose()
}

/// Whether messages wait for others of their key; mostly nobody does.
struct Waits<'a> {
    behind: Option<CachedStatement<'a>>,
}

impl<'a> Waits<'a> {
    fn new(db: &'a Connection) -> rusqlite::Result<Self> {
        if !is_anything_held(db)? {
            return Ok(Waits { behind: None });
        }
        let behind = db.prepare_cached(
            "SELECT 1 FROM helenus_outbox_held
             WHERE shard_id = ?1 AND ordering_key = ?2 AND staged_seq < ?3",
        )?;
        Ok(Waits { behind: Some(behind) })
    }

    fn waits(&mut self, shard: u16, key: Option<&str>, staged_seq: i64) -> rusqlite::Result<bool> {
        match (&mut self.behind, key) {
            (Some(behind), Some(key)) => behind.exists((shard, key, staged_seq)),
            _ => Ok(false),
        }
    }
}

fn is_anything_held(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM helenus_outbox_held LIMIT 1")?.exists([])
}

fn backlog(db: &Connection, now: Timestamp) -> Result<Backlog, helenus_sqlite::Error> {
    let (unpublished, oldest): (i64, Option<i64>) = db.query_row(
        "SELECT count(*), min(next_attempt_at_utc) FROM helenus_outbox_dispatch
         WHERE state = 'pending'",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let lag = oldest.map(|due| now.since(Timestamp::from_millis(due))).unwrap_or_default();
    Ok(Backlog { unpublished: u64::try_from(unpublished).unwrap_or(0), lag })
}

fn oldest(db: &Connection, shard: u16) -> Result<Option<Timestamp>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(
        "SELECT min(next_attempt_at_utc) FROM helenus_outbox_dispatch
         WHERE state = 'pending' AND shard_id = ?1",
    )?;
    let oldest: Option<i64> = query.query_row([shard], |row| row.get(0))?;
    Ok(oldest.map(Timestamp::from_millis))
}

/// Records reports. Every published message comes by here: what finishes one is prepared once for
/// all of them, and whether any key is held is asked once.
struct Reports<'a> {
    db: &'a Connection,
    finish: CachedStatement<'a>,
    is_anything_held: bool,
}

impl<'a> Reports<'a> {
    fn new(db: &'a Connection) -> rusqlite::Result<Self> {
        let finish = db.prepare_cached(
            "UPDATE helenus_outbox_dispatch SET state = ?2, dispatched_at_utc = ?3
             WHERE staged_seq =
                 (SELECT staged_seq FROM helenus_outbox_contents WHERE message_id = ?1)
               AND state IN ('pending', 'parked')",
        )?;
        Ok(Reports { db, finish, is_anything_held: is_anything_held(db)? })
    }

    fn apply(&mut self, report: &Report) -> rusqlite::Result<Settled> {
        let id = &report.message_id;
        let recorded = match report.outcome {
            Outcome::Started => self.postpone(report, 1, None)?,
            Outcome::Succeeded => self.finish(report, "dispatched")?,
            Outcome::Skipped => self.finish(report, "skipped")?,
            Outcome::Failed { next_attempt_at } => {
                self.postpone(report, 0, next_attempt_at)? && self.hold(id)?
            }
            Outcome::RetryScheduled { next_attempt_at } => {
                self.postpone(report, 0, Some(next_attempt_at))? && self.hold(id)?
            }
            Outcome::Parked { key } => self.park(report, key)?,
        };
        if recorded {
            return Ok(Settled::Recorded);
        }
        let exists = self
            .db
            .prepare_cached("SELECT 1 FROM helenus_outbox_contents WHERE message_id = ?1")?
            .exists([id.as_str()])?;
        Ok(if exists { Settled::AlreadySettled } else { Settled::NotFound })
    }

    fn finish(&mut self, report: &Report, state: &str) -> rusqlite::Result<bool> {
        let id = report.message_id.as_str();
        let done = self.finish.execute(params![id, state, report.at.as_millis()])? == 1;
        if done {
            self.release(&report.message_id)?;
        }
        Ok(done)
    }

    fn postpone(
        &self,
        report: &Report,
        attempts: i64,
        next: Option<Timestamp>,
    ) -> rusqlite::Result<bool> {
        let mut update = self.db.prepare_cached(
            "UPDATE helenus_outbox_dispatch
             SET dispatch_attempt_count = dispatch_attempt_count + ?2,
                 next_attempt_at_utc = coalesce(?3, next_attempt_at_utc),
                 last_error = coalesce(?4, last_error)
             WHERE staged_seq =
                 (SELECT staged_seq FROM helenus_outbox_contents WHERE message_id = ?1)
               AND state = 'pending'",
        )?;
        let (id, next) = (report.message_id.as_str(), next.map(Timestamp::as_millis));
        Ok(update.execute(params![id, attempts, next, report.reason])? == 1)
    }

    fn park(&mut self, report: &Report, key: AfterParking) -> rusqlite::Result<bool> {
        let mut update = self.db.prepare_cached(
            "UPDATE helenus_outbox_dispatch
             SET state = 'parked', last_error = coalesce(?2, last_error)
             WHERE staged_seq =
                 (SELECT staged_seq FROM helenus_outbox_contents WHERE message_id = ?1)
               AND state = 'pending'",
        )?;
        if update.execute(params![report.message_id.as_str(), report.reason])? == 0 {
            return Ok(false);
        }
        match key {
            AfterParking::Stop => self.hold(&report.message_id),
            AfterParking::GoOn => self.release(&report.message_id).map(|()| true),
        }
    }

    /// Makes later messages of the message's key wait for it; always true.
    fn hold(&mut self, id: &MessageId) -> rusqlite::Result<bool> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO helenus_outbox_held
             SELECT shard_id, ordering_key, staged_seq, message_id FROM helenus_outbox_messages
             WHERE message_id = ?1 AND ordering_key IS NOT NULL
             ON CONFLICT DO NOTHING",
        )?;
        insert.execute([id.as_str()])?;
        self.is_anything_held = true;
        Ok(true)
    }

    fn release(&self, id: &MessageId) -> rusqlite::Result<()> {
        if !self.is_anything_held {
            return Ok(());
        }
        let mut delete = self.db.prepare_cached(
            "DELETE FROM helenus_outbox_held
             WHERE (shard_id, ordering_key, staged_seq) IN
                 (SELECT shard_id, ordering_key, staged_seq FROM helenus_outbox_messages
                  WHERE message_id = ?1 AND ordering_key IS NOT NULL)",
        )?;
        delete.execute([id.as_str()])?;
        Ok(())
    }
}
