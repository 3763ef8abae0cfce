//! One row: its marker, the deletion that covers it, its columns.

use std::sync::Arc;

use super::Error;
use super::cell::{covers, order_liveness};
use super::column::{ColumnKey, ColumnState};
use crate::update::{Deletion, Liveness, RowUpdate};

/// The merged state of a row, or of a partition's static columns.
///
/// It holds nothing that its own deletion covers, so two states that mean the same are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowState {
    /// The marker an INSERT left.
    pub liveness: Option<Liveness>,
    /// The strongest deletion known to cover the row.
    pub deletion: Option<Deletion>,
    /// Its columns, current and former.
    pub columns: Columns,
}

impl RowState {
    /// The state after one write.
    pub fn new(update: &RowUpdate<'_>) -> Result<Self, Error> {
        let mut columns = Columns(Vec::with_capacity(update.columns.len()));
        for column in &update.columns {
            let state = ColumnState::new(column)?;
            let name = Arc::clone(&column.column().name_bytes);
            columns.put(ColumnKey { name, storage: state.storage() }, state);
        }
        let mut state = Self { liveness: update.liveness, deletion: None, columns };
        state.delete(update.deletion);
        Ok(state)
    }

    /// Takes over what another state of the same row knows.
    pub fn merge(&mut self, mut other: Self) {
        // Of the two, only the one with the weaker deletion can hold something that is covered.
        self.delete(other.deletion);
        other.delete(self.deletion);
        self.liveness = stronger(self.liveness, other.liveness);
        self.columns.merge(other.columns);
    }

    /// Covers the row with a deletion: its own, of a range it lies in, or of its partition.
    pub fn delete(&mut self, deletion: Option<Deletion>) {
        if deletion <= self.deletion {
            return;
        }
        self.deletion = deletion;
        self.liveness = self.liveness.filter(|liveness| !covers(deletion, liveness.timestamp));
        self.columns.0.retain_mut(|(_, column)| column.shadow(deletion));
    }

    /// True if nothing is known of the row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none() && self.deletion.is_none() && self.columns.0.is_empty()
    }
}

/// The columns of a row, by key. Rows are many and their columns few: a sorted list takes far less
/// room than a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns(Vec<(ColumnKey, ColumnState)>);

impl Columns {
    /// The state of a column, if anything is known of it.
    #[must_use]
    pub fn get(&self, key: &ColumnKey) -> Option<&ColumnState> {
        let index = self.find(key).ok()?;
        self.0.get(index).map(|(_, column)| column)
    }

    /// All columns, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&ColumnKey, &ColumnState)> {
        self.0.iter().map(|(key, column)| (key, column))
    }

    fn merge(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (key, column) in other.0 {
            self.put(key, column);
        }
    }

    fn put(&mut self, key: ColumnKey, column: ColumnState) {
        match self.find(&key) {
            Ok(index) => {
                if let Some((_, held)) = self.0.get_mut(index) {
                    held.merge(column);
                }
            }
            Err(index) => self.0.insert(index, (key, column)),
        }
    }

    fn find(&self, key: &ColumnKey) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }
}

fn stronger(left: Option<Liveness>, right: Option<Liveness>) -> Option<Liveness> {
    match (left, right) {
        (Some(left), Some(right)) => {
            Some(if order_liveness(&left, &right).is_ge() { left } else { right })
        }
        (left, right) => left.or(right),
    }
}
