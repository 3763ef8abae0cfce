//! Appending and settling, inside the writer's transaction.

use std::time::Duration;

use helenus_model::{ContentHash, OperationId, StreamId, Timestamp, Version};
use helenus_sqlite::Error;
use rusqlite::{Connection, params};

use crate::append::{Age, Memory, Plan, PlannedEvent, Span, State};
use crate::contract::{AppendError, Appended, Extent, Resolved};

/// Appends, or says why not before anything is written.
pub(super) fn append(db: &Connection, plan: &Plan) -> Result<Appended, AppendError> {
    let extent = extent(db, &plan.stream_id)?;
    if let Some(memory) = memory(db, plan, extent)? {
        return plan.settle(&memory);
    }
    if plan.age == Age::Old || plan.may_have_been_dropped(extent) {
        return Err(plan.expired());
    }
    let head = extent.map(|extent| extent.head);
    plan.accepts(head)?;
    let span = plan.place(head)?;
    write(db, plan, span)?;
    Ok(Appended::Applied { first: span.first, last: span.last })
}

/// Settles an operation: it was applied, or it is cancelled now; `None` if it is cancelled and may
/// have been applied long ago.
pub(super) fn resolve(
    db: &Connection,
    stream_id: &StreamId,
    operation_id: OperationId,
    now: Timestamp,
    window: Duration,
) -> Result<Option<Resolved>, AppendError> {
    let extent = extent(db, stream_id)?;
    if let Some((Span { first, last }, _)) = applied(db, stream_id, operation_id, extent)? {
        return Ok(Some(Resolved::Applied { first, last }));
    }
    let expires = now.plus(window);
    // Cancelling is rare and cleans up after itself.
    db.prepare_cached("DELETE FROM helenus_event_operations WHERE expires_at_utc <= ?1")?
        .execute([now.as_millis()])?;
    db.prepare_cached(
        "INSERT INTO helenus_event_operations VALUES (?1, ?2, 'cancelled', ?3)
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![stream_id.as_str(), bytes(operation_id), expires.as_millis()])?;
    // It never will be applied. Whether it was, and its events were dropped, nobody can tell of an
    // id that may be older than what is remembered.
    let is_fresh = Age::of(operation_id, now, window) == Age::Fresh;
    if !is_fresh && extent.is_some_and(|extent| extent.has_dropped()) {
        return Ok(None);
    }
    Ok(Some(Resolved::Cancelled))
}

/// Where the events of a stream are.
pub(in crate::sqlite) fn extent(
    db: &Connection,
    stream_id: &StreamId,
) -> Result<Option<Extent>, Error> {
    let mut query = db.prepare_cached(
        "SELECT archived_from, truncated_before, head_version FROM helenus_event_heads
         WHERE stream_id = ?1",
    )?;
    let mut rows = query.query([stream_id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Extent {
        archived_from: stored_version(stream_id, row.get(0)?)?,
        truncated_before: stored_version(stream_id, row.get(1)?)?,
        head: stored_version(stream_id, row.get(2)?)?,
    }))
}

/// A version read back; one below 1 was never written.
pub(in crate::sqlite) fn stored_version(
    stream_id: &StreamId,
    number: i64,
) -> Result<Version, Error> {
    Version::new(number).ok_or_else(|| Error::Corrupt {
        message: format!("stream {stream_id}: {number} is not a version"),
    })
}

fn memory(db: &Connection, plan: &Plan, extent: Option<Extent>) -> Result<Option<Memory>, Error> {
    let (stream_id, operation_id) = (&plan.stream_id, plan.operation_id);
    // A new id may have been cancelled while it waited for its turn, by whoever gave up waiting;
    // it cannot have been applied.
    let applied = match plan.is_first_sent {
        true => None,
        false => applied(db, stream_id, operation_id, extent)?,
    };
    let state = match applied {
        Some((span, content_hash)) => State::Applied { span, content_hash },
        None if is_cancelled(db, stream_id, operation_id, plan.appended_at)? => State::Cancelled,
        None => return Ok(None),
    };
    Ok(Some(Memory { operation_id, state }))
}

type Found = (Span, Option<ContentHash>);

