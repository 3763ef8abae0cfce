//! Finding staged messages and settling what became of them.

use std::future::Future;
use std::time::Duration;

use helenus_model::{Message, MessageId, Timestamp};

use super::Error;

/// The relay's side of the outbox.
///
/// Reading claims nothing: two readers see the same messages. Who may publish is settled by leases.
pub trait Dispatch: Send + Sync {
    /// Messages that are due at `now`, oldest first and in staging order where times are equal; at
    /// most `limit` and never more than `limits::DISPATCH_BATCH_MAX`.
    fn read_pending(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Pending>, Error>> + Send;

    /// Records what became of messages, all of them or none. A message moves forward only: one
    /// that is settled stays so, whatever a late report says.
    fn apply_reports(
        &self,
        reports: Vec<Report>,
    ) -> impl Future<Output = Result<Vec<Settled>, Error>> + Send;

    /// How much is waiting at `now`.
    fn backlog(&self, now: Timestamp) -> impl Future<Output = Result<Backlog, Error>> + Send;
}

/// A staged message that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// What was staged.
    pub message: Message,
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
}

/// The outcomes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An attempt began; counts it and changes nothing else.
    Started,
    /// Published: the message is done.
    Succeeded,
    /// Not to be published: the message is done.
    Skipped,
    /// The attempt failed; due again at `next_attempt_at`, or as before where absent.
    Failed {
        /// When to try again.
        next_attempt_at: Option<Timestamp>,
    },
    /// Not tried, to be tried later.
    RetryScheduled {
        /// When to try.
        next_attempt_at: Timestamp,
    },
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
    /// Messages not yet settled, those not yet due included.
    pub unpublished: u64,
    /// Age of the oldest one that is due; zero if none is.
    pub lag: Duration,
}
