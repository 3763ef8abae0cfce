//! A store and a broker that fail at one step, before it or after it: what a crash at that step is to
//! everybody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use helenus_broker::contract::{
    self as broker, Bounds, Broker, NewRecord, Offset, Position, Publisher, Record, Refusal, Topic,
    Transaction,
};
use helenus_model::{BackendError, Failure, Kind, Timestamp};
use helenus_store::contract::{
    Acquired, Backlog, Dispatch, Error, Identity, Lease, Leases, Pending, Report, Settled,
};
use tokio::sync::watch;

/// Counts steps down to the one that fails; from then on nothing works any more.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    steps_left: Arc<AtomicI64>,
    after: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the process was killed here")]
struct Killed;

impl Failure for Killed {
    fn kind(&self) -> Kind {
        Kind::OutcomeUnknown
    }

    fn code(&self) -> &'static str {
        "killed"
    }
}

impl Fault {
    /// At step number `step`, counted from 0: `after` it has taken effect, or before.
    pub(crate) fn at(step: i64, after: bool) -> Self {
        Fault { steps_left: Arc::new(AtomicI64::new(step)), after }
    }

    pub(crate) fn struck(&self) -> bool {
        self.steps_left.load(Ordering::SeqCst) < 0
    }

    async fn around<T, E: From<BackendError>>(
        &self,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let left = self.steps_left.fetch_sub(1, Ordering::SeqCst);
        if left < 0 || (left == 0 && !self.after) {
            return Err(BackendError::new(Killed).into());
        }
        let done = step.await?;
        if left == 0 {
            return Err(BackendError::new(Killed).into());
        }
        Ok(done)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Faulty<T> {
    pub(crate) inner: T,
    pub(crate) fault: Fault,
}

impl<S: Dispatch> Dispatch for Faulty<S> {
    async fn identity(&self) -> Result<Identity, Error> {
        self.fault.around(self.inner.identity()).await
    }

    async fn read_pending(&self, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        self.fault.around(self.inner.read_pending(now, limit)).await
    }

    async fn read_shards(
        &self,
        shards: Vec<u16>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Pending>, Error> {
        self.fault.around(self.inner.read_shards(shards, now, limit)).await
    }

    async fn apply_reports(&self, reports: Vec<Report>) -> Result<Vec<Settled>, Error> {
        self.fault.around(self.inner.apply_reports(reports)).await
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, Error> {
        self.inner.backlog(now).await
    }

    async fn watermark(&self, shard: u16, now: Timestamp) -> Result<Timestamp, Error> {
        self.inner.watermark(shard, now).await
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        self.inner.wakeups()
    }
}

impl<S: Leases> Leases for Faulty<S> {
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Acquired, Error> {
        self.fault.around(self.inner.acquire(name, owner, ttl)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, Error> {
        self.fault.around(self.inner.renew(lease, ttl)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), Error> {
        self.fault.around(self.inner.release(lease)).await
    }

    async fn holder(&self, name: &str) -> Result<Option<Lease>, Error> {
        self.fault.around(self.inner.holder(name)).await
    }
}

impl<P: Publisher> Publisher for Faulty<P> {
    async fn publish(&mut self, transaction: Transaction) -> Result<(), broker::Error> {
        self.fault.around(self.inner.publish(transaction)).await
    }

    async fn finish(self) -> Result<(), broker::Error> {
        self.fault.around(self.inner.finish()).await
    }
}

impl<B: Broker> Broker for Faulty<B> {
    type Publisher = Faulty<B::Publisher>;

    async fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), broker::Error> {
        self.fault.around(self.inner.create_topic(topic, partitions)).await
    }

    async fn create_compacted_topic(
        &self,
        topic: &str,
        partitions: u32,
    ) -> Result<(), broker::Error> {
        self.fault.around(self.inner.create_compacted_topic(topic, partitions)).await
    }

    async fn topics(&self) -> Result<Vec<Topic>, broker::Error> {
        self.fault.around(self.inner.topics()).await
    }

    async fn bounds(&self, topic: &str) -> Result<Vec<Bounds>, broker::Error> {
        self.fault.around(self.inner.bounds(topic)).await
    }

    async fn refusals(&self, records: &[NewRecord]) -> Result<Vec<Refusal>, broker::Error> {
        self.fault.around(self.inner.refusals(records)).await
    }

    async fn publish(&self, records: &[NewRecord]) -> Result<Vec<Position>, broker::Error> {
        self.fault.around(self.inner.publish(records)).await
    }

    async fn publisher(&self, name: &str) -> Result<Self::Publisher, broker::Error> {
        let inner = self.fault.around(self.inner.publisher(name)).await?;
        Ok(Faulty { inner, fault: self.fault.clone() })
    }

    async fn read(&self, from: Position, limit: usize) -> Result<Vec<Record>, broker::Error> {
        self.inner.read(from, limit).await
    }

    async fn last(&self, topic: &str, partition: u32) -> Result<Option<Record>, broker::Error> {
        self.fault.around(self.inner.last(topic, partition)).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Offset>, broker::Error> {
        self.inner.committed(group, topic, partition).await
    }

    async fn commit(&self, group: &str, next: Position) -> Result<(), broker::Error> {
        self.inner.commit(group, next).await
    }
}
