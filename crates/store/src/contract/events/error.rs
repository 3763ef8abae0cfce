//! What an append, a resolve or a read can end with.

use std::borrow::Cow;

use helenus_model::{Expected, Failure, Kind, OperationId, StreamId, Version};
use serde_json::{Map, Value, json};

use super::super::{Error, Position};

/// Why events were not appended, or why that is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The stream is not where the caller believes it to be.
    #[error("expected {expected}, found {}", found(*.actual))]
    Conflict {
        /// What the caller believed.
        expected: Expected,
        /// The stream's last version; none if it does not exist.
        actual: Option<Version>,
    },
    /// The operation was applied before with other content.
    #[error("operation {operation_id} was applied before with other content")]
    OperationMismatch {
        /// The operation.
        operation_id: OperationId,
    },
    /// Another operation of the stream stands where this one would be remembered.
    #[error("operation id {operation_id} cannot be told from another one of this stream")]
    OperationIdTaken {
        /// The operation.
        operation_id: OperationId,
    },
    /// The operation's id is too old for its outcome to be still remembered.
    #[error("operation id {operation_id} is too old to be told from one that was applied")]
    OperationExpired {
        /// The operation.
        operation_id: OperationId,
    },
    /// Somebody settled the operation by cancelling it: it will never be applied.
    #[error("operation {operation_id} was cancelled")]
    Cancelled {
        /// The operation.
        operation_id: OperationId,
    },
    /// The answer was lost: the operation may or may not have been applied.
    #[error("whether operation {operation_id} was applied is not known")]
    Unknown {
        /// The operation, to send again or to resolve.
        operation_id: OperationId,
        /// What went wrong, unless the deadline did.
        #[source]
        source: Option<Error>,
    },
    /// The append has more bytes than the store takes at once.
    #[error("the append has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The largest one.
        limit: u64,
    },
    /// An event says it belongs to another stream.
    #[error("an event declares stream '{declared}', it was appended to '{appended}'")]
    StreamMismatch {
        /// The stream the event declares.
        declared: StreamId,
        /// The stream of the append.
        appended: StreamId,
    },
    /// An event declares another version than the one it would get.
    #[error("an event declares version {declared}, it would get version {assigned}")]
    VersionMismatch {
        /// The version the event declares.
        declared: Version,
        /// The version it would get.
        assigned: Version,
    },
    /// The append is not acceptable in itself.
    #[error(transparent)]
    Invalid(#[from] InvalidAppend),
    /// The backend failed. Nothing was applied.
    #[error("the store failed")]
    Backend(#[from] Error),
}

fn found(actual: Option<Version>) -> String {
    actual.map_or_else(|| "no stream".to_owned(), |version| format!("version {version}"))
}

impl AppendError {
    /// A backend's error, given what it says about having been applied.
    pub fn from_backend(operation_id: OperationId, error: Error) -> Self {
        if error.applied() == Some(false) {
            AppendError::Backend(error)
        } else {
            AppendError::Unknown { operation_id, source: Some(error) }
        }
    }
}

impl Failure for AppendError {
    fn kind(&self) -> Kind {
        match self {
            AppendError::Conflict { .. }
            | AppendError::OperationMismatch { .. }
            | AppendError::OperationIdTaken { .. }
            | AppendError::Cancelled { .. } => Kind::Conflict,
            AppendError::OperationExpired { .. }
            | AppendError::TooLarge { .. }
            | AppendError::StreamMismatch { .. }
            | AppendError::VersionMismatch { .. }
            | AppendError::Invalid(_) => Kind::Invalid,
            AppendError::Unknown { .. } => Kind::OutcomeUnknown,
            AppendError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            AppendError::Conflict { .. } => "conflict",
            AppendError::OperationMismatch { .. } | AppendError::OperationIdTaken { .. } => {
                "operation_mismatch"
            }
            AppendError::OperationExpired { .. } => "operation_expired",
            AppendError::Cancelled { .. } => "cancelled",
            AppendError::Unknown { .. } => "unknown",
            AppendError::TooLarge { .. } => "too_large",
            AppendError::StreamMismatch { .. } => "stream_mismatch",
            AppendError::VersionMismatch { .. } => "version_mismatch",
            AppendError::Invalid(error) => error.code(),
            AppendError::Backend(error) => backend_code(error),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            AppendError::Unknown { .. } => None,
            AppendError::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn details(&self) -> Map<String, Value> {
        let details = match self {
            AppendError::Conflict { expected, actual } => {
                json!({ "expected": shown(*expected), "actual": actual.map_or(-1, Version::as_i64) })
            }
            AppendError::OperationMismatch { operation_id }
            | AppendError::OperationIdTaken { operation_id }
            | AppendError::OperationExpired { operation_id }
            | AppendError::Cancelled { operation_id }
            | AppendError::Unknown { operation_id, .. } => json!({ "operation_id": operation_id }),
            AppendError::TooLarge { bytes, limit } => json!({ "bytes": bytes, "limit": limit }),
            AppendError::StreamMismatch { declared, appended } => {
                json!({ "declared": declared, "appended": appended })
            }
            AppendError::VersionMismatch { declared, assigned } => {
                json!({ "declared": declared, "assigned": assigned })
            }
            AppendError::Invalid(_) => return Map::new(),
            AppendError::Backend(error) => return error.details(),
        };
        details.as_object().cloned().unwrap_or_default()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            AppendError::Conflict { .. } => "read the stream, decide again, append again",
            AppendError::OperationMismatch { .. } | AppendError::OperationIdTaken { .. } => {
                "give each append an operation id of its own; the stored one stands"
            }
            AppendError::OperationExpired { .. } => {
                "read the stream to see whether it was applied; a new attempt needs a new id"
            }
            AppendError::Cancelled { .. } => "nothing was applied; append with a new operation id",
            AppendError::Unknown { .. } => {
                "resolve the operation, or send the same append again with its operation id"
            }
            AppendError::TooLarge { .. } => "append fewer or smaller events at once",
            AppendError::StreamMismatch { .. } => "append the event to the stream it declares",
            AppendError::VersionMismatch { .. } => {
                "declare the version that follows the expected one, or none"
            }
            AppendError::Invalid(_) => return None,
            AppendError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

/// As the command line takes it.
fn shown(expected: Expected) -> Value {
    match expected {
        Expected::Exact(version) => json!(version),
        Expected::NoStream => json!("none"),
        Expected::Exists => json!("exists"),
        Expected::Any => json!("any"),
    }
}

/// What callers can do is the same for every reason a backend is not available.
pub(in crate::contract) fn backend_code(error: &Error) -> &'static str {
    match error.kind() {
        Kind::Unavailable | Kind::Timeout => "unavailable",
        // What a release cannot do yet is not the caller's mistake.
        Kind::Invalid if error.code() != "not_yet" => "invalid",
        _ => error.code(),
    }
}

/// An append that is wrong in itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidAppend {
    reason: Cow<'static, str>,
}

impl InvalidAppend {
    /// Wrong for this reason, in words.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        InvalidAppend { reason: reason.into() }
    }
}

impl Failure for InvalidAppend {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }
}

/// Why a read ended before the stream did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Events before `first` are no longer there.
    #[error("the stream's events before version {first} were truncated")]
    Truncated {
        /// The first event that is there.
        first: Version,
    },
    /// The position is none of this store's.
    #[error("'{position}' is not a position of this store's feed")]
    Position {
        /// What was given.
        position: Position,
    },
    /// The backend failed.
    #[error("the stream could not be read")]
    Backend(#[from] Error),
}

impl Failure for ReadError {
    fn kind(&self) -> Kind {
        match self {
            ReadError::Truncated { .. } => Kind::NotFound,
            ReadError::Position { .. } => Kind::Invalid,
            ReadError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            ReadError::Truncated { .. } => "truncated",
            ReadError::Position { .. } => "invalid",
            ReadError::Backend(error) => backend_code(error),
        }
    }

    fn applied(&self) -> Option<bool> {
        Some(false)
    }

    fn details(&self) -> Map<String, Value> {
        match self {
            ReadError::Truncated { first } => Map::from_iter([("first".to_owned(), json!(first))]),
            ReadError::Position { .. } => Map::new(),
            ReadError::Backend(error) => error.details(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            ReadError::Truncated { first } => Some(format!("read from version {first} on").into()),
            ReadError::Position { .. } => Some("give back a position as the feed gave it".into()),
            ReadError::Backend(error) => error.remedy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<AppendError>() <= 64, "{}", size_of::<AppendError>());
        assert!(size_of::<ReadError>() <= 64);
    }

    #[test]
    fn a_conflict_names_both_sides() {
        let conflict = |expected, actual| AppendError::Conflict { expected, actual }.to_string();
        assert_eq!(
            conflict(Expected::Exists, None),
            "expected an existing stream, found no stream"
        );
        let expected = Expected::Exact(Version::FIRST);
        let actual = Version::new(7);
        assert_eq!(conflict(expected, actual), "expected version 1, found version 7");
    }
}
