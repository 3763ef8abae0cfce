//! Why nothing was published.

use std::borrow::Cow;

use helenus_model::{BackendError, Failure, Kind, Timestamp};

use crate::catalog::{ChangeError, Status};
use crate::row::MappingError;
use crate::source::SourceError;
use crate::{SchemaError, TableName};

/// Why a run ended without a version. Readers have noticed nothing; the run is resumed with
/// `--resume`, or recycled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The sources cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The schema cannot be used.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The fields of the source do not fit the table.
    #[error(transparent)]
    Mapping(#[from] Box<MappingError>),
    /// There is no version whose schema could be taken.
    #[error("table {table} has no version yet whose schema could be taken")]
    NoSchema {
        /// The table.
        table: Box<TableName>,
    },
    /// A table has the name already, and it is not a versioned one.
    #[error("{table} is a table already, and not a version of this run")]
    NameTaken {
        /// The table.
        table: Box<TableName>,
    },
    /// The run's name cannot be used.
    #[error("'{run_id}' cannot name a run: letters, digits and ._:- can, 128 at most")]
    RunId {
        /// The name.
        run_id: Box<str>,
    },
    /// A publisher works on the run.
    #[error("run {run_id} is being published by {who}, last heard of at {heartbeat}")]
    Busy {
        /// The run.
        run_id: Box<str>,
        /// Who.
        who: Box<str>,
        /// When it last said that it lives.
        heartbeat: Timestamp,
    },
    /// The run was recycled.
    #[error("run {run_id} is {status}")]
    GivenUp {
        /// The run.
        run_id: Box<str>,
        /// What it is.
        status: Status,
    },
    /// The data stands for a time that has not come.
    #[error("data_ts {data_ts} is more than a day ahead")]
    Ahead {
        /// The time.
        data_ts: Timestamp,
    },
    /// The sources are not those the run began with.
    #[error("the sources of run {run_id} have changed: {was} before, {is} now")]
    SourceChanged {
        /// The run.
        run_id: Box<str>,
        /// What they were.
        was: Box<str>,
        /// What they are.
        is: Box<str>,
    },
    /// Another publisher, or a recycle, took the run.
    #[error("run {run_id} was taken over while it was published")]
    Fenced {
        /// The run.
        run_id: Box<str>,
    },
    /// Bad records cannot be reported.
    #[error("cannot write the bad rows to {path}")]
    Report {
        /// Where to.
        path: Box<str>,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The catalog could not be changed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The backend is in trouble.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Failure for PublishError {
    fn kind(&self) -> Kind {
        match self {
            PublishError::Source(error) => error.kind(),
            PublishError::Schema(_)
            | PublishError::Mapping(_)
            | PublishError::NoSchema { .. }
            | PublishError::RunId { .. }
            | PublishError::Ahead { .. } => Kind::Invalid,
            PublishError::NameTaken { .. }
            | PublishError::Busy { .. }
            | PublishError::GivenUp { .. }
            | PublishError::SourceChanged { .. }
            | PublishError::Fenced { .. } => Kind::Conflict,
            PublishError::Report { .. } => Kind::Unavailable,
            PublishError::Change(error) => error.kind(),
            PublishError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            PublishError::Source(error) => error.code(),
            PublishError::Schema(error) => error.code(),
            PublishError::Mapping(error) => error.code(),
            PublishError::NoSchema { .. } => "no_schema",
            PublishError::NameTaken { .. } => "name_taken",
            PublishError::RunId { .. } => "invalid",
            PublishError::Busy { .. } => "busy",
            PublishError::GivenUp { .. } => "given_up",
            PublishError::Ahead { .. } => "ahead",
            PublishError::SourceChanged { .. } => "source_changed",
            PublishError::Fenced { .. } => "fenced",
            PublishError::Report { .. } => "report",
            PublishError::Change(error) => error.code(),
            PublishError::Backend(error) => error.code(),
        }
    }

    /// Readers got nothing of it; whether the last step was made is known unless its answer was lost.
    fn applied(&self) -> Option<bool> {
        match self {
            PublishError::Change(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            PublishError::Source(error) => return error.remedy(),
            PublishError::Schema(error) => return error.remedy(),
            PublishError::Mapping(error) => return error.remedy(),
            PublishError::NoSchema { .. } => "give one with --schema FILE, or use --infer",
            PublishError::NameTaken { .. } => "choose another table, or move that one away",
            PublishError::RunId { .. } => "choose another --run-id",
            PublishError::Busy { .. } => "wait for it, or take it over with --resume",
            PublishError::GivenUp { .. } => "publish again under another --run-id",
            PublishError::Ahead { .. } => "correct --data-ts, or say --force",
            PublishError::SourceChanged { .. } => {
                "publish them as a new run; the old one is recycled"
            }
            PublishError::Fenced { .. } => "see `helenus versions list` for what became of it",
            PublishError::Report { .. } => "name another file with --bad-rows",
            PublishError::Change(error) => return error.remedy(),
            PublishError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}
