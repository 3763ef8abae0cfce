//! Checking an append and giving its events what the caller left out.

use std::time::Duration;

use helenus_model::limits::{
    APPEND_BYTES_MAX, APPEND_DEADLINE, APPEND_EVENTS_MAX, ID_BYTES_MAX, OPERATION_WINDOW,
};
use helenus_model::{
    ContentHash, EventId, Expected, Fingerprint, NewEvent, OperationId, Payload, StreamId,
    Timestamp, Version,
};

use crate::Ports;
use crate::contract::{Append, AppendError, Extent, InvalidAppend};
use crate::retention::Place;

/// What an event store takes at once, and for how long it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one append. A Cassandra node that takes less has its way.
    pub append_bytes_max: usize,
    /// How long an operation is remembered; ids older than half of it are refused.
    pub operation_window: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { append_bytes_max: APPEND_BYTES_MAX, operation_window: OPERATION_WINDOW }
    }
}

/// Whether a stream still remembers an operation if it was applied, by the age of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// It does.
    Fresh,
    /// It may not.
    Old,
    /// The id does not say when it was made.
    Undated,
}

impl Age {
    pub(crate) fn of(operation_id: OperationId, now: Timestamp, window: Duration) -> Age {
        let Some(created) = operation_id.created_at() else { return Age::Undated };
        // Half of the window is left for clocks that differ and for requests that linger. An id
        // from the future would seem fresh for longer than it is remembered.
        if created.since(now) > window / 2 {
            Age::Undated
        } else if now.since(created) > window / 2 {
            Age::Old
        } else {
            Age::Fresh
        }
    }
}

/// An append that can be sent.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) stream_id: StreamId,
    pub(crate) expected: Expected,
    pub(crate) operation_id: OperationId,
    /// The id was made for this append: nobody can have sent it before.
    #[cfg(feature = "sqlite")]
    pub(crate) is_first_sent: bool,
    pub(crate) age: Age,
    pub(crate) content_hash: ContentHash,
    pub(crate) appended_at: Timestamp,
    pub(crate) deadline: Duration,
    /// Roughly what it costs a backend's log.
    bytes: usize,
    pub(crate) events: Vec<PlannedEvent>,
}

/// An event with everything but its version.
#[derive(Debug)]
pub(crate) struct PlannedEvent {
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) schema_version: i32,
    pub(crate) payload: Payload,
    pub(crate) occurred_at: Timestamp,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) metadata_json: Option<String>,
    declared_version: Option<Version>,
}

/// The versions of an append's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: Version,
    pub(crate) last: Version,
}

impl Plan {
    /// Checks everything that can be checked without the stream, and assigns ids and times.
    pub(crate) fn new(append: Append, bounds: Bounds, ports: &Ports) -> Result<Plan, AppendError> {
        check(&append)?;
        let bytes = size(&append);
        let now = ports.clock.now();
        #[cfg(feature = "sqlite")]
        let is_first_sent = append.operation_id.is_none();
        let operation_id = append
            .operation_id
            .unwrap_or_else(|| OperationId::generate(&*ports.clock, &*ports.random));
        let content_hash = content_hash(&append);
        let events = append.events.into_iter().enumerate();
        let plan = Plan {
            stream_id: append.stream_id,
            expected: append.expected,
            operation_id,
            #[cfg(feature = "sqlite")]
            is_first_sent,
            age: Age::of(operation_id, now, bounds.operation_window),
            content_hash,
            appended_at: now,
            deadline: append.deadline.unwrap_or(APPEND_DEADLINE),
            bytes,
            events: events.map(|(index, event)| planned(event, operation_id, index, now)).collect(),
        };
        plan.fits(bounds.append_bytes_max)?;
        // Where the caller says what the head is, declared versions are checked before anything
        // is sent; otherwise as soon as the head is known.
        if let Some(head) = plan.expected_head() {
            plan.place(head)?;
        }
        Ok(plan)
    }

    /// Whether it is small enough to be sent.
    pub(crate) fn fits(&self, bytes_max: usize) -> Result<(), AppendError> {
        if self.bytes <= bytes_max {
            return Ok(());
        }
        Err(AppendError::TooLarge { bytes: self.bytes as u64, limit: bytes_max as u64 })
    }

    /// Whether an event declares the version it expects to get.
    #[cfg(feature = "cassandra")]
    pub(crate) fn declares_versions(&self) -> bool {
        self.events.iter().any(|event| event.declared_version.is_some())
    }

    /// Roughly what it costs a backend's log.
    #[cfg(feature = "cassandra")]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The stream's last version, if the caller names it.
    pub(crate) fn expected_head(&self) -> Option<Option<Version>> {
        match self.expected {
            Expected::Exact(version) => Some(Some(version)),
            Expected::NoStream => Some(None),
            Expected::Exists | Expected::Any => None,
        }
    }

    /// Whether a stream that ends at `head` is what the caller believes it to be.
    pub(crate) fn accepts(&self, head: Option<Version>) -> Result<(), AppendError> {
        let accepted = match self.expected {
            Expected::Exact(version) => head == Some(version),
            Expected::NoStream => head.is_none(),
            Expected::Exists => head.is_some(),
            Expected::Any => true,
        };
        if accepted { Ok(()) } else { Err(self.conflict(head)) }
    }

    pub(crate) fn conflict(&self, actual: Option<Version>) -> AppendError {
        AppendError::Conflict { expected: self.expected, actual }
    }

