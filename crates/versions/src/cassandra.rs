//! Versioned tables on a Cassandra cluster.

mod catalog;
mod client;
mod load;
mod query;
mod row_values;
mod statements;
mod tables;
mod view;

use std::sync::Arc;

use helenus_model::backend::Endpoint;
use helenus_store::Ports;
use helenus_store::cassandra::link::{connect, ensure_keyspace};
use helenus_store::cassandra::{Error, Options};
use scylla::client::session::Session;

pub use client::{Metrics, QueryError, REFRESH, RoutedSession, RoutedStatement};
use statements::{Names, Statements};
pub use view::View;

/// Versions in a cluster: the catalog in the store's keyspace, each version a table beside the
/// name that readers use. Cheap to clone; clones share a session.
#[derive(Clone, Debug)]
pub struct CassandraVersions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    session: Arc<Session>,
    names: Names,
    options: Options,
    statements: Statements,
    ports: Ports,
}

impl CassandraVersions {
    /// Opens a session at `endpoint`, whose path names the keyspace of the catalog, and makes the
    /// catalog's tables where they are missing.
    pub async fn open(endpoint: &Endpoint, options: Options, ports: Ports) -> Result<Self, Error> {
        let session = Arc::new(Box::pin(connect(endpoint, &options)).await?);
        let keyspace = endpoint.path.clone().or_else(|| options.keyspace.clone());
        Self::on(session, Options { keyspace, ..options }, ports).await
    }

    /// The same on a session that is open already.
    pub async fn on(session: Arc<Session>, options: Options, ports: Ports) -> Result<Self, Error> {
        let names = Names::new(&options);
        Box::pin(ensure_keyspace(&session, &names.keyspace, &options)).await?;
        Box::pin(names.make_tables(&session)).await?;
        let statements = Box::pin(Statements::prepare(&session, &names, &options)).await?;
        Ok(CassandraVersions {
            shared: Arc::new(Shared { session, names, options, statements, ports }),
        })
    }

    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.shared.session
    }
}
