//! A schema that follows the log: DDL is written to `system_schema` by ordinary mutations, in the
//! same segments and before the first write that needs it.
//!
//! [`Journal`] keeps the rows of a schema document and changes them as those mutations do, so
//! that a segment can be read with the schema of its own time. It needs a document to start from,
//! which describes `system_schema` itself; what happened in segments that were not kept it cannot
//! know. Then the newer state is fetched and absorbed ([`Catalog::absorb`]).
//!
//! DDL older than the document changes nothing of what the document says. It is followed on the
//! side, for the tables that were gone when the document was taken: their records may still be
//! there, and nothing else tells what they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::document::parse;
use super::{Catalog, Change, DocumentError, Lookup as _, Table, TableId};
use crate::reconcile::{self, ClusteringKey, PartitionState, TableState};
use crate::update::{Item, PartitionUpdate, Seconds, Timestamp};

/// The tables that matter and their keys, the partition key first.
const TABLES: [(&str, &[&str]); 6] = [
    ("keyspaces", &["keyspace_name"]),
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
/// Rows by the table of `system_schema` that they are in.
type Schema = BTreeMap<&'static str, Rows>;
/// What a mutation does to one of the tables that matter: its name, its key, and what it does.
type Written<'u> = (&'static str, &'static [&'static str], &'u PartitionUpdate<'u>);

/// A schema and how it changes.
///
/// ```
/// use helenus_cql::schema::Journal;
/// use helenus_cql::update::{PartitionUpdate, Timestamp};
///
/// let document = r#"{"tables": [], "columns": []}"#; // of a real node: a thousand rows
/// let mut journal = Journal::new(document, Timestamp(1_763_000_000_000_000))?;
/// let catalog = journal.catalog(); // decode a mutation with it, then:
/// let updates: Vec<PartitionUpdate<'_>> = Vec::new();
/// assert!(journal.apply(&updates)?.is_empty());
/// # Ok::<(), helenus_cql::schema::JournalError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Journal {
    rows: Schema,
    catalog: Arc<Catalog>,
    taken_at: Timestamp,
    /// What older DDL says by itself. The catalog knows every table that it gives.
    past: Schema,
}

impl Journal {
    /// Starts from a document ([`Catalog::from_document`]). Changes written at or before
    /// `taken_at` are taken to be in it already; only tables that it no longer has are learned.
    pub fn new(document: &str, taken_at: Timestamp) -> Result<Self, JournalError> {
        let mut arrays = parse(document).map_err(DocumentError::from)?;
        let catalog = Arc::new(Catalog::from_value(Value::Object(arrays.clone()))?);
        let mut rows = Schema::new();
        for (name, key) in TABLES {
            let Some(Value::Array(array)) = arrays.remove(name) else { continue };
            let keyed: Option<Rows> = array.into_iter().map(|row| keyed(row, key)).collect();
            rows.insert(name, keyed.ok_or(JournalError::Key(name))?);
        }
        Ok(Self { rows, catalog, taken_at, past: Schema::new() })
    }

