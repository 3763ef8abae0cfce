//! Streams of events: appending with an expectation, reading back, settling lost answers.

mod error;
mod read;

use std::future::Future;
use std::time::Duration;

use futures_util::Stream;
use helenus_model::{Expected, NewEvent, OperationId, StreamId, Version};

use super::Error;
pub(super) use error::backend_code;
pub use error::{AppendError, InvalidAppend, ReadError};
pub use read::{Direction, ReadEvents};

/// Keeps streams of events.
///
/// **Promises of every backend**
/// - An append is all or nothing, and its events get the versions that follow the stream's last.
/// - Every append has an operation id. The same operation sent again is applied once; its id says
///   what became of it, and whoever lost the answer asks [`EventStore::resolve`].
/// - What an error says of [`applied`](helenus_model::Failure::applied) is true.
///
/// ```
/// use futures_util::TryStreamExt;
/// use helenus_model::{Expected, NewEvent, Payload, StreamId, Version};
/// use helenus_store::contract::{Append, Appended, EventStore, ReadEvents};
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
/// let appended = store.append(Append::new(order.clone(), Expected::NoStream, vec![placed])).await?;
/// assert_eq!(appended, Appended::Applied { first: Version::FIRST, last: Version::FIRST });
///
/// let events: Vec<_> = store.read(ReadEvents::forward(order)).try_collect().await?;
/// assert_eq!(events[0].event_type, "order.placed");
/// # Ok(())
/// # }
/// ```
pub trait EventStore: Send + Sync {
    /// Appends events to a stream, all of them or none.
    ///
    /// Both outcomes are success. After [`AppendError::Unknown`] the same append, with the
    /// operation id the error names, may be sent again.
    fn append(&self, append: Append) -> impl Future<Output = Result<Appended, AppendError>> + Send;

    /// The events of a stream, page by page: memory does not grow with the stream.
    ///
    /// The stream ends where the stored one ends, which is when the reader is caught up. One that
    /// does not exist has no events. Events that were archived are read like others; where some
    /// were dropped it ends with [`ReadError::Truncated`].
    fn read(
        &self,
        read: ReadEvents,
    ) -> impl Stream<Item = Result<helenus_model::RecordedEvent, ReadError>> + Send + use<Self>;

    /// The version of a stream's last event; `None` for a stream that does not exist.
    fn version(
        &self,
        stream_id: &StreamId,
    ) -> impl Future<Output = Result<Option<Version>, Error>> + Send;

    /// Settles an operation whose answer was lost: it had been applied, or it is cancelled now and
    /// will never be. Asking twice gives the same answer.
    fn resolve(
        &self,
        stream_id: &StreamId,
        operation_id: OperationId,
    ) -> impl Future<Output = Result<Resolved, AppendError>> + Send;

    /// Every stream with its last version, in no particular order.
    fn streams(&self) -> impl Stream<Item = Result<StreamHead, Error>> + Send + use<Self>;
}

/// Events to append, and on what condition.
#[derive(Clone, Debug)]
pub struct Append {
    /// The stream.
    pub stream_id: StreamId,
    /// What the caller believes about it.
    pub expected: Expected,
    /// Names this append for ever; a fresh id where absent. A caller that wants to send the append
    /// again after a crash of its own gives one.
    pub operation_id: Option<OperationId>,
    /// At least one, in their order.
    pub events: Vec<NewEvent>,
    /// How long to try; [`APPEND_DEADLINE`](helenus_model::limits::APPEND_DEADLINE) where absent.
    pub deadline: Option<Duration>,
}

impl Append {
    /// An append with a fresh operation id and the usual deadline.
    pub fn new(stream_id: StreamId, expected: Expected, events: Vec<NewEvent>) -> Self {
        Append { stream_id, expected, operation_id: None, events, deadline: None }
    }
}

/// What came of an append. Both are success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The events are stored now.
    Applied {
        /// Version of the first event.
        first: Version,
        /// Version of the last event.
        last: Version,
    },
    /// The same operation had been applied before; nothing was written.
    AlreadyApplied {
        /// Version of its first event.
        first: Version,
        /// Version of its last event.
        last: Version,
    },
}

impl Appended {
    /// Version of the first event.
    pub fn first(&self) -> Version {
        match self {
            Appended::Applied { first, .. } | Appended::AlreadyApplied { first, .. } => *first,
        }
    }

    /// Version of the last event: what the next append expects.
    pub fn last(&self) -> Version {
        match self {
            Appended::Applied { last, .. } | Appended::AlreadyApplied { last, .. } => *last,
        }
    }
}

/// What became of an operation, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It was applied.
    Applied {
        /// Version of its first event.
        first: Version,
        /// Version of its last event.
        last: Version,
    },
    /// It was not applied and will not be; a new attempt needs a new operation id.
    Cancelled,
}

/// A stream and where it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHead {
    /// The stream.
    pub stream_id: StreamId,
    /// Version of its last event.
    pub version: Version,
}
