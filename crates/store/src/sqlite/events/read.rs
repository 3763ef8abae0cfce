//! Reading streams page by page, each page a snapshot of its own.

use std::collections::VecDeque;
use std::ops::Range;

use futures_util::{Stream, stream};
use helenus_model::limits::{EVENT_PAGE_BYTES, EVENT_PAGE_MAX};
use helenus_model::{EventId, OperationId, Payload, RecordedEvent, StreamId, Timestamp, Version};
use helenus_sqlite::{Engine, Error};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::write::{extent, stored_version};
use crate::contract::{self, Direction, ReadError, ReadEvents, StreamHead};
use crate::retention::Place;

/// The columns [`event`] reads.
pub(in crate::sqlite) const COLUMNS: &str = "stream_version, event_type, payload, occurred_at_utc, appended_at_utc, \
     event_id, schema_version, content_type, correlation_id, causation_id, tenant_id, \
     metadata_json, operation_id";

/// The events asked for.
pub(super) fn events(
    engine: Engine,
    read: ReadEvents,
) -> impl Stream<Item = Result<RecordedEvent, ReadError>> + Send + use<> {
    stream::try_unfold(Reader::new(engine, read), |mut reader| async move {
        let event = reader.next().await?;
        Ok(event.map(|event| (event, reader)))
    })
}

struct Reader {
    engine: Engine,
    stream_id: StreamId,
    direction: Direction,
    /// The version that comes next; none past either end.
    next: Option<Version>,
    remaining: u64,
    page: VecDeque<RecordedEvent>,
}

impl Reader {
    fn new(engine: Engine, read: ReadEvents) -> Self {
        let start = match read.direction {
            Direction::Forward => Version::FIRST,
            Direction::Backward => Version::new(i64::MAX).unwrap_or(Version::FIRST),
        };
        Reader {
            engine,
            stream_id: read.stream_id,
            direction: read.direction,
            next: Some(read.from.unwrap_or(start)),
            remaining: read.limit.unwrap_or(u64::MAX),
            page: VecDeque::new(),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordedEvent>, ReadError> {
        if self.remaining == 0 {
            return Ok(None);
        }
        if self.page.is_empty() {
            self.fetch().await?;
        }
        let Some(event) = self.page.pop_front() else { return Ok(None) };
        self.remaining -= 1;
        Ok(Some(event))
    }

    async fn fetch(&mut self) -> Result<(), ReadError> {
        let Some(from) = self.next else { return Ok(()) };
        let limit = u32::try_from(self.remaining).unwrap_or(u32::MAX).min(EVENT_PAGE_MAX);
        let (stream_id, direction) = (self.stream_id.clone(), self.direction);
        let page = self.engine.read(move |db| page(db, &stream_id, direction, from, limit));
        self.page = page.await?;
        self.next = self.page.back().and_then(|last| match direction {
            Direction::Forward => Some(last.version.next()),
            Direction::Backward => Version::new(last.version.as_i64() - 1),
        });
        Ok(())
    }
}

/// The next events from `from` on, from the stream or from the archive; none at the stream's end.
///
/// Extent and events are of one snapshot, so that nothing can be moved between the two.
fn page(
    db: &Connection,
    stream_id: &StreamId,
    direction: Direction,
    from: Version,
    limit: u32,
) -> Result<VecDeque<RecordedEvent>, ReadError> {
    let Some(extent) = extent(db, stream_id)? else { return Ok(VecDeque::new()) };
    let from = match direction {
        Direction::Forward => from,
        Direction::Backward => from.min(extent.head),
    };
    let (table, first, end) = match extent.place(from) {
        Place::Dropped => return Err(ReadError::Truncated { first: extent.archived_from }),
        Place::Beyond => return Ok(VecDeque::new()),
        Place::Archived => ("helenus_event_archive", extent.archived_from, extent.truncated_before),
        Place::Live => ("helenus_event_streams", extent.truncated_before, extent.head.next()),
    };
    let (low, high) = match direction {
        Direction::Forward => (from, end),
        Direction::Backward => (first, from.next()),
    };
    Ok(fetch(db, stream_id, table, direction, low..high, limit)?)
}

fn fetch(
    db: &Connection,
    stream_id: &StreamId,
    table: &str,
    direction: Direction,
    versions: Range<Version>,
    limit: u32,
) -> Result<VecDeque<RecordedEvent>, Error> {
    let (order, mut expected, step) = match direction {
        Direction::Forward => ("ASC", versions.start.as_i64(), 1),
        Direction::Backward => ("DESC", versions.end.as_i64() - 1, -1),
    };
    let mut query = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM {table}
         WHERE stream_id = ?1 AND stream_version >= ?2 AND stream_version < ?3
         ORDER BY stream_version {order} LIMIT ?4"
    ))?;
    let (low, high) = (versions.start.as_i64(), versions.end.as_i64());
    let mut rows = query.query(params![stream_id.as_str(), low, high, limit])?;
    let mut page = VecDeque::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let event = event(stream_id, row)?;
        if event.version.as_i64() != expected {
            break;
        }
        expected += step;
        bytes += event.payload.bytes.len();
        page.push_back(event);
        if bytes >= EVENT_PAGE_BYTES {
            break;
        }
    }
    // Checked after the read as the append checked it before the write: nothing is passed over.
    if page.is_empty() {
        let message = format!("stream {stream_id}: version {expected} is missing from {table}");
        return Err(Error::Corrupt { message });
    }
    Ok(page)
}

