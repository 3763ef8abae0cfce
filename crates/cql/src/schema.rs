//! Tables as a reader of old bytes needs them: every column a record may name, also those that
//! are gone.
//!
//! A [`Table`] is one table id; a table dropped and created again is another one. [`Catalog`]
//! holds the tables of a cluster, is loaded from rows of `system_schema`
//! ([`Catalog::from_document`]) and remembers, when a newer state is absorbed, what the newer
//! state no longer tells; a [`Journal`] follows the changes that the log itself carries. Nothing
//! here asks a node.

mod catalog;
mod document;
mod journal;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::datatype::CqlType;
use crate::json;
use crate::update::Timestamp;
use crate::wire::Reader;

pub use catalog::{ByTable, Catalog, Change, Lookup};
pub use document::DocumentError;
pub use journal::{Journal, JournalError};

/// The id of a table, unique for ever; every partition update names its table by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub Uuid);

impl TableId {
    /// The id from its bytes in a record.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Whether this is one of a node's own tables, such as `system.local`: their ids are made of their
    /// names (UUID version 3), those of all others of the time they were created.
    #[must_use]
    pub const fn is_internal(self) -> bool {
        self.0.get_version_num() == 3
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Part of the clustering key.
    Clustering,
    /// One value a partition.
    Static,
    /// One value a row.
    Regular,
}

/// A column, current or former.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, case preserved.
    pub name: Arc<str>,
    /// Its name as records have it; the same, except in tables of the thrift age.
    pub name_bytes: Arc<[u8]>,
    /// What it is for.
    pub kind: ColumnKind,
    /// Its type.
    pub ty: Arc<CqlType>,
    /// Clustering in descending order.
    pub descending: bool,
    /// False for a column that the table no longer has.
    pub current: bool,
    /// When a column of this name was last dropped: cells written at or before that moment are
    /// void, also if the column has come back.
    pub dropped_at: Option<Timestamp>,
    /// How a field of its name begins in a JSON object, `"name":`. Change events are full of these.
    pub(crate) label: Arc<str>,
}

impl Column {
    /// A column that the table has, in ascending order if it is a clustering column.
    #[must_use]
    pub fn new(name: &str, name_bytes: &[u8], kind: ColumnKind, ty: CqlType) -> Self {
        let mut label = String::new();
        json::write_string(name, &mut label);
        label.push(':');
        Self {
            name: name.into(),
            name_bytes: name_bytes.into(),
            kind,
            ty: Arc::new(ty),
            descending: false,
            current: true,
            dropped_at: None,
            label: label.into(),
        }
    }

    /// True if the column is stored as several cells with paths.
    #[must_use]
    pub fn is_complex(&self) -> bool {
        matches!(self.kind, ColumnKind::Static | ColumnKind::Regular) && self.ty.is_complex()
    }

    /// The type by which the cells of a complex column are told apart and ordered; `None` for
    /// the fields of a user-defined type, which go by number.
    #[must_use]
    pub fn path_type(&self) -> Option<Arc<CqlType>> {
        match &*self.ty {
            CqlType::List(_) => Some(Arc::new(CqlType::TimeUuid)),
            CqlType::Set(element) => Some(Arc::clone(element)),
            CqlType::Map(key, _) => Some(Arc::clone(key)),
            _ => None,
        }
    }
}

/// How a table is laid out, from `system_schema.tables.flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// An ordinary CQL table.
    #[default]
    Ordinary,
    /// COMPACT STORAGE with clustering columns: one value column and no row markers.
    Dense,
    /// COMPACT STORAGE without clustering columns: declared columns are stored as static ones.
    StaticCompact,
}

/// One table, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its id.
    pub id: TableId,
    /// Keyspace name.
    pub keyspace: Arc<str>,
    /// Table name.
    pub name: Arc<str>,
    /// Whether the node keeps its segments for readers.
    pub cdc: bool,
    /// Holds counters.
    pub counter: bool,
    /// How it is laid out.
    pub layout: Layout,
    /// A row is there only while its marker is live, whatever its columns hold: so in views whose
    /// key has a column that the key of their base table has not, because that column's value may
    /// move a row to another place and leave its cells behind.
    pub strict_liveness: bool,
    /// The partition key, in order.
    pub partition_key: Vec<Column>,
    /// The clustering key, in order.
    pub clustering: Vec<Column>,
    /// Static and regular columns, current and former, by [`Column::name_bytes`].
    columns: Vec<Column>,
    order: Arc<[ClusteringOrder]>,
}

/// The parts of a partition key: the whole of it, or each behind its length and before a zero.
#[derive(Debug, Clone)]
struct KeyParts<'k> {
    rest: Reader<'k>,
    is_single: bool,
}

impl<'k> Iterator for KeyParts<'k> {
    type Item = &'k [u8];

    fn next(&mut self) -> Option<&'k [u8]> {
        if std::mem::take(&mut self.is_single) {
            return self.rest.take(self.rest.rest().len()).ok();
        }
        let length = self.rest.u16().ok()?;
        let part = self.rest.take(usize::from(length)).ok()?;
        self.rest.u8().ok()?;
        Some(part)
    }
}

/// How one clustering column sorts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusteringOrder {
    /// Its type.
    pub ty: Arc<CqlType>,
    /// Largest first.
    pub descending: bool,
}

