//! Subscriptions and projections, where the backend has a feed.

use std::time::Duration;

use helenus_store::contract::{
    Error, Hold, LaneState, NewSubscription, Parked, Parking, Position, Settlement,
    SubscriptionError, SubscriptionName, SubscriptionStatus, Subscriptions, Which,
};
use helenus_store::sqlite::{Projection, Projector, SqliteStore};

use crate::Store;
use crate::open::Backend;

impl Store {
    /// Runs a projection on the store's file; a cluster has no feed yet.
    pub fn projector<P: Projection>(&self, projection: P) -> Result<Projector<P>, Error> {
        Ok(Projector::new(self.with_feed()?.clone(), projection))
    }

    /// The backend, if events of all streams can be read from it in one order.
    fn with_feed(&self) -> Result<&SqliteStore, Error> {
        match &self.backend {
            Backend::Sqlite(store) => Ok(store),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(_) => Err(super::not_yet("feed of all events")),
        }
    }
}

impl Subscriptions for Store {
    async fn subscribe(&self, new: NewSubscription) -> Result<(), SubscriptionError> {
        self.with_feed()?.subscribe(new).await
    }

    async fn unsubscribe(&self, name: &SubscriptionName) -> Result<bool, SubscriptionError> {
        self.with_feed()?.unsubscribe(name).await
    }

    async fn subscriptions(&self) -> Result<Vec<SubscriptionStatus>, Error> {
        self.with_feed()?.subscriptions().await
    }

    async fn subscription(
        &self,
        name: &SubscriptionName,
    ) -> Result<SubscriptionStatus, SubscriptionError> {
        self.with_feed()?.subscription(name).await
    }

    async fn slowest(&self) -> Result<Option<(SubscriptionName, Position)>, Error> {
        self.with_feed()?.slowest().await
    }

    async fn join(
        &self,
        name: &SubscriptionName,
        consumer: &str,
        ttl: Duration,
    ) -> Result<u32, SubscriptionError> {
        self.with_feed()?.join(name, consumer, ttl).await
    }

    async fn leave(&self, name: &SubscriptionName, consumer: &str) -> Result<(), Error> {
        self.with_feed()?.leave(name, consumer).await
    }

    async fn lane(&self, hold: &Hold) -> Result<LaneState, SubscriptionError> {
        self.with_feed()?.lane(hold).await
    }

    async fn settle(&self, hold: &Hold, settlement: Settlement) -> Result<(), SubscriptionError> {
        self.with_feed()?.settle(hold, settlement).await
    }

    async fn fail(
        &self,
        hold: &Hold,
        replayed: Option<&Position>,
        error: &str,
    ) -> Result<u32, SubscriptionError> {
        self.with_feed()?.fail(hold, replayed, error).await
    }

    async fn park(&self, hold: &Hold, parking: Parking) -> Result<bool, SubscriptionError> {
        self.with_feed()?.park(hold, parking).await
    }

    async fn replays(&self, hold: &Hold, limit: usize) -> Result<Vec<Parked>, SubscriptionError> {
        self.with_feed()?.replays(hold, limit).await
    }

    async fn park_again(
        &self,
        hold: &Hold,
        position: &Position,
        error: &str,
    ) -> Result<(), SubscriptionError> {
        self.with_feed()?.park_again(hold, position, error).await
    }

    async fn parked(
        &self,
        name: &SubscriptionName,
        limit: usize,
    ) -> Result<Vec<Parked>, SubscriptionError> {
        self.with_feed()?.parked(name, limit).await
    }

    async fn replay(
        &self,
        name: &SubscriptionName,
        which: Which,
    ) -> Result<u64, SubscriptionError> {
        self.with_feed()?.replay(name, which).await
    }

    async fn discard(
        &self,
        name: &SubscriptionName,
        which: Which,
    ) -> Result<u64, SubscriptionError> {
        self.with_feed()?.discard(name, which).await
    }
}
