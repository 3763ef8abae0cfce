//! What one mutation does to one partition, as it was written: cells, deletions, and when.
//!
//! The commit log decoder produces these, [`crate::reconcile`] folds them into a state. Values
//! are borrowed bytes in Cassandra's encoding; the column says the type.

use crate::schema::{Column, Table};

/// A write time: microseconds since 1970 by convention, anything by `USING TIMESTAMP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A moment in whole seconds since 1970, by a server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub i64);

/// A time to live in seconds, as the writer gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(pub i32);

/// A deletion: everything it covers with a timestamp not above its own is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deletion {
    /// Write time.
    pub timestamp: Timestamp,
    /// When the server saw it.
    pub at: Seconds,
}

/// An expiry: when, and of which TTL it came. Neither follows from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expiry {
    /// The second from which on the value is gone.
    pub at: Seconds,
    /// The TTL it was written with.
    pub ttl: Ttl,
}

/// The row marker that an INSERT leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// Write time.
    pub timestamp: Timestamp,
    /// Set if it was written with a TTL.
    pub expiry: Option<Expiry>,
}

/// What a cell holds besides its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content<B> {
    /// A value.
    Live(B),
    /// A value with an end.
    Expiring(B, Expiry),
    /// A tombstone, and when the server saw it.
    Deleted(Seconds),
}

/// One cell. `B` is how its bytes are held: borrowed here, owned in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell<B> {
    /// Write time.
    pub timestamp: Timestamp,
    /// Value or tombstone.
    pub content: Content<B>,
}

/// A cell of a complex column with its path: element, key, list position or field number.
pub type Element<'a> = (&'a [u8], Cell<&'a [u8]>);

/// What a row says of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnUpdate<'a> {
    /// A column of one cell.
    Simple(&'a Column, Cell<&'a [u8]>),
    /// A collection or user-defined type stored cell by cell.
    Complex(&'a Column, Option<Deletion>, Vec<Element<'a>>),
}

impl<'a> ColumnUpdate<'a> {
    /// The column.
    #[must_use]
    pub const fn column(&self) -> &'a Column {
        match self {
            Self::Simple(column, _) | Self::Complex(column, ..) => column,
        }
    }
}

/// Clustering values, or the first few of them; `None` is a null, which only dense compact
/// tables have.
pub type Clustering<'a> = Vec<Option<&'a [u8]>>;

/// A row, as far as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowUpdate<'a> {
    /// Empty for a static row and in tables without clustering columns.
    pub clustering: Clustering<'a>,
    /// The marker of an INSERT.
    pub liveness: Option<Liveness>,
    /// A deletion of the whole row.
    pub deletion: Option<Deletion>,
    /// The columns written, in the record's order.
    pub columns: Vec<ColumnUpdate<'a>>,
}

impl RowUpdate<'_> {
    /// The earliest and the latest write time in it; `None` if it writes nothing.
    #[must_use]
    pub fn write_times(&self) -> Option<(Timestamp, Timestamp)> {
        let mut span = Span(None);
        span.row(self);
        span.0
    }

    /// Puts the columns into the order of their names, which is the same on every node.
    pub fn sort_columns(&mut self) {
        self.columns
            .sort_by(|left, right| left.column().name_bytes.cmp(&right.column().name_bytes));
    }
}

/// On which side of all rows that share a bound's values a range begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Before them.
    Before,
    /// Behind them.
    After,
}

/// A point between rows. No values and [`Side::Before`] is the start of the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The first clustering values.
    pub values: Clustering<'a>,
    /// Which side of them.
    pub side: Side,
}

/// Where a range deletion begins, ends, or gives way to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker<'a> {
    /// Where, in the order of the table's comparator.
    pub bound: Bound<'a>,
    /// The deletion that ends here.
    pub end: Option<Deletion>,
    /// The deletion that begins here.
    pub start: Option<Deletion>,
}

/// A row or a range marker, in clustering order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// A row.
    Row(RowUpdate<'a>),
    /// A range marker.
    Marker(Marker<'a>),
}

/// What one mutation does to one partition of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionUpdate<'a> {
    /// The table.
    pub table: &'a Table,
    /// The partition key's bytes.
    pub key: &'a [u8],
    /// A deletion of the whole partition.
    pub deletion: Option<Deletion>,
    /// The static row.
    pub static_row: Option<RowUpdate<'a>>,
    /// Rows and range markers.
    pub items: Vec<Item<'a>>,
}

impl PartitionUpdate<'_> {
    /// The earliest and the latest write time in it; `None` if it writes nothing.
    #[must_use]
    pub fn write_times(&self) -> Option<(Timestamp, Timestamp)> {
        let mut span = Span(None);
        span.deletion(self.deletion);
        self.static_row.iter().for_each(|row| span.row(row));
        for item in &self.items {
            match item {
                Item::Row(row) => span.row(row),
                Item::Marker(marker) => {
                    span.deletion(marker.end);
                    span.deletion(marker.start);
                }
            }
        }
        span.0
    }
}

/// The earliest and the latest of what it has been shown.
struct Span(Option<(Timestamp, Timestamp)>);

impl Span {
    fn add(&mut self, at: Timestamp) {
        let (first, last) = self.0.unwrap_or((at, at));
        self.0 = Some((first.min(at), last.max(at)));
    }

    fn deletion(&mut self, deletion: Option<Deletion>) {
        deletion.iter().for_each(|deletion| self.add(deletion.timestamp));
    }

    fn row(&mut self, row: &RowUpdate<'_>) {
        row.liveness.iter().for_each(|liveness| self.add(liveness.timestamp));
        self.deletion(row.deletion);
        for column in &row.columns {
            match column {
                ColumnUpdate::Simple(_, cell) => self.add(cell.timestamp),
                ColumnUpdate::Complex(_, deletion, elements) => {
                    self.deletion(*deletion);
                    elements.iter().for_each(|(_, cell)| self.add(cell.timestamp));
                }
            }
        }
    }
}
