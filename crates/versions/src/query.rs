//! What a query from the command line may be.

use std::borrow::Cow;

use helenus_cql::parser::{Kind as Statement, SyntaxError, parse};
use helenus_model::{BackendError, Failure, Kind};

use crate::TableName;

/// Why a query is not run.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct QueryRefused {
    reason: String,
    kind: Kind,
}

impl QueryRefused {
    fn error(kind: Kind, reason: String) -> BackendError {
        BackendError::new(QueryRefused { reason, kind })
    }

    pub(crate) fn syntax(syntax: &SyntaxError) -> BackendError {
        Self::error(Kind::Invalid, format!("the query is not understood: {syntax}"))
    }

    pub(crate) fn no_keyspace() -> BackendError {
        Self::error(Kind::Invalid, "the table has no keyspace; write keyspace.table".to_owned())
    }

    pub(crate) fn no_version(table: &TableName) -> BackendError {
        Self::error(Kind::NotFound, format!("table {table} has no version that may be read"))
    }
}

impl Failure for QueryRefused {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn code(&self) -> &'static str {
        match self.kind {
            Kind::NotFound => "no_version",
            _ => "refused",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self.kind {
            Kind::NotFound => "publish one, or include or unpin one that is there",
            _ => "write it as SELECT … FROM keyspace.table WHERE …",
        };
        Some(text.into())
    }
}

/// Refuses what is not a `SELECT`.
pub(crate) fn only_select(cql: &str) -> Result<(), BackendError> {
    match parse(cql) {
        Ok(statement) if statement.kind == Statement::Select => Ok(()),
        Ok(_) => {
            let reason = "only SELECT may be run on versioned tables".to_owned();
            Err(QueryRefused::error(Kind::Invalid, reason))
        }
        Err(syntax) => Err(QueryRefused::syntax(&syntax)),
    }
}
