//! A schema from a JSON document: an object with the arrays `keyspaces`, `tables`, `columns`,
//! `dropped_columns`, `types` and, where there are any, `views`, holding rows as
//! `SELECT JSON * FROM system_schema.…` prints them: as objects, or as the texts that a driver returns.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;
use uuid::Uuid;

use super::{Catalog, Column, ColumnKind, Layout, Table, TableId};
use crate::datatype::{CqlType, ParseError, UserType};
use crate::hex;
use crate::json::parse_timestamp;
use crate::update::Timestamp;

/// Why a document is no schema.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// Not JSON, or not rows of `system_schema`.
    #[error("the schema document is malformed: {0}")]
    Json(#[from] serde_json::Error),
    /// A type that cannot be understood.
    #[error("{place}: {error}")]
    Type {
        /// Keyspace, table and column, or keyspace and type.
        place: Box<str>,
        /// What is wrong with the type.
        error: ParseError,
    },
    /// Any other value that cannot be understood.
    #[error("{place}: {what} {value:?} is not understood")]
    Value {
        /// Keyspace, table and column.
        place: Box<str>,
        /// Which value.
        what: &'static str,
        /// The value.
        value: Box<str>,
    },
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    keyspaces: Vec<KeyspaceRow>,
    tables: Vec<TableRow>,
    columns: Vec<ColumnRow>,
    #[serde(default)]
    dropped_columns: Vec<DroppedRow>,
    #[serde(default)]
    types: Vec<TypeRow>,
    #[serde(default)]
    views: Vec<ViewRow>,
}

#[derive(Deserialize)]
struct KeyspaceRow {
    keyspace_name: String,
    durable_writes: Option<bool>,
}

#[derive(Deserialize)]
struct TableRow {
    keyspace_name: String,
    table_name: String,
    id: Uuid,
    cdc: Option<bool>,
    flags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ViewRow {
    keyspace_name: String,
    view_name: String,
    id: Uuid,
    base_table_name: Option<String>,
}

#[derive(Deserialize)]
struct ColumnRow {
    keyspace_name: String,
    table_name: String,
    column_name: String,
    column_name_bytes: Option<String>,
    clustering_order: Option<String>,
    kind: String,
    /// Only key columns have one that matters.
    #[serde(default)]
    position: i32,
    #[serde(rename = "type")]
    ty: String,
}

#[derive(Deserialize)]
struct DroppedRow {
    keyspace_name: String,
    table_name: String,
    column_name: String,
    dropped_time: String,
    kind: Option<String>,
    #[serde(rename = "type")]
    ty: String,
}

#[derive(Deserialize)]
struct TypeRow {
    keyspace_name: String,
    type_name: String,
    field_names: Vec<String>,
    field_types: Vec<String>,
}

type UserTypes = HashMap<(String, String), Arc<UserType>>;
/// Rows of one table, by keyspace and name.
type ByTable<T> = HashMap<(String, String), Vec<T>>;

/// The arrays of a document, each row as an object.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let mut arrays: Map<String, Value> = serde_json::from_str(text)?;
    for row in arrays.values_mut().filter_map(Value::as_array_mut).flatten() {
        if let Value::String(text) = row {
            *row = serde_json::from_str(text)?;
        }
    }
    Ok(arrays)
}

impl Catalog {
    /// Loads a schema document. Tables without a partition key are left out: they are not whole.
    ///
    /// ```
    /// use helenus_cql::schema::Catalog;
    ///
    /// let catalog = Catalog::from_document(r#"{
    ///     "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
    ///                 "id": "cf5c1330-e12a-11f1-8855-3b04128900bb", "cdc": true}],
    ///     "columns": [{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
    ///                  "column_name_bytes": "0x6964", "clustering_order": "none",
    ///                  "kind": "partition_key", "position": 0, "type": "int"}]
    /// }"#)?;
    /// let table = catalog.by_name("ks", "t").expect("the one in the document");
    /// assert!(table.cdc && table.partition_key.len() == 1);
    /// # Ok::<(), helenus_cql::schema::DocumentError>(())
    /// ```
    pub fn from_document(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(Value::Object(parse(text)?))
    }

    /// The same from a document already parsed ([`parse`]).
    pub(super) fn from_value(document: Value) -> Result<Self, DocumentError> {
        Self::load(serde_json::from_value(document)?)
    }

