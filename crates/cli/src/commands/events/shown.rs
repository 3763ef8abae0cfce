//! An event as it is printed: the table's column names, the payload as what it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::store::Position;
use helenus::{Payload, RecordedEvent};
use serde_json::{Map, Value, json};

/// An event of a stream.
pub(super) fn event(event: &RecordedEvent) -> Value {
    Value::Object(fields(event))
}

/// An event of the feed.
pub(super) fn at(position: &Position, event: &RecordedEvent) -> Value {
    let mut object = fields(event);
    object.insert("position".to_owned(), json!(position));
    Value::Object(object)
}

fn fields(event: &RecordedEvent) -> Map<String, Value> {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
    set("stream_id", json!(event.stream_id));
    set("stream_version", json!(event.version));
    set("event_type", json!(event.event_type));
    let (name, payload) = payload(&event.payload);
    set(name, payload);
    set("occurred_at_utc", json!(event.occurred_at));
    set("appended_at_utc", json!(event.appended_at));
    set("event_id", json!(event.event_id));
    set("schema_version", json!(event.schema_version));
    set("content_type", json!(event.payload.content_type));
    for (name, value) in [
        ("correlation_id", &event.correlation_id),
        ("causation_id", &event.causation_id),
        ("tenant_id", &event.tenant_id),
    ] {
        if let Some(value) = value {
            set(name, json!(value));
        }
    }
    if let Some(metadata) = &event.metadata {
        set("metadata", json!(metadata));
    }
    set("operation_id", json!(event.operation_id));
    object
}

/// The name of its field, and what stands there: JSON, text, or base64.
pub(crate) fn payload(payload: &Payload) -> (&'static str, Value) {
    if payload.is_json()
        && let Ok(value) = serde_json::from_slice(&payload.bytes)
    {
        return ("payload", value);
    }
    match payload.text() {
        Some(text) => ("payload", json!(text)),
        None => ("payload_base64", json!(STANDARD.encode(&payload.bytes))),
    }
}
