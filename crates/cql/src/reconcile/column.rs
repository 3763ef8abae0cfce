//! One column of one row: a cell, a counter, or the cells of a collection.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::cell::{covers, order_cells};
use super::counter::CounterState;
use crate::compare::compare;
use crate::datatype::CqlType;
use crate::schema::Column;
use crate::update::{Cell, ColumnUpdate, Content, Deletion, Element};
use crate::value::Value;

/// A cell that owns its bytes.
pub(super) type OwnedCell = Cell<Box<[u8]>>;

/// How a column's cells are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// One cell.
    Simple,
    /// A cell an element.
    Complex,
    /// Shards.
    Counter,
}

impl Storage {
    /// How the cells of this column are kept.
    #[must_use]
    pub fn of(column: &Column) -> Self {
        match &*column.ty {
            CqlType::Counter => Self::Counter,
            _ if column.is_complex() => Self::Complex,
            _ => Self::Simple,
        }
    }
}

/// A column in a row's state. One that was dropped and came back in another storage is another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnKey {
    /// Its name in records.
    pub name: Arc<[u8]>,
    /// How it is kept.
    pub storage: Storage,
}

impl ColumnKey {
    /// The key of this column.
    #[must_use]
    pub fn of(column: &Column) -> Self {
        Self { name: Arc::clone(&column.name_bytes), storage: Storage::of(column) }
    }
}

/// The state of one column of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnState {
    /// One cell.
    Simple(OwnedCell),
    /// A collection or user-defined type.
    Complex(ComplexState),
    /// A counter.
    Counter(CounterState),
}

impl ColumnState {
    /// Takes what a row says of a column.
    pub fn new(update: &ColumnUpdate<'_>) -> Result<Self, Error> {
        match update {
            ColumnUpdate::Simple(column, cell) if *column.ty == CqlType::Counter => {
                let state = CounterState::new(cell);
                state.map(Self::Counter).map_err(|error| Error::value(&column.name, error))
            }
            ColumnUpdate::Simple(_, cell) => Ok(Self::Simple(own(cell))),
            ColumnUpdate::Complex(column, deletion, elements) => {
                ComplexState::new(column, *deletion, elements).map(Self::Complex)
            }
        }
    }

    /// How it is kept.
    #[must_use]
    pub const fn storage(&self) -> Storage {
        match self {
            Self::Simple(_) => Storage::Simple,
            Self::Complex(_) => Storage::Complex,
            Self::Counter(_) => Storage::Counter,
        }
    }

    /// Takes over another state of the same column.
    pub(super) fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Simple(mine), Self::Simple(theirs)) => keep_winner(mine, theirs),
            (Self::Complex(mine), Self::Complex(theirs)) => mine.merge(theirs),
            (Self::Counter(mine), Self::Counter(theirs)) => mine.merge(theirs),
            // Columns of unlike storage have unlike keys and never meet.
            _ => {}
        }
    }

    /// Removes what a deletion of the row covers; true if something is left.
    pub(super) fn shadow(&mut self, deletion: Option<Deletion>) -> bool {
        match self {
            Self::Simple(cell) => !covers(deletion, cell.timestamp),
            Self::Complex(complex) => complex.shadow(deletion),
            // Shards are weighed when they are read.
            Self::Counter(_) => true,
        }
    }
}

/// The cells of a complex column and the last deletion of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComplexState {
    pub(super) deletion: Option<Deletion>,
    pub(super) cells: BTreeMap<ElementKey, OwnedCell>,
}

impl ComplexState {
    fn new(
        column: &Column,
        deletion: Option<Deletion>,
        elements: &[Element<'_>],
    ) -> Result<Self, Error> {
        let mut state = Self { deletion, cells: BTreeMap::new() };
        let ty = column.path_type();
        for (path, cell) in elements {
            let key = ElementKey::new(column, ty.clone(), path)?;
            state.put(key, own(cell));
        }
        state.shadow(None);
        Ok(state)
    }

    /// Both hold nothing that their own deletion covers. So what is held is gone through only if
    /// the other's deletion is stronger, and many small writes to a large collection cost little.
    fn merge(&mut self, other: Self) {
        if other.deletion > self.deletion {
            self.deletion = other.deletion;
            self.shadow(None);
        }
        for (key, cell) in other.cells {
            if !covers(self.deletion, cell.timestamp) {
                self.put(key, cell);
            }
        }
    }

    /// The winner keeps its own spelling of the element.
    fn put(&mut self, key: ElementKey, cell: OwnedCell) {
        let winner = match self.cells.remove_entry(&key) {
            Some((known, held)) if order_cells(&held, &cell).is_ge() => (known, held),
            _ => (key, cell),
        };
        self.cells.insert(winner.0, winner.1);
    }

    fn shadow(&mut self, row: Option<Deletion>) -> bool {
        if self.deletion.is_some_and(|deletion| covers(row, deletion.timestamp)) {
            self.deletion = None;
        }
        let deletion = self.deletion.max(row);
        self.cells.retain(|_, cell| !covers(deletion, cell.timestamp));
        self.deletion.is_some() || !self.cells.is_empty()
    }
}

/// What tells the cells of a complex column apart, in the order of its type.
#[derive(Debug, Clone)]
pub struct ElementKey {
    /// `None` for the fields of a user-defined type, which go by number.
    ty: Option<Arc<CqlType>>,
    bytes: Box<[u8]>,
}

impl ElementKey {
    fn new(column: &Column, ty: Option<Arc<CqlType>>, bytes: &[u8]) -> Result<Self, Error> {
        let field = CqlType::SmallInt;
        let checked = Value::decode(ty.as_deref().unwrap_or(&field), bytes);
        checked.map_err(|error| Error::value(&column.name, error))?;
        Ok(Self { ty, bytes: bytes.into() })
    }

    /// The path's bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Ord for ElementKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match &self.ty {
            Some(ty) => compare(ty, &self.bytes, &other.bytes),
            None => self.bytes.cmp(&other.bytes),
        }
    }
}

impl PartialOrd for ElementKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ElementKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ElementKey {}

fn own(cell: &Cell<&[u8]>) -> OwnedCell {
    let content = match cell.content {
        Content::Live(value) => Content::Live(value.into()),
        Content::Expiring(value, expiry) => Content::Expiring(value.into(), expiry),
        Content::Deleted(at) => Content::Deleted(at),
    };
    Cell { timestamp: cell.timestamp, content }
}

fn keep_winner(held: &mut OwnedCell, other: OwnedCell) {
    if order_cells(held, &other).is_lt() {
        *held = other;
    }
}
