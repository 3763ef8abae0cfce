//! Lanes: the unit that consumers compete for.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use helenus_model::{Failure, Kind, StreamId};

use super::super::{Lease, Position};
use super::OnPoison;

const NAME_BYTES_MAX: usize = 64;

/// Names a subscription or a projection: letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct SubscriptionName(Box<str>);

impl SubscriptionName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name of the store's own making, which nobody else can give.
    #[cfg(feature = "sqlite")]
    pub(crate) fn internal(text: impl Into<Box<str>>) -> Self {
        SubscriptionName(text.into())
    }
}

impl FromStr for SubscriptionName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(is_fine) {
            return Err(InvalidName { text: text.chars().take(NAME_BYTES_MAX).collect() });
        }
        Ok(SubscriptionName(text.into()))
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that cannot name a subscription.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' cannot name a subscription")]
pub struct InvalidName {
    text: String,
}

impl Failure for InvalidName {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("use 1 to 64 letters, digits, '.', '_' or '-'".into())
    }
}

/// The lane of a stream: the 64-bit FNV-1a hash of its id, modulo the count of lanes.
pub fn lane_of(stream_id: &StreamId, lanes: u32) -> u32 {
    let bytes = stream_id.as_str().bytes();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    u32::try_from(hash % u64::from(lanes.max(1))).unwrap_or(0)
}

/// A lane and the lease its owner has on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The subscription.
    pub subscription: SubscriptionName,
    /// Which of its lanes, counted from 0.
    pub lane: u32,
    /// The lease named [`Hold::lease_name`].
    pub lease: Lease,
}

impl Hold {
    /// The name of a lane's lease.
    pub fn lease_name(subscription: &SubscriptionName, lane: u32) -> String {
        format!("subscription/{subscription}/{lane}")
    }
}

/// Where a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The last position its owners are done with.
    pub position: Position,
    /// Into how many lanes the subscription is divided.
    pub lanes: u32,
    /// What follows when an event cannot be handled.
    pub on_poison: OnPoison,
    /// Streams of which events are parked.
    pub stopped: Vec<StreamId>,
}

/// What an owner is done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Every event of the lane up to a position.
    Ahead {
        /// Where the owner believes the checkpoint to be.
        from: Position,
        /// Where it is now.
        to: Position,
    },
    /// A parked event.
    Replayed {
        /// The event's position.
        position: Position,
    },
}

/// An event to set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parking {
    /// Where the owner believes the checkpoint to be.
    pub from: Position,
    /// The event, the next of its lane.
    pub position: Position,
    /// Its stream.
    pub stream_id: StreamId,
    /// Why.
    pub reason: Reason,
}

/// Why an event is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It could not be handled.
    Failed {
        /// What the handler said last.
        error: String,
    },
    /// An earlier event of its stream is parked.
    Behind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lane_of_a_stream_never_changes() {
        for (stream, lanes, lane) in [
            ("order-1", 1, 0),
            ("order-1", 8, 5),
            ("order-2", 8, 4),
            ("ü", 8, 2),
            ("order-1", 256, 109),
        ] {
            let stream = StreamId::new(stream).unwrap();
            assert_eq!(lane_of(&stream, lanes), lane, "{stream} {lanes}");
        }
    }

    #[test]
    fn a_name_is_plain() {
        for text in ["", "a b", "a@1", "a/1", "ü", &"x".repeat(65)] {
            assert!(text.parse::<SubscriptionName>().is_err(), "{text}");
        }
        assert_eq!("mail-2.x_y".parse::<SubscriptionName>().unwrap().as_str(), "mail-2.x_y");
    }
}
