//! The dispatch store's contract, kept by the modules beside this one.

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_model::Timestamp;
use helenus_model::limits::DISPATCH_BATCH_MAX;
use tokio::sync::watch;

use super::{read, report, watermark};
use crate::cassandra::CassandraStore;
use crate::contract::{Backlog, Dispatch, Error, Identity, Pending, Report, Settled};

/// Shards that are asked at the same time.
const SHARDS_AT_ONCE: usize = 16;

impl Dispatch for CassandraStore {
    async fn identity(&self) -> Result<Identity, Error> {
        Ok(self.messages().await?.look_at_identity().await?)
    }

    async fn read_pending(&self, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        let shards = (0..self.messages().await?.shards()).collect();
        Ok(due(self, shards, now, limit.min(DISPATCH_BATCH_MAX), usize::MAX).await?)
    }

    async fn read_shards(
        &self,
        shards: Vec<u16>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Pending>, Error> {
        let limit = limit.min(DISPATCH_BATCH_MAX);
        // Every message found costs a look at what is true of it, also if it is not given in the end.
        let part = limit.div_ceil(shards.len().max(1));
        Ok(due(self, shards, now, limit, part).await?)
    }

    async fn apply_reports(&self, reports: Vec<Report>) -> Result<Vec<Settled>, Error> {
        let messages = self.messages().await?;
        Ok(Box::pin(report::apply(messages, &self.ports, &reports)).await?)
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, Error> {
        let messages = self.messages().await?;
        let work = (0..messages.shards()).map(|shard| Box::pin(read::count(messages, shard, now)));
        let counted: Vec<_> = stream::iter(work).buffered(SHARDS_AT_ONCE).try_collect().await?;
        let unpublished = counted.iter().map(|(count, _)| count).sum();
        let oldest = counted.iter().filter_map(|(_, first)| *first).min();
        Ok(Backlog { unpublished, lag: oldest.map(|oldest| now.since(oldest)).unwrap_or_default() })
    }

    async fn watermark(&self, shard: u16, now: Timestamp) -> Result<Timestamp, Error> {
        let messages = self.messages().await?;
        let known = watermark::known(messages, shard).await?;
        Ok(known.unwrap_or(Timestamp::EPOCH).min(now))
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        self.woken().subscribe()
    }
}

/// What is due in some shards, at most `limit` and of each at most `part`.
async fn due(
    store: &CassandraStore,
    shards: Vec<u16>,
    now: Timestamp,
    limit: usize,
    part: usize,
) -> Result<Vec<Pending>, crate::cassandra::Error> {
    let messages = store.messages().await?;
    let each = limit.min(part);
    let work = shards
        .into_iter()
        .map(|shard| Box::pin(read::shard(messages, &store.ports, shard, now, each)));
    let found: Vec<Vec<_>> = stream::iter(work).buffered(SHARDS_AT_ONCE).try_collect().await?;
    let mut due: Vec<_> = found.into_iter().flatten().collect();
    due.sort_by_key(|(pending, seq)| (pending.eligible_at, *seq));
    due.truncate(limit);
    Ok(due.into_iter().map(|(pending, _)| pending).collect())
}
