//! What a broker promises, whatever it runs on.
//!
//! A topic is a fixed number of partitions; a partition is a sequence of records with rising
//! offsets. Records with one key are in one partition, in the order they were published. Offsets have
//! gaps where a broker keeps its own marks between records (Kafka does, around transactions) and where
//! records were removed.

mod error;
mod publisher;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use helenus_model::Timestamp;
use serde::Serialize;

pub use error::Error;
pub use publisher::{Marker, Publisher, Transaction};

/// Publishes and reads.
pub trait Broker: Send + Sync {
    /// Publishes transactions under a name that one process has at a time.
    type Publisher: Publisher;

    /// Makes a topic; one that exists with the same number of partitions is success.
    fn create_topic(
        &self,
        topic: &str,
        partitions: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes a topic that keeps the last record of each key and may forget those before it; one that
    /// exists and keeps them all is refused.
    fn create_compacted_topic(
        &self,
        topic: &str,
        partitions: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The topics, by name.
    fn topics(&self) -> impl Future<Output = Result<Vec<Topic>, Error>> + Send;

    /// Where each partition of a topic begins and ends, in order of the partitions.
    fn bounds(&self, topic: &str) -> impl Future<Output = Result<Vec<Bounds>, Error>> + Send;

    /// Which of these records the broker would refuse, and why: a topic that is not there, a record
    /// over its limit. Topics are made where the broker was opened to do so.
    fn refusals(
        &self,
        records: &[NewRecord],
    ) -> impl Future<Output = Result<Vec<Refusal>, Error>> + Send;

    /// Publishes records; durable and in order per key once this returns.
    ///
    /// Records that would be refused are found before any is sent. An error that says
    /// `applied() == Some(false)` left nothing behind; after any other, some may have been published.
    /// All or none is what a [`Publisher`] promises. Whatever the outcome, no record of a key is
    /// published without those of the same key that stand before it.
    fn publish(
        &self,
        records: &[NewRecord],
    ) -> impl Future<Output = Result<Vec<Position>, Error>> + Send;

    /// Becomes the one publisher of this name. Once this returns, what an earlier one had begun is
    /// either published or never will be, and the earlier one can publish nothing more.
    fn publisher(&self, name: &str) -> impl Future<Output = Result<Self::Publisher, Error>> + Send;

    /// Committed records of one partition from an offset on, at most `limit`; none at the end. Starts
    /// at the first that is still there.
    fn read(
        &self,
        from: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, Error>> + Send;

    /// The last committed record of a partition.
    fn last(
        &self,
        topic: &str,
        partition: u32,
    ) -> impl Future<Output = Result<Option<Record>, Error>> + Send;

    /// Where a consumer group goes on in a partition; `None` if it never committed there.
    fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> impl Future<Output = Result<Option<Offset>, Error>> + Send;

    /// Records where a consumer group goes on: the offset after the last record it is done with.
    fn commit(&self, group: &str, next: Position)
    -> impl Future<Output = Result<(), Error>> + Send;
}

/// Place of a record in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Offset(pub i64);

impl Offset {
    /// The first record's.
    pub const START: Offset = Offset(0);

    /// The next record's.
    #[must_use]
    pub const fn next(self) -> Self {
        Offset(self.0.saturating_add(1))
    }
}

/// A place in a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Position {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The record.
    pub offset: Offset,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.topic, self.partition, self.offset.0)
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
}

/// How long a topic keeps its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// For so long.
    For(Duration),
    /// For ever.
    ForEver,
    /// The last of each key for ever: the topic is compacted.
    LastOfKey,
}

/// Where a partition begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Of the first record that is still there, or where the first will be.
    pub start: Offset,
    /// After the last committed record.
    pub end: Offset,
}

/// A record that a broker would refuse.
#[derive(Debug)]
pub struct Refusal {
    /// Its place among the records asked about.
    pub index: usize,
    /// Why.
    pub error: Error,
}

/// Names and values in their order; a name may come more than once. Most names are the same for every
/// record, and need no memory of their own.
pub type Headers = Vec<(Cow<'static, str>, Cow<'static, [u8]>)>;

/// A record to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Where to.
    pub topic: Arc<str>,
    /// Decides the partition; the records without one go to the first.
    pub key: Option<Vec<u8>>,
    /// What is said beside the body.
    pub headers: Headers,
    /// The body.
    pub payload: Vec<u8>,
    /// When what it tells of happened.
    pub timestamp: Timestamp,
}

/// A published record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub position: Position,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub payload: Vec<u8>,
    /// Its time.
    pub timestamp: Timestamp,
}

impl NewRecord {
    /// At most so many bytes are sent for it.
    pub fn bytes_max(&self) -> usize {
        /// Lengths, times and checksums of a record and of a batch that holds nothing else.
        const FRAME: usize = 128;
        const HEADER_FRAME: usize = 10;
        let headers = self.headers.iter();
        let headers: usize =
            headers.map(|(name, value)| name.len() + value.len() + HEADER_FRAME).sum();
        FRAME + headers + self.key.as_ref().map_or(0, Vec::len) + self.payload.len()
    }
}
