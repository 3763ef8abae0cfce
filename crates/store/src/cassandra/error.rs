//! What a cluster can fail with. Every kind but one says that nothing was applied.

use std::borrow::Cow;
use std::time::Duration;

use helenus_model::{BackendError, Failure, Kind};

use super::session::REMEDY;

pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why the cluster did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No node could be reached.
    #[error("cannot connect to {url}")]
    Connect {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Source,
    },
    /// A keyspace, table or data centre has a name that Cassandra would not take.
    #[error("'{name}' cannot be the name of a {what}: letters, digits and _ can, 48 at most")]
    Name {
        /// What it should name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The keyspace is used with another serial consistency.
    #[error("keyspace {keyspace} is used with serial consistency {recorded}, not {configured}")]
    SerialConsistency {
        /// The keyspace.
        keyspace: String,
        /// What it was first used with.
        recorded: String,
        /// What this store is configured with.
        configured: &'static str,
    },
    /// The store's messages are spread over another number of shards.
    #[error("the outbox has {recorded} shards, not {configured}")]
    Shards {
        /// What it was first used with.
        recorded: u16,
        /// What this store is configured with.
        configured: u16,
    },
    /// The cluster refused the request as such: a permission, a missing table or column.
    #[error("Cassandra refused to {what}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What the cluster said.
        #[source]
        source: Source,
    },
    /// The cluster could not do it now; nothing was applied.
    #[error("Cassandra could not {what}")]
    Unavailable {
        /// What was asked.
        what: &'static str,
        /// What the cluster or the driver said.
        #[source]
        source: Source,
    },
    /// The deadline passed before anything was sent.
    #[error("nothing was sent within {deadline:?}")]
    Late {
        /// The deadline.
        deadline: Duration,
    },
    /// The answer was lost.
    #[error("Cassandra did not say whether it could {what}")]
    Lost {
        /// What was asked.
        what: &'static str,
        /// What the cluster or the driver said.
        #[source]
        source: Source,
    },
    /// A stored row is not what was written.
    #[error("a stored row is damaged: {message}")]
    Corrupt {
        /// Which, and how.
        message: String,
    },
}

impl Error {
    pub(super) fn corrupt(message: impl Into<String>) -> Self {
        Error::Corrupt { message: message.into() }
    }

    /// The cause, for those who say the rest in their own words.
    pub(super) fn into_source(self) -> Source {
        match self {
            Error::Connect { source, .. } => source,
            error => Box::new(error),
        }
    }
}

impl From<Error> for BackendError {
    fn from(error: Error) -> Self {
        BackendError::new(error)
    }
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::Connect { .. } | Error::Unavailable { .. } => Kind::Unavailable,
            Error::Name { .. }
            | Error::SerialConsistency { .. }
            | Error::Shards { .. }
            | Error::Refused { .. } => Kind::Invalid,
            Error::Late { .. } => Kind::Timeout,
            Error::Lost { .. } => Kind::OutcomeUnknown,
            Error::Corrupt { .. } => Kind::Corrupt,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::Connect { .. } | Error::Unavailable { .. } | Error::Late { .. } => "unavailable",
            Error::Name { .. }
            | Error::SerialConsistency { .. }
            | Error::Shards { .. }
            | Error::Refused { .. } => "invalid",
            Error::Lost { .. } => "unknown",
            Error::Corrupt { .. } => "corrupt",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            Error::Connect { .. } => REMEDY,
            Error::Name { .. } => "choose another name",
            Error::SerialConsistency { .. } => {
                "configure all writers alike: Paxos rounds of different levels do not see each other"
            }
            Error::Shards { .. } => {
                "configure that number, or change it with `helenus outbox reshard`"
            }
            Error::Refused { .. } => {
                "grant the user the permission that is named, or mend the tables"
            }
            Error::Unavailable { .. } => "check the nodes' state, then try again",
            Error::Late { .. } => "try again, or allow more time",
            Error::Lost { .. } => "send the same operation again, or resolve it",
            Error::Corrupt { .. } => return None,
        };
        Some(text.into())
    }
}
