//! Change events: what one mutation did, one event a row, range, partition or static row.
//!
//! [`split`] makes them of a decoded update, [`json`] writes and reads them. A row that a batch
//! deleted and wrote again is one event: the deletion and the newer cells stay together. Nothing is
//! left out that Cassandra's merge needs, so the events of any number of replicas, in any order and
//! any number of times, give the rows that the cluster has ([`crate::reconcile`]).
//!
//! ```
//! use helenus_cql::change::{Operation, Origin, Scope, json, split};
//! use helenus_cql::schema::Catalog;
//! use helenus_cql::update::{Item, Liveness, PartitionUpdate, RowUpdate, Timestamp};
//!
//! # let catalog = Catalog::from_document(r#"{
//! #     "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
//! #                 "id": "00000000-0000-0000-0000-000000000001"}],
//! #     "columns": [{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
//! #                  "kind": "partition_key", "position": 0, "type": "int"}]
//! # }"#)?;
//! let table = catalog.by_name("ks", "t").expect("the one in the document");
//! let liveness = Some(Liveness { timestamp: Timestamp(1), expiry: None });
//! let row = RowUpdate { liveness, ..RowUpdate::default() };
//! let update = PartitionUpdate {
//!     table, key: &[0, 0, 0, 7], deletion: None, static_row: None, items: vec![Item::Row(row)],
//! };
//! let events = split(update, &Origin::default())?;
//! assert_eq!((events[0].operation(), events[0].scope()), (Operation::Insert, Scope::Row));
//! let mut text = String::new();
//! json::write(&events[0], &json::Policy::default(), &mut text);
//! let read = json::read(&text, &catalog)?;
//! assert_eq!(read.event(), events[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod identity;
pub mod json;
mod split;
mod version;

use std::sync::Arc;

use thiserror::Error;
use uuid::Uuid;

use crate::schema::Table;
use crate::update::{
    Bound, ColumnUpdate, Content, Deletion, Item, Marker, PartitionUpdate, RowUpdate, Timestamp,
};

pub use split::{split, split_from};
pub use version::schema_version;

/// What a change did, in the words of the pipeline that consumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An INSERT, which writes a row whether it was there or not.
    Insert,
    /// Anything else that writes values.
    Update,
    /// What only deletes.
    Delete,
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A row.
    Row,
    /// A whole partition.
    Partition,
    /// The rows between two bounds.
    Range,
    /// The static columns of a partition.
    Static,
    /// Some columns of a row, all of them deleted.
    Column,
    /// Some elements of a row's collections.
    Element,
}

/// Where a change was read. It is no part of the change's identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The node.
    pub node: Arc<str>,
    /// The segment's id.
    pub segment: i64,
    /// The logical offset behind the record.
    pub offset: u64,
    /// The table's definition at that time ([`schema_version`]).
    pub schema_version: u32,
}

/// How events become the bodies of records: JSON ([`json::Policy`]), and what else is needed.
pub trait Encode {
    /// The media type of what it writes.
    fn content_type(&self) -> &'static str;

    /// Writes the body of an event's record over what is in `out`.
    fn encode(&self, event: &ChangeEvent<'_>, out: &mut Vec<u8>);
}

/// A change of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeEvent<'a> {
    /// From the content alone: the same on every replica and at every reading.
    pub event_id: Uuid,
    /// The table.
    pub table: &'a Table,
    /// The bytes of the partition key.
    pub key: &'a [u8],
    /// What was done.
    pub change: Change<'a>,
    /// The same for all changes of one mutation to one table.
    pub trace_id: Uuid,
    /// Where it was read.
    pub origin: Origin,
    /// Which change of its record it is, from 0.
    pub index: u32,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// The partition was deleted.
    Partition(Deletion),
    /// Rows between two bounds were deleted.
    Range(RangeDeletion<'a>),
    /// Static columns were written.
    Static(RowUpdate<'a>),
    /// A row was written, deleted, or both.
    Row(RowUpdate<'a>),
}

/// A deletion of the rows between two bounds, in the order of the table's comparator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeDeletion<'a> {
    /// Where it begins.
    pub start: Bound<'a>,
    /// Where it ends.
    pub end: Bound<'a>,
    /// The deletion.
    pub deletion: Deletion,
}

/// An update that is no set of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A partition key that does not split into the table's columns.
    #[error("the partition key does not fit the table")]
    Key,
    /// Range markers that do not pair up.
    #[error("a range marker closes what is not open, or leaves open what it should close")]
    Markers,
}

impl<'a> ChangeEvent<'a> {
    /// The change as an update of its partition, to be merged ([`crate::reconcile`]).
    #[must_use]
    pub fn into_update(self) -> PartitionUpdate<'a> {
        let mut update = PartitionUpdate {
            table: self.table,
            key: self.key,
            deletion: None,
            static_row: None,
            items: Vec::new(),
        };
        match self.change {
            Change::Partition(deletion) => update.deletion = Some(deletion),
            Change::Range(RangeDeletion { start, end, deletion }) => {
                let deletion = Some(deletion);
                let start = Marker { bound: start, end: None, start: deletion };
                let end = Marker { bound: end, end: deletion, start: None };
                update.items.extend([Item::Marker(start), Item::Marker(end)]);
            }
            Change::Static(row) => update.static_row = Some(row),
            Change::Row(row) => update.items.push(Item::Row(row)),
        }
        update
    }

    /// What was done, in one word.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match &self.change {
            Change::Partition(_) | Change::Range(_) => Operation::Delete,
            Change::Row(row) if row.liveness.is_some() => Operation::Insert,
            Change::Static(row) | Change::Row(row) if row.columns.iter().all(only_deletes) => {
                Operation::Delete
            }
            Change::Static(_) | Change::Row(_) => Operation::Update,
        }
    }

    /// What it is about.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match &self.change {
            Change::Partition(_) => Scope::Partition,
            Change::Range(_) => Scope::Range,
            Change::Static(_) => Scope::Static,
            Change::Row(row) if row.liveness.is_some() || row.deletion.is_some() => Scope::Row,
            Change::Row(row) if row.columns.is_empty() => Scope::Row,
            Change::Row(row) if row.columns.iter().all(is_by_element) => Scope::Element,
            Change::Row(row) if row.columns.iter().all(only_deletes) => Scope::Column,
            Change::Row(_) => Scope::Row,
        }
    }

    /// The latest write time in it.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        match &self.change {
            Change::Partition(deletion) => deletion.timestamp,
            Change::Range(range) => range.deletion.timestamp,
            Change::Static(row) | Change::Row(row) => {
                row.write_times().map_or(Timestamp(i64::MIN), |(_, last)| last)
            }
        }
    }
}

fn only_deletes(update: &ColumnUpdate<'_>) -> bool {
    match update {
        ColumnUpdate::Simple(_, cell) => matches!(cell.content, Content::Deleted(_)),
        ColumnUpdate::Complex(_, _, elements) => {
            elements.iter().all(|(_, cell)| matches!(cell.content, Content::Deleted(_)))
        }
    }
}

const fn is_by_element(update: &ColumnUpdate<'_>) -> bool {
    matches!(update, ColumnUpdate::Complex(_, None, _))
}

#[cfg(test)]
mod tests;
