//! Rows to values, and what a damaged row says.

use helenus_model::{
    ContentHash, EventId, OperationId, Payload, RecordedEvent, StreamId, Timestamp, Version,
};
use scylla::DeserializeRow;
use scylla::response::query_result::QueryResult;
use scylla::value::{CqlTimestamp, CqlValue, Row};
use uuid::Uuid;

use super::Error;
use crate::append::{Memory, Span, State};
use crate::contract::Extent;

/// What came back from a conditional statement.
#[derive(Debug)]
pub(super) enum Answer {
    /// It was applied.
    Applied,
    /// It was not; these of the rows it had conditions on exist.
    Refused(Vec<ConditionRow>),
}

/// A head, an operation row or an event, as far as conditions and settling need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConditionRow {
    pub(super) stream_version: Option<i64>,
    pub(super) first_version: Option<i64>,
    pub(super) head_version: Option<i64>,
    pub(super) truncated_before: Option<i64>,
    pub(super) archived_from: Option<i64>,
    pub(super) operation_id: Option<Uuid>,
    pub(super) operation_state: Option<String>,
    pub(super) content_hash: Option<Vec<u8>>,
    /// Of the settings table.
    pub(super) value: Option<String>,
}

impl ConditionRow {
    /// A head's version.
    pub(super) fn head(&self) -> Result<Version, Error> {
        version("a head", self.head_version.unwrap_or(0))
    }

    /// Where a head says that the events are.
    pub(super) fn extent(&self) -> Result<Extent, Error> {
        Ok(Extent {
            archived_from: version("the archive", self.archived_from.unwrap_or(1))?,
            truncated_before: version("a truncation", self.truncated_before.unwrap_or(1))?,
            head: self.head()?,
        })
    }

    /// An operation row's content.
    pub(super) fn memory(&self) -> Result<Memory, Error> {
        let operation_id = self.operation_id.ok_or_else(|| Error::corrupt("no operation id"))?;
        let state = match self.operation_state.as_deref() {
            Some("applied") => {
                let first = version("an operation", self.first_version.unwrap_or(0))?;
                let span = Span { first, last: self.head()? };
                State::Applied { span, content_hash: self.hash() }
            }
            Some("cancelled") => State::Cancelled,
            other => return Err(Error::corrupt(format!("operation {operation_id} is {other:?}"))),
        };
        Ok(Memory { operation_id: OperationId::from(operation_id), state })
    }

    pub(super) fn hash(&self) -> Option<ContentHash> {
        self.content_hash.as_deref().and_then(ContentHash::from_bytes)
    }
}

fn version(what: &str, number: i64) -> Result<Version, Error> {
    Version::new(number).ok_or_else(|| Error::corrupt(format!("{what} has version {number}")))
}

/// Reads the answer to a conditional statement.
pub(super) fn answer(result: QueryResult) -> Result<Answer, Error> {
    let mut applied = false;
    let mut found = Vec::new();
    for (row, was_applied) in by_name(result)? {
        applied |= was_applied;
        // Where no row exists, the answer is one without a key.
        if row != ConditionRow::default() {
            found.push(row);
        }
    }
    Ok(if applied { Answer::Applied } else { Answer::Refused(found) })
}

/// Reads rows that were asked for.
pub(super) fn condition_rows(result: QueryResult) -> Result<Vec<ConditionRow>, Error> {
    Ok(by_name(result)?.into_iter().map(|(row, _)| row).collect())
}

