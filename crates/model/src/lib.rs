//! The values every part of Helenus speaks: ids, messages, events, backend URLs, time, chance,
//! errors and limits.
//!
//! **Invariant:** nothing here does I/O. The clock and the random source are traits, so whoever
//! runs the core decides what time it is and which ids are drawn; see [`Clock`] and [`Random`].

pub mod backend;
mod backend_error;
mod backoff;
mod clock;
mod content;
mod error;
mod event;
mod hint;
mod id;
pub mod limits;
mod message;
mod random;
mod time;

pub use backend_error::BackendError;
pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, SystemClock};
pub use content::{ContentHash, Fingerprint, Payload};
pub use error::{Failure, Kind, causes, told};
pub use event::{Expected, NewEvent, RecordedEvent, Version};
pub use hint::{Hint, hints_topic};
pub use id::{ChannelId, EventId, InvalidId, MessageId, OperationId, StreamId};
pub use message::{InvalidMessage, Message};
pub use random::{Random, SeededRandom, SystemRandom};
pub use time::{InvalidTime, Timestamp};
