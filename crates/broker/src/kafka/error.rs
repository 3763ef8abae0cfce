//! What Kafka and its client library say, as the project's errors.

use std::borrow::Cow;

use helenus_model::{BackendError, Failure, Kind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::{Map, Value, json};

use crate::contract;

/// Why Kafka did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the client is wrong.
    #[error("the settings of the Kafka client cannot be used")]
    Settings {
        /// What the library says.
        #[source]
        source: KafkaError,
    },
    /// No broker answered.
    #[error("Kafka at {brokers} did not answer: {reason}")]
    Unreachable {
        /// Where it was looked for.
        brokers: String,
        /// What the client last heard.
        reason: String,
    },
    /// The cluster does not let this client in.
    #[error("Kafka at {brokers} refused the login: {reason}")]
    Login {
        /// Where.
        brokers: String,
        /// What it said.
        reason: String,
    },
    /// This client may not do that.
    #[error("Kafka does not allow this client to {what}")]
    Denied {
        /// What it wanted.
        what: String,
        /// What the broker said.
        #[source]
        source: KafkaError,
    },
    /// The cluster refused it.
    #[error("Kafka did not {what}")]
    Refused {
        /// What it was asked.
        what: String,
        /// What the broker said.
        #[source]
        source: KafkaError,
    },
    /// The answer was lost, or came for a part of the records.
    #[error("Kafka did not confirm to {what}; {confirmed} of {of} records are confirmed")]
    Unconfirmed {
        /// What it was asked.
        what: &'static str,
        /// Records known to be published.
        confirmed: usize,
        /// Records that were to be published.
        of: usize,
        /// What the client last heard.
        #[source]
        source: KafkaError,
    },
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::Settings { .. } | Error::Login { .. } | Error::Denied { .. } => Kind::Invalid,
            Error::Refused { .. } => Kind::Invalid,
            Error::Unreachable { .. } => Kind::Unavailable,
            Error::Unconfirmed { .. } => Kind::OutcomeUnknown,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::Settings { .. } => "settings",
            Error::Unreachable { .. } => "unavailable",
            Error::Login { .. } => "login",
            Error::Denied { .. } => "denied",
            Error::Refused { .. } => "refused",
            Error::Unconfirmed { .. } => "unconfirmed",
        }
    }

    fn details(&self) -> Map<String, Value> {
        match self {
            Error::Unconfirmed { confirmed, of, .. } => {
                let details = json!({ "confirmed": confirmed, "of": of });
                details.as_object().cloned().unwrap_or_default()
            }
            _ => Map::new(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            Error::Settings { .. } => {
                "mend broker.settings; librdkafka's CONFIGURATION.md has them"
            }
            Error::Unreachable { .. } => {
                "check that a broker runs there and that broker.url names its listener"
            }
            Error::Login { .. } => {
                "check broker.username, broker.password and sasl.mechanism in broker.settings"
            }
            Error::Denied { .. } => "give this client the right in the cluster's access control",
            Error::Refused { source, .. } if is_too_large(source) => {
                "let this client describe the topic, or set batch.size in broker.settings to the topic's \
                 max.message.bytes"
            }
            Error::Refused { .. } => return None,
            Error::Unconfirmed { .. } => "publish again: consumers know a record by its id",
        };
        Some(text.into())
    }
}

impl From<Error> for contract::Error {
    fn from(error: Error) -> Self {
        contract::Error::Backend(BackendError::new(error))
    }
}

/// The code in an error; the library leaves out those of its admin client.
pub(super) fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        error => error.rdkafka_error_code(),
    }
}

/// Whether an error with this code says that the broker has not written the record and never will.
pub(super) fn is_refusal(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    is_denial(code)
        || matches!(
            code,
            Code::MessageSizeTooLarge
                | Code::MessageBatchTooLarge
                | Code::InvalidTimestamp
                | Code::InvalidRecord
                | Code::InvalidMessage
                | Code::PolicyViolation
                | Code::UnknownTopic
                | Code::UnknownPartition
                | Code::UnknownTopicOrPartition
                | Code::InvalidTopic
                | Code::PurgeQueue
        )
}

/// Whether a batch was larger than its topic takes; a topic's limit is heeded where it is told.
fn is_too_large(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code_of(error), Some(Code::MessageSizeTooLarge | Code::MessageBatchTooLarge))
}

pub(super) fn is_denial(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
    )
}

/// Whether a partition is between two leaders.
pub(super) fn is_without_leader(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::LeaderNotAvailable | RDKafkaErrorCode::NotLeaderForPartition)
}

/// Whether the same request may go through once the cluster is itself again.
pub(super) fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::TimedOutQueue
            | Code::Resolve
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::WaitingForCoordinator
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::NotEnoughReplicas
            | Code::UnknownBroker
    )
}
