//! What is done with events, and how that is settled.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use helenus_model::RecordedEvent;
use tokio_util::sync::CancellationToken;

use crate::contract::{Hold, Position, Settlement, SubscriptionError, Subscriptions};

/// What a handler fails with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An event and its place in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its place.
    pub position: Position,
    /// The event.
    pub event: Arc<RecordedEvent>,
}

/// Does something with events.
pub trait Effect: Send + Sync + 'static {
    /// Handles the deliveries of `work` in their order, up to the first that fails, and settles
    /// those that did not: either both or, after a crash, the handling again.
    fn carry_out(
        &self,
        hold: &Hold,
        work: Work,
    ) -> impl Future<Output = Result<Carried, SubscriptionError>> + Send;
}

/// Events of one lane that are to be handled.
#[derive(Clone, Debug)]
pub struct Work {
    /// The events, at least one.
    pub deliveries: Vec<Delivery>,
    /// Where they come from.
    pub task: Task,
    /// Ends the work after the event at hand.
    pub stop: CancellationToken,
}

/// Where work comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The feed.
    Ahead {
        /// Where the lane's checkpoint is.
        from: Position,
        /// Where it will be once everything is handled.
        through: Position,
    },
    /// One event that was parked.
    Replay,
}

impl Work {
    /// What there is to settle once the first `done` events are handled.
    pub fn settlement(&self, done: usize) -> Option<Settlement> {
        let last = self.deliveries.get(done.checked_sub(1)?)?;
        Some(match &self.task {
            Task::Replay => Settlement::Replayed { position: last.position.clone() },
            Task::Ahead { from, through } => {
                let is_all = done == self.deliveries.len();
                let to = if is_all { through } else { &last.position };
                Settlement::Ahead { from: from.clone(), to: to.clone() }
            }
        })
    }
}

/// What came of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Events handled and settled, from the first on.
    pub done: usize,
    /// What the handler of the next one said, if it failed.
    pub failed: Option<String>,
}

/// Calls a handler for each event, then moves the checkpoint: at least once. A crash between the two
/// repeats the events since the last checkpoint, so a handler must bear that.
pub struct Each<S, F> {
    store: S,
    handler: F,
}

impl<S, F> Each<S, F> {
    /// Calls `handler`, settles in `store`.
    pub fn new(store: S, handler: F) -> Self {
        Each { store, handler }
    }
}

impl<S, F> fmt::Debug for Each<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Each").finish_non_exhaustive()
    }
}

impl<S, F, R> Effect for Each<S, F>
where
    S: Subscriptions + 'static,
    F: Fn(Delivery) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send,
{
    async fn carry_out(&self, hold: &Hold, work: Work) -> Result<Carried, SubscriptionError> {
        let mut carried = Carried::default();
        for delivery in &work.deliveries {
            let handling = AssertUnwindSafe(async { (self.handler)(delivery.clone()).await });
            let handled = handling.catch_unwind().await;
            match handled {
                Ok(Ok(())) => carried.done += 1,
                Ok(Err(error)) => carried.failed = Some(told(&*error)),
                Err(_) => carried.failed = Some("the handler panicked".to_owned()),
            }
            if carried.failed.is_some() || work.stop.is_cancelled() {
                break;
            }
        }
        if let Some(settlement) = work.settlement(carried.done) {
            self.store.settle(hold, settlement).await?;
        }
        Ok(carried)
    }
}

/// Bytes of a handler's words that are kept.
const TOLD_BYTES_MAX: usize = 2_000;

/// An error with its causes, on one line that is not too long to keep.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = helenus_model::told(error);
    if text.len() > TOLD_BYTES_MAX {
        text = text.chars().take(TOLD_BYTES_MAX / 4).chain(['…']).collect();
    }
    text
}
