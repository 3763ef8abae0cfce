//! Staging: the row that finds the message first, the row that makes it true second.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, stream};
use helenus_model::limits::{APPEND_ATTEMPTS_MAX, ENQUEUE_DEADLINE, REQUESTS_MAX, WATERMARK_LAG};
use helenus_model::{ContentHash, Failure, Message, Timestamp};
use scylla::value::MaybeUnset;
use tokio::time::timeout;

use super::Messages;
use super::fold::Change;
use super::report::{Drop, drop_pending, write_change};
use super::rows::{Columns, NewMessage, NewPending, same_hash};
use super::stamp::Stamp;
use crate::cassandra::append::pause;
use crate::cassandra::conditional::{Cas, Found, send, write};
use crate::cassandra::values::{set, time};
use crate::cassandra::{CassandraStore, Error};
use crate::contract::{EnqueueError, Enqueued, Outbox};
use crate::shard::{shard, token};

impl Outbox for CassandraStore {
    async fn enqueue(&self, message: Message) -> Result<Enqueued, EnqueueError> {
        message.check()?;
        // Making tables is not part of staging, and has time limits of its own.
        let messages = self.messages().await.map_err(backend)?;
        let sent = AtomicBool::new(false);
        let staging = Box::pin(stage(self, messages, &message, &sent));
        let staged = timeout(ENQUEUE_DEADLINE, staging).await;
        let late = || {
            let deadline = ENQUEUE_DEADLINE;
            if sent.load(Ordering::Relaxed) {
                let source = format!("no answer within {deadline:?}").into();
                Error::Lost { what: "stage a message", source }
            } else {
                Error::Late { deadline }
            }
        };
        let staged = staged.unwrap_or_else(|_| Err(backend(late())))?;
        self.wake();
        Ok(staged)
    }

    async fn enqueue_all(&self, messages: Vec<Message>) -> Vec<Result<Enqueued, EnqueueError>> {
        let mut chains: Vec<Vec<(usize, Message)>> = Vec::new();
        let mut chain_of_key = std::collections::HashMap::new();
        let count = messages.len();
        for (index, message) in messages.into_iter().enumerate() {
            let next = chains.len();
            let chain = match &message.ordering_key {
                Some(key) => *chain_of_key.entry(key.clone()).or_insert(next),
                None => next,
            };
            match chains.get_mut(chain) {
                Some(chain) => chain.push((index, message)),
                None => chains.push(vec![(index, message)]),
            }
        }
        let work = chains.into_iter().map(|chain| stage_chain(self, chain));
        let staged: Vec<Vec<_>> = stream::iter(work).buffer_unordered(REQUESTS_MAX).collect().await;
        let mut outcomes: Vec<_> = staged.into_iter().flatten().collect();
        outcomes.sort_by_key(|(index, _)| *index);
        debug_assert_eq!(outcomes.len(), count, "every message has an outcome");
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

impl CassandraStore {
    /// Stages a message that is due because what it tells of has happened. If whoever began died between
    /// its two rows, the message may have been cancelled since; here it is known to be wanted.
    pub(in crate::cassandra) async fn enqueue_begun(
        &self,
        message: Message,
    ) -> Result<Enqueued, EnqueueError> {
        match self.enqueue(message.clone()).await {
            Err(EnqueueError::Cancelled { .. }) => Box::pin(revive(self, &message)).await,
            staged => staged,
        }
    }
}

/// Makes a message true that was cancelled.
async fn revive(store: &CassandraStore, message: &Message) -> Result<Enqueued, EnqueueError> {
    let messages = store.messages().await?;
    let mut staging = Staging::of(store, messages, message);
    // The attempt that was refused has dropped its index row, perhaps from the same place.
    staging.written = staging.written.saturating_add(1);
    put_pending(messages, &staging).await?;
    let statement = &messages.statements.revive;
    let sent = send(&messages.session, "stage a message", statement, staging.values()).await?;
    messages.memory.lower(staging.shard, staging.due);
    store.wake();
    match sent {
        Cas::Applied => Ok(Enqueued::Enqueued),
        // Somebody else was faster, or has swept what was cancelled.
        Cas::Refused(row) if row.text("state").is_some() => Ok(Enqueued::Duplicate),
        Cas::Refused(_) => Err(EnqueueError::Cancelled { message_id: message.message_id.clone() }),
    }
}

/// Stages messages of one key, one after the other, up to the first that is not staged.
async fn stage_chain(
    store: &CassandraStore,
    chain: Vec<(usize, Message)>,
) -> Vec<(usize, Result<Enqueued, EnqueueError>)> {
    let mut outcomes: Vec<(usize, Result<Enqueued, EnqueueError>)> = Vec::new();
    for (index, message) in chain {
        let outcome = if outcomes.last().is_some_and(|(_, outcome)| outcome.is_err()) {
            Err(EnqueueError::Behind { message_id: message.message_id })
        } else {
            store.enqueue(message).await
        };
        outcomes.push((index, outcome));
    }
    outcomes
}

/// A message with its place in the index.
struct Staging<'a> {
    message: &'a Message,
    hash: ContentHash,
    stamp: Stamp,
    shard: u16,
    due: Timestamp,
    /// The time the index row is written with.
    written: i64,
}

impl<'a> Staging<'a> {
    fn of(store: &CassandraStore, messages: &Messages, message: &'a Message) -> Self {
        let stamp = messages.stamps.next(store.ports.clock.now());
        let token = token(message.ordering_key.as_deref(), &message.message_id);
        Staging {
            message,
            hash: message.content_hash(),
            stamp,
            shard: shard(token, messages.shards()),
            due: message.deliver_at.unwrap_or(stamp.at),
            written: stamp.at.as_micros(),
        }
    }

