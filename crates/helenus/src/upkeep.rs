//! Looking after the outbox, on whichever backend the URL named.

use std::time::Duration;

use futures_util::Stream;
#[cfg(feature = "cassandra")]
use futures_util::StreamExt;
use helenus_store::contract::{
    Error, MessageState, Reconciled, StagedMessage, Sweep, Swept, Upkeep,
};

use crate::Store;
use crate::open::Backend;

impl Upkeep for Store {
    fn messages(
        &self,
        state: MessageState,
    ) -> impl Stream<Item = Result<StagedMessage, Error>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.messages(state),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.messages(state).left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => Upkeep::messages(store, state).right_stream(),
        }
    }

    async fn sweep(&self, sweep: Sweep) -> Result<Swept, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.sweep(sweep).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.sweep(sweep).await,
        }
    }

    async fn reconcile(&self, dry_run: bool) -> Result<Reconciled, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.reconcile(dry_run).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.reconcile(dry_run).await,
        }
    }

    async fn scan(&self, dry_run: bool) -> Result<Reconciled, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.scan(dry_run).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.scan(dry_run).await,
        }
    }

    async fn extend_ttl(&self, by: Duration) -> Result<u64, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.extend_ttl(by).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.extend_ttl(by).await,
        }
    }

    async fn reshard(&self, shards: u16) -> Result<u64, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.reshard(shards).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.reshard(shards).await,
        }
    }
}
