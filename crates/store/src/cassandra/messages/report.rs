//! Settling messages: plain writes at times that beat what they change.
//!
//! State only moves forward, because each mark (done, parked) is only ever set; an old owner's
//! report can repeat or lose, nothing else. Of a message that is tried again, the new row of the
//! pending index is written first, the authoritative row second, and the old index row goes last:
//! wherever this ends, the message can be found.

use std::collections::HashMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_model::limits::{ORPHAN_GRACE, REQUESTS_MAX};
use helenus_model::{MessageId, Timestamp};
use scylla::SerializeRow;
use scylla::value::{CqlTimestamp, MaybeUnset};

use super::Messages;
use super::fold::{Change, fold};
use super::rows::{Columns, NewPending, Standing, StateRow};
use super::stamp::Stamp;
use crate::Ports;
use crate::cassandra::Error;
use crate::cassandra::classify::request_error;
use crate::cassandra::conditional::write;
use crate::cassandra::values::{set, time};
use crate::contract::{Report, Settled};

/// Rows of one shard that are dropped with one request.
const DROPS_MAX: usize = 200;

/// What changes in an authoritative row; what is unset stays.
#[derive(Debug, SerializeRow)]
struct Update<'a> {
    written: i64,
    message_id: &'a str,
    state: MaybeUnset<&'a str>,
    dispatched_at_utc: MaybeUnset<CqlTimestamp>,
    parked_at_utc: MaybeUnset<CqlTimestamp>,
    next_attempt_at_utc: MaybeUnset<CqlTimestamp>,
    dispatch_attempt_count: MaybeUnset<i32>,
    last_error: MaybeUnset<&'a str>,
    holds_key: MaybeUnset<bool>,
}

/// A row of the pending index to be dropped.
#[derive(Clone, Debug)]
pub(super) struct Drop {
    pub(super) shard: u16,
    pub(super) due_ms: i64,
    pub(super) message_id: String,
    /// What was written at or before this time goes.
    pub(super) written: i64,
}

/// Records reports, those of one message as one change.
pub(super) async fn apply(
    messages: &Messages,
    ports: &Ports,
    reports: &[Report],
) -> Result<Vec<Settled>, Error> {
    let mut by_message: HashMap<&MessageId, Vec<usize>> = HashMap::new();
    for (index, report) in reports.iter().enumerate() {
        by_message.entry(&report.message_id).or_default().push(index);
    }
    let mut work = Vec::with_capacity(by_message.len());
    for (message_id, indices) in by_message {
        work.push(async move {
            let own = indices.iter().filter_map(|index| reports.get(*index));
            let own: Vec<&Report> = own.collect();
            let (settled, drop) = Box::pin(apply_to(messages, ports, message_id, &own)).await?;
            Ok::<_, Error>((indices, settled, drop))
        });
    }
    let done: Vec<_> = stream::iter(work).buffer_unordered(REQUESTS_MAX).try_collect().await?;
    let mut outcome = vec![Settled::NotFound; reports.len()];
    let mut drops = Vec::new();
    for (indices, settled, drop) in done {
        for (index, settled) in indices.into_iter().zip(settled) {
            if let Some(slot) = outcome.get_mut(index) {
                *slot = settled;
            }
        }
        drops.extend(drop);
    }
    drop_pending(messages, drops).await?;
    Ok(outcome)
}

async fn apply_to(
    messages: &Messages,
    ports: &Ports,
    message_id: &MessageId,
    reports: &[&Report],
) -> Result<(Vec<Settled>, Option<Drop>), Error> {
    let row = messages.state(message_id.as_str()).await?.filter(|row| !row.is_ghost());
    let Some(row) = row else { return Ok((vec![Settled::NotFound; reports.len()], None)) };
    let (settled, change) = fold(row.standing(), reports);
    if change.is_empty() {
        // What was done before may have been left in the index by whoever died then.
        let drop = (row.standing() != Standing::Pending).then(|| old_row(messages, &row, ports));
        return Ok((settled, drop.transpose()?));
    }
    let drop = write_change(messages, ports, &row, &change).await?;
    Ok((settled, drop))
}

/// Writes a change; gives the index row that is to be dropped after it.
pub(super) async fn write_change(
    messages: &Messages,
    ports: &Ports,
    row: &StateRow,
    change: &Change,
) -> Result<Option<Drop>, Error> {
    let started = ports.clock.elapsed();
    let written = row.write_time(ports.clock.now());
    // Before anything else: from here on later messages of the key wait.
    if change.holds == Some(true) {
        hold(messages, row, change, written).await?;
    }
    // A message that was published is in order even if it is published once more.
    if change.done.is_some() && row.holds_key == Some(true) {
        release(messages, row, written).await?;
    }
    let moves = change.next_attempt_at.filter(|next| next.as_millis() != row.due_ms());
    let moves = moves.filter(|_| !change.leaves());
    if let Some(next) = moves {
        put_again(messages, row, change, next, ports.clock.now()).await?;
    }
    update(messages, row, change, moves, written).await?;
    if let Some(next) = moves
        && ports.clock.elapsed().saturating_sub(started) > ORPHAN_GRACE / 2
    {
        // Whoever sweeps may have taken the first one for an orphan.
        put_again(messages, row, change, next, ports.clock.now()).await?;
    }
    if change.parked_at.is_some() && change.done.is_none() && change.holds == Some(false) {
        release(messages, row, written).await?;
    }
    if let Some(next) = moves {
        messages.memory.lower(row.shard(messages.shards())?, next);
    }
    let leaves = moves.is_some() || change.leaves();
    leaves.then(|| old_row(messages, row, ports)).transpose()
}

