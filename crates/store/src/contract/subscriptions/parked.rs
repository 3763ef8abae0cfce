//! Events that could not be handled.

use helenus_model::{RecordedEvent, StreamId, Timestamp};

use super::super::Position;

/// An event that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Where it is in the feed.
    pub position: Position,
    /// Its stream.
    pub stream_id: StreamId,
    /// The event; none if it was removed from the store in spite of being parked.
    pub event: Option<RecordedEvent>,
    /// What its handler said last; none if it waits behind another one of its stream.
    pub error: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was set aside.
    pub parked_at: Timestamp,
    /// Whether somebody asked for it to be tried again.
    pub replay: bool,
}

/// Which of the parked events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one at this position.
    One(Position),
    /// Those of a stream.
    Stream(StreamId),
    /// All.
    All,
}
