//! Asking a service whether it is there: what `helenus doctor` shows.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use serde::Serialize;

use crate::{Failure, Kind};

/// A service that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// What answered: `Apache Cassandra 5.0.9`.
    pub product: String,
    /// What else it told: cluster name, number of brokers.
    pub detail: String,
}

/// A service that did not answer, or not as itself.
#[derive(Debug, thiserror::Error)]
#[error("{url} cannot be used")]
pub struct Unreachable {
    url: String,
    remedy: &'static str,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

impl Unreachable {
    /// What could not be reached, what to do about it, and what the client said.
    pub fn new(
        url: impl Into<String>,
        remedy: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Unreachable { url: url.into(), remedy, source: source.into() }
    }

    /// What did not answer within its time.
    pub fn late(url: impl Into<String>, remedy: &'static str, timeout: Duration) -> Self {
        Self::new(url, remedy, format!("no answer within {} s", timeout.as_secs()))
    }
}

impl Failure for Unreachable {
    fn kind(&self) -> Kind {
        Kind::Unavailable
    }

    fn code(&self) -> &'static str {
        "unavailable"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(self.remedy.into())
    }
}