/// Where an operation is remembered once its first event has left the stream.
const MEMORY_OF_RETIRED: [&str; 2] = [
    "SELECT stream_version, operation_count, content_hash FROM helenus_event_archive
     WHERE operation_id = ?1 AND stream_id = ?2 AND operation_count IS NOT NULL",
    "SELECT stream_version, operation_count, content_hash FROM helenus_event_dropped_operations
     WHERE operation_id = ?1 AND stream_id = ?2",
];

fn applied(
    db: &Connection,
    stream_id: &StreamId,
    operation_id: OperationId,
    extent: Option<Extent>,
) -> Result<Option<Found>, Error> {
    let found = remembered(
        db,
        stream_id,
        operation_id,
        "SELECT stream_version, operation_count, content_hash FROM helenus_event_streams
         WHERE operation_id = ?1 AND stream_id = ?2 AND operation_count IS NOT NULL",
    )?;
    // A stream that was never truncated is not looked for elsewhere: every append comes by here.
    if found.is_some() || extent.is_none_or(|extent| extent.truncated_before == Version::FIRST) {
        return Ok(found);
    }
    for place in MEMORY_OF_RETIRED {
        if let Some(found) = remembered(db, stream_id, operation_id, place)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn remembered(
    db: &Connection,
    stream_id: &StreamId,
    operation_id: OperationId,
    place: &str,
) -> Result<Option<Found>, Error> {
    let mut query = db.prepare_cached(place)?;
    let mut rows = query.query(params![bytes(operation_id), stream_id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (first, count): (i64, i64) = (row.get(0)?, row.get(1)?);
    let hash: Option<Vec<u8>> = row.get(2)?;
    let last = first.saturating_add(count).saturating_sub(1);
    let (first, last) = (stored_version(stream_id, first)?, stored_version(stream_id, last)?);
    Ok(Some((Span { first, last }, hash.as_deref().and_then(ContentHash::from_bytes))))
}

fn is_cancelled(
    db: &Connection,
    stream_id: &StreamId,
    operation_id: OperationId,
    now: Timestamp,
) -> Result<bool, Error> {
    let mut query = db.prepare_cached(
        "SELECT 1 FROM helenus_event_operations
         WHERE stream_id = ?1 AND operation_id = ?2 AND expires_at_utc > ?3",
    )?;
    Ok(query.exists(params![stream_id.as_str(), bytes(operation_id), now.as_millis()])?)
}

fn write(db: &Connection, plan: &Plan, span: Span) -> Result<(), Error> {
    db.prepare_cached(
        "INSERT INTO helenus_event_heads (stream_id, head_version) VALUES (?1, ?2)
         ON CONFLICT (stream_id) DO UPDATE SET head_version = excluded.head_version",
    )?
    .execute(params![plan.stream_id.as_str(), span.last.as_i64()])?;
    let mut version = span.first;
    for event in &plan.events {
        let starts = (version == span.first).then_some(span);
        insert(db, plan, event, version, starts)?;
        version = version.next();
    }
    Ok(())
}

fn insert(
    db: &Connection,
    plan: &Plan,
    event: &PlannedEvent,
    version: Version,
    starts: Option<Span>,
) -> Result<(), Error> {
    let mut insert = db.prepare_cached(
        "INSERT INTO helenus_event_streams
             (stream_id, stream_version, event_type, payload, occurred_at_utc, appended_at_utc,
              event_id, schema_version, content_type, correlation_id, causation_id, tenant_id,
              metadata_json, operation_id, operation_count, content_hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    insert.execute(params![
        plan.stream_id.as_str(),
        version.as_i64(),
        event.event_type,
        event.payload.bytes,
        event.occurred_at.as_millis(),
        plan.appended_at.as_millis(),
        event.event_id.as_uuid().as_bytes().as_slice(),
        event.schema_version,
        event.payload.content_type,
        event.correlation_id,
        event.causation_id,
        event.tenant_id,
        event.metadata_json,
        bytes(plan.operation_id),
        starts.map(count),
        starts.map(|_| plan.content_hash.as_bytes().as_slice()),
    ])?;
    Ok(())
}

fn count(span: Span) -> i64 {
    span.last.as_i64() - span.first.as_i64() + 1
}

fn bytes(operation_id: OperationId) -> [u8; 16] {
    operation_id.as_uuid().into_bytes()
}
