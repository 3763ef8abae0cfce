//! Publishing everything that is due.

use std::borrow::Cow;

use helenus_broker::contract::{self as broker, Broker};
use helenus_model::{Clock, Failure, Kind};
use helenus_store::contract::{self as store, Dispatch, Outcome, Report};

use crate::record;

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Messages published and settled.
    pub published: u64,
}

/// Where draining stopped. What had been published and settled before stays so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// Due messages could not be read, or outcomes not be recorded.
    #[error("the outbox failed")]
    Store(#[from] store::Error),
    /// Messages could not be published; they stay pending.
    #[error("the broker failed")]
    Broker(#[from] broker::Error),
}

impl Failure for DrainError {
    fn kind(&self) -> Kind {
        match self {
            DrainError::Store(error) => error.kind(),
            DrainError::Broker(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            DrainError::Store(error) => error.code(),
            DrainError::Broker(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            DrainError::Store(error) => error.applied(),
            DrainError::Broker(error) => error.applied(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            DrainError::Store(error) => error.remedy(),
            DrainError::Broker(error) => error.remedy(),
        }
    }
}

/// Publishes what is due, `batch` messages at a time, until nothing is.
///
/// Topics must exist. Each batch is published whole, then settled: a crash between the two
/// publishes it again, never loses it.
pub async fn drain(
    outbox: &impl Dispatch,
    broker: &impl Broker,
    clock: &dyn Clock,
    batch: usize,
) -> Result<Drained, DrainError> {
    let mut drained = Drained::default();
    loop {
        let due = outbox.read_pending(clock.now(), batch).await?;
        if due.is_empty() {
            return Ok(drained);
        }
        broker.publish(due.iter().map(|pending| record(&pending.message)).collect()).await?;
        let at = clock.now();
        let succeeded = |pending: &store::Pending| {
            Report::new(pending.message.message_id.clone(), at, Outcome::Succeeded)
        };
        outbox.apply_reports(due.iter().map(succeeded).collect()).await?;
        drained.published += due.len() as u64;
        tracing::debug!(count = due.len(), "published");
    }
}
