//! What ends a consumer.

use std::borrow::Cow;

use helenus_model::{Failure, Kind};
use serde_json::{Map, Value};

use crate::contract::{Error, ReadError, SubscriptionError};

/// Why a consumer stopped. What it had settled before stays so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// The subscription could not be read or written.
    #[error(transparent)]
    Subscription(#[from] SubscriptionError),
    /// The feed could not be read.
    #[error(transparent)]
    Feed(#[from] ReadError),
}

impl ConsumeError {
    /// Whether the consumer may compete for the lane again.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            ConsumeError::Subscription(
                SubscriptionError::Fenced { .. } | SubscriptionError::Moved { .. },
            ) => true,
            error => error.is_retryable(),
        }
    }

    fn inner(&self) -> &dyn Failure {
        match self {
            ConsumeError::Subscription(error) => error,
            ConsumeError::Feed(error) => error,
        }
    }
}

impl From<Error> for ConsumeError {
    fn from(error: Error) -> Self {
        ConsumeError::Subscription(error.into())
    }
}

impl Failure for ConsumeError {
    fn kind(&self) -> Kind {
        self.inner().kind()
    }

    fn code(&self) -> &'static str {
        self.inner().code()
    }

    fn applied(&self) -> Option<bool> {
        self.inner().applied()
    }

    fn details(&self) -> Map<String, Value> {
        self.inner().details()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        self.inner().remedy()
    }
}
