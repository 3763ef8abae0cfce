//! Partitions and tables: rows in clustering order, statics, and the deletions above them.
//!
//! Deletions of ranges and of the partition are kept beside the rows, because they also cover
//! what arrives later; they are applied when rows are read, or for good by
//! [`PartitionState::compact`].

use std::collections::BTreeMap;

use super::Error;
use super::cell::covers;
use super::clustering::{ClusteringKey, Cut};
use super::column::Storage;
use super::range::Ranges;
use super::row::RowState;
use super::select::Select;
use crate::schema::{Column, Table};
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
    /// Of a table with counters.
    counters: bool,
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
            counters: update.table.columns().iter().any(is_counter),
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
        self.counters |= other.counters;
        for (key, row) in other.rows {
            self.rows.entry(key).or_default().merge(row);
        }
    }

    /// The strongest deletion of a range or of the partition that covers a row.
    #[must_use]
    pub fn covering(&self, row: &ClusteringKey) -> Option<Deletion> {
        self.deletion.max(self.ranges.covering(row))
    }

    /// Drops everything that a deletion covers. What remains says the same, also when more is merged
    /// into it later. Two states that mean the same are equal, except for counters, of which all is
    /// kept: a total that is covered now is not if the same leader's next one arrives.
    pub fn compact(&mut self) {
        if let Some(deletion) = self.deletion {
            self.ranges.drop_covered(deletion);
        }
        let (partition, counters) = (self.deletion, self.counters);
        settle(&mut self.statics, partition, counters);
        let ranges = &self.ranges;
        self.rows.retain(|key, row| {
            settle(row, partition.max(ranges.covering(key)), counters);
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

/// Drops what `cover`, a deletion above a row, removes of it. The row's own deletion says nothing
/// more then, except where there are counters: it alone lifts their tombstones
/// ([`super::CounterState::value`]), also those that are still to arrive.
fn settle(row: &mut RowState, cover: Option<Deletion>, counters: bool) {
    let own = row.deletion.filter(|own| counters || !covers(cover, own.timestamp));
    row.delete(cover);
    row.deletion = own;
}

fn is_counter(column: &Column) -> bool {
    Storage::of(column) == Storage::Counter
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Catalog, ColumnKind};
    use crate::update::{Cell, ColumnUpdate, Content, Timestamp};

    /// Key `p`, clustering `c`, and `v`, which is a counter.
    fn catalog() -> Catalog {
        let column = |name: &str, kind: &str, ty: &str| {
            format!(
                r#"{{"keyspace_name": "ks", "table_name": "k", "column_name": "{name}",
                    "kind": "{kind}", "position": 0, "type": "{ty}"}}"#
            )
        };
        let columns = [
            column("p", "partition_key", "tinyint"),
            column("c", "clustering", "tinyint"),
            column("v", "regular", "counter"),
        ];
        let text = format!(
            r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "k",
                    "flags": ["compound", "counter"],
                    "id": "00000000-0000-0000-0000-000000000001"}}],
                "columns": [{}]}}"#,
            columns.join(",")
        );
        Catalog::from_document(&text).unwrap()
    }

    fn deletion(timestamp: i64) -> Option<Deletion> {
        Some(Deletion { timestamp: Timestamp(timestamp), at: Seconds(0) })
    }

    fn state(update: &PartitionUpdate<'_>) -> TableState {
        let mut state = TableState::default();
        state.apply(update).unwrap();
        state
    }

    /// The counter's tombstone at 2, then deletions of its row at 3 and of its partition at 5, and
    /// an increment at 7: what the row says, its tombstone being lifted, is the increment.
    fn story(table: &Table) -> [TableState; 4] {
        let column = table.column(b"v", ColumnKind::Regular).unwrap();
        let shard = [&[0, 1, 0x80, 0][..], &[1; 16], &[0, 0, 0, 0, 0, 0, 0, 4].repeat(2)].concat();
        let empty = || PartitionUpdate {
            table,
            key: &[7],
            deletion: None,
            static_row: None,
            items: Vec::new(),
        };
        let row = |deletion, content: Option<(i64, Content<&[u8]>)>| {
            let cell = |(timestamp, content)| Cell { timestamp: Timestamp(timestamp), content };
            let columns = content.map(|content| ColumnUpdate::Simple(column, cell(content)));
            let row = RowUpdate {
                clustering: vec![Some(&[1])],
                deletion,
                columns: columns.into_iter().collect(),
                ..RowUpdate::default()
            };
            state(&PartitionUpdate { items: vec![Item::Row(row)], ..empty() })
        };
        [
            row(None, Some((2, Content::Deleted(Seconds(0))))),
            row(deletion(3), None),
            state(&PartitionUpdate { deletion: deletion(5), ..empty() }),
            row(None, Some((7, Content::Live(&shard)))),
        ]
    }

    #[test]
    fn compacting_does_not_bring_a_lifted_tombstone_back() {
        let catalog = catalog();
        let table = catalog.by_name("ks", "k").unwrap();
        let rows = |state: &TableState| -> Vec<String> {
            state.select(table, Seconds(0)).map(Result::unwrap).collect()
        };
        let expected = [r#"{"p": 7, "c": 1, "v": 4}"#];
        // Compacted after any of the writes or all, which arrive in any order.
        for order in 0..24 {
            let mut writes = story(table).to_vec();
            let mut shuffled = Vec::new();
            for (left, radix) in [(4, 6), (3, 2), (2, 1), (1, 1)] {
                shuffled.push(writes.remove(order / radix % left));
            }
            let mut plain = TableState::default();
            let mut compacted = TableState::default();
            for write in shuffled {
                plain.merge(write.clone());
                compacted.merge(write);
                compacted.compact();
                assert_eq!(rows(&compacted), rows(&plain), "order {order}");
            }
            assert_eq!(rows(&compacted), expected, "order {order}");
        }
    }
}
