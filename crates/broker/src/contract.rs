//! What a broker promises, whatever it runs on.
//!
//! A topic is a fixed number of partitions; a partition is a gapless sequence of records from
//! offset 0. Records with one key are in one partition, in the order they were published.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;

use helenus_model::{Failure, Kind, Timestamp};
use serde::Serialize;

/// Publishes and reads.
pub trait Broker: Send + Sync {
    /// Makes a topic; one that exists with the same number of partitions is success.
    fn create_topic(
        &self,
        topic: &str,
        partitions: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The topics, by name.
    fn topics(&self) -> impl Future<Output = Result<Vec<Topic>, Error>> + Send;

    /// Publishes records, all of them or none; durable and in order per key once this returns.
    fn publish(
        &self,
        records: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Vec<Position>, Error>> + Send;

    /// Records of one partition from an offset on, at most `limit`; none at the end.
    fn read(
        &self,
        from: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, Error>> + Send;

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
    pub topic: String,
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

/// A record to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Where to.
    pub topic: String,
    /// Decides the partition; the records without one go to the first.
    pub key: Option<Vec<u8>>,
    /// Names and values in their order; a name may come more than once.
    pub headers: Vec<(String, Vec<u8>)>,
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
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body.
    pub payload: Vec<u8>,
    /// Its time.
    pub timestamp: Timestamp,
}

/// Why a broker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such topic.
    #[error("there is no topic '{topic}'")]
    UnknownTopic {
        /// The name.
        topic: String,
    },
    /// The topic has no such partition.
    #[error("topic '{topic}' has {partitions} partitions, there is no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The topic cannot be made as asked.
    #[error("topic '{topic}' cannot be created: {reason}")]
    InvalidTopic {
        /// The name.
        topic: String,
        /// What is wrong.
        reason: String,
    },
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] helenus_model::BackendError),
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::UnknownTopic { .. } | Error::UnknownPartition { .. } => Kind::NotFound,
            Error::InvalidTopic { .. } => Kind::Invalid,
            Error::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::UnknownTopic { .. } => "unknown_topic",
            Error::UnknownPartition { .. } => "unknown_partition",
            Error::InvalidTopic { .. } => "invalid",
            Error::Backend(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            Error::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Error::UnknownTopic { .. } => Some("create the topic, or check its name".into()),
            Error::Backend(error) => error.remedy(),
            _ => None,
        }
    }
}
