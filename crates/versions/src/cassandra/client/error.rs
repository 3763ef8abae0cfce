//! Why a query on versioned tables failed.

use std::borrow::Cow;

use helenus_cql::rewrite;
use helenus_model::{BackendError, Failure, Kind};

use crate::TableName;

/// Why a query on versioned tables failed. It only reads, so nothing was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The statement would change a versioned table, or is not understood.
    #[error(transparent)]
    Rewrite(Box<rewrite::Error>),
    /// The table has versions, but none that may be read.
    #[error("table {table} has no version that may be read")]
    NoVersion {
        /// The table.
        table: Box<TableName>,
    },
    /// The version that was being read has been dropped.
    #[error("version {version} of {table} is gone")]
    VersionGone {
        /// The table.
        table: Box<TableName>,
        /// The version.
        version: Box<str>,
    },
    /// The cluster or the driver said no.
    #[error("the query failed")]
    Driver(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The catalog could not be read.
    #[error(transparent)]
    Catalog(#[from] BackendError),
}

impl QueryError {
    pub(super) fn driver(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        QueryError::Driver(Box::new(error))
    }
}

impl Failure for QueryError {
    fn kind(&self) -> Kind {
        match self {
            QueryError::Rewrite(error) => error.kind(),
            QueryError::NoVersion { .. } | QueryError::VersionGone { .. } => Kind::NotFound,
            QueryError::Driver(_) => Kind::Unavailable,
            QueryError::Catalog(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            QueryError::Rewrite(error) => error.code(),
            QueryError::NoVersion { .. } => "no_version",
            QueryError::VersionGone { .. } => "version_gone",
            QueryError::Driver(_) => "unavailable",
            QueryError::Catalog(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            // A statement on a table that is not versioned may write.
            QueryError::Driver(_) => None,
            _ => Some(false),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            QueryError::Rewrite(error) => return error.remedy(),
            QueryError::NoVersion { .. } => "publish one, or include or unpin one that is there",
            QueryError::VersionGone { .. } => {
                "start the read again, or hold the version with a view"
            }
            QueryError::Driver(_) => "check the nodes' state and the statement, then try again",
            QueryError::Catalog(error) => return error.remedy(),
        };
        Some(text.into())
    }
}
