//! Mark and sweep: what was marked as done long enough ago goes, in bounded steps.

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_model::limits::REQUESTS_MAX;

use super::Messages;
use super::read::{read_holds, release_hold};
use super::rows::StateRow;
use crate::cassandra::classify::page_error;
use crate::cassandra::conditional::write;
use crate::cassandra::read::row_error;
use crate::cassandra::{CassandraStore, Error};
use crate::contract::{Sweep, Swept};

pub(super) async fn sweep(store: &CassandraStore, sweep: Sweep) -> Result<Swept, Error> {
    let (messages, ports) = (store.messages().await?, &store.ports);
    // Receipts expire by themselves here; time buckets do too, but what was published of them need not
    // wait for that.
    let Sweep { done_before, limit, dry_run, .. } = sweep;
    let buckets = Box::pin(store.drop_buckets(done_before, limit, dry_run)).await?;
    let mut swept = Swept { buckets, ..Swept::default() };
    let old = done(messages, sweep).await?;
    swept.messages = u64::try_from(old.len()).unwrap_or(u64::MAX);
    if !sweep.dry_run {
        let work = old.into_iter().map(|row| async move {
            let values = (row.write_time(ports.clock.now()), row.message_id.as_str());
            let statement = &messages.upkeep.delete_message;
            write(&messages.session, "sweep a message", statement, values).await
        });
        stream::iter(work).buffer_unordered(REQUESTS_MAX).try_collect::<Vec<()>>().await?;
    }
    for shard in 0..messages.shards() {
        for hold in read_holds(messages, shard).await? {
            let row = match hold.message_id.as_deref() {
                Some(id) => messages.state(id).await?,
                None => None,
            };
            if row.is_some_and(|row| !row.is_ghost() && row.holds()) {
                continue;
            }
            swept.holds += 1;
            if !sweep.dry_run {
                release_hold(messages, shard, &hold).await?;
            }
        }
    }
    Ok(swept)
}

/// Messages that were done or cancelled long enough ago.
async fn done(messages: &Messages, sweep: Sweep) -> Result<Vec<StateRow>, Error> {
    let pager = messages.session.execute_iter(messages.upkeep.states.clone(), ());
    let rows = Box::pin(pager).await.map_err(page_error)?.rows_stream::<StateRow>();
    let mut rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
    let mut old = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(row_error)? {
        let is_old = row.ended_ms().is_some_and(|ended| ended < sweep.done_before.as_millis());
        if is_old {
            old.push(row);
        }
        if old.len() >= sweep.limit {
            break;
        }
    }
    Ok(old)
}
