//! Snapshots: what a stream's events had come to at some version, so that not all of them have to
//! be read again.

use std::borrow::Cow;
use std::future::Future;
use std::num::NonZeroU32;

use futures_util::Stream;
use helenus_model::{Failure, Kind, Payload, StreamId, Timestamp, Version};
use serde_json::{Map, Value, json};

use super::Error;

/// Keeps snapshots of streams.
///
/// **Promises of every backend**
/// - A snapshot has a version that its stream has reached; it never changes once it is saved.
/// - The newest snapshot of a stream is never deleted, whoever saves and prunes at the same time.
///   What was truncated below it therefore stays reachable through it.
///
/// ```
/// use helenus_model::{Expected, NewEvent, Payload, StreamId, Version};
/// use helenus_store::contract::{Append, EventStore, NewSnapshot, Saved, Snapshots};
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = helenus_store::Ports::system();
/// # let store = helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports).await?;
/// let order = StreamId::new("order-1")?;
/// let placed = NewEvent::new("order.placed", Payload::json(&serde_json::json!({"total": 12})));
/// store.append(Append::new(order.clone(), Expected::NoStream, vec![placed])).await?;
///
/// let state = Payload::json(&serde_json::json!({"total": 12, "paid": false}));
/// let snapshot = NewSnapshot::new(order.clone(), Version::FIRST, "order", state);
/// assert_eq!(store.save_snapshot(snapshot).await?, Saved::Saved);
/// let latest = store.load_snapshot(&order, None).await?;
/// assert_eq!(latest.map(|snapshot| snapshot.version), Some(Version::FIRST));
/// # Ok(())
/// # }
/// ```
pub trait Snapshots: Send + Sync {
    /// Saves a snapshot. The same one saved again is saved once.
    fn save_snapshot(
        &self,
        snapshot: NewSnapshot,
    ) -> impl Future<Output = Result<Saved, SnapshotError>> + Send;

    /// The newest snapshot of a stream, or the newest at or below a version.
    fn load_snapshot(
        &self,
        stream_id: &StreamId,
        at_most: Option<Version>,
    ) -> impl Future<Output = Result<Option<Snapshot>, Error>> + Send;

    /// A stream's snapshots without their payloads, newest first.
    fn snapshots(
        &self,
        stream_id: &StreamId,
    ) -> impl Stream<Item = Result<SnapshotInfo, Error>> + Send + use<Self>;

    /// Deletes all snapshots of a stream but the newest `keep`; says how many it deleted.
    fn prune_snapshots(
        &self,
        stream_id: &StreamId,
        keep: NonZeroU32,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// A snapshot to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSnapshot {
    /// The stream.
    pub stream_id: StreamId,
    /// The last event that is in it.
    pub version: Version,
    /// What it is of, by an explicit name; never a type name of a language.
    pub snapshot_type: String,
    /// Version of the payload's shape, counted up by the application.
    pub schema_version: i32,
    /// The state itself.
    pub payload: Payload,
    /// Anything else, as a JSON object.
    pub metadata: Option<Map<String, Value>>,
}

impl NewSnapshot {
    /// A snapshot of shape 1 without metadata.
    pub fn new(
        stream_id: StreamId,
        version: Version,
        snapshot_type: impl Into<String>,
        payload: Payload,
    ) -> Self {
        let snapshot_type = snapshot_type.into();
        NewSnapshot {
            stream_id,
            version,
            snapshot_type,
            schema_version: 1,
            payload,
            metadata: None,
        }
    }
}

/// A snapshot as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The stream.
    pub stream_id: StreamId,
    /// The last event that is in it.
    pub version: Version,
    /// What it is of.
    pub snapshot_type: String,
    /// Version of the payload's shape.
    pub schema_version: i32,
    /// The state itself.
    pub payload: Payload,
    /// Anything else.
    pub metadata: Option<Map<String, Value>>,
    /// When it was saved.
    pub saved_at: Timestamp,
}

/// A snapshot without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last event that is in it.
    pub version: Version,
    /// What it is of.
    pub snapshot_type: String,
    /// Version of the payload's shape.
    pub schema_version: i32,
    /// When it was saved.
    pub saved_at: Timestamp,
}

/// What came of saving a snapshot. Both are success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is stored now.
    Saved,
    /// The same one had been saved before.
    AlreadySaved,
}

/// Why a snapshot was not saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The stream has not reached the snapshot's version.
    #[error("a snapshot of version {version} is beyond the stream's end, {}", end(*.head))]
    BeyondHead {
        /// The snapshot's version.
        version: Version,
        /// The stream's last version; none if it does not exist.
        head: Option<Version>,
    },
    /// There is a snapshot of this version with other content.
    #[error("the stream has another snapshot of version {version}")]
    Mismatch {
        /// The snapshot's version.
        version: Version,
    },
    /// The snapshot has more bytes than the store takes at once.
    #[error("the snapshot has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The largest one.
        limit: u64,
    },
    /// The snapshot is not acceptable in itself.
    #[error("{reason}")]
    Invalid {
        /// Why not, in words.
        reason: Cow<'static, str>,
    },
    /// The backend failed. Saving the same snapshot again is safe, whatever became of this.
    #[error("the store failed")]
    Backend(#[from] Error),
}

fn end(head: Option<Version>) -> String {
    head.map_or_else(|| "it does not exist".to_owned(), |version| format!("version {version}"))
}

impl Failure for SnapshotError {
    fn kind(&self) -> Kind {
        match self {
            SnapshotError::BeyondHead { .. }
            | SnapshotError::TooLarge { .. }
            | SnapshotError::Invalid { .. } => Kind::Invalid,
            SnapshotError::Mismatch { .. } => Kind::Conflict,
            SnapshotError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            SnapshotError::BeyondHead { .. } => "beyond_head",
            SnapshotError::Mismatch { .. } => "content_mismatch",
            SnapshotError::TooLarge { .. } => "too_large",
            SnapshotError::Invalid { .. } => "invalid",
            SnapshotError::Backend(error) => super::events::backend_code(error),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            SnapshotError::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn details(&self) -> Map<String, Value> {
        let details = match self {
            SnapshotError::BeyondHead { version, head } => {
                json!({ "version": version, "head": head.map_or(-1, Version::as_i64) })
            }
            SnapshotError::Mismatch { version } => json!({ "version": version }),
            SnapshotError::TooLarge { bytes, limit } => json!({ "bytes": bytes, "limit": limit }),
            SnapshotError::Invalid { .. } => return Map::new(),
            SnapshotError::Backend(error) => return error.details(),
        };
        details.as_object().cloned().unwrap_or_default()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            SnapshotError::BeyondHead { .. } => "save what the stream's own events come to",
            SnapshotError::Mismatch { .. } => {
                "the stored one stands; save a snapshot of a later version"
            }
            SnapshotError::TooLarge { .. } => "keep less in it, or a reference to it",
            SnapshotError::Invalid { .. } => return None,
            SnapshotError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<SnapshotError>() <= 64, "{}", size_of::<SnapshotError>());
    }
}
