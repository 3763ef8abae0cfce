//! A backend's own error, its type left behind: what contracts return when the backend itself is
//! in trouble, as opposed to what an operation refuses.

use std::borrow::Cow;
use std::fmt;

use crate::{Failure, Kind};

/// What a backend failed with.
#[derive(Debug)]
pub struct BackendError(Box<dyn AnyFailure>);

trait AnyFailure: Failure + Send + Sync {}

impl<E: Failure + Send + Sync> AnyFailure for E {}

impl BackendError {
    /// Wraps a backend's error.
    pub fn new(error: impl Failure + Send + Sync + 'static) -> Self {
        BackendError(Box::new(error))
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for BackendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Failure for BackendError {
    fn kind(&self) -> Kind {
        self.0.kind()
    }

    fn code(&self) -> &'static str {
        self.0.code()
    }

    fn applied(&self) -> Option<bool> {
        self.0.applied()
    }

    fn is_retryable(&self) -> bool {
        self.0.is_retryable()
    }

    fn details(&self) -> serde_json::Map<String, serde_json::Value> {
        self.0.details()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        self.0.remedy()
    }
}
