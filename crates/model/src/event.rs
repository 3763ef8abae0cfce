//! Events of a stream: what a caller appends, what a reader gets back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EventId, OperationId, Payload, StreamId, Timestamp};

/// Place of an event in its stream: 1, 2, 3 …
///
/// ```
/// use helenus_model::Version;
///
/// assert_eq!(Version::FIRST.next(), Version::new(2).unwrap());
/// assert_eq!(Version::new(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(i64);

impl Version {
    /// The first event of a stream.
    pub const FIRST: Version = Version(1);

    /// A version, if `number` is at least 1.
    pub const fn new(number: i64) -> Option<Self> {
        if number >= 1 { Some(Version(number)) } else { None }
    }

    /// The version as a number.
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Version(self.0.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the caller of an append believes about the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Its last event has this version.
    Exact(Version),
    /// It does not exist.
    NoStream,
    /// It exists, whatever its version.
    Exists,
    /// Nothing is believed.
    Any,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Exact(version) => write!(f, "version {version}"),
            Expected::NoStream => f.write_str("no stream"),
            Expected::Exists => f.write_str("an existing stream"),
            Expected::Any => f.write_str("any version"),
        }
    }
}

/// An event to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The event's id; derived from the operation where absent.
    pub event_id: Option<EventId>,
    /// What happened, by an explicit name; never a type name of a language.
    pub event_type: String,
    /// Version of the payload's shape, counted up by the application.
    pub schema_version: i32,
    /// The event's body.
    pub payload: Payload,
    /// When it happened; the time of the append where absent.
    pub occurred_at: Option<Timestamp>,
    /// What it belongs to, across services.
    pub correlation_id: Option<String>,
    /// What caused it.
    pub causation_id: Option<String>,
    /// Whose it is.
    pub tenant_id: Option<String>,
    /// Anything else, as a JSON object.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// The stream the event says it belongs to; checked against the append's.
    pub declared_stream: Option<StreamId>,
    /// The version the event says it will get; checked against the one it does.
    pub declared_version: Option<Version>,
}

impl NewEvent {
    /// An event of schema version 1 with nothing but a type and a payload.
    pub fn new(event_type: impl Into<String>, payload: Payload) -> Self {
        NewEvent {
            event_id: None,
            event_type: event_type.into(),
            schema_version: 1,
            payload,
            occurred_at: None,
            correlation_id: None,
            causation_id: None,
            tenant_id: None,
            metadata: None,
            declared_stream: None,
            declared_version: None,
        }
    }
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The stream it belongs to.
    pub stream_id: StreamId,
    /// Its place in the stream.
    pub version: Version,
    /// Its id.
    pub event_id: EventId,
    /// What happened.
    pub event_type: String,
    /// Version of the payload's shape.
    pub schema_version: i32,
    /// Its body.
    pub payload: Payload,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it was appended, by the writer's clock.
    pub appended_at: Timestamp,
    /// What it belongs to, across services.
    pub correlation_id: Option<String>,
    /// What caused it.
    pub causation_id: Option<String>,
    /// Whose it is.
    pub tenant_id: Option<String>,
    /// Anything else.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// The append that wrote it.
    pub operation_id: OperationId,
}
