//! All tables that are known, now and before.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::{Column, Table, TableId};

/// Finds a table by the id in a record.
pub trait Lookup {
    /// The table, if it is known.
    fn table(&self, id: TableId) -> Option<&Table>;
}

/// Anything by table. Ids are spread well already, and some are looked up for every record.
pub type ByTable<V> = HashMap<TableId, V, BuildHasherDefault<IdHasher>>;

/// Tables by id, with what older states of the schema knew of them.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    tables: ByTable<Table>,
    /// Those that the newest state does not have.
    dropped: BTreeSet<TableId>,
    /// Those of the dropped that no state ever had: only older DDL tells of them.
    recalled: BTreeSet<TableId>,
    /// The ids a name has stood for, oldest first.
    names: HashMap<(Arc<str>, Arc<str>), Vec<TableId>>,
    /// Keyspaces with `durable_writes = false` in the newest state.
    pub(super) unlogged: BTreeSet<String>,
}

/// What changed when a newer state was absorbed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A table that was not there before.
    Created(TableId),
    /// A name that stands for another table now: dropped and created again.
    Recreated {
        /// The former table.
        old: TableId,
        /// The present one.
        new: TableId,
    },
    /// A table whose columns or options differ.
    Altered(TableId),
    /// A table that the newer state does not have; it stays known.
    Dropped(TableId),
}

impl Catalog {
    /// A catalog of these tables.
    #[must_use]
    pub fn new(tables: impl IntoIterator<Item = Table>) -> Self {
        let mut catalog = Self::default();
        for table in tables {
            catalog.insert(table);
        }
        catalog
    }

    /// Every table, in no particular order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// The table that a name stands for, or last stood for.
    #[must_use]
    pub fn by_name(&self, keyspace: &str, name: &str) -> Option<&Table> {
        let ids = self.names.get(&(Arc::from(keyspace), Arc::from(name)))?;
        ids.last().and_then(|id| self.tables.get(id))
    }

    /// Whether what is written to a table goes into the log at all: its keyspace says so.
    #[must_use]
    pub fn is_logged(&self, table: &Table) -> bool {
        !self.unlogged.contains(&*table.keyspace)
    }

    /// Takes over a newer state. Tables and columns that it no longer has stay known, because
    /// older records still name them; what it has wins. Tables that it only remembers are gone in
    /// it, and one of them that was not known before is no news. Changes come by table id, the
    /// dropped ones first.
    pub fn absorb(&mut self, mut newer: Self) -> Vec<Change> {
        let remembered = newer.take_dropped();
        self.unlogged = std::mem::take(&mut newer.unlogged);
        let gone = self.tables.keys().filter(|id| !newer.tables.contains_key(id)).copied();
        let gone: BTreeSet<TableId> = gone.collect();
        let newly_gone = gone.difference(&self.dropped).copied();
        let mut changes: Vec<Change> = newly_gone.map(Change::Dropped).collect();
        self.dropped = gone;
        remembered.into_iter().for_each(|table| self.recall(table));
        let mut tables: Vec<Table> = newer.tables.into_values().collect();
        tables.sort_unstable_by_key(|table| table.id);
        changes.extend(tables.into_iter().filter_map(|table| self.take_over(table)));
        let replaced: Vec<_> = changes.iter().filter_map(Change::replaced).collect();
        changes.retain(|change| !matches!(change, Change::Dropped(id) if replaced.contains(id)));
        changes
    }

    /// Adds a table that was gone before this state was taken, so that its records can be decoded.
    /// Its name stands for it only as long as it stands for nothing else. What a state had of a
    /// table is newer and stays; what was recalled of it before does not.
    pub(super) fn recall(&mut self, mut table: Table) {
        let id = table.id;
        match self.tables.get(&id) {
            Some(_) if !self.recalled.contains(&id) => return,
            Some(known) => table.remember(former(known, &table)),
            None => {
                let ids = self.names.entry(name_of(&table)).or_default();
                let place = ids.partition_point(|id| self.recalled.contains(id));
                ids.insert(place, id);
                self.recalled.insert(id);
                self.dropped.insert(id);
            }
        }
        self.tables.insert(id, table);
    }

    /// Whether recalling this table would change anything.
    pub(super) fn lacks(&self, table: &Table) -> bool {
        match self.tables.get(&table.id) {
            Some(known) => self.recalled.contains(&table.id) && known != table,
            None => true,
        }
    }

    /// Removes the dropped tables, those of one name oldest first.
    fn take_dropped(&mut self) -> Vec<Table> {
        let ids = self.names.values().flatten().filter(|id| self.dropped.contains(id));
        ids.filter_map(|id| self.tables.remove(id)).collect()
    }

    fn take_over(&mut self, mut table: Table) -> Option<Change> {
        let id = table.id;
        let was_recalled = self.recalled.remove(&id);
        if was_recalled && let Some(ids) = self.names.get_mut(&name_of(&table)) {
            // It exists after all: its name stands for it from now on.
            ids.retain(|known| *known != id);
        }
        let known = self.tables.get(&id);
        if let Some(known) = known {
            table.remember(former(known, &table));
        }
        let change = match known.filter(|_| !was_recalled) {
            Some(known) => (*known != table).then_some(Change::Altered(id)),
            None => Some(match self.by_name(&table.keyspace, &table.name) {
                Some(old) => Change::Recreated { old: old.id, new: id },
                None => Change::Created(id),
            }),
        };
        self.insert(table);
        change
    }

    fn insert(&mut self, table: Table) {
        let ids = self.names.entry(name_of(&table)).or_default();
        if !ids.contains(&table.id) {
            ids.push(table.id);
        }
        self.tables.insert(table.id, table);
    }
}

fn name_of(table: &Table) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&table.keyspace), Arc::clone(&table.name))
}

impl Lookup for Catalog {
    fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(&id)
    }
}

impl Change {
    const fn replaced(&self) -> Option<TableId> {
        match self {
            Self::Recreated { old, .. } => Some(*old),
            _ => None,
        }
    }
}

/// Hashes the ids of tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word =
                chunk.as_array().map_or(chunk.len() as u64, |word| u64::from_le_bytes(*word));
            self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The columns that only the older state has.
fn former(older: &Table, newer: &Table) -> Vec<Column> {
    let gone = older
        .columns()
        .iter()
        .filter(|column| newer.column(&column.name_bytes, column.kind).is_none());
    gone.map(|column| Column { current: false, ..column.clone() }).collect()
}
