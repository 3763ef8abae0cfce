//! What to read of a stream.

use helenus_model::{StreamId, Version};

/// Which way a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Oldest first.
    Forward,
    /// Newest first.
    Backward,
}

/// What to read of a stream: all of it, from either end, unless said otherwise.
///
/// ```
/// use helenus_model::{StreamId, Version};
/// use helenus_store::contract::ReadEvents;
///
/// let order = StreamId::new("order-1")?;
/// let tail = ReadEvents::forward(order.clone()).starting_at(Version::FIRST.next());
/// let last = ReadEvents::backward(order).limit(1);
/// # drop((tail, last));
/// # Ok::<(), helenus_model::InvalidId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadEvents {
    /// The stream.
    pub stream_id: StreamId,
    /// Which way.
    pub direction: Direction,
    /// The first version wanted; the end the direction starts from where absent.
    pub from: Option<Version>,
    /// At most this many events.
    pub limit: Option<u64>,
}

impl ReadEvents {
    /// The whole stream, oldest first.
    pub fn forward(stream_id: StreamId) -> Self {
        ReadEvents { stream_id, direction: Direction::Forward, from: None, limit: None }
    }

    /// The whole stream, newest first.
    pub fn backward(stream_id: StreamId) -> Self {
        ReadEvents { stream_id, direction: Direction::Backward, from: None, limit: None }
    }

    /// Starts at `version`, which is read too.
    #[must_use]
    pub fn starting_at(self, version: Version) -> Self {
        ReadEvents { from: Some(version), ..self }
    }

    /// Ends after `count` events.
    #[must_use]
    pub fn limit(self, count: u64) -> Self {
        ReadEvents { limit: Some(count), ..self }
    }
}
