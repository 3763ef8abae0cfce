//! What can go wrong with a broker.

use std::borrow::Cow;

use helenus_model::{Failure, Kind};
use serde_json::{Map, Value, json};

/// Why a broker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such topic.
    #[error("there is no topic '{topic}'")]
    UnknownTopic {
        /// The name.
        topic: String,
    },
    /// The topic has no such partition.
    #[error("topic '{topic}' has {partitions} partitions, there is no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The topic cannot be made as asked.
    #[error("topic '{topic}' cannot be created: {reason}")]
    InvalidTopic {
        /// The name.
        topic: String,
        /// What is wrong.
        reason: String,
    },
    /// A record is over the topic's limit.
    #[error("a record of up to {bytes} bytes is over the {limit} that topic '{topic}' takes")]
    TooLarge {
        /// The topic.
        topic: String,
        /// How many the record may need.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// A published record cannot be told.
    #[error("the record at {position} cannot be read: {reason}")]
    Unreadable {
        /// Where it is.
        position: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Somebody else has become the publisher of this name.
    #[error("another process publishes as '{name}' now")]
    Fenced {
        /// The name.
        name: String,
        /// Whether a commit was under way: it may have been applied before.
        committing: bool,
    },
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] helenus_model::BackendError),
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::UnknownTopic { .. } | Error::UnknownPartition { .. } => Kind::NotFound,
            Error::InvalidTopic { .. } | Error::TooLarge { .. } => Kind::Invalid,
            Error::Unreadable { .. } => Kind::Corrupt,
            Error::Fenced { committing: true, .. } => Kind::OutcomeUnknown,
            Error::Fenced { committing: false, .. } => Kind::Conflict,
            Error::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::UnknownTopic { .. } => "unknown_topic",
            Error::UnknownPartition { .. } => "unknown_partition",
            Error::InvalidTopic { .. } => "invalid",
            Error::TooLarge { .. } => "too_large",
            Error::Unreadable { .. } => "unreadable",
            Error::Fenced { .. } => "fenced",
            Error::Backend(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            Error::Backend(error) => error.applied(),
            Error::Fenced { committing: true, .. } => None,
            _ => Some(false),
        }
    }

    fn is_retryable(&self) -> bool {
        match self {
            Error::Backend(error) => error.is_retryable(),
            _ => false,
        }
    }

    fn details(&self) -> Map<String, Value> {
        let details = match self {
            Error::TooLarge { bytes, limit, .. } => json!({ "bytes": bytes, "limit": limit }),
            Error::Backend(error) => return error.details(),
            _ => return Map::new(),
        };
        details.as_object().cloned().unwrap_or_default()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Error::UnknownTopic { .. } => Some("create the topic, or check its name".into()),
            Error::TooLarge { .. } => {
                Some("send a reference to it, or raise the topic's max.message.bytes".into())
            }
            Error::Unreadable { .. } => Some("read on from the next offset".into()),
            Error::Backend(error) => error.remedy(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn errors_are_small() {
        assert!(size_of::<Error>() <= 64, "{}", size_of::<Error>());
    }
}