    /// The authoritative row.
    fn values(&self) -> NewMessage<'_> {
        NewMessage {
            columns: Columns::of(self.message, self.stamp),
            next_attempt_at_utc: time(self.due),
            deliver_at_utc: set(self.message.deliver_at.map(time)),
            content_hash: self.hash.as_bytes(),
        }
    }
}

async fn stage(
    store: &CassandraStore,
    messages: &Messages,
    message: &Message,
    sent: &AtomicBool,
) -> Result<Enqueued, EnqueueError> {
    let clock = &*store.ports.clock;
    let started = clock.elapsed();
    let staging = Staging::of(store, messages, message);
    put_pending(messages, &staging).await.map_err(backend)?;
    let staged = insert(store, messages, &staging, sent).await?;
    messages.memory.lower(staging.shard, staging.due);
    if staged == Enqueued::Enqueued && clock.elapsed().saturating_sub(started) > WATERMARK_LAG / 2 {
        // Readers have passed its time by now: it is made due anew.
        renew(store, messages, message).await.map_err(backend)?;
    }
    Ok(staged)
}

/// Without the message a row of the index tells of nothing: whatever becomes of it, nothing was
/// applied.
async fn put_pending(messages: &Messages, staging: &Staging<'_>) -> Result<(), Error> {
    let values = NewPending {
        columns: Columns::of(staging.message, staging.stamp),
        shard_id: i32::from(staging.shard),
        eligible_at_utc: time(staging.due),
        kind: "message",
        detail: MaybeUnset::Unset,
        written: staging.written,
    };
    let statement = &messages.statements.put_pending;
    let put = write(&messages.session, "stage a message", statement, values).await;
    put.map_err(|error| match error {
        Error::Lost { what, source } => Error::Unavailable { what, source },
        error => error,
    })
}

/// Makes the message true. An answer that was lost is asked for again: the row names its staging.
async fn insert(
    store: &CassandraStore,
    messages: &Messages,
    staging: &Staging<'_>,
    sent: &AtomicBool,
) -> Result<Enqueued, EnqueueError> {
    let mut lost = None;
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        sent.store(true, Ordering::Relaxed);
        let statement = &messages.statements.insert_message;
        match send(&messages.session, "stage a message", statement, staging.values()).await {
            Ok(Cas::Applied) => return Ok(Enqueued::Enqueued),
            Ok(Cas::Refused(row)) => return refused(messages, staging, &row).await,
            Err(error) if error.applied().is_none() => lost = Some(error),
            // Only another answer tells what became of the attempt before.
            Err(error) if lost.is_some() && error.is_retryable() => {}
            Err(error) => return Err(backend(lost.unwrap_or(error))),
        }
    }
    let never = || Error::corrupt("a message was never sent");
    Err(backend(lost.unwrap_or_else(never)))
}

/// What the row that stands says about the message.
async fn refused(
    messages: &Messages,
    staging: &Staging<'_>,
    row: &Found,
) -> Result<Enqueued, EnqueueError> {
    if row.uuid("staged_seq") == Some(*staging.stamp.seq.as_ref())
        && row.text("state") != Some("cancelled")
    {
        return Ok(Enqueued::Enqueued);
    }
    let message_id = || staging.message.message_id.clone();
    let known = same_hash(row.blob("content_hash"), staging.hash);
    if !is_found_there(staging, row, messages.shards()) {
        // Best left as it came; if this fails, readers see through the row and it is swept.
        drop(drop_pending(messages, vec![own_row(staging)]).await);
    }
    match row.text("state") {
        Some("cancelled") => Err(EnqueueError::Cancelled { message_id: message_id() }),
        _ if known => Ok(Enqueued::Duplicate),
        _ => Err(EnqueueError::ContentMismatch { message_id: message_id() }),
    }
}

/// Whether the message that stands is found where this staging has put its index row.
fn is_found_there(staging: &Staging<'_>, row: &Found, shards: u16) -> bool {
    let due = row.time("next_attempt_at_utc").map(Timestamp::as_millis);
    let token = token(row.text("ordering_key"), &staging.message.message_id);
    row.text("state") == Some("pending")
        && due == Some(staging.due.as_millis())
        && shard(token, shards) == staging.shard
}

/// This staging's own write of its index row.
fn own_row(staging: &Staging<'_>) -> Drop {
    Drop {
        shard: staging.shard,
        due_ms: staging.due.as_millis(),
        message_id: staging.message.message_id.to_string(),
        written: staging.written,
    }
}

async fn renew(
    store: &CassandraStore,
    messages: &Messages,
    message: &Message,
) -> Result<(), Error> {
    let Some(row) = messages.state(message.message_id.as_str()).await? else { return Ok(()) };
    let now = store.ports.clock.now();
    let due = message.deliver_at.map_or(now, |due| due.max(now));
    let change = Change { next_attempt_at: Some(due), ..Change::default() };
    let drop = write_change(messages, &store.ports, &row, &change).await?;
    drop_pending(messages, drop.into_iter().collect()).await
}

fn backend(error: Error) -> EnqueueError {
    EnqueueError::Backend(error.into())
}