impl Table {
    /// A table of these columns, in any order; partition and clustering columns must come in
    /// key order among themselves.
    #[must_use]
    pub fn new(id: TableId, keyspace: &str, name: &str, columns: Vec<Column>) -> Self {
        let mut table = Self {
            id,
            keyspace: keyspace.into(),
            name: name.into(),
            cdc: false,
            counter: false,
            layout: Layout::Ordinary,
            strict_liveness: false,
            partition_key: Vec::new(),
            clustering: Vec::new(),
            columns: Vec::new(),
            order: Arc::new([]),
        };
        for column in columns {
            match column.kind {
                ColumnKind::PartitionKey => table.partition_key.push(column),
                ColumnKind::Clustering => table.clustering.push(column),
                ColumnKind::Static | ColumnKind::Regular => table.columns.push(column),
            }
        }
        table.columns.sort_by(|left, right| left.name_bytes.cmp(&right.name_bytes));
        table.order = table
            .clustering
            .iter()
            .map(|column| ClusteringOrder {
                ty: Arc::clone(&column.ty),
                descending: column.descending,
            })
            .collect();
        table
    }

    /// A static or regular column by the name a record has for it: the current one, or else one
    /// that was dropped.
    #[must_use]
    pub fn column(&self, name: &[u8], kind: ColumnKind) -> Option<&Column> {
        self.find(name, kind).and_then(|index| self.columns.get(index))
    }

    /// The same for names that mostly come in the table's order: `hint` is where the last call
    /// left it, first zero.
    #[must_use]
    pub fn next_column(&self, name: &[u8], kind: ColumnKind, hint: &mut usize) -> Option<&Column> {
        let written = |column: &Column| column.current && column.kind == kind;
        let expected = self.columns.iter().enumerate().skip(*hint).find(|(_, next)| written(next));
        let index = match expected {
            Some((index, column)) if *column.name_bytes == *name => index,
            _ => self.find(name, kind)?,
        };
        *hint = index + 1;
        self.columns.get(index)
    }

    fn find(&self, name: &[u8], kind: ColumnKind) -> Option<usize> {
        let first = self.columns.partition_point(|column| &*column.name_bytes < name);
        let same = self.columns.iter().enumerate().skip(first);
        let same = same.take_while(|(_, column)| &*column.name_bytes == name);
        let of_kind = same.filter(|(_, column)| column.kind == kind);
        of_kind.max_by_key(|(_, column)| column.current).map(|(index, _)| index)
    }

    /// The table's own static columns, in the order of `SELECT *`.
    #[must_use]
    pub fn statics(&self) -> Vec<&Column> {
        self.current(ColumnKind::Static)
    }

    /// The table's own regular columns, in the order of `SELECT *`.
    #[must_use]
    pub fn regulars(&self) -> Vec<&Column> {
        self.current(ColumnKind::Regular)
    }

    /// The parts of a partition key's bytes, one a column; `None` if they do not fit.
    #[must_use]
    pub fn key_parts<'k>(&self, key: &'k [u8]) -> Option<impl Iterator<Item = &'k [u8]>> {
        let count = self.partition_key.len();
        let parts = KeyParts { rest: Reader::new(key), is_single: count == 1 };
        let mut all = parts.clone();
        (all.by_ref().take(count).count() == count && all.rest.is_empty()).then_some(parts)
    }

    /// The bytes of a partition key of these parts.
    #[must_use]
    pub fn key_of(parts: &[Vec<u8>]) -> Option<Vec<u8>> {
        if let [single] = parts {
            return Some(single.clone());
        }
        let mut key = Vec::new();
        for part in parts {
            key.extend(u16::try_from(part.len()).ok()?.to_be_bytes());
            key.extend(part);
            key.push(0);
        }
        Some(key)
    }

    /// The static and regular columns, current and former.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How rows sort within a partition.
    #[must_use]
    pub const fn clustering_order(&self) -> &Arc<[ClusteringOrder]> {
        &self.order
    }

    fn current(&self, kind: ColumnKind) -> Vec<&Column> {
        let own = self.columns.iter().filter(|column| column.current && column.kind == kind);
        select_order(own)
    }

    /// Adds columns that only an older state of this table knew.
    fn remember(&mut self, former: Vec<Column>) {
        self.columns.extend(former);
        self.columns.sort_by(|left, right| left.name_bytes.cmp(&right.name_bytes));
    }
}

/// The order of `SELECT *`: simple and complex columns are sorted apart and then merged. The two
/// steps do not compare bytes above 127 alike, which shows in names that are not ASCII.
fn select_order<'a>(columns: impl Iterator<Item = &'a Column>) -> Vec<&'a Column> {
    let (mut complex, mut simple): (Vec<_>, Vec<_>) =
        columns.partition(|column| column.is_complex());
    for group in [&mut complex, &mut simple] {
        group.sort_by_cached_key(|column| {
            (name_prefix(&column.name_bytes), Arc::clone(&column.name_bytes))
        });
    }
    let signed = |column: &Column| -> Vec<i8> {
        column.name_bytes.iter().map(|byte| byte.cast_signed()).collect()
    };
    let mut ordered = Vec::with_capacity(complex.len() + simple.len());
    let mut complex = complex.into_iter().peekable();
    for column in simple {
        while let Some(earlier) = complex.next_if(|next| signed(next) < signed(column)) {
            ordered.push(earlier);
        }
        ordered.push(column);
    }
    ordered.extend(complex);
    ordered
}

/// The first six bytes of a name, of which Cassandra compares the first as a signed one.
fn name_prefix(name: &[u8]) -> [u8; 6] {
    let mut prefix = [0; 6];
    for (place, byte) in prefix.iter_mut().zip(name) {
        *place = *byte;
    }
    let [first, ..] = &mut prefix;
    *first ^= 0x80;
    prefix
}
