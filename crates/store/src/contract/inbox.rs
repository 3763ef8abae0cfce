//! Remembering which messages were processed.

use std::future::Future;

use helenus_model::{ChannelId, MessageId, Timestamp};

use super::Error;

/// The consumer's memory.
pub trait Inbox: Send + Sync {
    /// Records that a message was processed; the second time changes nothing.
    fn mark_processed(
        &self,
        received: Received,
    ) -> impl Future<Output = Result<Receipt, Error>> + Send;

    /// The receipt of a message, if it was processed.
    fn receipt(
        &self,
        message_id: &MessageId,
    ) -> impl Future<Output = Result<Option<Received>, Error>> + Send;
}

/// A message as a consumer got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message, or `{consumer}/{message id}` for a named consumer.
    pub message_id: MessageId,
    /// Where it came from.
    pub channel_id: ChannelId,
    /// What it is.
    pub message_type: String,
    /// What caused it.
    pub correlation_id: Option<String>,
    /// Whose it is.
    pub tenant_id: Option<String>,
    /// When it arrived.
    pub received_at: Timestamp,
}

/// What marking a message as processed found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is marked now.
    First,
    /// It had been marked before.
    Repeated,
}