    fn load(document: Document) -> Result<Self, DocumentError> {
        let types = user_types(document.types)?;
        let mut columns: ByTable<ColumnRow> = HashMap::new();
        for row in document.columns {
            let table = (row.keyspace_name.clone(), row.table_name.clone());
            columns.entry(table).or_default().push(row);
        }
        let mut dropped: ByTable<DroppedRow> = HashMap::new();
        for row in document.dropped_columns {
            let table = (row.keyspace_name.clone(), row.table_name.clone());
            dropped.entry(table).or_default().push(row);
        }
        let views = document.views.iter().map(|view| (view.as_table(), view.is_strict(&columns)));
        let views: Vec<_> = views.collect();
        let mut tables = Vec::new();
        for (row, is_strict) in document.tables.into_iter().map(|row| (row, false)).chain(views) {
            let name = (row.keyspace_name.clone(), row.table_name.clone());
            let columns = columns.remove(&name).unwrap_or_default();
            let dropped = dropped.remove(&name).unwrap_or_default();
            let mut table = table(&row, columns, dropped, &types)?;
            table.strict_liveness = is_strict;
            // A table may be there without its columns: one that was dropped between the reads of
            // the two, or of a node that starts, which deletes and rewrites the rows of its own
            // tables in several mutations.
            if !table.partition_key.is_empty() {
                tables.push(table);
            }
        }
        let unlogged =
            document.keyspaces.into_iter().filter(|row| row.durable_writes == Some(false));
        let unlogged = unlogged.map(|row| row.keyspace_name).collect();
        let mut catalog = Self::new(tables);
        catalog.unlogged = unlogged;
        Ok(catalog)
    }
}

impl ViewRow {
    /// A view is stored as an ordinary table.
    fn as_table(&self) -> TableRow {
        TableRow {
            keyspace_name: self.keyspace_name.clone(),
            table_name: self.view_name.clone(),
            id: self.id,
            cdc: None,
            flags: Some(vec!["compound".to_owned()]),
        }
    }

    /// Whether its key has a column that is none of its base table's key. Without the base table
    /// nothing can be said.
    fn is_strict(&self, columns: &ByTable<ColumnRow>) -> bool {
        let key_of = |table: &str| -> Vec<&str> {
            let columns = columns.get(&(self.keyspace_name.clone(), table.to_owned()));
            let columns = columns.into_iter().flatten();
            let key = columns.filter(|row| matches!(&*row.kind, "partition_key" | "clustering"));
            key.map(|row| &*row.column_name).collect()
        };
        let base = self.base_table_name.as_deref().map(key_of).unwrap_or_default();
        !base.is_empty() && key_of(&self.view_name).iter().any(|name| !base.contains(name))
    }
}

fn table(
    row: &TableRow,
    mut columns: Vec<ColumnRow>,
    dropped: Vec<DroppedRow>,
    types: &UserTypes,
) -> Result<Table, DocumentError> {
    columns.sort_by_key(|column| column.position);
    let mut all = Vec::with_capacity(columns.len() + dropped.len());
    for column in &columns {
        all.push(current_column(column, types)?);
    }
    for gone in &dropped {
        drop_column(&mut all, gone, types)?;
    }
    let mut table = Table::new(TableId(row.id), &row.keyspace_name, &row.table_name, all);
    let flag = |name: &str| row.flags.iter().flatten().any(|flag| flag == name);
    table.cdc = row.cdc.unwrap_or(false);
    table.counter = flag("counter");
    // A node always says; whoever writes a document by hand means an ordinary table.
    table.layout = match (flag("dense"), row.flags.is_none() || flag("compound")) {
        (true, _) => Layout::Dense,
        (false, true) => Layout::Ordinary,
        (false, false) => Layout::StaticCompact,
    };
    Ok(table)
}

