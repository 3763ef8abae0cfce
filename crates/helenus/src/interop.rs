//! Where the caller's own driver objects come in. Nothing else in this crate names a driver type.

/// Staging inside the caller's own SQLite transaction, and projections, which write inside the
/// store's ([`Store::projector`](crate::Store::projector)).
///
/// ```
/// use helenus::{ChannelId, Message, MessageId, Payload, Ports, Store, Timestamp};
/// use helenus::interop::rusqlite::stage;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// # let url = format!("sqlite:{}", path.display());
/// let store = Store::open(&url.parse()?, Ports::system()).await?; // makes the outbox table
/// let mut shop = rusqlite::Connection::open(&path)?;
/// shop.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)")?;
///
/// let message = Message::new(
///     MessageId::new("order-1/placed")?,
///     ChannelId::new("orders")?,
///     "order.placed",
///     Payload::json(&serde_json::json!({})),
///     Timestamp::EPOCH,
/// );
/// let transaction = shop.transaction()?;
/// transaction.execute("INSERT INTO orders VALUES ('order-1')", [])?;
/// stage(&transaction, &message, Timestamp::EPOCH)?;
/// transaction.commit()?; // both, or neither
/// # drop(store);
/// # Ok(())
/// # }
/// ```
pub mod rusqlite {
    pub use ::rusqlite::{Connection, Transaction};
    pub use helenus_store::sqlite::{Output, Projection, once, stage};
}

/// A store on the application's own session with a cluster.
#[cfg(feature = "cassandra")]
pub mod scylla {
    use std::sync::Arc;

    use helenus_store::Ports;
    use helenus_store::cassandra::Options;
    pub use helenus_store::cassandra::{CassandraStore, Session, staging};

    use crate::open::Backend;
    use crate::{Store, StoreOpenError};

    /// Uses `session` instead of opening one; it stays the application's to close.
    ///
    /// The keyspace is the one `options` name. Keyspace and tables are made on first use, where
    /// they are missing.
    pub fn store(
        session: Arc<Session>,
        options: Options,
        ports: Ports,
    ) -> Result<Store, StoreOpenError> {
        let store = CassandraStore::with_session(session, options, ports)?;
        Ok(Store::on(Backend::Cassandra(store)))
    }

    /// The store as the ways to stage need it that take the application's own statements (see
    /// [`staging`]); `None` if it is not on a cluster.
    pub fn cassandra(store: &Store) -> Option<&CassandraStore> {
        match &store.backend {
            Backend::Cassandra(store) => Some(store),
            Backend::Sqlite(_) => None,
        }
    }
}

/// Versioned tables read through the driver, under the names readers use.
///
/// ```no_run
/// use std::sync::Arc;
/// use helenus::interop::versions::{CassandraVersions, REFRESH, RoutedSession, Session};
/// use helenus::Ports;
///
/// # async fn example(session: Arc<Session>) -> Result<(), Box<dyn std::error::Error>> {
/// let versions = CassandraVersions::on(session, Default::default(), Ports::system()).await?;
/// let routed = RoutedSession::new(versions, Some("shop".to_owned()), REFRESH).await?;
/// let by_id = routed.prepare("SELECT score FROM features WHERE id = ?").await?;
/// let rows = routed.execute_unpaged(&by_id, (7,)).await?; // of the version that is current
/// # drop(rows);
/// let metrics = routed.metrics(); // to be watched: how old the map is, and which version is read
/// if metrics.age > 10 * REFRESH || metrics.refresh_failures > 0 {
///     println!("versions may have moved on: {:?}", metrics.versions);
/// }
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "cassandra")]
pub mod versions {
    pub use helenus_store::cassandra::Session;
    pub use helenus_versions::cassandra::{
        CassandraVersions, Metrics, QueryError, REFRESH, RoutedSession, RoutedStatement, View,
    };
}
