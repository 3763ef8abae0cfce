//! All events of a store in one order: what projections and subscriptions read.

use std::fmt;
use std::str::FromStr;

use futures_util::Stream;
use helenus_model::RecordedEvent;

use super::ReadError;

/// Gives the events of every stream, each once, those of one stream in their order.
///
/// Retention does not change what a reader is given, but for events that were dropped: in their
/// place it gets [`FeedItem::Dropped`].
///
/// ```
/// use futures_util::TryStreamExt;
/// use helenus_store::contract::{Feed, FeedItem, ReadFeed};
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = helenus_store::Ports::system();
/// # let store = helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports).await?;
/// let mut checkpoint = None;
/// let mut feed = Box::pin(store.feed(ReadFeed::after(checkpoint)));
/// checkpoint = None;
/// while let Some(item) = feed.try_next().await? {
///     match item {
///         FeedItem::Event { position, event } => {
///             println!("{} {}", event.stream_id, event.event_type);
///             checkpoint = Some(position);
///         }
///         FeedItem::Dropped { position, count } => {
///             println!("{count} events are no longer there");
///             checkpoint = Some(position);
///         }
///         FeedItem::CaughtUp => println!("that is all for now"),
///     }
/// }
/// # drop(checkpoint);
/// # Ok(())
/// # }
/// ```
pub trait Feed: Send + Sync {
    /// The events after a position, page by page: memory does not grow with the store.
    ///
    /// Where the reader has everything there is, it gets [`FeedItem::CaughtUp`]; then the feed
    /// ends, or waits for more if it follows.
    fn feed(
        &self,
        read: ReadFeed,
    ) -> impl Stream<Item = Result<FeedItem, ReadError>> + Send + use<Self>;
}

/// What to read of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFeed {
    /// The last position that was seen; the beginning where absent.
    pub after: Option<Position>,
    /// At most this many events.
    pub limit: Option<u64>,
    /// Whether to wait for more at the end.
    pub follow: bool,
}

impl ReadFeed {
    /// Everything after `position`, ending when caught up.
    pub fn after(position: Option<Position>) -> Self {
        ReadFeed { after: position, limit: None, follow: false }
    }

    /// Goes on for as long as it is read.
    #[must_use]
    pub fn follow(self) -> Self {
        ReadFeed { follow: true, ..self }
    }

    /// Ends after `count` events.
    #[must_use]
    pub fn limit(self, count: u64) -> Self {
        ReadFeed { limit: Some(count), ..self }
    }
}

/// What a feed gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every item is an event")]
pub enum FeedItem {
    /// The next event.
    Event {
        /// Where the reader is once it has handled the event: its checkpoint.
        position: Position,
        /// The event.
        event: RecordedEvent,
    },
    /// Here were events that have been dropped for good. Archived ones are given as events.
    Dropped {
        /// Where the reader is once it has taken note of that.
        position: Position,
        /// How many they were.
        count: u64,
    },
    /// There was nothing more when the store was last asked.
    CaughtUp,
}

/// A place in the feed of one store, to be stored and given back as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Position(String);

impl Position {
    /// Whatever a backend needs to find the place again.
    pub fn new(text: impl Into<String>) -> Self {
        Position(text.into())
    }

    /// The position as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Position {
    type Err = std::convert::Infallible;

    /// Takes any text: only the store it comes from can tell whether it is one of its positions.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Position(text.to_owned()))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
