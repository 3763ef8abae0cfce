//! Answers to conditional statements of the messaging tables.

use std::collections::HashMap;

use helenus_model::Timestamp;
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use uuid::Uuid;

use super::Error;
use super::classify::{read_error, request_error};

/// What came of a conditional statement.
#[derive(Debug)]
pub(super) enum Cas {
    /// It was applied.
    Applied,
    /// It was not; this is the row as it stands. Empty if there is none.
    Refused(Found),
}

/// Columns by name: which there are depends on the outcome and on the server.
#[derive(Debug, Default)]
pub(super) struct Found(HashMap<String, CqlValue>);

impl Found {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(CqlValue::as_text).map(String::as_str)
    }

    pub(super) fn blob(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).and_then(CqlValue::as_blob).map(Vec::as_slice)
    }

    pub(super) fn time(&self, name: &str) -> Option<Timestamp> {
        let time = self.0.get(name).and_then(CqlValue::as_cql_timestamp)?;
        Some(Timestamp::from_millis(time.0))
    }

    pub(super) fn uuid(&self, name: &str) -> Option<Uuid> {
        match self.0.get(name)? {
            CqlValue::Uuid(uuid) => Some(*uuid),
            CqlValue::Timeuuid(uuid) => Some(*uuid.as_ref()),
            _ => None,
        }
    }
}

/// Sends a conditional statement once.
pub(super) async fn send(
    session: &Session,
    what: &'static str,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<Cas, Error> {
    let sent = Box::pin(session.execute_unpaged(statement, values)).await;
    let sent = sent.map_err(|error| request_error(what, error))?;
    // An answer that cannot be read does not say that nothing was applied.
    read(sent).map_err(|error| Error::Lost { what, source: Box::new(error) })
}

/// Sends a statement that may be sent again: it writes the same, at the same time.
pub(super) async fn write(
    session: &Session,
    what: &'static str,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<(), Error> {
    let sent = Box::pin(session.execute_unpaged(statement, values)).await;
    sent.map(drop).map_err(|error| request_error(what, error))
}

/// Asks for rows, all of them at once: for reads of a few.
pub(super) async fn select(
    session: &Session,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<scylla::response::query_result::QueryRowsResult, Error> {
    let asked = Box::pin(session.execute_unpaged(statement, values)).await.map_err(read_error)?;
    asked.into_rows_result().map_err(|error| Error::corrupt(error.to_string()))
}

fn read(result: QueryResult) -> Result<Cas, Error> {
    let damaged = |error: &dyn std::fmt::Display| Error::corrupt(error.to_string());
    let result = result.into_rows_result().map_err(|error| damaged(&error))?;
    let names: Vec<String> =
        result.column_specs().iter().map(|spec| spec.name().to_owned()).collect();
    let row = result.maybe_first_row::<Row>().map_err(|error| damaged(&error))?;
    let columns = row.map(|row| row.columns).unwrap_or_default();
    let named = names.into_iter().zip(columns);
    let mut found: HashMap<String, CqlValue> =
        named.filter_map(|(name, value)| Some((name, value?))).collect();
    match found.remove("[applied]") {
        Some(CqlValue::Boolean(true)) => Ok(Cas::Applied),
        Some(CqlValue::Boolean(false)) => Ok(Cas::Refused(Found(found))),
        _ => Err(damaged(&"an answer without [applied]")),
    }
}
