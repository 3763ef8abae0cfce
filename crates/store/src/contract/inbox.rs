//! Remembering which messages were processed, and what came of them.

use std::future::Future;
use std::time::Duration;

use futures_util::Stream;
use helenus_model::{ChannelId, ContentHash, MessageId, Timestamp};

use super::Error;

/// The consumer's memory.
///
/// [`Inbox::mark_processed`] is enough for a consumer that asks before and marks after. One that wants
/// a message worked on by one process at a time, and its result kept, goes through
/// [`once`](crate::once::once), which is made of the four steps `begin`, `keep`, `finish` and
/// `give_up`.
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

    /// Takes a message up for `lease`, if nobody works on it and nobody has.
    ///
    /// `owner` names one attempt, never two. After an unknown outcome the same call may be made
    /// again.
    fn begin(
        &self,
        received: Received,
        content_hash: Option<ContentHash>,
        owner: &str,
        lease: Duration,
    ) -> impl Future<Output = Result<Begun, Error>> + Send;

    /// Holds on to a message for `lease` from now; false if it has passed on.
    fn keep(
        &self,
        work: &Work,
        lease: Duration,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Records the result; false if the message has passed on, and nothing was recorded.
    fn finish(
        &self,
        work: &Work,
        result: Vec<u8>,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Leaves a message to whoever comes next, at once.
    fn give_up(&self, work: &Work) -> impl Future<Output = Result<(), Error>> + Send;

    /// A message as the inbox knows it.
    fn look(
        &self,
        message_id: &MessageId,
    ) -> impl Future<Output = Result<Option<InboxEntry>, Error>> + Send;

    /// Every message the inbox knows, in no order.
    fn entries(&self) -> impl Stream<Item = Result<InboxEntry, Error>> + Send + use<Self>;
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

/// A message somebody works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The message.
    pub message_id: MessageId,
    /// Whose attempt it is.
    pub owner: String,
    /// The how-manieth attempt it is: the fencing token for whatever the work writes.
    pub epoch: i64,
}

/// What came of taking a message up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is the caller's to work on.
    Yours(Work),
    /// Somebody works on it; until then, unless they hold on to it.
    Busy {
        /// When it may be taken from them.
        until: Timestamp,
    },
    /// It was processed, with this result.
    Processed {
        /// What was recorded; empty if it was only marked.
        result: Vec<u8>,
    },
    /// It was seen before with other content.
    Mismatch,
}

/// A message as the inbox knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    /// The message.
    pub received: Received,
    /// When it was processed; absent while somebody works on it.
    pub processed_at: Option<Timestamp>,
    /// The attempts that were begun; 0 if it was only marked.
    pub epoch: i64,
    /// Until when it belongs to whoever works on it.
    pub lease_until: Option<Timestamp>,
    /// What was recorded.
    pub result: Option<Vec<u8>>,
}
