//! Reading streams page by page, each page a snapshot of its own.

use std::collections::VecDeque;

use futures_util::{Stream, stream};
use helenus_model::limits::{EVENT_PAGE_BYTES, EVENT_PAGE_MAX};
use helenus_model::{EventId, OperationId, Payload, RecordedEvent, StreamId, Timestamp, Version};
use helenus_sqlite::{Engine, Error};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::write::stored_version;
use crate::continuity::Continuity;
use crate::contract::{self, Direction, ReadError, ReadEvents, StreamHead};

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
    /// Where the next page begins; none past either end.
    next: Option<Version>,
    remaining: u64,
    page: VecDeque<RecordedEvent>,
    continuity: Continuity,
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
            continuity: Continuity::new(read.direction, read.from),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordedEvent>, ReadError> {
        if self.remaining == 0 {
            return Ok(None);
        }
        if self.page.is_empty() {
            self.fetch().await?;
        }
        let Some(event) = self.page.pop_front() else {
            self.continuity.end()?;
            return Ok(None);
        };
        self.continuity.step(event.version)?;
        self.remaining -= 1;
        Ok(Some(event))
    }

    async fn fetch(&mut self) -> Result<(), ReadError> {
        let Some(from) = self.next else { return Ok(()) };
        let limit = u32::try_from(self.remaining).unwrap_or(u32::MAX).min(EVENT_PAGE_MAX);
        let (stream_id, direction) = (self.stream_id.clone(), self.direction);
        let page = self.engine.read(move |db| fetch(db, &stream_id, direction, from, limit));
        self.page = page.await.map_err(contract::Error::from)?;
        self.next = self.page.back().and_then(|last| match direction {
            Direction::Forward => Some(last.version.next()),
            Direction::Backward => Version::new(last.version.as_i64() - 1),
        });
        Ok(())
    }
}

fn fetch(
    db: &Connection,
    stream_id: &StreamId,
    direction: Direction,
    from: Version,
    limit: u32,
) -> Result<VecDeque<RecordedEvent>, Error> {
    let (comparison, order) = match direction {
        Direction::Forward => (">=", "ASC"),
        Direction::Backward => ("<=", "DESC"),
    };
    let mut query = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM helenus_event_streams
         WHERE stream_id = ?1 AND stream_version {comparison} ?2
         ORDER BY stream_version {order} LIMIT ?3"
    ))?;
    let mut rows = query.query(params![stream_id.as_str(), from.as_i64(), limit])?;
    let mut page = VecDeque::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let event = event(stream_id, row)?;
        bytes += event.payload.bytes.len();
        page.push_back(event);
        if bytes >= EVENT_PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}

/// The event of a row.
pub(in crate::sqlite) fn event(
    stream_id: &StreamId,
    row: &Row<'_>,
) -> Result<RecordedEvent, Error> {
    let version = stored_version(stream_id, row.get("stream_version")?)?;
    let damaged = |column: &str, reason: &dyn std::fmt::Display| Error::Corrupt {
        message: format!("stream {stream_id}, version {version}: {column}: {reason}"),
    };
    let uuid = |column: &str| -> Result<Uuid, Error> {
        let bytes: Vec<u8> = row.get(column)?;
        Uuid::from_slice(&bytes).map_err(|error| damaged(column, &error))
    };
    let metadata: Option<String> = row.get("metadata_json")?;
    let metadata = metadata.map(|text| serde_json::from_str(&text)).transpose();
    Ok(RecordedEvent {
        stream_id: stream_id.clone(),
        version,
        event_id: EventId::from(uuid("event_id")?),
        event_type: row.get("event_type")?,
        schema_version: row.get("schema_version")?,
        payload: Payload { content_type: row.get("content_type")?, bytes: row.get("payload")? },
        occurred_at: Timestamp::from_millis(row.get("occurred_at_utc")?),
        appended_at: Timestamp::from_millis(row.get("appended_at_utc")?),
        correlation_id: row.get("correlation_id")?,
        causation_id: row.get("causation_id")?,
        tenant_id: row.get("tenant_id")?,
        metadata: metadata.map_err(|error| damaged("metadata_json", &error))?,
        operation_id: OperationId::from(uuid("operation_id")?),
    })
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
