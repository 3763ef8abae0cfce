//! Why an agent ends.

use std::borrow::Cow;
use std::path::PathBuf;

use helenus_cql::schema::JournalError;
use helenus_model::{BackendError, Failure, Kind};

use crate::segments::ListError;
use crate::state::StateError;

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] ListError),
    /// The position cannot be read or made durable.
    #[error(transparent)]
    State(#[from] StateError),
    /// The schema cannot be had.
    #[error("the schema cannot be fetched")]
    Schema(#[source] BackendError),
    /// What came is no schema.
    #[error("what the node answered is no schema")]
    Document(#[source] Box<JournalError>),
    /// A column that is to be masked is not there: whatever was meant would be published as it is.
    #[error("{column} is to be masked, and its table has no such column")]
    UnknownColumn {
        /// As `keyspace.table.column`.
        column: String,
    },
    /// A table with columns to be masked is not there, and never was.
    #[error("columns of {table} are to be masked, and there is no such table")]
    UnknownMaskedTable {
        /// As `keyspace.table`.
        table: String,
    },
    /// A table that is to be captured is not there: segments would be released without its changes.
    #[error("{table} is to be captured, and there is no such table")]
    UnknownTable {
        /// As `keyspace.table`.
        table: String,
    },
    /// A table that is to be captured is not logged for readers.
    #[error("{table} is to be captured, and has no change data capture")]
    TableWithoutCdc {
        /// As `keyspace.table`.
        table: String,
    },
    /// A table that is to be captured is in a keyspace that is not logged at all.
    #[error(
        "{table} is to be captured, and its keyspace has durable_writes = false: nothing is logged"
    )]
    TableNotLogged {
        /// As `keyspace.table`.
        table: String,
    },
    /// Two tables whose topics Kafka does not tell apart.
    #[error(
        "the topics {one} and {other} differ in dots and underscores only, which Kafka refuses"
    )]
    TopicsCollide {
        /// A topic.
        one: String,
        /// Another.
        other: String,
    },
    /// Two agents of one folder would release what the other has not read.
    #[error("another agent reads {}", folder.display())]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
    },
    /// What is read could not be released.
    #[error("segments in {} could not be released", folder.display())]
    FolderKept {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The part that reads ended by itself.
    #[error("the reader ended unexpectedly")]
    Reader,
}

impl Failure for AgentError {
    fn kind(&self) -> Kind {
        match self {
            Self::Folder(error) => error.kind(),
            Self::State(error) => error.kind(),
            Self::Schema(error) => error.kind(),
            Self::UnknownColumn { .. }
            | Self::UnknownMaskedTable { .. }
            | Self::UnknownTable { .. }
            | Self::TableWithoutCdc { .. }
            | Self::TableNotLogged { .. }
            | Self::TopicsCollide { .. }
            | Self::FolderKept { .. } => Kind::Invalid,
            Self::FolderInUse { .. } => Kind::Unavailable,
            Self::Document(_) | Self::Reader => Kind::Fatal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Folder(error) => error.code(),
            Self::State(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Document(_) => "schema_malformed",
            Self::UnknownColumn { .. } => "unknown_column",
            Self::UnknownTable { .. } | Self::UnknownMaskedTable { .. } => "unknown_table",
            Self::TableWithoutCdc { .. } => "table_without_cdc",
            Self::TableNotLogged { .. } => "table_not_logged",
            Self::TopicsCollide { .. } => "topics_collide",
            Self::FolderInUse { .. } => "folder_in_use",
            Self::FolderKept { .. } => "folder_read_only",
            Self::Reader => "stopped",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Folder(error) => error.remedy(),
            Self::State(error) => error.remedy(),
            Self::Schema(error) => error.remedy(),
            Self::UnknownColumn { .. } => {
                Some("correct its name in capture.mask; nothing of it was published".into())
            }
            Self::UnknownMaskedTable { .. } => {
                Some("correct its name in capture.mask, or create it first".into())
            }
            Self::UnknownTable { .. } => Some(
                "correct its name in capture.tables, or create it first; nothing was released"
                    .into(),
            ),
            Self::TableWithoutCdc { table } => {
                Some(format!("run ALTER TABLE {table} WITH cdc = true").into())
            }
            Self::TableNotLogged { .. } => {
                Some("run ALTER KEYSPACE … WITH durable_writes = true".into())
            }
            Self::TopicsCollide { .. } => {
                Some("leave one of the tables out of capture.tables".into())
            }
            Self::FolderInUse { .. } => {
                Some("one agent a node: stop the other; it can write to all topics".into())
            }
            Self::FolderKept { .. } => Some("let this user delete files there".into()),
            Self::Document(_) | Self::Reader => Some("report this with the log".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::ReadError;
    use crate::tail::TailError;

    #[test]
    fn errors_are_small() {
        assert!(size_of::<AgentError>() <= 64, "{}", size_of::<AgentError>());
        assert!(size_of::<TailError>() <= 64, "{}", size_of::<TailError>());
        assert!(size_of::<ReadError>() <= 64, "{}", size_of::<ReadError>());
    }
}
