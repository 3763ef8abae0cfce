//! Why a relay stopped, and what an error of the broker means for the messages it met.

use std::borrow::Cow;

use helenus_broker::contract as broker;
use helenus_model::{Failure, Kind};
use helenus_store::contract as store;

/// Where a relay stopped. What had been published and settled before stays so, the rest is pending.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// Due messages could not be read, or outcomes not be recorded.
    #[error("the outbox failed")]
    Store(#[from] store::Error),
    /// Messages could not be published.
    #[error("the broker failed")]
    Broker(#[from] broker::Error),
}

impl RelayError {
    fn cause(&self) -> &dyn Failure {
        match self {
            RelayError::Store(error) => error,
            RelayError::Broker(error) => error,
        }
    }
}

impl Failure for RelayError {
    fn kind(&self) -> Kind {
        self.cause().kind()
    }

    fn code(&self) -> &'static str {
        self.cause().code()
    }

    fn applied(&self) -> Option<bool> {
        self.cause().applied()
    }

    fn is_retryable(&self) -> bool {
        self.cause().is_retryable()
    }

    fn details(&self) -> serde_json::Map<String, serde_json::Value> {
        self.cause().details()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        self.cause().remedy()
    }
}

/// Whether an error is about the records themselves, as opposed to the broker's health, this client's
/// rights or its settings: those pass, and cost no message an attempt.
pub(crate) fn blames_a_record(error: &broker::Error) -> bool {
    match error {
        broker::Error::UnknownTopic { .. }
        | broker::Error::InvalidTopic { .. }
        | broker::Error::TooLarge { .. } => true,
        broker::Error::Backend(error) => error.code() == "refused",
        _ => false,
    }
}

/// Whether a record will be refused however often it is tried.
pub(crate) fn is_hopeless(error: &broker::Error) -> bool {
    matches!(error, broker::Error::InvalidTopic { .. } | broker::Error::TooLarge { .. })
}
