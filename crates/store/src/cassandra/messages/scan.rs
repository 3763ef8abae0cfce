//! Looking for what no row of the index tells of: the whole store is read, a part of the ring after the
//! other. Costs what is stored, so it is for operators who have a reason to.

use futures_util::TryStreamExt;
use helenus_model::Timestamp;
use scylla::value::CqlTimestamp;

use super::Messages;
use super::fold::Change;
use super::reconcile::reconcile;
use super::report::put_again;
use super::rows::{Standing, StateRow, from_time};
use crate::cassandra::classify::page_error;
use crate::cassandra::conditional::select;
use crate::cassandra::read::row_error;
use crate::cassandra::{CassandraStore, Error};
use crate::contract::Reconciled;

/// Parts of the ring that are read one after the other: no request walks over more.
const PARTS: i128 = 64;

/// Everything that a reconciliation does, then what only a look at everything finds.
pub(super) async fn scan(store: &CassandraStore, dry_run: bool) -> Result<Reconciled, Error> {
    let messages = store.messages().await?;
    let mut report = Box::pin(reconcile(store, dry_run)).await?;
    let mut found = unindexed(store, messages, dry_run).await?;
    for (table, key) in store.entity_outboxes().await? {
        for part in parts() {
            found += Box::pin(store.promote_part(&table, &key, part, dry_run)).await?;
        }
    }
    let (keep, _) = store.bucket_options();
    found += Box::pin(store.promote_buckets(keep, dry_run)).await?;
    report.examined += found;
    report.completed += found;
    Ok(report)
}

/// Puts messages into the index that are pending and not in it; gives how many.
async fn unindexed(
    store: &CassandraStore,
    messages: &Messages,
    dry_run: bool,
) -> Result<u64, Error> {
    let mut found = 0;
    for part in parts() {
        let statement = messages.upkeep.states_between.clone();
        let pager = Box::pin(messages.session.execute_iter(statement, part)).await;
        let rows = pager.map_err(page_error)?.rows_stream::<StateRow>();
        let mut rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
        while let Some(row) = rows.try_next().await.map_err(row_error)? {
            if row.is_ghost() || row.standing() != Standing::Pending {
                continue;
            }
            let (Some(due), shard) = (row.next_attempt_at_utc, row.shard(messages.shards())?)
            else {
                continue;
            };
            if is_indexed(messages, shard, due, &row.message_id).await? {
                continue;
            }
            // It may have been put off or done since the row was read.
            let still = messages.state(&row.message_id).await?;
            let Some(row) = still.filter(|now| {
                now.standing() == Standing::Pending && now.next_attempt_at_utc == Some(due)
            }) else {
                continue;
            };
            found += 1;
            if !dry_run {
                let due: Timestamp = from_time(due);
                let now = store.ports.clock.now();
                put_again(messages, &row, &Change::default(), due, now).await?;
                messages.memory.lower(shard, due);
            }
        }
    }
    Ok(found)
}

async fn is_indexed(
    messages: &Messages,
    shard: u16,
    due: CqlTimestamp,
    message_id: &str,
) -> Result<bool, Error> {
    let values = (i32::from(shard), due, message_id);
    let rows = select(&messages.session, &messages.upkeep.begun, values).await?;
    Ok(rows.rows_num() > 0)
}

/// The ring in parts: after one token, until another.
fn parts() -> impl Iterator<Item = (i64, i64)> {
    let (least, whole) = (i128::from(i64::MIN), 1_i128 << 64);
    let bound = move |part: i128| i64::try_from(least + whole / PARTS * part).unwrap_or(i64::MAX);
    (0..PARTS).map(move |part| (bound(part), bound(part + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole_ring() {
        let parts: Vec<_> = parts().collect();
        assert_eq!((parts[0].0, parts[parts.len() - 1].1), (i64::MIN, i64::MAX));
        assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].0 < pair[0].1));
    }
}
