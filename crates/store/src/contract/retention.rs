//! Retention: taking old events out of a stream, into the archive or away for good.

mod error;

use std::future::Future;

use futures_util::Stream;
use helenus_model::{StreamId, Timestamp, Version};

use super::Error;
pub use error::RetireError;

/// Retires the old events of streams.
///
/// **Promises of every backend**
/// - Retiring takes events from a stream's beginning only. The stream keeps its version, and the
///   next event is appended where it would have been.
/// - A reader never passes over a gap. It goes on from the archive, or ends with
///   [`ReadError::Truncated`](super::ReadError::Truncated) where events were dropped.
/// - Whatever stops it half-way, doing it again completes it. Several may do it at once, beside
///   appends and reads.
///
/// ```
/// use futures_util::TryStreamExt;
/// use helenus_model::{Expected, NewEvent, Payload, StreamId, Version};
/// use helenus_store::contract::{
///     Append, Cut, EventStore, NewSnapshot, ReadEvents, Retention, Retire, Snapshots,
/// };
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
/// let event = NewEvent::new("order.changed", Payload::json(&serde_json::json!({})));
/// store.append(Append::new(order.clone(), Expected::NoStream, vec![event; 3])).await?;
/// let third = Version::new(3).unwrap_or(Version::FIRST);
/// let state = Payload::json(&serde_json::json!({"changes": 3}));
/// store.save_snapshot(NewSnapshot::new(order.clone(), third, "order", state)).await?;
///
/// let retire = Retire::archive(order.clone(), Cut::Before(third));
/// assert_eq!(store.plan(&retire).await?.events(), 2);
/// store.retire(retire).try_for_each(async |_step| Ok(())).await?;
/// // Still there, read from the archive.
/// let events: Vec<_> = store.read(ReadEvents::forward(order)).try_collect().await?;
/// assert_eq!(events.len(), 3);
/// # Ok(())
/// # }
/// ```
pub trait Retention: Send + Sync {
    /// Where the events of a stream are; `None` for a stream that does not exist.
    fn extent(
        &self,
        stream_id: &StreamId,
    ) -> impl Future<Output = Result<Option<Extent>, Error>> + Send;

    /// What [`Retention::retire`] would do now, or why it would refuse. Changes nothing.
    fn plan(&self, retire: &Retire)
    -> impl Future<Output = Result<RetirePlan, RetireError>> + Send;

    /// Retires events, one bounded step at a time: each item is a step that was done, and nothing
    /// more is done than is asked for. The stream ends when all is done.
    fn retire(
        &self,
        retire: Retire,
    ) -> impl Stream<Item = Result<RetireStep, RetireError>> + Send + use<Self>;
}

/// Which events to retire, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retire {
    /// The stream.
    pub stream_id: StreamId,
    /// Which.
    pub cut: Cut,
    /// What becomes of them.
    pub disposal: Disposal,
    /// Whether to do it without a snapshot that stands for them, and, dropping, although a
    /// subscription has not read them.
    pub forced: bool,
}

impl Retire {
    /// Moves events into the archive, where readers still find them.
    pub fn archive(stream_id: StreamId, cut: Cut) -> Self {
        Retire { stream_id, cut, disposal: Disposal::Archive, forced: false }
    }

    /// Deletes events for good, archived ones too.
    pub fn drop(stream_id: StreamId, cut: Cut) -> Self {
        Retire { stream_id, cut, disposal: Disposal::Drop, forced: false }
    }

    /// Does it whatever relies on the events.
    #[must_use]
    pub fn forced(self) -> Self {
        Retire { forced: true, ..self }
    }
}

/// Where a stream is cut: events before the cut are retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Those before this version; at most one past the stream's last.
    Before(Version),
    /// All but the last so many.
    KeepLast(u64),
    /// Those that were appended before this, up to the first one that was not.
    OlderThan(Timestamp),
}

/// What becomes of events that are retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposal {
    /// They go into the archive.
    Archive,
    /// They are deleted, here and in the archive.
    Drop,
}

/// Where the events of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first version there is: those before were dropped.
    pub archived_from: Version,
    /// The first version that is not in the archive; one past the last where all are.
    pub truncated_before: Version,
    /// The last version.
    pub head: Version,
}

/// What retiring does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetirePlan {
    /// The stream.
    pub stream_id: StreamId,
    /// What becomes of the events.
    pub disposal: Disposal,
    /// The first event it concerns.
    pub from: Version,
    /// The first event it does not concern; `from` where there is nothing to do.
    pub before: Version,
    /// The newest snapshot of the stream.
    pub snapshot: Option<Version>,
}

impl RetirePlan {
    /// How many events it concerns.
    pub fn events(&self) -> u64 {
        u64::try_from(self.before.as_i64() - self.from.as_i64()).unwrap_or(0)
    }
}

/// A step of retiring that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetireStep {
    /// Events before this version have a copy in the archive, compared with the original.
    Copied {
        /// The first version that has none.
        before: Version,
    },
    /// The stream's own events before this version are gone.
    Truncated {
        /// The first version that is left.
        before: Version,
    },
    /// Nothing is left in the archive of what was dropped.
    Cleaned,
}