    /// The versions the events get after `head`, checked against the declared ones.
    pub(crate) fn place(&self, head: Option<Version>) -> Result<Span, AppendError> {
        let before = head.map_or(0, Version::as_i64);
        let last = i64::try_from(self.events.len())
            .ok()
            .and_then(|count| before.checked_add(count))
            .and_then(Version::new)
            .ok_or_else(|| InvalidAppend::new("the stream would pass the largest version"))?;
        let first = head.map_or(Version::FIRST, Version::next);
        let mut assigned = first;
        for event in &self.events {
            if let Some(declared) = event.declared_version
                && declared != assigned
            {
                return Err(AppendError::VersionMismatch { declared, assigned });
            }
            assigned = assigned.next();
        }
        Ok(Span { first, last })
    }

    /// Whether its events may have been written and dropped since. Nothing is left to tell it by
    /// then: its id does not say that it is new.
    pub(crate) fn may_have_been_dropped(&self, extent: Option<Extent>) -> bool {
        let (Some(head), Some(extent)) = (self.expected_head(), extent) else { return false };
        let first = head.map_or(Version::FIRST, Version::next);
        self.age == Age::Undated && extent.place(first) == Place::Dropped
    }

    pub(crate) fn expired(&self) -> AppendError {
        AppendError::OperationExpired { operation_id: self.operation_id }
    }
}

fn planned(event: NewEvent, operation: OperationId, index: usize, now: Timestamp) -> PlannedEvent {
    PlannedEvent {
        event_id: event.event_id.unwrap_or_else(|| EventId::derived(operation, index)),
        event_type: event.event_type,
        schema_version: event.schema_version,
        payload: event.payload,
        occurred_at: event.occurred_at.unwrap_or(now),
        correlation_id: event.correlation_id,
        causation_id: event.causation_id,
        tenant_id: event.tenant_id,
        metadata_json: event.metadata.as_ref().map(to_json),
        declared_version: event.declared_version,
    }
}

fn to_json(metadata: &serde_json::Map<String, serde_json::Value>) -> String {
    serde_json::json!(metadata).to_string()
}

fn check(append: &Append) -> Result<(), AppendError> {
    if append.events.is_empty() {
        return Err(InvalidAppend::new("an append needs at least one event").into());
    }
    if append.events.len() > APPEND_EVENTS_MAX {
        let count = append.events.len();
        let reason = format!("an append may have {APPEND_EVENTS_MAX} events, this one has {count}");
        return Err(InvalidAppend::new(reason).into());
    }
    for event in &append.events {
        check_event(event)?;
        if let Some(declared) = &event.declared_stream
            && *declared != append.stream_id
        {
            let (declared, appended) = (declared.clone(), append.stream_id.clone());
            return Err(AppendError::StreamMismatch { declared, appended });
        }
    }
    Ok(())
}

fn check_event(event: &NewEvent) -> Result<(), InvalidAppend> {
    if event.schema_version < 1 {
        let version = event.schema_version;
        return Err(InvalidAppend::new(format!("a schema version is at least 1, not {version}")));
    }
    let texts = [
        ("an event type", Some(event.event_type.as_str())),
        ("a content type", Some(event.payload.content_type.as_str())),
        ("a correlation id", event.correlation_id.as_deref()),
        ("a causation id", event.causation_id.as_deref()),
        ("a tenant id", event.tenant_id.as_deref()),
    ];
    for (what, text) in texts {
        let Some(text) = text else { continue };
        if text.is_empty() {
            return Err(InvalidAppend::new(format!("{what} must not be empty")));
        }
        if text.len() > ID_BYTES_MAX {
            let length = text.len();
            let reason = format!("{what} may have {ID_BYTES_MAX} bytes, this one has {length}");
            return Err(InvalidAppend::new(reason));
        }
    }
    Ok(())
}

/// What a row holds besides texts and payload: numbers, ids, times, and Cassandra's own marks for
/// each cell.
const ROW_BYTES: usize = 256;

/// Roughly what the append costs a backend's log; never less than the caller's own bytes.
fn size(append: &Append) -> usize {
    let length = |text: &Option<String>| text.as_deref().map_or(0, str::len);
    let rows = append.events.iter().map(|event| {
        ROW_BYTES
            + append.stream_id.as_str().len()
            + event.event_type.len()
            + event.payload.content_type.len()
            + event.payload.bytes.len()
            + length(&event.correlation_id)
            + length(&event.causation_id)
            + length(&event.tenant_id)
            + event.metadata.as_ref().map_or(0, |metadata| to_json(metadata).len())
    });
    // Head and operation row.
    2 * ROW_BYTES + rows.sum::<usize>()
}

/// The same input sent again has the same hash: what the library fills in is not part of it.
fn content_hash(append: &Append) -> ContentHash {
    let start = Fingerprint::new().text(append.stream_id.as_str());
    let print = append.events.iter().fold(start, |print, event| {
        let metadata = event.metadata.as_ref().map(to_json);
        let id = event.event_id.map(|id| id.to_string());
        let occurred_at = event.occurred_at.map(|time| time.as_millis().to_string());
        print
            .text(&event.event_type)
            .number(i64::from(event.schema_version))
            .bytes(&event.payload.bytes)
            .text(&event.payload.content_type)
            .optional(event.correlation_id.as_deref())
            .optional(event.causation_id.as_deref())
            .optional(event.tenant_id.as_deref())
            .optional(metadata.as_deref())
            .optional(id.as_deref())
            .optional(occurred_at.as_deref())
    });
    print.hash()
}
