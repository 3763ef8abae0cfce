//! Snapshots and retention, kept by whichever backend the URL named.

use std::num::NonZeroU32;

use futures_util::Stream;
#[cfg(feature = "cassandra")]
use futures_util::StreamExt;
use helenus_model::{StreamId, Version};
use helenus_store::contract::{
    Error, Extent, NewSnapshot, Retention, Retire, RetireError, RetirePlan, RetireStep, Saved,
    Snapshot, SnapshotError, SnapshotInfo, Snapshots,
};

use crate::Store;
use crate::open::Backend;

impl Snapshots for Store {
    async fn save_snapshot(&self, snapshot: NewSnapshot) -> Result<Saved, SnapshotError> {
        match &self.backend {
            Backend::Sqlite(store) => store.save_snapshot(snapshot).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.save_snapshot(snapshot).await,
        }
    }

    async fn load_snapshot(
        &self,
        stream_id: &StreamId,
        at_most: Option<Version>,
    ) -> Result<Option<Snapshot>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.load_snapshot(stream_id, at_most).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.load_snapshot(stream_id, at_most).await,
        }
    }

    fn snapshots(
        &self,
        stream_id: &StreamId,
    ) -> impl Stream<Item = Result<SnapshotInfo, Error>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.snapshots(stream_id),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.snapshots(stream_id).left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.snapshots(stream_id).right_stream(),
        }
    }

    async fn prune_snapshots(&self, stream_id: &StreamId, keep: NonZeroU32) -> Result<u64, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.prune_snapshots(stream_id, keep).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.prune_snapshots(stream_id, keep).await,
        }
    }
}

impl Retention for Store {
    async fn extent(&self, stream_id: &StreamId) -> Result<Option<Extent>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.extent(stream_id).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.extent(stream_id).await,
        }
    }

    async fn plan(&self, retire: &Retire) -> Result<RetirePlan, RetireError> {
        match &self.backend {
            Backend::Sqlite(store) => store.plan(retire).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.plan(retire).await,
        }
    }

    fn retire(
        &self,
        retire: Retire,
    ) -> impl Stream<Item = Result<RetireStep, RetireError>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.retire(retire),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.retire(retire).left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.retire(retire).right_stream(),
        }
    }
}
