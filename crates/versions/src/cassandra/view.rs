//! One version over several queries.

use std::time::Duration;

use helenus_cql::rewrite::rewrite;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use tokio::task::JoinSet;

use super::client::{QueryError, RoutedSession};
use crate::TableName;
use crate::catalog::{Catalog, Status, ViewLease};

/// How long a hold lasts that is not renewed.
const HOLD: Duration = Duration::from_secs(30);

/// Times a view is tried on a version that is on its way out.
const ATTEMPTS_MAX: u32 = 8;

/// A hold on the version that a table had when it was made: recycling waits for it. Renewed while
/// the view lives; give it back with [`View::release`].
#[derive(Debug)]
pub struct View {
    session: RoutedSession,
    table: TableName,
    version_name: String,
    lease: ViewLease,
    /// Ends with the view; the hold then ends by itself.
    _renewing: JoinSet<()>,
}

impl RoutedSession {
    /// Holds the version that readers of `table` get now.
    ///
    /// The hold is written first and the catalog read second; a recycle marks the version first and
    /// reads the holds second. So one of the two sees the other.
    pub async fn view(&self, table: &TableName) -> Result<View, QueryError> {
        let versions = &self.client().versions;
        let ports = &versions.shared.ports;
        let no_version = || QueryError::NoVersion { table: Box::new(table.clone()) };
        for _ in 0..ATTEMPTS_MAX {
            let snapshot = versions.snapshot(table).await?;
            let routed = snapshot.routed().ok_or_else(no_version)?;
            let (lease_id, expires_at) = (ports.random.uuid(), ports.clock.now().plus(HOLD));
            let lease = ViewLease { version: routed.number, lease_id, expires_at };
            versions.hold(table, &lease).await?;
            let now = versions.snapshot(table).await?;
            let row = now.versions.iter().find(|row| row.number == routed.number);
            if row.is_some_and(|row| row.status == Status::Completed) {
                let version_name = routed.version_name.clone();
                return Ok(View::new(self.clone(), table.clone(), version_name, lease));
            }
            versions.release(table, &lease).await?;
        }
        Err(no_version())
    }
}

impl View {
    fn new(
        session: RoutedSession,
        table: TableName,
        version_name: String,
        lease: ViewLease,
    ) -> View {
        let mut renewing = JoinSet::new();
        let (client, held, of) =
            (std::sync::Arc::clone(session.client()), lease.clone(), table.clone());
        renewing.spawn(async move {
            loop {
                tokio::time::sleep(HOLD / 3).await;
                let expires_at = client.versions.shared.ports.clock.now().plus(HOLD);
                let lease = ViewLease { expires_at, ..held.clone() };
                if let Err(error) = client.versions.hold(&of, &lease).await {
                    tracing::warn!(%error, "a hold on a version was not renewed");
                }
            }
        });
        View { session, table, version_name, lease, _renewing: renewing }
    }

    /// The version that is held.
    pub fn version_name(&self) -> &str {
        &self.version_name
    }

    /// Runs a query on the version that is held; other versioned tables are read where they are.
    pub async fn query_unpaged(
        &self,
        cql: &str,
        values: impl SerializeRow,
    ) -> Result<QueryResult, QueryError> {
        let route = |keyspace: &str, table: &str| {
            let name = TableName::new(keyspace, table);
            if name == self.table {
                Some(self.version_name.clone())
            } else {
                self.session.version(&name)
            }
        };
        let rewritten =
            rewrite(cql, None, route).map_err(|error| QueryError::Rewrite(Box::new(error)))?;
        let session = self.session.client().versions.session();
        let read = session.query_unpaged(rewritten.text.into_owned(), values);
        Box::pin(read).await.map_err(|error| QueryError::Driver(Box::new(error)))
    }

    /// Gives the hold back.
    pub async fn release(self) -> Result<(), QueryError> {
        Ok(self.session.client().versions.release(&self.table, &self.lease).await?)
    }
}
