//! Events and snapshots as they are printed: the tables' column names, the payload as what it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::store::{Position, SnapshotInfo};
use helenus::{EventId, OperationId, Payload, RecordedEvent, StreamId, Timestamp, Version};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// An event of a stream, or of the feed with its position.
#[derive(Serialize)]
pub(super) struct Event<'a> {
    stream_id: &'a StreamId,
    stream_version: Version,
    event_type: &'a str,
    #[serde(flatten)]
    body: Body<'a>,
    occurred_at_utc: Timestamp,
    appended_at_utc: Timestamp,
    event_id: EventId,
    schema_version: i32,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
    operation_id: OperationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<&'a Position>,
}

impl<'a> Event<'a> {
    pub(super) fn of(event: &'a RecordedEvent, position: Option<&'a Position>) -> Self {
        Event {
            stream_id: &event.stream_id,
            stream_version: event.version,
            event_type: &event.event_type,
            body: Body::of(&event.payload),
            occurred_at_utc: event.occurred_at,
            appended_at_utc: event.appended_at,
            event_id: event.event_id,
            schema_version: event.schema_version,
            content_type: &event.payload.content_type,
            correlation_id: event.correlation_id.as_deref(),
            causation_id: event.causation_id.as_deref(),
            tenant_id: event.tenant_id.as_deref(),
            metadata: event.metadata.as_ref(),
            operation_id: event.operation_id,
            position,
        }
    }
}

/// A snapshot with its payload.
#[derive(Serialize)]
pub(super) struct Snapshot<'a> {
    stream_id: &'a StreamId,
    stream_version: Version,
    snapshot_type: &'a str,
    schema_version: i32,
    #[serde(flatten)]
    body: Body<'a>,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
    saved_at_utc: Timestamp,
}

impl<'a> Snapshot<'a> {
    pub(super) fn of(snapshot: &'a helenus::store::Snapshot) -> Self {
        Snapshot {
            stream_id: &snapshot.stream_id,
            stream_version: snapshot.version,
            snapshot_type: &snapshot.snapshot_type,
            schema_version: snapshot.schema_version,
            body: Body::of(&snapshot.payload),
            content_type: &snapshot.payload.content_type,
            metadata: snapshot.metadata.as_ref(),
            saved_at_utc: snapshot.saved_at,
        }
    }
}

/// A snapshot without its payload.
pub(super) fn snapshot_info(stream_id: &StreamId, info: &SnapshotInfo) -> Value {
    json!({
        "stream_id": stream_id,
        "stream_version": info.version,
        "snapshot_type": info.snapshot_type,
        "schema_version": info.schema_version,
        "saved_at_utc": info.saved_at,
    })
}

/// A payload under the name that says what it is.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    /// With the digits it was written with: no number is read on the way.
    Json {
        payload: Box<RawValue>,
    },
    Text {
        payload: &'a str,
    },
    Bytes {
        payload_base64: String,
    },
}

impl<'a> Body<'a> {
    fn of(payload: &'a Payload) -> Self {
        if let Some(payload) = raw_json(payload) {
            return Body::Json { payload };
        }
        match payload.text() {
            Some(payload) => Body::Text { payload },
            None => Body::Bytes { payload_base64: STANDARD.encode(&payload.bytes) },
        }
    }
}

fn raw_json(payload: &Payload) -> Option<Box<RawValue>> {
    let text = payload.text().filter(|_| payload.is_json())?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    RawValue::from_string(on_one_line(text)).ok()
}

/// JSON without the space between its parts, which may hold line breaks.
fn on_one_line(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let kept = json.chars().filter(|character| {
        let is_space = !in_string && matches!(character, ' ' | '\t' | '\r' | '\n');
        if in_string {
            in_string = escaped || *character != '"';
            escaped = !escaped && *character == '\\';
        } else {
            in_string = *character == '"';
        }
        !is_space
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content_type: &str, bytes: &[u8]) -> String {
        let payload = Payload { content_type: content_type.to_owned(), bytes: bytes.to_vec() };
        serde_json::to_string(&Body::of(&payload)).unwrap()
    }

    #[test]
    fn a_payload_is_printed_as_what_it_is() {
        for (content_type, bytes, printed) in [
            ("application/json", "{ \"a\" :\n[1, 2] }", r#"{"payload":{"a":[1,2]}}"#),
            ("application/json", r#""a \" \\" "#, r#"{"payload":"a \" \\"}"#),
            (
                "application/json",
                "[123456789012345678901234567890, 1.00, 1e400]",
                r#"{"payload":[123456789012345678901234567890,1.00,1e400]}"#,
            ),
            ("application/json", "{", r#"{"payload":"{"}"#),
            ("text/plain", "1", r#"{"payload":"1"}"#),
            ("image/png", "1", r#"{"payload_base64":"MQ=="}"#),
        ] {
            assert_eq!(shown(content_type, bytes.as_bytes()), printed);
        }
        assert_eq!(shown("application/json", b"\xff"), r#"{"payload_base64":"/w=="}"#);
    }
}
