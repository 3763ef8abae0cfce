//! Another number of shards: holds first, then the rows that find messages, then the old holds.

use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use helenus_model::{MessageId, Timestamp};

use super::Messages;
use super::read::{Found, candidates, read_holds, rehome, release_hold, truth};
use crate::cassandra::conditional::{Cas, send, write};
use crate::cassandra::read::row_error;
use crate::cassandra::{CassandraStore, Error};
use crate::contract;
use crate::lanes::Lanes;
use crate::shard::{shard, token};

/// Moves everything to where it belongs, while no relay publishes.
pub(super) async fn reshard(
    store: &CassandraStore,
    lanes: &Lanes,
    shards: u16,
) -> Result<u64, contract::Error> {
    let (messages, ports) = (store.messages().await?, &store.ports);
    let before = messages.shards();
    record(messages, before, shards).await?;
    messages.shards.store(shards, Ordering::Relaxed);
    messages.memory.clear();
    let mut moved = 0;
    let mut released = Vec::new();
    for old in 0..before.max(shards) {
        for hold in read_holds(messages, old).await? {
            // A hold is of a key, so the id takes no part in its shard.
            let id = MessageId::new(hold.message_id.as_deref().unwrap_or("-"));
            let id = id.map_err(|error| Error::corrupt(error.to_string()))?;
            let new = shard(token(Some(&hold.ordering_key), &id), shards);
            if new == old {
                continue;
            }
            let written = hold.id_written.unwrap_or(i64::MIN);
            let key = hold.ordering_key.as_str();
            let values =
                (i32::from(new), key, hold.staged_seq, &hold.message_id, hold.until_utc, written);
            write(&messages.session, "hold a key", &messages.statements.hold, values).await?;
            released.push((old, hold));
        }
    }
    for old in 0..before.max(shards) {
        lanes.keep(store).await?;
        let mut rows =
            candidates(messages, old, Timestamp::EPOCH, Timestamp::from_micros(i64::MAX)).await?;
        while let Some(row) = rows.next().await {
            let candidate = row.map_err(row_error)?;
            if let Found::Misplaced = truth(messages, old, &candidate).await? {
                rehome(messages, ports, old, &candidate).await?;
                moved += 1;
            }
        }
    }
    for (old, hold) in released {
        release_hold(messages, old, &hold).await?;
    }
    Ok(moved)
}

/// Records the number, unless somebody has recorded another one meanwhile.
async fn record(messages: &Messages, before: u16, shards: u16) -> Result<(), Error> {
    let values = (shards.to_string(), before.to_string());
    let statement = &messages.upkeep.set_shards;
    match send(&messages.session, "record the shards", statement, values).await? {
        Cas::Applied => Ok(()),
        Cas::Refused(row) => match row.text("value").and_then(|value| value.parse().ok()) {
            Some(recorded) if recorded == shards => Ok(()),
            Some(recorded) => Err(Error::Shards { recorded, configured: before }),
            None => Err(Error::corrupt("setting shards has no value")),
        },
    }
}
