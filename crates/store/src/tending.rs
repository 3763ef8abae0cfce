//! Looking after an outbox in the background.

use std::time::Duration;

use crate::contract::{Error, Reconciled, Upkeep};

/// Reconciles at once and then `every` so often, for ever; dropping the future ends it, and what was
/// under way is found by the next one. `report` hears of every round.
pub async fn keep_reconciled(
    store: &impl Upkeep,
    every: Duration,
    mut report: impl FnMut(Result<Reconciled, Error>),
) {
    loop {
        report(store.reconcile(false).await);
        tokio::time::sleep(every).await;
    }
}
