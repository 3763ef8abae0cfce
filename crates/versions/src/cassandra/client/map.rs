//! Which version stands for which table.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cassandra::CassandraVersions;
use crate::catalog::{Catalog, Status};
use crate::{TableName, cassandra::client::QueryError};

/// Tables and their versions at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    /// Counted up whenever a route changes.
    pub(super) generation: u64,
    /// By keyspace, then by table: found without making a key. `None` has versions, none to read.
    routes: HashMap<String, HashMap<String, Option<String>>>,
}

impl Map {
    pub(super) async fn read(versions: &CassandraVersions) -> Result<Map, QueryError> {
        let mut map = Map { generation: 1, ..Map::default() };
        for table in versions.tables().await? {
            let snapshot = versions.snapshot(&table).await?;
            let routed = snapshot.routed().map(|row| row.version_name.clone());
            let tables = map.routes.entry(table.keyspace().to_owned()).or_default();
            tables.insert(table.table().to_owned(), routed);
        }
        Ok(map)
    }

    /// This map, as the one that follows `before`.
    pub(super) fn after(&self, before: &Arc<Map>) -> Arc<Map> {
        if before.generation > 0 && before.routes == self.routes {
            return Arc::clone(before);
        }
        Arc::new(Map { generation: before.generation + 1, routes: self.routes.clone() })
    }

    /// The name to use for a table; empty for one that has nothing to read yet.
    pub(super) fn answer(&self, keyspace: &str, table: &str) -> Option<&str> {
        let route = self.routes.get(keyspace)?.get(table)?;
        Some(route.as_deref().unwrap_or(""))
    }

    pub(super) fn routed(&self, keyspace: &str, table: &str) -> Option<&str> {
        self.answer(keyspace, table).filter(|version| !version.is_empty())
    }

    pub(super) fn routes(&self) -> Vec<(TableName, String)> {
        let mut all = Vec::new();
        for (keyspace, tables) in &self.routes {
            for (table, version) in tables {
                if let Some(version) = version {
                    all.push((TableName::new(keyspace, table), version.clone()));
                }
            }
        }
        all.sort();
        all
    }

    /// Whether the catalog says that a version may be dropped, or is.
    pub(super) async fn is_gone(
        versions: &CassandraVersions,
        table: &TableName,
        version: &str,
    ) -> bool {
        let snapshot = versions.snapshot(table).await;
        let row = snapshot.ok().and_then(|snapshot| snapshot.named(version).cloned());
        row.is_some_and(|row| matches!(row.status, Status::Deleting | Status::Deleted))
    }
}
