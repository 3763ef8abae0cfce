//! A schema that follows the log: DDL is written to `system_schema` by ordinary mutations, in the
//! same segments and before the first write that needs it.
//!
//! [`Journal`] keeps the rows of a schema document and changes them as those mutations do, so
//! that a segment can be read with the schema of its own time. It needs a document to start from,
//! which describes `system_schema` itself; what happened in segments that were not kept it cannot
//! know. Then the newer state is fetched and absorbed ([`Catalog::absorb`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{Catalog, Change, DocumentError, Table};
use crate::reconcile::{self, ClusteringKey, PartitionState, TableState};
use crate::update::{PartitionUpdate, Seconds, Timestamp};

/// The tables that matter and their keys, the partition key first.
const TABLES: [(&str, &[&str]); 5] = [
    ("tables", &["keyspace_name", "table_name"]),
    ("views", &["keyspace_name", "view_name"]),
    ("columns", &["keyspace_name", "table_name", "column_name"]),
    ("dropped_columns", &["keyspace_name", "table_name", "column_name"]),
    ("types", &["keyspace_name", "type_name"]),
];

/// Why a schema change could not be followed; the journal is as it was before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The rows that came out are no schema.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The mutation does not fit `system_schema` as the document describes it.
    #[error(transparent)]
    Merge(#[from] reconcile::Error),
    /// A row without its key.
    #[error("a row of system_schema.{0} lacks a part of its key")]
    Key(&'static str),
}

type Row = Map<String, Value>;
type Rows = BTreeMap<Vec<String>, Row>;

/// A schema and how it changes.
///
/// ```
/// use helenus_cql::schema::Journal;
/// use helenus_cql::update::PartitionUpdate;
///
/// let document = r#"{"tables": [], "columns": []}"#; // of a real node: a thousand rows
/// let mut journal = Journal::new(document, None)?;
/// let catalog = journal.catalog(); // decode a mutation with it, then:
/// let updates: Vec<PartitionUpdate<'_>> = Vec::new();
/// assert!(journal.apply(&updates)?.is_empty());
/// # Ok::<(), helenus_cql::schema::JournalError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Journal {
    rows: BTreeMap<&'static str, Rows>,
    catalog: Arc<Catalog>,
    taken_at: Option<Timestamp>,
}

impl Journal {
    /// Starts from a document ([`Catalog::from_document`]). Changes written at or before
    /// `taken_at` are taken to be in it already.
    pub fn new(document: &str, taken_at: Option<Timestamp>) -> Result<Self, JournalError> {
        let catalog = Arc::new(Catalog::from_document(document)?);
        let mut arrays: Map<String, Value> =
            serde_json::from_str(document).map_err(DocumentError::from)?;
        let mut rows = BTreeMap::new();
        for (name, key) in TABLES {
            let Some(Value::Array(array)) = arrays.remove(name) else { continue };
            let keyed: Option<Rows> = array.into_iter().map(|row| keyed(row, key)).collect();
            rows.insert(name, keyed.ok_or(JournalError::Key(name))?);
        }
        Ok(Self { rows, catalog, taken_at })
    }

    /// The schema now. It is shared, so that a mutation decoded with it can be applied.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// Applies what a mutation does to the schema; all its updates at once, because between them
    /// the schema need not be whole. Mutations of other tables change nothing and cost little.
    pub fn apply(&mut self, updates: &[PartitionUpdate<'_>]) -> Result<Vec<Change>, JournalError> {
        let known = |written: Timestamp| self.taken_at.is_some_and(|taken_at| written <= taken_at);
        let mut rows = None;
        for update in updates.iter().filter(|update| &*update.table.keyspace == "system_schema") {
            let entry = TABLES.into_iter().find(|(name, _)| *name == &*update.table.name);
            let (Some((name, key)), Some((_, written))) = (entry, update.write_times()) else {
                continue;
            };
            if !known(written) {
                let rows = rows.get_or_insert_with(|| self.rows.clone());
                change(rows.entry(name).or_default(), name, key, update)?;
            }
        }
        let Some(rows) = rows else { return Ok(Vec::new()) };
        let newer = Catalog::from_value(document(&rows))?.without_torsos();
        let mut catalog = Catalog::clone(&self.catalog);
        let changes = catalog.absorb(newer);
        self.rows = rows;
        self.catalog = Arc::new(catalog);
        Ok(changes)
    }
}

fn document(rows: &BTreeMap<&'static str, Rows>) -> Value {
    let empty = Rows::new();
    let arrays = TABLES.iter().map(|(name, _)| {
        let rows = rows.get(name).unwrap_or(&empty);
        ((*name).to_owned(), Value::Array(rows.values().cloned().map(Value::Object).collect()))
    });
    Value::Object(arrays.collect())
}

/// A row by the texts of its key.
fn keyed(row: Value, key: &[&str]) -> Option<(Vec<String>, Row)> {
    let Value::Object(row) = row else { return None };
    let parts = key.iter().map(|part| row.get(*part).and_then(Value::as_str).map(str::to_owned));
    let key: Option<Vec<String>> = parts.collect();
    Some((key?, row))
}

/// Removes the rows that the update deletes, then writes those that it writes.
fn change(
    rows: &mut Rows,
    name: &'static str,
    key: &[&str],
    update: &PartitionUpdate<'_>,
) -> Result<(), JournalError> {
    let partition = PartitionState::new(update)?;
    let keyspace = String::from_utf8_lossy(update.key);
    let mut deleted = Vec::new();
    for row in rows.keys().filter(|row| row.first().is_some_and(|first| *first == keyspace)) {
        if is_deleted(update.table, &partition, row)? {
            deleted.push(row.clone());
        }
    }
    for row in deleted {
        rows.remove(&row);
    }
    let mut written = TableState::default();
    written.apply(update)?;
    for row in written.select(update.table, Seconds(i64::MIN)) {
        let row: Value = serde_json::from_str(&row?).map_err(DocumentError::from)?;
        let (key, row) = keyed(row, key).ok_or(JournalError::Key(name))?;
        let known = rows.entry(key).or_default();
        // An update names only what it changes, and shows the rest as null.
        for (field, value) in row {
            if !value.is_null() || !known.contains_key(&field) {
                known.insert(field, value);
            }
        }
    }
    Ok(())
}

fn is_deleted(
    table: &Table,
    partition: &PartitionState,
    row: &[String],
) -> Result<bool, reconcile::Error> {
    let clustering: Vec<_> = row.iter().skip(1).map(|part| Some(part.as_bytes())).collect();
    let key = ClusteringKey::new(table, &clustering)?;
    let own = partition.rows.get(&key).is_some_and(|row| row.deletion.is_some());
    Ok(own || partition.covering(&key).is_some())
}
