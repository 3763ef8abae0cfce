//! One row: its marker, the deletion that covers it, its columns.

use std::collections::BTreeMap;

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
    pub columns: BTreeMap<ColumnKey, ColumnState>,
}

impl RowState {
    /// The state after one write.
    pub fn new(update: &RowUpdate<'_>) -> Result<Self, Error> {
        let mut columns = BTreeMap::new();
        for column in &update.columns {
            insert(&mut columns, ColumnKey::of(column.column()), ColumnState::new(column)?);
        }
        let mut state = Self { liveness: update.liveness, deletion: None, columns };
        state.delete(update.deletion);
        Ok(state)
    }

    /// Takes over what another state of the same row knows.
    pub fn merge(&mut self, other: Self) {
        self.liveness = stronger(self.liveness, other.liveness);
        for (key, column) in other.columns {
            insert(&mut self.columns, key, column);
        }
        let deletion = self.deletion.max(other.deletion);
        self.deletion = deletion;
        self.delete(deletion);
    }

    /// Covers the row with a deletion: its own, of a range it lies in, or of its partition.
    pub fn delete(&mut self, deletion: Option<Deletion>) {
        self.deletion = self.deletion.max(deletion);
        let deletion = self.deletion;
        if deletion.is_none() {
            return;
        }
        self.liveness = self.liveness.filter(|liveness| !covers(deletion, liveness.timestamp));
        self.columns.retain(|_, column| column.shadow(deletion));
    }

    /// True if nothing is known of the row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none() && self.deletion.is_none() && self.columns.is_empty()
    }
}

fn insert(columns: &mut BTreeMap<ColumnKey, ColumnState>, key: ColumnKey, column: ColumnState) {
    use std::collections::btree_map::Entry;
    match columns.entry(key) {
        Entry::Occupied(mut held) => held.get_mut().merge(column),
        Entry::Vacant(free) => {
            free.insert(column);
        }
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
