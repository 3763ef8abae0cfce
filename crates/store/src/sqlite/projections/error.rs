//! What can be wrong with a projection.

use std::borrow::Cow;

use helenus_model::{Failure, Kind};
use serde_json::{Map, Value, json};

use crate::contract::{SubscriptionError, SubscriptionName};
use crate::subscription::ConsumeError;

/// Why a projection does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    /// Other code filled it.
    #[error("projection '{name}' was filled by version {stored}, this is another one")]
    VersionDiffers {
        /// The projection.
        name: SubscriptionName,
        /// The version of the code that filled it.
        stored: Box<str>,
    },
    /// Somebody else works on it.
    #[error("another process is working on projection '{name}'")]
    Busy {
        /// The projection.
        name: SubscriptionName,
    },
    /// Its tables could not be created. Nothing was.
    #[error("the tables of projection '{name}' could not be created: {problem}")]
    Create {
        /// The projection.
        name: SubscriptionName,
        /// What SQLite or the rules say.
        problem: Box<str>,
    },
    /// A table or view of that name is in the file already.
    #[error(
        "the store file has something called '{table}' already, which is not this projection's"
    )]
    TableTaken {
        /// The name.
        table: Box<str>,
    },
    /// The text of a SQL projection is not acceptable.
    #[error("{problem}")]
    InvalidSql {
        /// What and where.
        problem: Box<str>,
    },
    /// Reading the feed or keeping the checkpoint failed.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
}

impl From<SubscriptionError> for ProjectionError {
    fn from(error: SubscriptionError) -> Self {
        ProjectionError::Consume(error.into())
    }
}

impl From<helenus_sqlite::Error> for ProjectionError {
    fn from(error: helenus_sqlite::Error) -> Self {
        SubscriptionError::from(error).into()
    }
}

impl From<rusqlite::Error> for ProjectionError {
    fn from(error: rusqlite::Error) -> Self {
        helenus_sqlite::Error::from(error).into()
    }
}

impl Failure for ProjectionError {
    fn kind(&self) -> Kind {
        match self {
            ProjectionError::VersionDiffers { .. } | ProjectionError::TableTaken { .. } => {
                Kind::Conflict
            }
            ProjectionError::Busy { .. } => Kind::Unavailable,
            ProjectionError::Create { .. } | ProjectionError::InvalidSql { .. } => Kind::Invalid,
            ProjectionError::Consume(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            ProjectionError::VersionDiffers { .. } => "projection_differs",
            ProjectionError::Busy { .. } => "projection_busy",
            ProjectionError::Create { .. } | ProjectionError::InvalidSql { .. } => "invalid",
            ProjectionError::TableTaken { .. } => "table_taken",
            ProjectionError::Consume(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            ProjectionError::Consume(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn details(&self) -> Map<String, Value> {
        let details = match self {
            ProjectionError::VersionDiffers { name, stored } => {
                json!({ "name": name, "stored": stored })
            }
            ProjectionError::Busy { name } | ProjectionError::Create { name, .. } => {
                json!({ "name": name })
            }
            ProjectionError::TableTaken { table } => json!({ "table": table }),
            ProjectionError::InvalidSql { .. } => return Map::new(),
            ProjectionError::Consume(error) => return error.details(),
        };
        details.as_object().cloned().unwrap_or_default()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            ProjectionError::VersionDiffers { .. } => {
                "rebuild it (--rebuild), or run the version that filled it"
            }
            ProjectionError::Busy { .. } => {
                "let it go on, or stop it and wait until its lease has expired"
            }
            ProjectionError::Create { .. } => "mend the part that creates the tables",
            ProjectionError::TableTaken { .. } => "give the projection's table another name",
            ProjectionError::InvalidSql { .. } => "mend the file; `project run --help` shows one",
            ProjectionError::Consume(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<ProjectionError>() <= 64, "{}", size_of::<ProjectionError>());
        assert!(size_of::<ConsumeError>() <= 64);
    }
}
