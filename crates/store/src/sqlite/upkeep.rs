//! Looking after the file's outbox.

use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use helenus_model::{ChannelId, MessageId, Payload, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{SqliteStore, settings};
use crate::contract::{
    Dispatch, Error, MessageState, Reconciled, StagedMessage, Sweep, Swept, Upkeep,
};
use crate::lanes::Lanes;
use crate::shard::{shard, token};

/// Messages that are listed with one look at the file, or removed with one commit.
const PAGE: usize = 500;

impl Upkeep for SqliteStore {
    fn messages(
        &self,
        state: MessageState,
    ) -> impl Stream<Item = Result<StagedMessage, Error>> + Send + use<> {
        let store = self.clone();
        let pages = stream::try_unfold(0_i64, move |after| {
            let store = store.clone();
            async move {
                let read = store.engine.read(move |db| Ok::<_, Error>(page(db, state, after)?));
                let (page, last) = read.await?;
                Ok::<_, Error>((!page.is_empty()).then_some((page, last)))
            }
        });
        pages.map_ok(|page| stream::iter(page).map(Ok)).try_flatten()
    }

    async fn sweep(&self, sweep: Sweep) -> Result<Swept, Error> {
        // Looked for on a snapshot, removed in small commits: staging goes on beside it.
        let found = self.engine.read(move |db| Ok::<_, Error>(removable(db, sweep)?)).await?;
        let (messages, receipts) = found;
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let swept = Swept {
            messages: count(messages.len()),
            receipts: count(receipts.len()),
            ..Swept::default()
        };
        if sweep.dry_run {
            return Ok(swept);
        }
        for chunk in messages.chunks(PAGE) {
            let chunk = chunk.to_vec();
            let remove = move |db: &Connection| -> Result<(), Error> { Ok(remove(db, &chunk)?) };
            self.engine.write(remove).await?;
        }
        for chunk in receipts.chunks(PAGE) {
            let chunk = chunk.to_vec();
            let forget = move |db: &Connection| -> Result<(), Error> { Ok(forget(db, &chunk)?) };
            self.engine.write(forget).await?;
        }
        Ok(swept)
    }

    async fn reconcile(&self, _dry_run: bool) -> Result<Reconciled, Error> {
        // Staging is one transaction here: nothing is ever half done.
        Ok(Reconciled::default())
    }

    async fn scan(&self, dry_run: bool) -> Result<Reconciled, Error> {
        self.reconcile(dry_run).await
    }

    async fn extend_ttl(&self, _by: Duration) -> Result<u64, Error> {
        // Nothing in the file expires by itself.
        Ok(0)
    }

    async fn reshard(&self, shards: u16) -> Result<u64, Error> {
        let lanes = Lanes::take(self, self.identity().await?.shards, &*self.ports.random).await?;
        let moved = self.engine.write(move |db| Ok::<_, Error>(reshard(db, shards)?)).await;
        lanes.give_back(self).await?;
        moved
    }
}

fn page(
    db: &Connection,
    state: MessageState,
    after: i64,
) -> Result<(Vec<StagedMessage>, i64), helenus_sqlite::Error> {
    let states = match state {
        MessageState::Pending => ["pending", "pending"],
        MessageState::Parked => ["parked", "parked"],
        MessageState::Dispatched => ["dispatched", "skipped"],
        // Staging is one transaction: nothing has to be cancelled.
        MessageState::Cancelled => return Ok((Vec::new(), after)),
    };
    let mut query = db.prepare_cached(&format!(
        "SELECT * FROM helenus_outbox_messages WHERE state IN (?1, ?2) AND staged_seq > ?3
         ORDER BY staged_seq LIMIT {PAGE}"
    ))?;
    let mut rows = query.query(params![states[0], states[1], after])?;
    let (mut page, mut last) = (Vec::new(), after);
    while let Some(row) = rows.next()? {
        last = row.get("staged_seq")?;
        page.push(staged(row)?);
    }
    Ok((page, last))
}

fn staged(row: &Row<'_>) -> Result<StagedMessage, helenus_sqlite::Error> {
    let id: String = row.get("message_id")?;
    let damaged = |error: &dyn std::fmt::Display| helenus_sqlite::Error::Corrupt {
        message: format!("message {id}: {error}"),
    };
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let channel: String = row.get("channel_id")?;
    Ok(StagedMessage {
        message_id: MessageId::new(id.as_str()).map_err(|error| damaged(&error))?,
        channel_id: Some(ChannelId::new(channel).map_err(|error| damaged(&error))?),
        message_type: row.get("message_type")?,
        payload: Some(Payload {
            content_type: row.get("content_type")?,
            bytes: row.get("payload")?,
        }),
        ordering_key: row.get("ordering_key")?,
        correlation_id: row.get("correlation_id")?,
        tenant_id: row.get("tenant_id")?,
        occurred_at: time("occurred_at_utc")?,
        created_at: Timestamp::from_millis(row.get("created_at_utc")?),
        dispatched_at: time("dispatched_at_utc")?,
        attempt_count: row.get("dispatch_attempt_count")?,
        next_attempt_at: time("next_attempt_at_utc")?,
        headers_json: row.get("headers_json")?,
        metadata_json: row.get("metadata_json")?,
        state: row.get("state")?,
        last_error: row.get("last_error")?,
    })
}

/// Messages by their numbers and receipts by their ids.
fn removable(
    db: &Connection,
    sweep: Sweep,
) -> Result<(Vec<i64>, Vec<String>), helenus_sqlite::Error> {
    let limit = i64::try_from(sweep.limit).unwrap_or(i64::MAX);
    let mut messages = db.prepare_cached(
        "SELECT staged_seq FROM helenus_outbox_dispatch
         WHERE state IN ('dispatched', 'skipped') AND dispatched_at_utc < ?1 LIMIT ?2",
    )?;
    let rows = messages.query_map((sweep.done_before.as_millis(), limit), |row| row.get(0))?;
    let messages = rows.collect::<Result<_, _>>()?;
    let mut receipts = db.prepare_cached(
        "SELECT message_id FROM helenus_inbox_receipts WHERE processed_at_utc < ?1 LIMIT ?2",
    )?;
    let rows = receipts.query_map((sweep.processed_before.as_millis(), limit), |row| row.get(0))?;
    Ok((messages, rows.collect::<Result<_, _>>()?))
}

fn remove(db: &Connection, messages: &[i64]) -> Result<(), helenus_sqlite::Error> {
    let mut dispatch = db.prepare_cached(
        "DELETE FROM helenus_outbox_dispatch
         WHERE staged_seq = ?1 AND state IN ('dispatched', 'skipped')",
    )?;
    let mut content =
        db.prepare_cached("DELETE FROM helenus_outbox_contents WHERE staged_seq = ?1")?;
    for message in messages {
        if dispatch.execute([message])? == 1 {
            content.execute([message])?;
        }
    }
    Ok(())
}

fn forget(db: &Connection, receipts: &[String]) -> Result<(), helenus_sqlite::Error> {
    let mut delete = db.prepare_cached(
        "DELETE FROM helenus_inbox_receipts WHERE message_id = ?1 AND state = 'processed'",
    )?;
    for receipt in receipts {
        delete.execute([receipt])?;
    }
    Ok(())
}

fn reshard(db: &Connection, shards: u16) -> Result<u64, helenus_sqlite::Error> {
    let shards = shards.max(1);
    settings::record_shards(db, shards)?;
    let mut query = db.prepare(
        "SELECT staged_seq, shard_id, ordering_key, message_id FROM helenus_outbox_messages
         WHERE state IN ('pending', 'parked')",
    )?;
    let mut message =
        db.prepare("UPDATE helenus_outbox_dispatch SET shard_id = ?2 WHERE staged_seq = ?1")?;
    let mut hold =
        db.prepare("UPDATE helenus_outbox_held SET shard_id = ?2 WHERE staged_seq = ?1")?;
    let rows =
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let mut rows: Vec<(i64, u16, Option<String>, String)> = rows.collect::<Result<_, _>>()?;
    let mut moved = 0;
    for (staged_seq, old, key, id) in rows.drain(..) {
        let Ok(id) = MessageId::new(id) else { continue };
        let new = shard(token(key.as_deref(), &id), shards);
        if new != old {
            message.execute((staged_seq, new))?;
            hold.execute((staged_seq, new))?;
            moved += 1;
        }
    }
    Ok(moved)
}
