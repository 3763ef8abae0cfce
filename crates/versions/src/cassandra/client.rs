//! A session that reads versioned tables under the names readers use.
//!
//! It holds a map from tables to versions, refreshed in the background. A statement is prepared for
//! the versions it names; when the map has moved on, it is prepared again before it is run. So a
//! query reads one version, whatever is published meanwhile, and pays one atomic load for it.

mod error;
mod map;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::{Stream, StreamExt};
use helenus_cql::rewrite::{Routed, rewrite};
use helenus_model::Clock;
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::task::JoinSet;

use super::CassandraVersions;
use crate::TableName;
pub use error::QueryError;
use map::Map;

/// How old the map may become, unless said otherwise.
pub const REFRESH: Duration = Duration::from_secs(1);

/// A session on versioned tables. Cheap to clone; the map is refreshed while a clone lives.
#[derive(Clone, Debug)]
pub struct RoutedSession {
    shared: Arc<Client>,
    /// Ends with the last clone.
    _refreshing: Arc<JoinSet<()>>,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) versions: CassandraVersions,
    keyspace: Option<String>,
    map: ArcSwap<Map>,
    refreshed_us: AtomicU64,
    refreshes: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    prepared: AtomicU64,
}

/// What a session can be asked about itself.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// How old the map is.
    pub age: Duration,
    /// The version each table is read from.
    pub versions: Vec<(TableName, String)>,
    /// Refreshes that succeeded.
    pub refreshes: u64,
    /// Refreshes that failed.
    pub refresh_failures: u64,
    /// Queries that met a version that was gone, and were run again.
    pub retries: u64,
    /// Statements that were prepared for a new version.
    pub prepared: u64,
}

/// A statement on the names readers use.
#[derive(Debug)]
pub struct RoutedStatement {
    cql: String,
    current: ArcSwap<Current>,
}

/// A statement as it is sent now.
#[derive(Debug)]
struct Current {
    /// The map it was prepared on.
    generation: u64,
    text: String,
    tables: Vec<Routed>,
    statement: PreparedStatement,
}

impl RoutedSession {
    /// Reads the map and keeps it fresh: a switch is seen within `refresh`. `keyspace` is that of
    /// unqualified names.
    pub async fn new(
        versions: CassandraVersions,
        keyspace: Option<String>,
        refresh: Duration,
    ) -> Result<Self, QueryError> {
        let shared = Arc::new(Client {
            versions,
            keyspace,
            map: ArcSwap::from_pointee(Map::default()),
            refreshed_us: AtomicU64::new(0),
            refreshes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
        });
        Box::pin(shared.refresh()).await?;
        let mut refreshing = JoinSet::new();
        let client = Arc::clone(&shared);
        refreshing.spawn(async move {
            loop {
                // Reading takes its time too, and what is read is as old as its beginning.
                tokio::time::sleep(refresh * 3 / 4).await;
                if let Err(error) = Box::pin(client.refresh()).await {
                    client.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, "the map of versions was not refreshed");
                }
            }
        });
        Ok(RoutedSession { shared, _refreshing: Arc::new(refreshing) })
    }

    /// Prepares a statement on the names readers use. Statements that change a versioned table are
    /// refused; those that name none are sent as they are.
    pub async fn prepare(&self, cql: &str) -> Result<RoutedStatement, QueryError> {
        let current = ArcSwap::from(self.shared.current(cql, None).await?);
        Ok(RoutedStatement { cql: cql.to_owned(), current })
    }

    /// Runs a statement and gives all its rows.
    pub async fn execute_unpaged(
        &self,
        statement: &RoutedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, QueryError> {
        let client = &self.shared;
        let current = client.fresh(statement).await?;
        let session = client.session();
        let error = match session.execute_unpaged(&current.statement, &values).await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        // Whatever it was, it may be that the version is gone: then the map says so.
        let Some(next) = client.moved_on(statement, &current).await? else {
            return Err(client.gone_or(&current, error).await);
        };
        client.retries.fetch_add(1, Ordering::Relaxed);
        let again = session.execute_unpaged(&next.statement, &values).await;
        match again {
            Ok(result) => Ok(result),
            Err(error) => Err(client.gone_or(&next, error).await),
        }
    }

    /// Runs a statement and gives its rows page by page, all of one version; if that version is
    /// dropped meanwhile, the stream ends with [`QueryError::VersionGone`].
    pub async fn execute_iter<T, V: SerializeRow>(
        &self,
        statement: &RoutedStatement,
        values: V,
    ) -> Result<impl Stream<Item = Result<T, QueryError>> + use<T, V>, QueryError>
    where
        T: for<'f, 'm> DeserializeRow<'f, 'm> + Send + 'static,
    {
        let client = Arc::clone(&self.shared);
        let mut current = client.fresh(statement).await?;
        let mut pager = client.session().execute_iter(current.statement.clone(), &values).await;
        if pager.is_err()
            && let Some(next) = client.moved_on(statement, &current).await?
        {
            client.retries.fetch_add(1, Ordering::Relaxed);
            current = next;
            pager = client.session().execute_iter(current.statement.clone(), &values).await;
        }
        let pager = match pager {
            Ok(pager) => pager,
            Err(error) => return Err(client.gone_or(&current, error).await),
        };
        let rows = pager.rows_stream::<T>().map_err(QueryError::driver)?;
        Ok(rows.then(move |row| {
            let (client, current) = (Arc::clone(&client), Arc::clone(&current));
            async move {
                match row {
                    Ok(row) => Ok(row),
                    Err(error) => Err(client.gone_or(&current, error).await),
                }
            }
        }))
    }

    /// Reads the map now.
    pub async fn refresh(&self) -> Result<(), QueryError> {
        self.shared.refresh().await
    }

    /// The version a table is read from.
    pub fn version(&self, table: &TableName) -> Option<String> {
        self.shared.map.load().routed(table.keyspace(), table.table()).map(str::to_owned)
    }

    /// What the session knows of itself.
    pub fn metrics(&self) -> Metrics {
        let client = &self.shared;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refreshed = Duration::from_micros(count(&client.refreshed_us));
        Metrics {
            age: client.clock().elapsed().saturating_sub(refreshed),
            versions: client.map.load().routes(),
            refreshes: count(&client.refreshes),
            refresh_failures: count(&client.failures),
            retries: count(&client.retries),
            prepared: count(&client.prepared),
        }
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.shared
    }
}

