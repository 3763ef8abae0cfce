//! Events into tables, with the checkpoint, in one transaction: once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use helenus_model::{Failure, Kind};
use helenus_sqlite::{Engine, Error};
use rusqlite::Connection;

use super::{Output, Projection};
use crate::contract::{Hold, SubscriptionError};
use crate::sqlite::subscriptions::{lanes, sequence};
use crate::subscription::{BoxError, Carried, Delivery, Effect, Work, told};

/// Applies events to the tables of one generation.
pub(super) struct Apply<P> {
    pub(super) engine: Engine,
    pub(super) projection: Arc<P>,
    pub(super) generation: i64,
}

impl<P: Projection> Effect for Apply<P> {
    async fn carry_out(&self, hold: &Hold, work: Work) -> Result<Carried, SubscriptionError> {
        let work = Arc::new(work);
        let mut carried = Carried { done: work.deliveries.len(), failed: None };
        // One that fails undoes those before it, so they are applied again without it.
        while carried.done > 0 {
            match self.apply(hold, &work, carried.done).await {
                Ok(()) => break,
                Err(Stopped::At { index, error }) => {
                    carried = Carried { done: index, failed: Some(error) };
                }
                Err(Stopped::Refused(error)) => return Err(error),
            }
        }
        Ok(carried)
    }
}

impl<P: Projection> Apply<P> {
    /// Applies and settles the first `count` deliveries, or none.
    async fn apply(&self, hold: &Hold, work: &Arc<Work>, count: usize) -> Result<(), Stopped> {
        let (hold, work) = (hold.clone(), Arc::clone(work));
        let (projection, generation) = (Arc::clone(&self.projection), self.generation);
        let applied = self.engine.write(move |db| -> Result<(), Stopped> {
            // First, so that whoever has lost the lane does nothing, and so that the writer knows
            // that there is something to undo even if the projection has only changed the schema.
            if let Some(settlement) = work.settlement(count) {
                lanes::settle(db, &hold, &settlement)?;
            }
            for (index, delivery) in work.deliveries.iter().take(count).enumerate() {
                apply(db, &*projection, generation, delivery)
                    .map_err(|stopped| stopped.at(index))?;
            }
            Ok(())
        });
        applied.await
    }
}

/// Applies one event.
pub(super) fn apply<P: Projection>(
    db: &Connection,
    projection: &P,
    generation: i64,
    delivery: &Delivery,
) -> Result<(), Stopped> {
    let position = sequence(&delivery.position)?;
    let output = Output { db, generation, position };
    let applied = catch_unwind(AssertUnwindSafe(|| projection.apply(&output, &delivery.event)));
    match applied {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Stopped::by(error)),
        Err(_) => Err(Stopped::At { index: 0, error: "the projection panicked".to_owned() }),
    }
}

/// Why applying stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The projection cannot apply an event.
    At { index: usize, error: String },
    /// The store does not let it.
    Refused(SubscriptionError),
}

impl Stopped {
    /// A full disk is not the event's fault.
    fn by(error: BoxError) -> Self {
        match error.downcast_ref::<rusqlite::Error>().map(Error::from_sqlite) {
            Some(error) if error.kind() != Kind::Fatal => Stopped::Refused(error.into()),
            _ => Stopped::At { index: 0, error: told(&*error) },
        }
    }

    fn at(self, index: usize) -> Self {
        match self {
            Stopped::At { error, .. } => Stopped::At { index, error },
            refused => refused,
        }
    }
}

impl From<SubscriptionError> for Stopped {
    fn from(error: SubscriptionError) -> Self {
        Stopped::Refused(error)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Refused(error.into())
    }
}
