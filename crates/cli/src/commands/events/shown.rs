//! Events and snapshots as they are printed: the tables' column names, the payload as what it is.

use helenus::store::{Position, SnapshotInfo};
use helenus::{EventId, OperationId, RecordedEvent, StreamId, Timestamp, Version};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::body::Body;

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
