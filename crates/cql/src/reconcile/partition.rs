//! Partitions and tables: rows in clustering order, statics, and the deletions above them.
//!
//! Deletions of ranges and of the partition are kept beside the rows, because they also cover
//! what arrives later; they are applied when rows are read, or for good by
//! [`PartitionState::compact`].

use std::collections::BTreeMap;

use super::Error;
use super::clustering::{ClusteringKey, Cut};
use super::range::Ranges;
use super::row::RowState;
use super::select::Select;
use crate::schema::Table;
use crate::token::Token;
use crate::update::{Deletion, Item, Marker, PartitionUpdate, RowUpdate, Seconds};

/// The merged state of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionState {
    /// The strongest deletion of the whole partition.
    pub deletion: Option<Deletion>,
    /// Static columns.
    pub statics: RowState,
    /// Rows in clustering order.
    pub rows: BTreeMap<ClusteringKey, RowState>,
    /// Range deletions.
    pub ranges: Ranges,
}

impl PartitionState {
    /// Merges one write. On an error nothing has been merged.
    pub fn apply(&mut self, update: &PartitionUpdate<'_>) -> Result<(), Error> {
        let written = Self::new(update)?;
        self.merge(written);
        Ok(())
    }

    /// The state after one write.
    pub fn new(update: &PartitionUpdate<'_>) -> Result<Self, Error> {
        let statics = update.static_row.as_ref().map(RowState::new).transpose()?;
        let mut state = Self {
            deletion: update.deletion,
            statics: statics.unwrap_or_default(),
            ..Self::default()
        };
        let mut open = None;
        for item in &update.items {
            match item {
                Item::Row(row) => state.put(update.table, row)?,
                Item::Marker(marker) => state.mark(update.table, marker, &mut open)?,
            }
        }
        if open.is_some() { Err(Error::Markers) } else { Ok(state) }
    }

    /// Takes over what another state of the same partition knows.
    pub fn merge(&mut self, other: Self) {
        self.deletion = self.deletion.max(other.deletion);
        self.statics.merge(other.statics);
        self.ranges.merge(other.ranges);
        for (key, row) in other.rows {
            self.rows.entry(key).or_default().merge(row);
        }
    }

    /// The strongest deletion of a range or of the partition that covers a row.
    #[must_use]
    pub fn covering(&self, row: &ClusteringKey) -> Option<Deletion> {
        self.deletion.max(self.ranges.covering(row))
    }

    /// Drops everything that a deletion covers. What remains says the same, and two states that
    /// mean the same are equal.
    pub fn compact(&mut self) {
        if let Some(deletion) = self.deletion {
            self.ranges.drop_covered(deletion);
            self.statics.delete(Some(deletion));
            self.statics.deletion = None;
        }
        let (partition, ranges) = (self.deletion, &self.ranges);
        self.rows.retain(|key, row| {
            let cover = partition.max(ranges.covering(key));
            let own = row
                .deletion
                .filter(|own| cover.is_none_or(|cover| own.timestamp > cover.timestamp));
            row.delete(cover);
            row.deletion = own;
            !row.is_empty()
        });
    }

    fn put(&mut self, table: &Table, row: &RowUpdate<'_>) -> Result<(), Error> {
        let key = ClusteringKey::new(table, &row.clustering)?;
        self.rows.entry(key).or_default().merge(RowState::new(row)?);
        Ok(())
    }

    fn mark(
        &mut self,
        table: &Table,
        marker: &Marker<'_>,
        open: &mut Option<(Cut, Deletion)>,
    ) -> Result<(), Error> {
        let cut = Cut::new(table, &marker.bound)?;
        match (open.take(), marker.end.is_some()) {
            (Some((start, deletion)), true) => self.ranges.add(start, cut.clone(), deletion),
            (None, false) => {}
            _ => return Err(Error::Markers),
        }
        *open = marker.start.map(|deletion| (cut, deletion));
        Ok(())
    }
}

/// The merged state of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableState {
    /// By token, then by key: the order of a full scan.
    pub(super) partitions: BTreeMap<(Token, Box<[u8]>), PartitionState>,
}

impl TableState {
    /// Merges one write. On an error nothing has been merged.
    pub fn apply(&mut self, update: &PartitionUpdate<'_>) -> Result<(), Error> {
        let written = PartitionState::new(update)?;
        self.partition(update.key).merge(written);
        Ok(())
    }

    /// Takes over what another state of the same table knows.
    pub fn merge(&mut self, other: Self) {
        for ((_, key), partition) in other.partitions {
            self.partition(&key).merge(partition);
        }
    }

    /// The partitions in the order of a full scan, by their keys.
    pub fn partitions(&self) -> impl Iterator<Item = (&[u8], &PartitionState)> {
        self.partitions.iter().map(|((_, key), state)| (&**key, state))
    }

    /// Drops everything that a deletion covers, in every partition.
    pub fn compact(&mut self) {
        self.partitions.values_mut().for_each(PartitionState::compact);
    }

    /// The rows at a moment, each as `SELECT JSON *` prints it, in the order of a full scan.
    #[must_use]
    pub fn select<'a>(&'a self, table: &'a Table, now: Seconds) -> Select<'a> {
        Select::new(self, table, now)
    }

    fn partition(&mut self, key: &[u8]) -> &mut PartitionState {
        self.partitions.entry((Token::of(key), key.into())).or_default()
    }
}
