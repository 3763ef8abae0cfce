//! Readers of the feed that keep their place in the store and share the work.

mod error;
mod lane;
mod parked;
mod status;

use std::future::Future;
use std::time::Duration;

use super::{Error, Leases, Position};
pub use error::SubscriptionError;
pub use lane::{
    Hold, InvalidName, LaneState, Parking, Reason, Settlement, SubscriptionName, lane_of,
};
pub use parked::{Parked, Which};
pub use status::{Generation, LaneStatus, SubscriptionStatus};

/// Keeps named subscriptions: how far each has come, who works on it, and which events it could not
/// handle.
///
/// A subscription has lanes. Every stream belongs to one of them, by the hash of its id, and a lane
/// belongs to whoever holds its lease; so consumers share the work and each stream keeps its order.
///
/// **Promises of every backend**
/// - Whatever changes a lane (its checkpoint, a failure, a parked event) is written on the condition
///   that the caller's epoch is still the lane's, in the same atomic step. An owner that was paused
///   and comes back can move a checkpoint neither back nor forward.
/// - A checkpoint moves from where its owner believes it to be, or not at all: a write whose answer
///   was lost may be repeated, and takes effect once.
/// - An event is handled, parked or still ahead of the checkpoint, at every moment.
///
/// [`Consumer`](crate::subscription::Consumer) does the work; this is what it stands on.
///
/// ```
/// use helenus_store::contract::{NewSubscription, Subscriptions};
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = helenus_store::Ports::system();
/// # let store = helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports).await?;
/// store.subscribe(NewSubscription { lanes: 4, ..NewSubscription::new("mail".parse()?) }).await?;
/// let status = store.subscription(&"mail".parse()?).await?;
/// assert_eq!((status.lanes.len(), status.lag_events), (4, 0));
/// # Ok(())
/// # }
/// ```
pub trait Subscriptions: Leases {
    /// Registers a subscription. The same again changes nothing; another shape under a known name is
    /// refused, because events would change lanes.
    fn subscribe(
        &self,
        new: NewSubscription,
    ) -> impl Future<Output = Result<(), SubscriptionError>> + Send;

    /// Forgets a subscription, its checkpoints and its parked events; `false` if there is none.
    fn unsubscribe(
        &self,
        name: &SubscriptionName,
    ) -> impl Future<Output = Result<bool, SubscriptionError>> + Send;

    /// Every subscription as it stands, by name.
    fn subscriptions(&self) -> impl Future<Output = Result<Vec<SubscriptionStatus>, Error>> + Send;

    /// One subscription as it stands.
    fn subscription(
        &self,
        name: &SubscriptionName,
    ) -> impl Future<Output = Result<SubscriptionStatus, SubscriptionError>> + Send;

    /// The subscription that is furthest behind, and the last position that it and therefore all
    /// others are done with. Its parked events count: they are still needed. Retention that removes
    /// an event after this position removes something somebody has yet to read.
    fn slowest(
        &self,
    ) -> impl Future<Output = Result<Option<(SubscriptionName, Position)>, Error>> + Send;

    /// Says that a consumer is there for `ttl` from now; how many are, this one included.
    fn join(
        &self,
        name: &SubscriptionName,
        consumer: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<u32, SubscriptionError>> + Send;

    /// Says that a consumer is there no longer.
    fn leave(
        &self,
        name: &SubscriptionName,
        consumer: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Where a lane stands, for its owner.
    fn lane(
        &self,
        hold: &Hold,
    ) -> impl Future<Output = Result<LaneState, SubscriptionError>> + Send;

    /// Records that events were handled.
    fn settle(
        &self,
        hold: &Hold,
        settlement: Settlement,
    ) -> impl Future<Output = Result<(), SubscriptionError>> + Send;

    /// Records that the event next in the lane could not be handled, or that the parked one at
    /// `replayed` could not; how often that was.
    fn fail(
        &self,
        hold: &Hold,
        replayed: Option<&Position>,
        error: &str,
    ) -> impl Future<Output = Result<u32, SubscriptionError>> + Send;

    /// Sets an event aside and moves past it; `false`, and nothing done, if it was to wait behind
    /// others of its stream and there are none any more.
    fn park(
        &self,
        hold: &Hold,
        parking: Parking,
    ) -> impl Future<Output = Result<bool, SubscriptionError>> + Send;

    /// Parked events of a lane that somebody wants replayed, in the order of the feed.
    fn replays(
        &self,
        hold: &Hold,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Parked>, SubscriptionError>> + Send;

    /// Gives up on a replay for now: the event stays parked, and with it what waits behind it.
    fn park_again(
        &self,
        hold: &Hold,
        position: &Position,
        error: &str,
    ) -> impl Future<Output = Result<(), SubscriptionError>> + Send;

    /// Parked events of a subscription, in the order of the feed.
    fn parked(
        &self,
        name: &SubscriptionName,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Parked>, SubscriptionError>> + Send;

    /// Asks the owners of the lanes to handle parked events again; how many.
    ///
    /// Where a failure stops its stream, a single event can only be replayed if it is the first one
    /// parked of its stream.
    fn replay(
        &self,
        name: &SubscriptionName,
        which: Which,
    ) -> impl Future<Output = Result<u64, SubscriptionError>> + Send;

    /// Gives parked events up for good; how many.
    fn discard(
        &self,
        name: &SubscriptionName,
        which: Which,
    ) -> impl Future<Output = Result<u64, SubscriptionError>> + Send;
}

/// A subscription to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubscription {
    /// Its name.
    pub name: SubscriptionName,
    /// Into how many lanes its streams are divided; recorded for good.
    pub lanes: u32,
    /// What follows when an event cannot be handled; recorded for good.
    pub on_poison: OnPoison,
    /// Where it begins.
    pub start: Start,
}

impl NewSubscription {
    /// One lane from the beginning of the feed; an event that cannot be handled stops its stream.
    pub fn new(name: SubscriptionName) -> Self {
        let (on_poison, start) = (OnPoison::StopStream, Start::Beginning);
        NewSubscription { name, lanes: 1, on_poison, start }
    }
}

/// What becomes of later events of a stream when one could not be handled and was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPoison {
    /// They are parked behind it: the stream keeps its order.
    StopStream,
    /// They are handled without it.
    GoOn,
}

/// Where a new subscription begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the first event there is.
    Beginning,
    /// With the next event that is appended.
    End,
    /// After a position of the feed.
    After(Position),
}