/// Which columns there are depends on the outcome and on the server: they are found by name.
fn by_name(result: QueryResult) -> Result<Vec<(ConditionRow, bool)>, Error> {
    let damaged = |error: &dyn std::fmt::Display| Error::corrupt(error.to_string());
    let result = result.into_rows_result().map_err(|error| damaged(&error))?;
    let names: Vec<&str> = result.column_specs().iter().map(|spec| spec.name()).collect();
    let rows = result.rows::<Row>().map_err(|error| damaged(&error))?;
    let read = |row: Row| {
        let mut found = ConditionRow::default();
        let mut applied = false;
        for (name, value) in names.iter().zip(row.columns) {
            match (*name, value) {
                ("[applied]", Some(CqlValue::Boolean(is))) => applied = is,
                ("stream_version", Some(CqlValue::BigInt(is))) => found.stream_version = Some(is),
                ("first_version", Some(CqlValue::BigInt(is))) => found.first_version = Some(is),
                ("head_version", Some(CqlValue::BigInt(is))) => found.head_version = Some(is),
                ("truncated_before", Some(CqlValue::BigInt(is))) => {
                    found.truncated_before = Some(is);
                }
                ("archived_from", Some(CqlValue::BigInt(is))) => found.archived_from = Some(is),
                ("operation_id", Some(CqlValue::Uuid(is))) => found.operation_id = Some(is),
                ("operation_state", Some(CqlValue::Text(is))) => found.operation_state = Some(is),
                ("content_hash", Some(CqlValue::Blob(is))) => found.content_hash = Some(is),
                ("value", Some(CqlValue::Text(is))) => found.value = Some(is),
                _ => {}
            }
        }
        (found, applied)
    };
    rows.map(|row| row.map(read).map_err(|error| damaged(&error))).collect()
}

/// An event's row.
#[derive(Debug, DeserializeRow)]
pub(super) struct EventRow {
    stream_version: i64,
    event_type: Option<String>,
    payload: Option<String>,
    occurred_at_utc: Option<CqlTimestamp>,
    appended_at_utc: Option<CqlTimestamp>,
    event_id: Option<Uuid>,
    schema_version: Option<i32>,
    content_type: Option<String>,
    payload_bytes: Option<Vec<u8>>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    tenant_id: Option<String>,
    metadata_json: Option<String>,
    operation_id: Option<Uuid>,
}

impl EventRow {
    pub(super) fn number(&self) -> i64 {
        self.stream_version
    }

    /// Whether the event was dropped, and its row stands only for where the stream ends.
    pub(super) fn is_emptied(&self) -> bool {
        self.event_type.is_none() && self.content_type.is_none()
    }

    /// The event; a row that lacks what every append writes is damaged.
    pub(super) fn into_event(self, stream_id: &StreamId) -> Result<RecordedEvent, Error> {
        let number = self.stream_version;
        let damaged = |reason: &dyn std::fmt::Display| {
            Error::corrupt(format!("stream {stream_id}, version {number}: {reason}"))
        };
        let missing = |column: &str| damaged(&format!("{column} is missing"));
        let time = |time: Option<CqlTimestamp>, column| {
            time.map(|time| Timestamp::from_millis(time.0)).ok_or_else(|| missing(column))
        };
        let metadata = self.metadata_json.map(|text| serde_json::from_str(&text)).transpose();
        let bytes = self.payload.map(String::into_bytes).or(self.payload_bytes);
        Ok(RecordedEvent {
            stream_id: stream_id.clone(),
            version: Version::new(number).ok_or_else(|| damaged(&"it is not a version"))?,
            event_id: self.event_id.map(EventId::from).ok_or_else(|| missing("event_id"))?,
            event_type: self.event_type.ok_or_else(|| missing("event_type"))?,
            schema_version: self.schema_version.ok_or_else(|| missing("schema_version"))?,
            payload: Payload {
                content_type: self.content_type.ok_or_else(|| missing("content_type"))?,
                bytes: bytes.ok_or_else(|| missing("payload"))?,
            },
            occurred_at: time(self.occurred_at_utc, "occurred_at_utc")?,
            appended_at: time(self.appended_at_utc, "appended_at_utc")?,
            correlation_id: self.correlation_id,
            causation_id: self.causation_id,
            tenant_id: self.tenant_id,
            metadata: metadata.map_err(|error| damaged(&format!("metadata_json: {error}")))?,
            operation_id: self
                .operation_id
                .map(OperationId::from)
                .ok_or_else(|| missing("operation_id"))?,
        })
    }
}
