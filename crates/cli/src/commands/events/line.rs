//! A line of input to an event.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::{EventId, Failure, Kind, NewEvent, Payload, StreamId, Timestamp, Version};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A line that is not an event.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the input {problem}")]
pub(crate) struct InvalidLine {
    line: u64,
    problem: String,
}

impl InvalidLine {
    pub(super) fn too_much(line: u64, limit: u64) -> Self {
        InvalidLine { line, problem: format!("is past the largest input of {limit} bytes") }
    }
}

impl Failure for InvalidLine {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("write each event as {\"type\": \"order.placed\", \"data\": {…}} on a line".into())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "type")]
    event_type: String,
    #[serde(default, deserialize_with = "present")]
    data: Option<Box<RawValue>>,
    text: Option<String>,
    data_base64: Option<String>,
    content_type: Option<String>,
    id: Option<EventId>,
    schema_version: Option<i32>,
    occurred_at: Option<Timestamp>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    tenant_id: Option<String>,
    metadata: Option<Map<String, Value>>,
    stream: Option<StreamId>,
    version: Option<i64>,
}

/// `"data": null` is data.
fn present<'de, D>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// The event on line number `line`.
pub(super) fn event(text: &str, line: u64) -> Result<NewEvent, InvalidLine> {
    let wrong = |problem: String| InvalidLine { line, problem };
    let read: Line =
        serde_json::from_str(text).map_err(|error| wrong(format!("is not an event: {error}")))?;
    let (usual, bytes) = match (read.data, read.text, read.data_base64) {
        // As it was written: reading its numbers could change them.
        (Some(data), None, None) => (Payload::JSON, data.get().as_bytes().to_vec()),
        (None, Some(text), None) => ("text/plain; charset=utf-8", text.into_bytes()),
        (None, None, Some(coded)) => {
            let bytes = STANDARD.decode(coded);
            let bytes = bytes.map_err(|error| wrong(format!("has wrong base64: {error}")))?;
            ("application/octet-stream", bytes)
        }
        _ => return Err(wrong("needs one of data, text and data_base64".to_owned())),
    };
    let declared_version = match read.version {
        None => None,
        Some(number) => {
            Some(Version::new(number).ok_or_else(|| wrong(format!("declares version {number}")))?)
        }
    };
    let content_type = read.content_type.unwrap_or_else(|| usual.to_owned());
    Ok(NewEvent {
        event_id: read.id,
        schema_version: read.schema_version.unwrap_or(1),
        occurred_at: read.occurred_at,
        correlation_id: read.correlation_id,
        causation_id: read.causation_id,
        tenant_id: read.tenant_id,
        metadata: read.metadata,
        declared_stream: read.stream,
        declared_version,
        ..NewEvent::new(read.event_type, Payload { content_type, bytes })
    })
}
