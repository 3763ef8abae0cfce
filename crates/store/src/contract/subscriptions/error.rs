//! What can be wrong with a subscription.

use std::borrow::Cow;

use helenus_model::{Failure, Kind, StreamId};
use serde_json::{Map, Value, json};

use super::super::{Error, Position};
use super::SubscriptionName;

/// Why something was not done with a subscription.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// There is none of this name.
    #[error("there is no subscription or projection '{name}'")]
    NotFound {
        /// The name.
        name: SubscriptionName,
    },
    /// It was registered with another shape.
    #[error("subscription '{name}' was registered with {what} = {stored}")]
    Differs {
        /// The name.
        name: SubscriptionName,
        /// What differs.
        what: &'static str,
        /// As it was registered.
        stored: Box<str>,
    },
    /// The name belongs to something else.
    #[error("the name '{name}' is taken by {by}")]
    NameTaken {
        /// The name.
        name: SubscriptionName,
        /// By what.
        by: &'static str,
    },
    /// No subscription has so many lanes, or so few.
    #[error(
        "a subscription has 1 to {} lanes, not {lanes}",
        helenus_model::limits::SUBSCRIPTION_LANES_MAX
    )]
    Lanes {
        /// What was given.
        lanes: u32,
    },
    /// The lane belongs to somebody else by now. Nothing was written.
    #[error("lane {lane} of subscription '{name}' has passed on to another owner")]
    Fenced {
        /// The subscription.
        name: SubscriptionName,
        /// The lane.
        lane: u32,
    },
    /// The lane's checkpoint is not where its owner believes it to be. Nothing was written.
    #[error("lane {lane} of subscription '{name}' is not where its owner left it")]
    Moved {
        /// The subscription.
        name: SubscriptionName,
        /// The lane.
        lane: u32,
    },
    /// Nothing is parked there.
    #[error("no event is parked at position {position}")]
    NotParked {
        /// The position.
        position: Position,
    },
    /// An earlier event of the stream is parked too.
    #[error("the event at position {position} waits behind others of stream '{stream_id}'")]
    NotFirst {
        /// The position.
        position: Position,
        /// The stream.
        stream_id: Box<StreamId>,
    },
    /// The position is none of this store's.
    #[error("'{position}' is not a position of this store's feed")]
    Position {
        /// What was given.
        position: Position,
    },
    /// The backend failed.
    #[error("the subscription's place in the store could not be read or written")]
    Backend(#[from] Error),
}

impl Failure for SubscriptionError {
    fn kind(&self) -> Kind {
        match self {
            SubscriptionError::NotFound { .. } | SubscriptionError::NotParked { .. } => {
                Kind::NotFound
            }
            SubscriptionError::Differs { .. }
            | SubscriptionError::NameTaken { .. }
            | SubscriptionError::Fenced { .. }
            | SubscriptionError::Moved { .. }
            | SubscriptionError::NotFirst { .. } => Kind::Conflict,
            SubscriptionError::Lanes { .. } | SubscriptionError::Position { .. } => Kind::Invalid,
            SubscriptionError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            SubscriptionError::NotFound { .. } => "unknown_subscription",
            SubscriptionError::Differs { .. } => "subscription_differs",
            SubscriptionError::NameTaken { .. } => "name_taken",
            SubscriptionError::Fenced { .. } => "fenced",
            SubscriptionError::Moved { .. } => "moved",
            SubscriptionError::NotParked { .. } => "not_parked",
            SubscriptionError::NotFirst { .. } => "not_first",
            SubscriptionError::Lanes { .. } | SubscriptionError::Position { .. } => "invalid",
            SubscriptionError::Backend(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            SubscriptionError::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn details(&self) -> Map<String, Value> {
        let details = match self {
            SubscriptionError::NotFound { name } | SubscriptionError::NameTaken { name, .. } => {
                json!({ "name": name })
            }
            SubscriptionError::Differs { name, what, stored } => {
                json!({ "name": name, "what": what, "stored": stored })
            }
            SubscriptionError::Fenced { name, lane } | SubscriptionError::Moved { name, lane } => {
                json!({ "name": name, "lane": lane })
            }
            SubscriptionError::NotParked { position }
            | SubscriptionError::NotFirst { position, .. }
            | SubscriptionError::Position { position } => json!({ "position": position }),
            SubscriptionError::Lanes { lanes } => json!({ "lanes": lanes }),
            SubscriptionError::Backend(error) => return error.details(),
        };
        details.as_object().cloned().unwrap_or_default()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            SubscriptionError::NotFound { .. } => "check the name; status lists those there are",
            SubscriptionError::Differs { .. } => {
                "subscribe as it was registered, or under another name; dropping it forgets its place"
            }
            SubscriptionError::NameTaken { .. } => "choose another name",
            SubscriptionError::Lanes { .. } => return None,
            SubscriptionError::Fenced { .. } => "let the new owner go on, and compete again",
            SubscriptionError::Moved { .. } => "read the lane again and go on from there",
            SubscriptionError::NotParked { .. } => "list the parked events",
            SubscriptionError::NotFirst { .. } => {
                "replay the whole stream, or the first one parked of it"
            }
            SubscriptionError::Position { .. } => "give back a position as the feed gave it",
            SubscriptionError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<SubscriptionError>() <= 64, "{}", size_of::<SubscriptionError>());
    }
}
