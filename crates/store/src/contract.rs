//! What a store promises, whatever it runs on.
//!
//! One small trait for each logical table, static dispatch, no driver type in any signature. Times
//! are kept with the precision Cassandra's `timestamp` has: milliseconds.

mod dispatch;
mod events;
mod feed;
mod inbox;
mod leases;
mod outbox;
mod retention;
mod snapshots;
mod subscriptions;
mod upkeep;

pub use dispatch::{AfterParking, Backlog, Dispatch, Identity, Outcome, Pending, Report, Settled};
pub use events::{
    Append, AppendError, Appended, Direction, EventStore, InvalidAppend, ReadError, ReadEvents,
    Resolved, StreamHead,
};
pub use feed::{Feed, FeedItem, Position, ReadFeed};
/// Trouble with the backend itself, as opposed to what an operation refuses.
pub use helenus_model::BackendError as Error;
pub use inbox::{Begun, Inbox, InboxEntry, Receipt, Received, Work};
pub use leases::{Acquired, Lease, Leases};
pub use outbox::{EnqueueError, Enqueued, Outbox};
pub use retention::{
    Cut, Disposal, Extent, Retention, Retire, RetireError, RetirePlan, RetireStep,
};
pub use snapshots::{NewSnapshot, Saved, Snapshot, SnapshotError, SnapshotInfo, Snapshots};
pub use subscriptions::{
    Generation, Hold, InvalidName, LaneState, LaneStatus, NewSubscription, OnPoison, Parked,
    Parking, Reason, Settlement, Start, SubscriptionError, SubscriptionName, SubscriptionStatus,
    Subscriptions, Which, lane_of,
};
pub use upkeep::{MessageState, Reconciled, RelaysRun, StagedMessage, Sweep, Swept, Upkeep};