fn current_column(row: &ColumnRow, types: &UserTypes) -> Result<Column, DocumentError> {
    let place = || format!("{}.{}.{}", row.keyspace_name, row.table_name, row.column_name);
    let unknown = |what, value: &str| DocumentError::Value {
        place: place().into(),
        what,
        value: value.into(),
    };
    let name_bytes = match &row.column_name_bytes {
        Some(text) => text
            .strip_prefix("0x")
            .and_then(hex::decode)
            .ok_or_else(|| unknown("column_name_bytes", text))?,
        None => row.column_name.clone().into_bytes(),
    };
    let kind = kind(&row.kind).ok_or_else(|| unknown("kind", &row.kind))?;
    let ty = column_type(&row.keyspace_name, &row.ty, types, &place)?;
    Ok(Column {
        descending: row.clustering_order.as_deref() == Some("desc"),
        ..Column::new(&row.column_name, &name_bytes, kind, ty)
    })
}

/// A dropped column lives on under its name: as the void past of the column that replaced it, or
/// as a former column.
fn drop_column(
    columns: &mut Vec<Column>,
    row: &DroppedRow,
    types: &UserTypes,
) -> Result<(), DocumentError> {
    let place = || format!("{}.{}.{}", row.keyspace_name, row.table_name, row.column_name);
    let unknown = |what, value: &str| DocumentError::Value {
        place: place().into(),
        what,
        value: value.into(),
    };
    let milliseconds = parse_timestamp(&row.dropped_time)
        .ok_or_else(|| unknown("dropped_time", &row.dropped_time))?;
    // A node goes by the microsecond and writes down the millisecond. Up to its end nothing can have been
    // written to the column that came after.
    let dropped_at = Some(Timestamp(milliseconds.saturating_mul(1000).saturating_add(999)));
    let text = row.kind.as_deref().unwrap_or("regular");
    let kind = kind(text).ok_or_else(|| unknown("kind", text))?;
    let successor =
        columns.iter_mut().find(|column| *column.name == row.column_name && column.kind == kind);
    if let Some(successor) = successor {
        successor.dropped_at = dropped_at;
        return Ok(());
    }
    let ty = column_type(&row.keyspace_name, &row.ty, types, &place)?;
    let column = Column::new(&row.column_name, row.column_name.as_bytes(), kind, ty);
    columns.push(Column { current: false, dropped_at, ..column });
    Ok(())
}

fn kind(text: &str) -> Option<ColumnKind> {
    match text {
        "partition_key" => Some(ColumnKind::PartitionKey),
        "clustering" => Some(ColumnKind::Clustering),
        "static" => Some(ColumnKind::Static),
        "regular" => Some(ColumnKind::Regular),
        _ => None,
    }
}

fn column_type(
    keyspace: &str,
    text: &str,
    types: &UserTypes,
    place: &dyn Fn() -> String,
) -> Result<CqlType, DocumentError> {
    let find = |name: &str| types.get(&(keyspace.to_owned(), name.to_owned())).cloned();
    CqlType::parse(text, &find)
        .map_err(|error| DocumentError::Type { place: place().into(), error })
}

/// Types may mention each other in any order, so they are resolved in rounds, until a round
/// resolves nothing new.
fn user_types(rows: Vec<TypeRow>) -> Result<UserTypes, DocumentError> {
    let mut known = UserTypes::new();
    let mut pending = rows;
    while !pending.is_empty() {
        let before = pending.len();
        let mut unresolved = Vec::new();
        let mut failure = None;
        for row in pending {
            match user_type(&row, &known) {
                Ok(user) => {
                    known.insert((row.keyspace_name, row.type_name), Arc::new(user));
                }
                Err(error) => {
                    failure = Some(error);
                    unresolved.push(row);
                }
            }
        }
        if let Some(error) = failure.filter(|_| unresolved.len() == before) {
            return Err(error);
        }
        pending = unresolved;
    }
    Ok(known)
}

fn user_type(row: &TypeRow, known: &UserTypes) -> Result<UserType, DocumentError> {
    let place = || format!("{}.{}", row.keyspace_name, row.type_name);
    if row.field_names.len() != row.field_types.len() {
        let value = row.field_types.join(", ");
        return Err(DocumentError::Value {
            place: place().into(),
            what: "field_types",
            value: value.into(),
        });
    }
    let mut fields = Vec::with_capacity(row.field_names.len());
    for (name, ty) in row.field_names.iter().zip(&row.field_types) {
        fields.push((name.as_str().into(), column_type(&row.keyspace_name, ty, known, &place)?));
    }
    Ok(UserType {
        keyspace: row.keyspace_name.as_str().into(),
        name: row.type_name.as_str().into(),
        fields,
    })
}

#[cfg(test)]
mod tests;
