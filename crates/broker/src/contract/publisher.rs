//! Publishing all or nothing, one publisher of a name at a time.

use std::future::Future;

use super::{Error, NewRecord};

/// A publisher that has its name for itself until somebody else takes it.
pub trait Publisher: Send + Sync {
    /// Publishes everything in the transaction, or nothing of it.
    ///
    /// After an error whose `applied()` is `Some(false)` nothing was and will be published. After any
    /// other the outcome is settled by taking the name again and looking at the last marker. Either
    /// way this publisher is done with; a new one starts afresh.
    fn publish(
        &mut self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Ends it, and returns once everything it published is there for readers: a broker may show it a
    /// moment after it was committed.
    fn finish(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Records that become visible together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What is published.
    pub records: Vec<NewRecord>,
    /// What is left beside it for whoever takes over.
    pub marker: Option<Marker>,
}

/// A record at a place that is not its key's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Where to.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The key it replaces in a compacted topic.
    pub key: Vec<u8>,
    /// What it says.
    pub value: Vec<u8>,
}
