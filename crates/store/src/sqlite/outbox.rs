//! Staging in the file: one insert, its uniqueness the idempotency.

use std::collections::HashSet;

use helenus_model::{Message, MessageId, Timestamp};
use rusqlite::{Connection, named_params};

use super::{SqliteStore, rows};
use crate::contract::{EnqueueError, Enqueued, Outbox};
use crate::shard::token;

impl Outbox for SqliteStore {
    async fn enqueue(&self, message: Message) -> Result<Enqueued, EnqueueError> {
        message.check()?;
        let now = self.now();
        self.engine.write(move |db| stage(db, &message, now)).await
    }

    async fn enqueue_all(&self, messages: Vec<Message>) -> Vec<Result<Enqueued, EnqueueError>> {
        let now = self.now();
        let ids: Vec<MessageId> =
            messages.iter().map(|message| message.message_id.clone()).collect();
        // One commit; what is refused has changed nothing, so it undoes nobody else's.
        let staged: Result<Vec<_>, EnqueueError> =
            self.engine.write(move |db| stage_all(db, &messages, now)).await;
        staged.unwrap_or_else(|error| {
            let behind = |message_id| Err(EnqueueError::Behind { message_id });
            let mut outcomes: Vec<_> = ids.into_iter().map(behind).collect();
            if let Some(first) = outcomes.first_mut() {
                *first = Err(error);
            }
            outcomes
        })
    }
}

fn stage_all(
    db: &Connection,
    messages: &[Message],
    now: Timestamp,
) -> Result<Vec<Result<Enqueued, EnqueueError>>, EnqueueError> {
    let mut refused = HashSet::new();
    let mut outcomes = Vec::with_capacity(messages.len());
    for message in messages {
        let key = message.ordering_key.as_deref();
        if key.is_some_and(|key| refused.contains(key)) {
            let message_id = message.message_id.clone();
            outcomes.push(Err(EnqueueError::Behind { message_id }));
            continue;
        }
        let outcome = stage(db, message, now);
        if let Err(EnqueueError::Backend(error)) = outcome {
            return Err(error.into());
        }
        if outcome.is_err() {
            refused.extend(key);
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Stages a message in the caller's transaction: it is staged if and only if that commits.
pub fn stage(
    transaction: &Connection,
    message: &Message,
    now: Timestamp,
) -> Result<Enqueued, EnqueueError> {
    message.check()?;
    let hash = message.content_hash();
    if insert(transaction, message, now, hash.as_bytes())? {
        return Ok(Enqueued::Enqueued);
    }
    let known: Vec<u8> = transaction
        .prepare_cached("SELECT content_hash FROM helenus_outbox_contents WHERE message_id = ?1")?
        .query_row([message.message_id.as_str()], |row| row.get(0))?;
    if known == hash.as_bytes() {
        Ok(Enqueued::Duplicate)
    } else {
        Err(EnqueueError::ContentMismatch { message_id: message.message_id.clone() })
    }
}

fn insert(
    transaction: &Connection,
    message: &Message,
    now: Timestamp,
    hash: &[u8],
) -> rusqlite::Result<bool> {
    let mut content = transaction.prepare_cached(
        "INSERT INTO helenus_outbox_contents
             (message_id, channel_id, message_type, payload, content_type, correlation_id, tenant_id,
              occurred_at_utc, created_at_utc, headers_json, metadata_json, ordering_key,
              deliver_at_utc, content_hash)
         VALUES
             (:message_id, :channel_id, :message_type, :payload, :content_type, :correlation_id,
              :tenant_id, :occurred_at, :created_at, :headers, :metadata, :ordering_key,
              :deliver_at, :hash)
         ON CONFLICT (message_id) DO NOTHING",
    )?;
    let rows = content.execute(named_params! {
        ":message_id": message.message_id.as_str(),
        ":channel_id": message.channel_id.as_str(),
        ":message_type": message.message_type,
        ":payload": message.payload.bytes,
        ":content_type": message.payload.content_type,
        ":correlation_id": message.correlation_id,
        ":tenant_id": message.tenant_id,
        ":occurred_at": message.occurred_at.as_millis(),
        ":created_at": now.as_millis(),
        ":headers": rows::json(&message.headers),
        ":metadata": rows::json(&message.metadata),
        ":ordering_key": message.ordering_key,
        ":deliver_at": message.deliver_at.map(Timestamp::as_millis),
        ":hash": hash,
    })?;
    if rows == 0 {
        return Ok(false);
    }
    let staged_seq = transaction.last_insert_rowid();
    let made_due = make_due(transaction, message, staged_seq, now);
    if made_due.is_err() {
        // A caller may commit nevertheless; what nobody would find must not look as if it were staged.
        transaction
            .prepare_cached("DELETE FROM helenus_outbox_contents WHERE staged_seq = ?1")?
            .execute([staged_seq])?;
    }
    made_due.map(|()| true)
}

/// Lets the relay find a message.
fn make_due(
    transaction: &Connection,
    message: &Message,
    staged_seq: i64,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let mut dispatch = transaction.prepare_cached(
        "INSERT INTO helenus_outbox_dispatch (staged_seq, shard_id, next_attempt_at_utc)
         SELECT :staged_seq, (:token % shards + shards) % shards, :next_attempt_at
         FROM (SELECT CAST(value AS INTEGER) AS shards FROM helenus_settings
               WHERE name = 'shards')",
    )?;
    dispatch.execute(named_params! {
        ":staged_seq": staged_seq,
        ":token": token(message.ordering_key.as_deref(), &message.message_id),
        ":next_attempt_at": message.deliver_at.unwrap_or(now).as_millis(),
    })?;
    Ok(())
}

impl From<helenus_sqlite::Error> for EnqueueError {
    fn from(error: helenus_sqlite::Error) -> Self {
        EnqueueError::Backend(error.into())
    }
}

impl From<rusqlite::Error> for EnqueueError {
    fn from(error: rusqlite::Error) -> Self {
        helenus_sqlite::Error::from(error).into()
    }
}
