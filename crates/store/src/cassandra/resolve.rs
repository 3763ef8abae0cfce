//! Settling an operation for good, by cancelling it.
//!
//! The cancellation claims the operation's row. Either it loses to the operation, or it keeps the
//! operation from ever applying, however long a coordinator or a paused process still tries.

use futures_util::TryStreamExt;
use helenus_model::limits::{APPEND_ATTEMPTS_MAX, APPEND_DEADLINE};
use helenus_model::{Failure, OperationId, StreamId, Version};
use scylla::client::pager::TypedRowStream;
use tokio::time::timeout;

use super::append::{pause, ttl};
use super::classify::{page_error, request_error};
use super::read::row_error;
use super::rows::{Answer, answer};
use super::session::Link;
use super::values::operation_row;
use super::{CassandraStore, Error, archive};
use crate::append::{Age, Memory, Span, State};
use crate::contract::{AppendError, Resolved};

pub(super) async fn resolve(
    store: &CassandraStore,
    stream_id: &StreamId,
    operation_id: OperationId,
) -> Result<Resolved, AppendError> {
    let named = |error: Error| AppendError::from_backend(operation_id, error.into());
    let link = store.link().await.map_err(named)?;
    let cancelling = Box::pin(cancel(store, link, stream_id, operation_id));
    let Ok(cancelled) = timeout(APPEND_DEADLINE, cancelling).await else {
        return Err(AppendError::Unknown { operation_id, source: None });
    };
    let memory = cancelled.map_err(named)?;
    if memory.operation_id != operation_id {
        return Err(AppendError::OperationIdTaken { operation_id });
    }
    let found = match memory.state {
        State::Applied { span, .. } => Some(span),
        // The row of an operation that may be older than the window says nothing: it may have
        // expired, and this one be the cancellation's alone.
        State::Cancelled => {
            let (now, window) = (store.ports.clock.now(), store.bounds().operation_window);
            match Age::of(operation_id, now, window) {
                Age::Fresh => None,
                Age::Old | Age::Undated => by_events(store, stream_id, operation_id).await?,
            }
        }
    };
    Ok(match found {
        Some(Span { first, last }) => Resolved::Applied { first, last },
        None => Resolved::Cancelled,
    })
}

/// Claims the operation's row until the outcome of that is known; gives what the row says then.
async fn cancel(
    store: &CassandraStore,
    link: &Link,
    stream_id: &StreamId,
    operation_id: OperationId,
) -> Result<Memory, Error> {
    let cancelled = Memory { operation_id, state: State::Cancelled };
    let (row, ttl) = (operation_row(operation_id), ttl(store.bounds().operation_window));
    let mut failure = None;
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        let values = (stream_id.as_str(), row, operation_id.as_uuid(), ttl);
        let sent = link.session.execute_unpaged(&link.statements.cancel, values);
        match Box::pin(sent).await.map_err(|error| request_error("cancel", error)) {
            Ok(result) => match answer(result)? {
                Answer::Applied => return Ok(cancelled),
                Answer::Refused(rows) => match rows.first() {
                    Some(row) => return row.memory(),
                    None => return Err(Error::corrupt("a cancellation was refused without a row")),
                },
            },
            // Sent again, it finds itself or the operation. A lost answer is what is told of in
            // the end: it may have been applied.
            Err(error) if error.is_retryable() => {
                let is_lost = |error: &Error| error.applied().is_none();
                failure = failure.filter(|failure| is_lost(failure)).or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(failure.unwrap_or_else(|| Error::corrupt("a cancellation was never sent")))
}

/// The versions of an operation's events that are left, in the stream and in the archive. Where
/// none is and some were dropped, nobody can tell any more.
async fn by_events(
    store: &CassandraStore,
    stream_id: &StreamId,
    operation_id: OperationId,
) -> Result<Option<Span>, AppendError> {
    let named = |error: Error| AppendError::from_backend(operation_id, error.into());
    let link = store.link().await.map_err(named)?;
    // The extent second: what left the stream before is in the archive by then.
    let live = events_of(link, stream_id, operation_id).await.map_err(named)?;
    let head = archive::head(store, stream_id).await.map_err(named)?;
    let Some(extent) = head.map(|head| head.extent) else { return Ok(live) };
    let archived = archive::events_of(store, stream_id, operation_id, extent).await;
    match (archived.map_err(named)?, live) {
        (Some(archived), Some(live)) => Ok(Some(Span { last: live.last, ..archived })),
        (None, None) if extent.has_dropped() => Err(AppendError::OperationExpired { operation_id }),
        (archived, live) => Ok(archived.or(live)),
    }
}

/// The versions of an operation's events, found by looking at every one of the stream.
async fn events_of(
    link: &Link,
    stream_id: &StreamId,
    operation_id: OperationId,
) -> Result<Option<Span>, Error> {
    let values = (stream_id.as_str(), operation_id.as_uuid());
    let pager = link.session.execute_iter(link.statements.operation_events.clone(), values);
    let pager = Box::pin(pager).await.map_err(page_error)?;
    let rows = pager.rows_stream::<(i64,)>();
    let rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
    span_of(rows).await
}

/// The first and the last of the versions.
pub(super) async fn span_of(mut rows: TypedRowStream<(i64,)>) -> Result<Option<Span>, Error> {
    let mut found: Option<Span> = None;
    while let Some((number,)) = rows.try_next().await.map_err(row_error)? {
        let Some(last) = Version::new(number) else { continue };
        let first = found.map_or(last, |span| span.first);
        found = Some(Span { first, last });
    }
    Ok(found)
}
