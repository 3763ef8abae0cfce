//! Looking after an outbox: what is in it, what can go, what was left half done.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use futures_util::Stream;
use helenus_model::{ChannelId, Failure, Kind, MessageId, Payload, Timestamp};
use serde::Serialize;

use super::Error;

/// An outbox as its operators meet it. Nothing here is on the way of a message.
pub trait Upkeep: Send + Sync {
    /// The messages in a state, in no order.
    fn messages(
        &self,
        state: MessageState,
    ) -> impl Stream<Item = Result<StagedMessage, Error>> + Send + use<Self>;

    /// Removes what is older than it needs to be.
    fn sweep(&self, sweep: Sweep) -> impl Future<Output = Result<Swept, Error>> + Send;

    /// Finishes what somebody began and did not end. With `dry_run` only says what it would do.
    fn reconcile(&self, dry_run: bool) -> impl Future<Output = Result<Reconciled, Error>> + Send;

    /// The same, and looks for what no index tells of, by reading everything there is in bounded parts.
    fn scan(&self, dry_run: bool) -> impl Future<Output = Result<Reconciled, Error>> + Send;

    /// Keeps unpublished messages of tables that expire for `by` longer; gives how many.
    fn extend_ttl(&self, by: Duration) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Spreads the messages over another number of shards; gives how many have moved.
    ///
    /// Takes the leases of all lanes first, so it is refused ([`RelaysRun`]) while a relay holds one, and
    /// a relay that comes meanwhile waits. Processes that stage are to be started again afterwards:
    /// until then their messages are found late.
    fn reshard(&self, shards: u16) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// Relays hold lanes, so that messages must not move between them.
#[derive(Debug, thiserror::Error)]
#[error("the shards were not changed: {owner} publishes")]
pub struct RelaysRun {
    /// A relay that holds a lane.
    pub owner: String,
}

impl Failure for RelaysRun {
    fn kind(&self) -> Kind {
        Kind::Conflict
    }

    fn code(&self) -> &'static str {
        "relays_run"
    }

    fn applied(&self) -> Option<bool> {
        Some(false)
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("stop all relays first; one that was killed counts until its lease ends".into())
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// To be published.
    Pending,
    /// Given up, and kept.
    Parked,
    /// Published, or skipped.
    Dispatched,
    /// Never staged: it took too long.
    Cancelled,
}

/// A message with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedMessage {
    /// Its id.
    pub message_id: MessageId,
    /// Where it goes; absent for one that was cancelled before that was known.
    pub channel_id: Option<ChannelId>,
    /// What it is.
    pub message_type: String,
    /// Its body; absent for one that was cancelled.
    pub payload: Option<Payload>,
    /// What orders it.
    pub ordering_key: Option<String>,
    /// What caused it.
    pub correlation_id: Option<String>,
    /// Whose it is.
    pub tenant_id: Option<String>,
    /// When what it tells of happened.
    pub occurred_at: Option<Timestamp>,
    /// When it was staged.
    pub created_at: Timestamp,
    /// When it was done.
    pub dispatched_at: Option<Timestamp>,
    /// Attempts so far.
    pub attempt_count: u32,
    /// When it is due.
    pub next_attempt_at: Option<Timestamp>,
    /// Its headers as a JSON object.
    pub headers_json: String,
    /// Its metadata as a JSON object.
    pub metadata_json: String,
    /// `pending`, `parked`, `dispatched`, `skipped` or `cancelled`.
    pub state: String,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

/// What to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Messages that were done before; staging their ids again stages them anew.
    pub done_before: Timestamp,
    /// Receipts of messages that were processed before.
    pub processed_before: Timestamp,
    /// At most so many of each; the rest is for the next sweep.
    pub limit: usize,
    /// Only says what it would remove.
    pub dry_run: bool,
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Messages that were done.
    pub messages: u64,
    /// Receipts of processed messages.
    pub receipts: u64,
    /// Holds of keys that nobody holds any more.
    pub holds: u64,
    /// Time buckets that are past.
    pub buckets: u64,
}

/// What a reconciliation found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    /// What had been begun.
    pub examined: u64,
    /// Messages that were staged because what they tell of had happened.
    pub completed: u64,
    /// What was dropped because nothing had happened.
    pub dropped: u64,
    /// Messages that were cancelled because they never arrived.
    pub cancelled: u64,
    /// What may still be under way.
    pub open: u64,
}
