//! Sending an append until its outcome is known or its deadline is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helenus_model::limits::APPEND_ATTEMPTS_MAX;
use helenus_model::{Failure, StreamId, Version};
use tokio::time::{sleep, timeout};

use super::classify::{read_error, request_error};
use super::rows::{Answer, ConditionRow, answer, condition_rows};
use super::session::Link;
use super::values::{Values, operation_row};
use super::{CassandraStore, Error, archive, group};
use crate::Ports;
use crate::append::{Age, Memory, Plan, Span, State};
use crate::contract::{AppendError, Appended};
use crate::retention::Place;

/// What the rows of a stream say about an append.
#[derive(Debug)]
pub(super) enum Verdict {
    /// What became of it.
    Settled(Result<Appended, AppendError>),
    /// Nothing; the stream ends here.
    Head(Option<Version>),
}

pub(super) async fn append(
    store: &CassandraStore,
    plan: &Arc<Plan>,
) -> Result<Appended, AppendError> {
    let sent = AtomicBool::new(false);
    match timeout(plan.deadline, Box::pin(start(store, plan, &sent))).await {
        Ok(outcome) => outcome,
        Err(_) if sent.load(Ordering::Relaxed) => {
            Err(AppendError::Unknown { operation_id: plan.operation_id, source: None })
        }
        Err(_) => Err(AppendError::Backend(Error::Late { deadline: plan.deadline }.into())),
    }
}

async fn start(
    store: &CassandraStore,
    plan: &Arc<Plan>,
    sent: &AtomicBool,
) -> Result<Appended, AppendError> {
    let link = store.link().await.map_err(backend)?;
    // A node answers a larger one with a time-out, as if it might have been applied.
    plan.fits(link.append_bytes_max)?;
    if plan.age == Age::Old {
        return settle_old(store, plan).await;
    }
    // A declared version is checked against the head as it is, not as a group assumes it.
    if plan.expected_head().is_none() && !plan.declares_versions() {
        return group::append(store, link, plan, sent).await;
    }
    alone(store, link, plan, sent, None).await
}

/// Tries at the expected head, or at whatever the head turns out to be, always under the same
/// operation id: an attempt whose answer was lost can only have applied it once. `lost` is how an
/// attempt made before ended, if its outcome is not known.
pub(super) async fn alone(
    store: &CassandraStore,
    link: &Link,
    plan: &Plan,
    sent: &AtomicBool,
    mut lost: Option<Error>,
) -> Result<Appended, AppendError> {
    let ttl = ttl(store.bounds().operation_window);
    let mut head = plan.expected_head();
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        let at = match head {
            Some(head) => head,
            None => match look(link, plan).await {
                Ok(Verdict::Settled(outcome)) => return outcome,
                Ok(Verdict::Head(head)) => head,
                Err(error) if lost.is_some() && error.is_retryable() => continue,
                Err(error) => return Err(giving_up(plan, lost, error)),
            },
        };
        // What a read alone says is not final while an earlier attempt may still be decided.
        let span = match plan.accepts(at).and_then(|()| plan.place(at)) {
            Ok(span) => span,
            Err(error) => return Err(lost.map_or(error, |lost| unknown(plan, lost))),
        };
        sent.store(true, Ordering::Relaxed);
        match send(link, &[(plan, span)], at, ttl).await {
            Ok(Answer::Applied) => {
                return Ok(Appended::Applied { first: span.first, last: span.last });
            }
            Ok(Answer::Refused(rows)) => match verdict(plan, &rows) {
                Ok(Verdict::Settled(outcome)) => return outcome,
                Ok(Verdict::Head(actual)) if plan.expected_head().is_some() => {
                    return conflict(store, plan, actual).await;
                }
                Ok(Verdict::Head(actual)) => head = Some(actual),
                Err(error) => return Err(giving_up(plan, lost, error)),
            },
            Err(error) if error.applied().is_none() => {
                lost = Some(error);
                head = plan.expected_head();
            }
            // Only another answer tells what became of the attempt before.
            Err(error) if lost.is_some() && error.is_retryable() => {}
            Err(error) => return Err(giving_up(plan, lost, error)),
        }
    }
    Err(lost.map_or_else(|| plan.conflict(head.flatten()), |lost| unknown(plan, lost)))
}

pub(super) fn backend(error: Error) -> AppendError {
    AppendError::Backend(error.into())
}

fn unknown(plan: &Plan, lost: Error) -> AppendError {
    AppendError::Unknown { operation_id: plan.operation_id, source: Some(lost.into()) }
}

/// An attempt that was not applied proves nothing about an earlier one whose answer was lost.
fn giving_up(plan: &Plan, lost: Option<Error>, error: Error) -> AppendError {
    match lost {
        Some(lost) => unknown(plan, lost),
        None => backend(error),
    }
}

