//! The schema that a reader of segments goes by: a document, followed through the log's own DDL.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_commitlog::Mutation;
use helenus_cql::schema::{Catalog, Change, Journal, JournalError, Lookup, Table, TableId};
use helenus_cql::update::Timestamp;
use helenus_model::{Failure, Kind};
use serde::Deserialize;

/// A document that is no schema.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The file cannot be read.
    #[error("the schema {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is no schema.
    #[error("{} is no schema", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Box<JournalError>,
    },
}

impl Failure for SchemaError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "schema_missing",
            Self::Malformed { .. } => "schema_malformed",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("write one with `helenus capture schema`, from a node of the same cluster".into())
    }
}

/// A schema and its history, as far as a document and the log tell it.
///
/// The document says when it was taken (`taken_at_us`): the log's newer DDL is applied to it. One
/// that does not say is taken for newer than the log, which then only adds tables that the document
/// no longer has.
#[derive(Debug, Clone)]
pub struct History {
    journal: Journal,
    dated: bool,
    /// When the last change that was followed was written.
    changed_at: Option<Timestamp>,
}

impl History {
    /// Reads a document from a file.
    pub fn open(path: &Path) -> Result<Self, SchemaError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SchemaError::Unreadable { path: path.to_owned(), source })?;
        Self::new(&text).map_err(|source| SchemaError::Malformed {
            path: path.to_owned(),
            source: source.into(),
        })
    }

    /// Reads a document.
    pub fn new(document: &str) -> Result<Self, JournalError> {
        #[derive(Deserialize)]
        struct Dated {
            taken_at_us: Option<i64>,
        }
        let dated = serde_json::from_str::<Dated>(document).ok();
        let taken_at = dated.and_then(|dated| dated.taken_at_us).map(Timestamp);
        let journal = Journal::new(document, taken_at.unwrap_or(Timestamp(i64::MAX)))?;
        Ok(Self { journal, dated: taken_at.is_some(), changed_at: None })
    }

    /// A schema of nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(r#"{"tables": [], "columns": []}"#).expect("a document without rows is a schema")
    }

    /// The schema to decode the next record with.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.journal.catalog()
    }

    /// Follows a mutation, if it changes the schema.
    pub fn follow(&mut self, mutation: &Mutation<'_>) -> Result<Vec<Change>, JournalError> {
        let updates = mutation.updates.iter().filter(|update| is_schema(update.table));
        let times = updates.filter_map(|update| update.write_times()).map(|(_, last)| last);
        let Some(written) = times.max() else { return Ok(Vec::new()) };
        let known = self.journal.catalog();
        let changes = self.journal.apply(&mutation.updates)?;
        if !Arc::ptr_eq(&known, &self.journal.catalog()) {
            self.changed_at = self.changed_at.max(Some(written));
        }
        Ok(changes)
    }

    /// Of two that began with the same document, the one that has seen the later change: nodes log the
    /// same changes, and one's log may reach further.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.changed_at > self.changed_at { other } else { self }
    }

    /// The table of this name as it is now.
    #[must_use]
    pub fn table(&self, keyspace: &str, name: &str) -> Option<Table> {
        self.journal.catalog().by_name(keyspace, name).cloned()
    }

    /// Tables that were captured at some time before the document, as far as the log tells.
    pub(crate) fn captured_before(&self) -> impl Iterator<Item = TableId> {
        self.journal.captured_before()
    }

    /// Whether a table is one of the node's own that the document leaves out. It may, if it was written
    /// for the tables of an application alone and says no time from which on the log changes it.
    #[must_use]
    pub fn leaves_out(&self, id: TableId) -> bool {
        !self.dated && id.is_internal() && self.journal.catalog().table(id).is_none()
    }

    /// Whether a record of this table changes the schema.
    pub(crate) fn is_schema(&self, id: TableId) -> bool {
        self.journal.catalog().table(id).is_some_and(is_schema)
    }
}

/// Whether what is written to this table changes the schema.
pub(crate) fn is_schema(table: &Table) -> bool {
    &*table.keyspace == "system_schema"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::{Wanted, scan};

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../commitlog/tests/fixtures");

    /// The recorded schema, before the log dropped a column.
    fn before() -> String {
        let text = std::fs::read_to_string(format!("{FIXTURES}/schema.json")).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let is_c =
            |row: &serde_json::Value| row["table_name"] == "readded" && row["column_name"] == "c";
        document["dropped_columns"].as_array_mut().unwrap().retain(|row| !is_c(row));
        let columns = document["columns"].as_array_mut().unwrap();
        let mut c = columns
            .iter()
            .find(|row| row["table_name"] == "readded" && row["column_name"] == "a")
            .unwrap()
            .clone();
        c["column_name"] = "c".into();
        columns.push(c);
        document["taken_at_us"] = 1.into();
        document.to_string()
    }

    #[test]
    fn of_two_logs_the_one_that_reaches_further_tells_the_schema() {
        let beginning = History::new(&before()).unwrap();
        let mut further = beginning.clone();
        let log = format!("{FIXTURES}/plain.log");
        scan(Path::new(&log), &mut further, &Wanted::Everything, &mut |_| {}).unwrap();
        let has_c = |history: &History| {
            let table = history.table("fx", "readded").unwrap();
            table.columns().iter().any(|column| &*column.name == "c" && column.current)
        };
        assert!(has_c(&beginning));
        assert!(!has_c(&beginning.clone().later(further.clone())));
        assert!(!has_c(&further.later(beginning)));
    }

    #[test]
    fn a_document_that_does_not_say_when_it_was_taken_is_newer_than_the_log() {
        let undated = before().replace("taken_at_us", "something_else");
        let mut history = History::new(&undated).unwrap();
        let known = history.catalog();
        let log = format!("{FIXTURES}/plain.log");
        scan(Path::new(&log), &mut history, &Wanted::Everything, &mut |_| {}).unwrap();
        assert!(Arc::ptr_eq(&known, &history.catalog()));
    }
}
