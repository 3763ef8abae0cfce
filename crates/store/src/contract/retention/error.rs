//! Why events are not retired.

use std::borrow::Cow;

use helenus_model::{Failure, Kind, Version};
use serde_json::{Map, Value, json};

use super::super::events::backend_code;
use super::super::{Error, Position, SubscriptionName};

/// Why events were not retired, or not all of them. Doing it again goes on where it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireError {
    /// There is no such stream.
    #[error("there is no such stream")]
    NoStream,
    /// The stream has not so many events.
    #[error("the stream ends at version {head}, it cannot be cut before version {before}")]
    BeyondHead {
        /// Where it was to be cut.
        before: Version,
        /// The stream's last version.
        head: Version,
    },
    /// No snapshot stands for the events.
    #[error("no snapshot at or above version {needed} stands for the events, {}", found(*.latest))]
    NoSnapshot {
        /// The last event that would be retired.
        needed: Version,
        /// The newest snapshot.
        latest: Option<Version>,
    },
    /// A subscription has not read all of the events.
    #[error("subscription '{subscription}' is at position {position}, before some of the events")]
    Unread {
        /// The slowest one.
        subscription: SubscriptionName,
        /// Where it is.
        position: Position,
    },
    /// A copy in the archive differs from the original, which is still there.
    #[error("the archive's copy of version {version} differs from the event")]
    CopyDiffers {
        /// The event.
        version: Version,
    },
    /// Others changed the stream's extent each time it was to be set.
    #[error("others kept truncating the stream")]
    Contended,
    /// The backend failed.
    #[error("the store failed")]
    Backend(#[from] Error),
}

fn found(latest: Option<Version>) -> String {
    latest.map_or_else(
        || "there is none".to_owned(),
        |version| format!("the newest is of version {version}"),
    )
}

impl Failure for RetireError {
    fn kind(&self) -> Kind {
        match self {
            RetireError::NoStream => Kind::NotFound,
            RetireError::BeyondHead { .. } => Kind::Invalid,
            RetireError::NoSnapshot { .. } | RetireError::Unread { .. } => Kind::Conflict,
            RetireError::CopyDiffers { .. } => Kind::Corrupt,
            RetireError::Contended => Kind::Unavailable,
            RetireError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            RetireError::NoStream => "no_stream",
            RetireError::BeyondHead { .. } => "beyond_head",
            RetireError::NoSnapshot { .. } => "no_snapshot",
            RetireError::Unread { .. } => "unread",
            RetireError::CopyDiffers { .. } => "corrupt",
            RetireError::Contended => "unavailable",
            RetireError::Backend(error) => backend_code(error),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            RetireError::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn details(&self) -> Map<String, Value> {
        let details = match self {
            RetireError::BeyondHead { before, head } => json!({ "before": before, "head": head }),
            RetireError::NoSnapshot { needed, latest } => {
                json!({ "needed": needed, "latest": latest })
            }
            RetireError::Unread { subscription, position } => {
                json!({ "subscription": subscription.as_str(), "position": position })
            }
            RetireError::CopyDiffers { version } => json!({ "version": version }),
            RetireError::NoStream | RetireError::Contended => return Map::new(),
            RetireError::Backend(error) => return error.details(),
        };
        details.as_object().cloned().unwrap_or_default()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            RetireError::NoStream => "check the stream's name",
            RetireError::BeyondHead { .. } => "cut at most one past the stream's last version",
            RetireError::NoSnapshot { .. } => "save a snapshot first, or force it",
            RetireError::Unread { .. } => "let the subscription catch up or remove it, or force it",
            RetireError::CopyDiffers { .. } => {
                "nothing was removed; find out who else writes to the archive"
            }
            RetireError::Contended => "try again",
            RetireError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<RetireError>() <= 64, "{}", size_of::<RetireError>());
    }
}
