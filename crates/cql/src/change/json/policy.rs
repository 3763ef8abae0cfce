//! Which columns leave the cluster, and how.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::schema::{Catalog, Column, ColumnKind, Table};

/// What becomes of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// They are written.
    Keep,
    /// A hash is written in their place, the same for the same value.
    Hash,
    /// The column is left out.
    Drop,
}

/// Which columns are masked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// By keyspace, then by table.
    tables: BTreeMap<String, BTreeMap<String, Masks>>,
    salt: Uuid,
}

/// What becomes of the columns of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Masks {
    columns: BTreeMap<String, Treatment>,
    /// Of columns that are not named and not in the primary key.
    others: Option<Treatment>,
}

impl Policy {
    /// A policy by `keyspace.table.column`, or `keyspace.table.*` for all that are neither named nor in
    /// the primary key; what has fewer parts names nothing. Hashes depend on the salt, so that they
    /// cannot be looked up in a table made by somebody who does not know it.
    ///
    /// ```
    /// use helenus_cql::change::json::{Policy, Treatment};
    ///
    /// // Nothing but the key and the name leaves the cluster.
    /// let columns = [("shop.people.*", Treatment::Drop), ("shop.people.name", Treatment::Keep)];
    /// let columns = columns.map(|(column, treatment)| (column.to_owned(), treatment));
    /// let policy = Policy::new(columns.into(), b"salt");
    /// assert_ne!(policy, Policy::default());
    /// ```
    #[must_use]
    pub fn new(columns: BTreeMap<String, Treatment>, salt: &[u8]) -> Self {
        let mut tables = BTreeMap::<_, BTreeMap<_, Masks>>::new();
        for (name, treatment) in columns {
            let mut parts = name.splitn(3, '.').map(str::to_owned);
            if let (Some(keyspace), Some(table), Some(column)) =
                (parts.next(), parts.next(), parts.next())
            {
                let masks = tables.entry(keyspace).or_default().entry(table).or_default();
                if column == "*" {
                    masks.others = Some(treatment);
                } else {
                    masks.columns.insert(column, treatment);
                }
            }
        }
        Self { tables, salt: Uuid::new_v5(&Uuid::NAMESPACE_OID, salt) }
    }

    /// What becomes of this column's values.
    #[must_use]
    pub fn treatment(&self, table: &Table, column: &Column) -> Treatment {
        let Some(masks) = self.masks(table) else { return Treatment::Keep };
        let others = || match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => None,
            ColumnKind::Static | ColumnKind::Regular => masks.others,
        };
        masks.columns.get(&*column.name).copied().or_else(others).unwrap_or(Treatment::Keep)
    }

    /// What stands for a value that is hashed.
    #[must_use]
    pub fn hash(&self, bytes: &[u8]) -> Uuid {
        Uuid::new_v5(&self.salt, bytes)
    }

    /// An id made of a change's content as it may be shown: where columns are masked, whoever knows the
    /// rest of the content could try values until they give the id, so it is hashed once more.
    #[must_use]
    pub fn shown_id(&self, table: &Table, id: Uuid) -> Uuid {
        if self.masks(table).is_some() { self.hash(id.as_bytes()) } else { id }
    }

    /// What is named and not there: columns of tables that have none of that name, and tables.
    #[must_use]
    pub fn unknown(&self, catalog: &Catalog) -> (Vec<String>, Vec<String>) {
        let (mut columns, mut tables) = (Vec::new(), Vec::new());
        let named = self.tables.iter().flat_map(|(keyspace, named)| {
            named.iter().map(move |(table, masks)| (keyspace, table, masks))
        });
        for (keyspace, name, masks) in named {
            let Some(table) = catalog.by_name(keyspace, name) else {
                tables.push(format!("{keyspace}.{name}"));
                continue;
            };
            let has = |name: &str| {
                let keys = table.partition_key.iter().chain(&table.clustering);
                keys.chain(table.columns()).any(|column| &*column.name == name)
            };
            let missing = masks.columns.keys().filter(|column| !has(column));
            columns.extend(missing.map(|column| format!("{keyspace}.{name}.{column}")));
        }
        (columns, tables)
    }

    fn masks(&self, table: &Table) -> Option<&Masks> {
        self.tables.get(&*table.keyspace)?.get(&*table.name)
    }
}
