//! What an operator wants to know of a store's relays.

use helenus_model::Timestamp;
use helenus_store::contract::{Dispatch, Error, Leases};
use helenus_store::lanes::lease_name;
use serde::Serialize;

use crate::Options;

/// How far publishing is behind, and who does it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Age of the oldest message that is due.
    pub lag_ms: u64,
    /// Messages neither published nor parked.
    pub unpublished: u64,
    /// Each shard.
    pub shards: Vec<ShardStatus>,
}

/// A shard of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardStatus {
    /// Its number.
    pub shard: u16,
    /// The relay that publishes it, if one holds its lease.
    pub owner: Option<String>,
    /// The how-manieth taking of the lease this is.
    pub epoch: Option<i64>,
    /// Until when nothing of it is left to do.
    pub watermark: Timestamp,
}

/// Asks the store. A lease whose time is over is nobody's.
pub async fn status<S: Dispatch + Leases>(
    store: &S,
    options: &Options,
    now: Timestamp,
) -> Result<Status, Error> {
    let shards = store.identity().await?.shards;
    let lanes = options.lanes_of(shards);
    let mut leases = Vec::new();
    for lane in 0..lanes {
        let held = store.holder(&lease_name(lane)).await?;
        leases.push(held.filter(|lease| lease.expires_at > now));
    }
    let backlog = store.backlog(now).await?;
    let mut shown = Vec::new();
    for shard in 0..shards {
        let lease = leases.get(usize::from(shard % lanes)).and_then(Option::as_ref);
        shown.push(ShardStatus {
            shard,
            owner: lease.map(|lease| lease.owner.clone()),
            epoch: lease.map(|lease| lease.epoch),
            watermark: store.watermark(shard, now).await?,
        });
    }
    let lag_ms = u64::try_from(backlog.lag.as_millis()).unwrap_or(u64::MAX);
    Ok(Status { lag_ms, unpublished: backlog.unpublished, shards: shown })
}