/// One conditional batch in one partition: the head, then for each append its operation row and
/// its events. The spans follow each other from `head` on.
pub(super) async fn send(
    link: &Link,
    appends: &[(&Plan, Span)],
    head: Option<Version>,
    ttl: i32,
) -> Result<Answer, Error> {
    let statements = &link.statements;
    let mut batch = statements.batch();
    let mut values = Vec::new();
    if let Some((plan, span)) = appends.last().copied() {
        let (statement, moved) = match head {
            None => (&statements.new_head, Values::NewHead { plan, span }),
            Some(head) => (&statements.move_head, Values::MoveHead { plan, span, head }),
        };
        batch.append_statement(statement.clone());
        values.push(moved);
    }
    for (plan, span) in appends.iter().copied() {
        batch.append_statement(statements.operation.clone());
        values.push(Values::Operation { plan, span, ttl });
        let mut version = span.first;
        for event in &plan.events {
            batch.append_statement(statements.event.clone());
            values.push(Values::Event { plan, event, version, is_first: version == span.first });
            version = version.next();
        }
    }
    let sent = Box::pin(link.session.batch(&batch, values)).await;
    let sent = sent.map_err(|error| request_error("append", error))?;
    // An answer that cannot be read does not say that nothing was applied.
    answer(sent).map_err(|error| Error::Lost { what: "append", source: Box::new(error) })
}

/// What the rows that came back with a refusal say, or those a look at the stream found.
pub(super) fn verdict(plan: &Plan, rows: &[ConditionRow]) -> Result<Verdict, Error> {
    let key = operation_row(plan.operation_id);
    let named = |version| rows.iter().find(move |row| row.stream_version == Some(version));
    if let Some(row) = named(key) {
        return Ok(Verdict::Settled(plan.settle(&row.memory()?)));
    }
    Ok(Verdict::Head(named(0).map(ConditionRow::head).transpose()?))
}

/// Head and operation row as they are stored. A committed operation row is final; its absence is
/// not, which the batch's own condition takes care of.
async fn look(link: &Link, plan: &Plan) -> Result<Verdict, Error> {
    let rows = rows(link, &plan.stream_id, [operation_row(plan.operation_id), 0]).await?;
    verdict(plan, &rows)
}

/// The caller named a head that is not the stream's. An operation whose id does not say how old
/// it is may have been applied so long ago that only its events remember it.
async fn conflict(
    store: &CassandraStore,
    plan: &Plan,
    actual: Option<Version>,
) -> Result<Appended, AppendError> {
    if plan.age == Age::Undated
        && let Some(outcome) =
            settle_by_events(store, plan).await.map_err(|error| unknown(plan, error))?
    {
        return outcome;
    }
    Err(plan.conflict(actual))
}

/// An operation too old to be sent: it is known by its row or its events, or refused.
async fn settle_old(store: &CassandraStore, plan: &Plan) -> Result<Appended, AppendError> {
    let link = store.link().await.map_err(backend)?;
    if let Verdict::Settled(outcome) = look(link, plan).await.map_err(backend)? {
        return outcome;
    }
    match settle_by_events(store, plan).await.map_err(backend)? {
        Some(outcome) => outcome,
        None => Err(plan.expired()),
    }
}

/// The outcome, if the event after the expected head was written by this very operation; or if
/// that event was dropped, and nobody can tell any more.
async fn settle_by_events(
    store: &CassandraStore,
    plan: &Plan,
) -> Result<Option<Result<Appended, AppendError>>, Error> {
    let Some(head) = plan.expected_head() else { return Ok(None) };
    let Ok(span) = plan.place(head) else { return Ok(None) };
    let first = span.first.as_i64();
    let mut found = rows(store.link().await?, &plan.stream_id, [first, 0]).await?;
    let head = found.iter().position(|row| row.stream_version == Some(0));
    let extent = head.map(|index| found.swap_remove(index).extent()).transpose()?;
    let is_archived = extent.is_some_and(|extent| extent.place(span.first) == Place::Archived);
    if found.is_empty() && is_archived {
        found = archive::operation_at(store, &plan.stream_id, span.first).await?;
    }
    let own = found.first().filter(|row| row.operation_id == Some(plan.operation_id.as_uuid()));
    let Some(row) = own else {
        return Ok(plan.may_have_been_dropped(extent).then(|| Err(plan.expired())));
    };
    let state = State::Applied { span, content_hash: row.hash() };
    let memory = Memory { operation_id: plan.operation_id, state };
    Ok(Some(plan.settle(&memory)))
}

/// Rows of a stream by their clustering key.
async fn rows(
    link: &Link,
    stream_id: &StreamId,
    [a, b]: [i64; 2],
) -> Result<Vec<ConditionRow>, Error> {
    let values = (stream_id.as_str(), a, b);
    let asked = Box::pin(link.session.execute_unpaged(&link.statements.look, values)).await;
    condition_rows(asked.map_err(read_error)?)
}

/// The version of a stream's last event.
pub(super) async fn head(link: &Link, stream_id: &StreamId) -> Result<Option<Version>, Error> {
    let rows = rows(link, stream_id, [0, 0]).await?;
    rows.first().map(ConditionRow::head).transpose()
}

/// Whole seconds, as `USING TTL` takes them.
pub(super) fn ttl(window: Duration) -> i32 {
    i32::try_from(window.as_secs().max(1)).unwrap_or(i32::MAX)
}

/// Waits before another attempt: contenders that keep in step keep refusing each other.
pub(super) async fn pause(ports: &Ports, attempt: u32) {
    if attempt == 0 {
        return;
    }
    let ceiling_ms = 2_u64.saturating_pow(attempt.min(7));
    sleep(Duration::from_millis(ports.random.below(ceiling_ms) + 1)).await;
}