    /// The schema now. It is shared, so that a mutation decoded with it can be applied.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// Applies what a mutation does to the schema; all its updates at once, because between them
    /// the schema need not be whole. Mutations of other tables change nothing and cost little. What
    /// is learned of tables that were gone before the document is no change.
    pub fn apply(&mut self, updates: &[PartitionUpdate<'_>]) -> Result<Vec<Change>, JournalError> {
        let (mut older, mut newer) = (Vec::new(), Vec::new());
        for update in updates.iter().filter(|update| &*update.table.keyspace == "system_schema") {
            let entry = TABLES.into_iter().find(|(name, _)| *name == &*update.table.name);
            let (Some((name, key)), Some((_, written))) = (entry, update.write_times()) else {
                continue;
            };
            let written = if written <= self.taken_at { &mut older } else { &mut newer };
            written.push((name, key, update));
        }
        let changes = if newer.is_empty() { Vec::new() } else { self.follow(&newer)? };
        if !older.is_empty() {
            // What cannot be made sense of was long over when the document was taken.
            let _ignored = self.recall(&older);
        }
        Ok(changes)
    }

    /// Tables that older DDL turned capture on for, whatever the document says of them.
    pub fn captured_before(&self) -> impl Iterator<Item = TableId> {
        let tables = self.past.get("tables").into_iter().flatten();
        let captured = tables.filter(|(_, row)| row.get("cdc") == Some(&Value::Bool(true)));
        captured.filter_map(|(_, row)| Some(TableId(row.get("id")?.as_str()?.parse().ok()?)))
    }

    fn follow(&mut self, newer: &[Written<'_>]) -> Result<Vec<Change>, JournalError> {
        let rows = changed(&self.rows, newer)?;
        let newer = Catalog::from_value(document(&rows))?;
        let mut catalog = Catalog::clone(&self.catalog);
        let changes = catalog.absorb(newer);
        self.rows = rows;
        self.catalog = Arc::new(catalog);
        Ok(changes)
    }

    /// Learns the tables that the document no longer had.
    fn recall(&mut self, older: &[Written<'_>]) -> Result<(), JournalError> {
        let past = changed(&self.past, older)?;
        // Types of the past come first; those that were there all the time only the document has.
        let mut told = past.clone();
        let types = told.entry("types").or_default();
        for (key, row) in self.rows.get("types").into_iter().flatten() {
            types.entry(key.clone()).or_insert_with(|| row.clone());
        }
        add_base_columns(&mut told, &self.rows);
        let tables = Catalog::from_value(document(&told))?;
        let is_part =
            |table: &Table| self.catalog.table(table.id).is_none() && drops_columns(older, table);
        if tables.tables().any(is_part) {
            return Ok(());
        }
        self.past = past;
        for table in tables.tables() {
            if self.catalog.lacks(table) {
                Arc::make_mut(&mut self.catalog).recall(table.clone());
            }
        }
        Ok(())
    }
}

/// Adds the columns of base tables that are there to this day: what a view of the past shows depends
/// on its base table's key, and the past may not tell it.
fn add_base_columns(told: &mut Schema, present: &Schema) {
    let (Some(tables), Some(columns)) = (present.get("tables"), present.get("columns")) else {
        return;
    };
    for view in told.get("views").cloned().unwrap_or_default().values() {
        let text = |name: &str| view.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(keyspace), Some(base)) = (text("keyspace_name"), text("base_table_name")) else {
            continue;
        };
        let base = [keyspace, base];
        let id = tables.get(&base[..]).and_then(|table| table.get("id"));
        if id.is_none() || id != view.get("base_table_id") {
            continue;
        }
        let known = told.entry("columns").or_default();
        for (key, row) in columns.iter().filter(|(key, _)| key.starts_with(&base)) {
            known.entry(key.clone()).or_insert_with(|| row.clone());
        }
    }
}

/// Whether the updates change columns of the table, and not only add some. Of a table that is not
/// known such a change (a key that was renamed) tells a part, and its records need the whole.
fn drops_columns(updates: &[Written<'_>], table: &Table) -> bool {
    let of_keyspace = |(name, _, update): &&Written<'_>| {
        *name == "columns" && update.key == table.keyspace.as_bytes()
    };
    let items = updates.iter().filter(of_keyspace).flat_map(|(_, _, update)| &update.items);
    items.into_iter().any(|item| match item {
        Item::Row(row) => {
            row.deletion.is_some() && row.clustering.first() == Some(&Some(table.name.as_bytes()))
        }
        Item::Marker(_) => false,
    })
}

fn document(rows: &Schema) -> Value {
    let empty = Rows::new();
    let arrays = TABLES.iter().map(|(name, _)| {
        let rows = rows.get(name).unwrap_or(&empty);
        ((*name).to_owned(), Value::Array(rows.values().cloned().map(Value::Object).collect()))
    });
    Value::Object(arrays.collect())
}

/// The rows after the updates.
fn changed(rows: &Schema, updates: &[Written<'_>]) -> Result<Schema, JournalError> {
    let mut rows = rows.clone();
    for (name, key, update) in updates {
        change(rows.entry(name).or_default(), name, key, update)?;
    }
    Ok(rows)
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

#[cfg(test)]
mod tests;
