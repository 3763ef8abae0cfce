//! Staging messages.

use std::borrow::Cow;
use std::future::Future;

use helenus_model::{Failure, InvalidMessage, Kind, Message, MessageId};

use super::Error;

/// Takes messages that must be published.
pub trait Outbox: Send + Sync {
    /// Stages one message: durable once this returns.
    ///
    /// Idempotent by message id. The same message again is [`Enqueued::Duplicate`]; other content
    /// under a known id is [`EnqueueError::ContentMismatch`]. After an unknown outcome the same
    /// call may simply be made again.
    fn enqueue(
        &self,
        message: Message,
    ) -> impl Future<Output = Result<Enqueued, EnqueueError>> + Send;

    /// Stages messages, each by itself, and says of each what came of it.
    ///
    /// Those with one ordering key are staged one after the other; after one that was not staged the
    /// later ones of its key are not either ([`EnqueueError::Behind`]).
    fn enqueue_all(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Vec<Result<Enqueued, EnqueueError>>> + Send;
}

/// What came of staging a message. Both are success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Enqueued {
    /// It is staged now.
    Enqueued,
    /// It had been staged before.
    Duplicate,
}

/// Why a message was not staged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The message itself is not acceptable.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
    /// Another message has this id.
    #[error("message {message_id} was staged before with other content")]
    ContentMismatch {
        /// The id both have.
        message_id: MessageId,
    },
    /// The message was settled by cancelling it, because its staging took too long.
    #[error("message {message_id} was cancelled before it was staged")]
    Cancelled {
        /// The message.
        message_id: MessageId,
    },
    /// An earlier message with the same ordering key was not staged.
    #[error("message {message_id} was not staged: an earlier one with its ordering key was not")]
    Behind {
        /// The message.
        message_id: MessageId,
    },
    /// The backend failed.
    #[error("the message could not be staged")]
    Backend(#[from] Error),
}

impl Failure for EnqueueError {
    fn kind(&self) -> Kind {
        match self {
            EnqueueError::Invalid(error) => error.kind(),
            EnqueueError::ContentMismatch { .. } | EnqueueError::Cancelled { .. } => Kind::Conflict,
            EnqueueError::Behind { .. } => Kind::Unavailable,
            EnqueueError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            EnqueueError::Invalid(error) => error.code(),
            EnqueueError::ContentMismatch { .. } => "content_mismatch",
            EnqueueError::Cancelled { .. } => "cancelled",
            EnqueueError::Behind { .. } => "behind",
            EnqueueError::Backend(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            EnqueueError::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            EnqueueError::Invalid(error) => error.remedy(),
            EnqueueError::ContentMismatch { .. } => {
                Some("give each message an id of its own; the stored one stands".into())
            }
            EnqueueError::Cancelled { .. } => Some("stage it again under a new id".into()),
            EnqueueError::Behind { .. } => {
                Some("stage the earlier one first, then this one".into())
            }
            EnqueueError::Backend(error) => error.remedy(),
        }
    }
}