fn old_row(messages: &Messages, row: &StateRow, ports: &Ports) -> Result<Drop, Error> {
    let due_ms = row.due_ms();
    Ok(Drop {
        shard: row.shard(messages.shards())?,
        due_ms,
        message_id: row.message_id.clone(),
        written: row.write_time(ports.clock.now()).max(index_write_time(due_ms)),
    })
}

/// The time an index row that was moved is written with: no earlier write to its place, of whoever
/// staged the message a second time, has a later one.
fn index_write_time(due_ms: i64) -> i64 {
    due_ms.saturating_add(1).saturating_mul(1_000)
}

pub(super) async fn put_again(
    messages: &Messages,
    row: &StateRow,
    change: &Change,
    next: Timestamp,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(whole) = messages.message(&row.message_id).await? else { return Ok(()) };
    let (Some(seq), attempts) = (row.staged_seq, row.dispatch_attempt_count.unwrap_or(0)) else {
        return Ok(());
    };
    let pending = whole.into_pending(messages.shards())?;
    let columns = Columns::of(&pending.message, Stamp { seq, at: pending.created_at });
    let values = NewPending {
        columns: columns.tried(attempts.saturating_add(change.attempts)),
        shard_id: i32::from(pending.shard),
        eligible_at_utc: time(next),
        kind: "message",
        detail: MaybeUnset::Unset,
        written: row.write_time(now).max(index_write_time(next.as_millis())),
    };
    let statement = &messages.statements.put_pending;
    write(&messages.session, "put a message off", statement, values).await
}

async fn update(
    messages: &Messages,
    row: &StateRow,
    change: &Change,
    moves: Option<Timestamp>,
    written: i64,
) -> Result<(), Error> {
    let attempts = row.dispatch_attempt_count.unwrap_or(0).saturating_add(change.attempts);
    let parked = change.parked_at.filter(|_| change.done.is_none());
    let state = change.done.map(|(state, _)| state).or(parked.map(|_| "parked"));
    let values = Update {
        written,
        message_id: &row.message_id,
        state: set(state),
        dispatched_at_utc: set(change.done.map(|(_, at)| time(at))),
        parked_at_utc: set(parked.map(time)),
        next_attempt_at_utc: set(moves.map(time)),
        dispatch_attempt_count: set((change.attempts > 0).then_some(attempts)),
        last_error: set(change.reason.as_deref()),
        holds_key: set(change.holds.filter(|_| row.ordering_key.is_some())),
    };
    write(&messages.session, "settle a message", &messages.statements.update, values).await
}

async fn hold(
    messages: &Messages,
    row: &StateRow,
    change: &Change,
    written: i64,
) -> Result<(), Error> {
    let (Some(key), Some(seq)) = (row.ordering_key.as_deref(), row.staged_seq) else {
        return Ok(());
    };
    // One that is parked holds until somebody settles it.
    let until = match (change.parked_at, change.next_attempt_at) {
        (Some(_), _) => None,
        (None, next) => Some(next.map_or(CqlTimestamp(row.due_ms()), time)),
    };
    let shard = i32::from(row.shard(messages.shards())?);
    let values = (shard, key, seq, &row.message_id, until, written);
    write(&messages.session, "hold a key", &messages.statements.hold, values).await
}

pub(super) async fn release(
    messages: &Messages,
    row: &StateRow,
    written: i64,
) -> Result<(), Error> {
    let (Some(key), Some(seq)) = (row.ordering_key.as_deref(), row.staged_seq) else {
        return Ok(());
    };
    let shard = i32::from(row.shard(messages.shards())?);
    let values = (written, shard, key, seq);
    write(&messages.session, "release a key", &messages.statements.release, values).await
}

/// Drops rows of the pending index, those of one shard together.
pub(super) async fn drop_pending(messages: &Messages, drops: Vec<Drop>) -> Result<(), Error> {
    let mut by_shard: HashMap<u16, Vec<Drop>> = HashMap::new();
    for drop in drops {
        by_shard.entry(drop.shard).or_default().push(drop);
    }
    let chunks: Vec<Vec<Drop>> = by_shard
        .into_values()
        .flat_map(|drops| drops.chunks(DROPS_MAX).map(<[Drop]>::to_vec).collect::<Vec<_>>())
        .collect();
    let work = chunks.into_iter().map(|chunk| async move {
        let mut batch = messages.statements.batch();
        let mut values = Vec::with_capacity(chunk.len());
        for drop in &chunk {
            batch.append_statement(messages.statements.drop_pending.clone());
            let due = CqlTimestamp(drop.due_ms);
            values.push((drop.written, i32::from(drop.shard), due, drop.message_id.as_str()));
        }
        let sent = Box::pin(messages.session.batch(&batch, values)).await;
        sent.map(|_| ()).map_err(|error| request_error("settle messages", error))
    });
    stream::iter(work).buffer_unordered(REQUESTS_MAX).try_collect::<Vec<()>>().await.map(|_| ())
}