/// The event of a row, whose [`COLUMNS`] stand together in their order.
pub(in crate::sqlite) fn event(
    stream_id: &StreamId,
    row: &Row<'_>,
) -> Result<RecordedEvent, Error> {
    // One search by name, for the first: a search for each costs more than what it finds.
    let start = row.as_ref().column_index("stream_version")?;
    let version = stored_version(stream_id, row.get(start)?)?;
    let damaged = |column: &str, reason: &dyn std::fmt::Display| Error::Corrupt {
        message: format!("stream {stream_id}, version {version}: {column}: {reason}"),
    };
    let uuid = |place: usize, column: &str| -> Result<Uuid, Error> {
        let bytes = row.get_ref(start + place)?.as_blob();
        let bytes = bytes.map_err(|error| damaged(column, &error))?;
        Uuid::from_slice(bytes).map_err(|error| damaged(column, &error))
    };
    let metadata: Option<String> = row.get(start + 11)?;
    let metadata = metadata.map(|text| serde_json::from_str(&text)).transpose();
    Ok(RecordedEvent {
        stream_id: stream_id.clone(),
        version,
        event_type: row.get(start + 1)?,
        payload: Payload { bytes: row.get(start + 2)?, content_type: row.get(start + 7)? },
        occurred_at: Timestamp::from_millis(row.get(start + 3)?),
        appended_at: Timestamp::from_millis(row.get(start + 4)?),
        event_id: EventId::from(uuid(5, "event_id")?),
        schema_version: row.get(start + 6)?,
        correlation_id: row.get(start + 8)?,
        causation_id: row.get(start + 9)?,
        tenant_id: row.get(start + 10)?,
        metadata: metadata.map_err(|error| damaged("metadata_json", &error))?,
        operation_id: OperationId::from(uuid(12, "operation_id")?),
    })
}

/// The event with this number in the feed, in its stream or in the archive.
pub(in crate::sqlite) fn event_at(
    db: &Connection,
    stream_id: &StreamId,
    sequence: i64,
) -> Result<Option<RecordedEvent>, Error> {
    for table in ["helenus_event_streams", "helenus_event_archive"] {
        let mut query = db
            .prepare_cached(&format!("SELECT {COLUMNS} FROM {table} WHERE global_sequence = ?1"))?;
        let mut rows = query.query([sequence])?;
        if let Some(row) = rows.next()? {
            return event(stream_id, row).map(Some);
        }
    }
    Ok(None)
}

/// Every stream, in the order of their ids.
pub(super) fn streams(
    engine: Engine,
) -> impl Stream<Item = Result<StreamHead, contract::Error>> + Send + use<> {
    let state = (engine, VecDeque::<StreamHead>::new(), Some(String::new()));
    stream::try_unfold(state, |(engine, mut page, mut after)| async move {
        if let (true, Some(last)) = (page.is_empty(), after.take()) {
            page = engine.read(move |db| heads(db, &last)).await?;
        }
        let Some(head) = page.pop_front() else {
            return Ok::<_, contract::Error>(None);
        };
        if page.is_empty() {
            after = Some(head.stream_id.to_string());
        }
        Ok(Some((head, (engine, page, after))))
    })
}

fn heads(db: &Connection, after: &str) -> Result<VecDeque<StreamHead>, Error> {
    let mut query = db.prepare_cached(
        "SELECT stream_id, head_version FROM helenus_event_heads
         WHERE stream_id > ?1 ORDER BY stream_id LIMIT ?2",
    )?;
    let mut rows = query.query(params![after, EVENT_PAGE_MAX])?;
    let mut page = VecDeque::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        let stream_id = StreamId::new(text)
            .map_err(|error| Error::Corrupt { message: format!("a stream's head: {error}") })?;
        let version = stored_version(&stream_id, row.get(1)?)?;
        page.push_back(StreamHead { stream_id, version });
    }
    Ok(page)
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Backend(error.into())
    }
}
