//! Finding staged messages and settling what became of them.

use std::future::Future;
use std::time::Duration;

use helenus_model::{Message, MessageId, Timestamp};
use tokio::sync::watch;
use uuid::Uuid;

use super::Error;

/// The relay's side of the outbox.
///
/// Reading claims nothing: two readers see the same messages. Who may publish is settled by leases.
///
/// Messages with an ordering key keep their order through failures: one that failed, was put off or
/// was parked holds its key, and reads leave out what was staged under that key after it. A delayed
/// message holds nobody.
pub trait Dispatch: Send + Sync {
    /// What was recorded when the store was first used.
    fn identity(&self) -> impl Future<Output = Result<Identity, Error>> + Send;

    /// Messages of all shards that are due at `now`, oldest first and in staging order where times
    /// are equal; at most `limit` and never more than `limits::DISPATCH_BATCH_MAX`.
    fn read_pending(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Pending>, Error>> + Send;

    /// The same for some shards, each below [`Identity::shards`]. All messages of an ordering key are in
    /// one shard. Of a shard that has more than its part of `limit`, the younger ones may be left out.
    fn read_shards(
        &self,
        shards: Vec<u16>,
        now: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Pending>, Error>> + Send;

    /// Records what became of messages, in this order; several reports on one message are one write.
    ///
    /// A message moves forward only (pending, parked, done): one that is done stays so, whatever a
    /// late report says. On a file all reports are recorded or none; on a cluster those before an
    /// error may have been. Either way the same call may be made again.
    fn apply_reports(
        &self,
        reports: Vec<Report>,
    ) -> impl Future<Output = Result<Vec<Settled>, Error>> + Send;

    /// How much is waiting at `now`.
    fn backlog(&self, now: Timestamp) -> impl Future<Output = Result<Backlog, Error>> + Send;

    /// Until when nothing of the shard is left to do, as far as is known at `now`.
    fn watermark(
        &self,
        shard: u16,
        now: Timestamp,
    ) -> impl Future<Output = Result<Timestamp, Error>> + Send;

    /// Changes whenever this process may have staged something: what a relay in it waits on.
    /// Messages of other processes are found by asking from time to time.
    fn wakeups(&self) -> watch::Receiver<u64>;
}

/// What was recorded when a store was first used, and stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Names the store among all stores.
    pub store_id: Uuid,
    /// How many shards its messages are spread over.
    pub shards: u16,
}

/// A staged message that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// What was staged.
    pub message: Message,
    /// The shard it is in.
    pub shard: u16,
    /// Attempts so far.
    pub attempt_count: u32,
    /// When it was staged.
    pub created_at: Timestamp,
    /// When it became due.
    pub eligible_at: Timestamp,
}

/// What became of an attempt to publish a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The message.
    pub message_id: MessageId,
    /// When this was known.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, for whoever looks at the message later.
    pub reason: Option<String>,
}

impl Report {
    /// A report that gives no reason.
    pub fn new(message_id: MessageId, at: Timestamp, outcome: Outcome) -> Self {
        Report { message_id, at, outcome, reason: None }
    }
}

/// The outcomes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An attempt began; counts it and changes nothing else. May stand right before what became of
    /// it, in the same call.
    Started,
    /// Published: the message is done.
    Succeeded,
    /// Not to be published: the message is done.
    Skipped,
    /// The attempt failed; due again at `next_attempt_at`, or as before where absent. Holds its key.
    Failed {
        /// When to try again.
        next_attempt_at: Option<Timestamp>,
    },
    /// Not tried, to be tried later. Holds its key.
    RetryScheduled {
        /// When to try.
        next_attempt_at: Timestamp,
    },
    /// Given up: no longer due, kept for somebody to look at. Only a report that it is done moves it
    /// from there.
    Parked {
        /// What becomes of later messages with its ordering key.
        key: AfterParking,
    },
}

/// What becomes of the messages behind one that was parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterParking {
    /// They wait until the parked one is done.
    #[default]
    Stop,
    /// They go on without it.
    GoOn,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was recorded.
    Recorded,
    /// The message had been settled before; it stays as it was.
    AlreadySettled,
    /// There is no such message.
    NotFound,
}

/// How much is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Messages not yet settled or parked, those not yet due included.
    pub unpublished: u64,
    /// Age of the oldest one that is due; zero if none is.
    pub lag: Duration,
}
