//! Names and numbers of things. Ids that mean different things have different types.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits::ID_BYTES_MAX;
use crate::{Clock, Failure, Kind, Random, Timestamp};

/// A text that cannot be an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {what} {reason}")]
pub struct InvalidId {
    what: &'static str,
    reason: String,
}

impl Failure for InvalidId {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }
}

fn check(what: &'static str, text: &str) -> Result<(), InvalidId> {
    let reason = if text.is_empty() {
        "must not be empty".to_owned()
    } else if text.len() > ID_BYTES_MAX {
        format!("may have {ID_BYTES_MAX} bytes, this one has {}", text.len())
    } else if text.contains('\0') {
        "must not contain a zero byte".to_owned()
    } else {
        return Ok(());
    };
    Err(InvalidId { what, reason })
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes any text that is not empty, not over the limit and free of zero bytes.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidId> {
                let text = text.into();
                check($what, &text)?;
                Ok($name(text))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                $name::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.as_str().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                $name::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// Names one message for ever: staging it twice stages it once.
    MessageId, "message id"
);
text_id!(
    /// Where a message goes: the topic, unless the relay maps it to another.
    ChannelId, "channel id"
);
text_id!(
    /// Names a stream of events, usually one aggregate.
    StreamId, "stream id"
);

impl MessageId {
    /// A fresh id: a UUID that sorts by time.
    pub fn generate(clock: &dyn Clock, random: &dyn Random) -> Self {
        MessageId(time_ordered(clock, random).to_string().into())
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A fresh id that sorts by time (UUID version 7).
            pub fn generate(clock: &dyn Clock, random: &dyn Random) -> Self {
                $name(time_ordered(clock, random))
            }

            /// The id as a UUID.
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                $name(uuid)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_id!(
    /// Names one attempt to change something. It is stored with what it wrote, so that a lost
    /// answer can be settled; sending the same operation again is safe.
    OperationId
);
uuid_id!(
    /// Names one event.
    EventId
);

impl OperationId {
    /// When the id was made, if it says so (UUID version 7).
    pub fn created_at(self) -> Option<Timestamp> {
        if self.0.get_version_num() != 7 {
            return None;
        }
        let (seconds, nanos) = self.0.get_timestamp()?.to_unix();
        let since_epoch = Duration::new(seconds, nanos);
        Some(Timestamp::EPOCH.plus(since_epoch))
    }
}

impl EventId {
    /// The id of event number `index` of an append: the same append sent again has the same ids.
    pub fn derived(operation: OperationId, index: usize) -> Self {
        EventId(Uuid::new_v5(&operation.0, index.to_string().as_bytes()))
    }
}

fn time_ordered(clock: &dyn Clock, random: &dyn Random) -> Uuid {
    let millis = u64::try_from(clock.now().as_millis()).unwrap_or(0);
    let mut chance = [0; 10];
    for (to, from) in chance.iter_mut().zip(random.uuid().as_bytes()) {
        *to = *from;
    }
    uuid::Builder::from_unix_timestamp_millis(millis, &chance).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, SeededRandom};

    #[test]
    fn a_text_id_refuses_what_no_backend_could_keep() {
        for (text, words) in [
            ("", "a message id must not be empty"),
            ("a\0b", "a message id must not contain a zero byte"),
        ] {
            assert_eq!(MessageId::new(text).unwrap_err().to_string(), words);
        }
        let long = "x".repeat(ID_BYTES_MAX + 1);
        assert!(MessageId::new(long).unwrap_err().to_string().ends_with("this one has 513"));
        assert!(MessageId::new("x".repeat(ID_BYTES_MAX)).is_ok());
    }

    #[test]
    fn generated_ids_sort_by_time() {
        let clock = ManualClock::at(Timestamp::from_millis(1_000));
        let random = SeededRandom::new(1);
        let first = OperationId::generate(&clock, &random);
        clock.advance(std::time::Duration::from_millis(1));
        let second = OperationId::generate(&clock, &random);
        assert!(first < second);
        assert_eq!(first.as_uuid().get_version_num(), 7);
        assert_eq!(first.created_at(), Some(Timestamp::from_millis(1_000)));
        assert_eq!(OperationId::from(random.uuid()).created_at(), None);
    }

    #[test]
    fn event_ids_follow_from_the_operation() {
        let operation = OperationId::from(Uuid::from_u128(1));
        assert_eq!(EventId::derived(operation, 0), EventId::derived(operation, 0));
        assert_ne!(EventId::derived(operation, 0), EventId::derived(operation, 1));
    }
}