impl Client {
    fn session(&self) -> &Session {
        self.versions.session()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.versions.shared.ports.clock
    }

    /// Reads every table's catalog; the generation moves only if a route has.
    pub(super) async fn refresh(&self) -> Result<(), QueryError> {
        let now = u64::try_from(self.clock().elapsed().as_micros()).unwrap_or(u64::MAX);
        let map = Map::read(&self.versions).await?;
        self.map.rcu(|before| map.after(before));
        self.refreshed_us.store(now, Ordering::Relaxed);
        self.refreshes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The statement for the map as it is.
    async fn fresh(&self, statement: &RoutedStatement) -> Result<Arc<Current>, QueryError> {
        let current = statement.current.load();
        if current.generation == self.map.load().generation {
            return Ok(Arc::clone(&current));
        }
        let next = self.current(&statement.cql, Some(&current)).await?;
        statement.current.store(Arc::clone(&next));
        Ok(next)
    }

    async fn current(
        &self,
        cql: &str,
        before: Option<&Current>,
    ) -> Result<Arc<Current>, QueryError> {
        let map = self.map.load_full();
        let route = |keyspace: &str, table: &str| map.answer(keyspace, table);
        let rewritten = rewrite(cql, self.keyspace.as_deref(), route)
            .map_err(|error| QueryError::Rewrite(Box::new(error)))?;
        if let Some(table) = rewritten.tables.iter().find(|table| table.version.is_empty()) {
            return Err(QueryError::NoVersion { table: Box::new(table.table.clone()) });
        }
        let generation = map.generation;
        let statement = match before.filter(|before| before.text == rewritten.text) {
            Some(same) => same.statement.clone(),
            None => {
                self.prepared.fetch_add(1, Ordering::Relaxed);
                let prepared = Box::pin(self.session().prepare(rewritten.text.as_ref())).await;
                let mut statement = prepared.map_err(QueryError::driver)?;
                statement.set_is_idempotent(!rewritten.tables.is_empty());
                statement
            }
        };
        let (text, tables) = (rewritten.text.into_owned(), rewritten.tables);
        Ok(Arc::new(Current { generation, text, tables, statement }))
    }

    /// Reads the map again; the statement for it, if that is another one now.
    async fn moved_on(
        &self,
        statement: &RoutedStatement,
        used: &Current,
    ) -> Result<Option<Arc<Current>>, QueryError> {
        if used.tables.is_empty() || self.refresh().await.is_err() {
            return Ok(None);
        }
        let next = self.fresh(statement).await?;
        Ok((next.text != used.text).then_some(next))
    }

    /// The error as it is, or that the version is gone, if the catalog says so.
    async fn gone_or(
        &self,
        used: &Current,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> QueryError {
        for table in &used.tables {
            if Map::is_gone(&self.versions, &table.table, &table.version).await {
                let (table, version) = (table.table.clone(), table.version.as_str().into());
                return QueryError::VersionGone { table: Box::new(table), version };
            }
        }
        QueryError::driver(error)
    }
}
