//! Finishing what somebody began: everything is found in the pending index, so this costs what is
//! pending, not what is stored.

use futures_util::StreamExt;
use helenus_model::Timestamp;
use helenus_model::limits::WATERMARK_LAG;
use scylla::DeserializeRow;
use scylla::value::CqlTimestamp;

use super::Messages;
use super::read::{Found, cancel, candidates, dropped, rehome, truth};
use super::report::drop_pending;
use super::rows::Candidate;
use crate::cassandra::conditional::select;
use crate::cassandra::read::row_error;
use crate::cassandra::staging::{self, Begun};
use crate::cassandra::{CassandraStore, Error};
use crate::contract::Reconciled;

/// An index row with what was begun.
#[derive(Debug, DeserializeRow)]
pub(super) struct BegunRow {
    payload: Option<String>,
    payload_bytes: Option<Vec<u8>>,
    detail: Option<String>,
}

/// What becomes of an index row.
enum Verdict {
    /// It is as it should be.
    Fine,
    /// It may still be under way.
    Open,
    /// So many messages are to be staged, then it goes, unless more may come.
    Complete { count: u64, is_over: bool },
    /// It goes.
    Drop,
    /// Its message is cancelled, then it goes.
    Cancel,
}

pub(super) async fn reconcile(store: &CassandraStore, dry_run: bool) -> Result<Reconciled, Error> {
    let messages = store.messages().await?;
    let mut report = Reconciled::default();
    for shard in 0..messages.shards() {
        let end = Timestamp::from_micros(i64::MAX);
        let mut rows = candidates(messages, shard, Timestamp::EPOCH, end).await?;
        while let Some(row) = rows.next().await {
            let candidate = row.map_err(row_error)?;
            let verdict = judge(store, messages, shard, &candidate, dry_run).await?;
            if !matches!(verdict, Verdict::Fine) {
                report.examined += 1;
            }
            match verdict {
                Verdict::Fine => continue,
                Verdict::Open => {
                    report.open += 1;
                    continue;
                }
                Verdict::Complete { count, is_over } => {
                    report.completed += count;
                    if !is_over {
                        continue;
                    }
                }
                Verdict::Drop => report.dropped += 1,
                Verdict::Cancel => report.cancelled += 1,
            }
            if !dry_run {
                drop_pending(messages, vec![dropped(shard, &candidate)]).await?;
            }
        }
    }
    let (_, look_back) = store.bucket_options();
    let from_buckets = Box::pin(store.promote_buckets(look_back, dry_run)).await?;
    report.examined += from_buckets;
    report.completed += from_buckets;
    Ok(report)
}

async fn judge(
    store: &CassandraStore,
    messages: &Messages,
    shard: u16,
    candidate: &Candidate,
    dry_run: bool,
) -> Result<Verdict, Error> {
    match candidate.kind.as_deref() {
        Some("message") => judge_message(store, messages, shard, candidate, dry_run).await,
        _ => Box::pin(judge_begun(store, messages, shard, candidate, dry_run)).await,
    }
}

/// A row that says a message is due. Only its own time tells how old it is, and clocks differ, so
/// the grace is the longer one.
async fn judge_message(
    store: &CassandraStore,
    messages: &Messages,
    shard: u16,
    candidate: &Candidate,
    dry_run: bool,
) -> Result<Verdict, Error> {
    let now = store.ports.clock.now();
    let written = Timestamp::from_micros(candidate.kind_written.unwrap_or(0));
    let is_old = now.since(written) >= WATERMARK_LAG;
    Ok(match truth(messages, shard, candidate).await? {
        Found::Due(..) | Found::Open => Verdict::Fine,
        Found::Misplaced => {
            if !dry_run {
                rehome(messages, &store.ports, shard, candidate).await?;
            }
            Verdict::Fine
        }
        Found::Orphan | Found::Stale if !is_old => Verdict::Open,
        Found::Stale => Verdict::Drop,
        Found::Orphan if dry_run => Verdict::Cancel,
        Found::Orphan if cancel(messages, &store.ports, candidate).await? => Verdict::Cancel,
        // It came after all.
        Found::Orphan => Verdict::Fine,
    })
}

async fn judge_begun(
    store: &CassandraStore,
    messages: &Messages,
    shard: u16,
    candidate: &Candidate,
    dry_run: bool,
) -> Result<Verdict, Error> {
    let now = store.ports.clock.now();
    let Some(row) = begun(messages, shard, candidate).await? else { return Ok(Verdict::Fine) };
    let damaged = |error: &dyn std::fmt::Display| {
        Error::corrupt(format!("index row {}: {error}", candidate.message_id))
    };
    let detail = row.detail.ok_or_else(|| damaged(&"it has no detail"))?;
    match serde_json::from_str(&detail).map_err(|error| damaged(&error))? {
        Begun::Intent { envelope, table, key, mark, operation_id, deadline_ms } => {
            if !staging::is_over(deadline_ms, now) {
                return Ok(Verdict::Open);
            }
            if !store.carries(&table, &key, mark, operation_id).await? {
                return Ok(Verdict::Drop);
            }
            if !dry_run {
                let bytes = row.payload.map(String::into_bytes).or(row.payload_bytes);
                let message = envelope.into_message(bytes.unwrap_or_default());
                let staged = store.enqueue_begun(message).await;
                staged.map_err(|error| Error::Unavailable {
                    what: "stage a message that was begun",
                    source: Box::new(error),
                })?;
            }
            Ok(Verdict::Complete { count: 1, is_over: true })
        }
        Begun::Dirty { outbox, key } => {
            let promoted = store.promote_all(&outbox, &key, dry_run).await?;
            // What was found need not be what the row was left for.
            let written = candidate.kind_written.unwrap_or(0);
            let is_over = !staging::may_come(written, now.as_micros());
            Ok(match promoted {
                0 if is_over => Verdict::Drop,
                0 => Verdict::Open,
                count => Verdict::Complete { count, is_over },
            })
        }
    }
}

async fn begun(
    messages: &Messages,
    shard: u16,
    candidate: &Candidate,
) -> Result<Option<BegunRow>, Error> {
    let due = CqlTimestamp(candidate.eligible_at_utc.0);
    let values = (i32::from(shard), due, candidate.message_id.as_str());
    let rows = select(&messages.session, &messages.upkeep.begun, values).await?;
    rows.maybe_first_row().map_err(|error| Error::corrupt(error.to_string()))
}
