//! Versioned tables by URL.

use helenus_model::BackendError;
use helenus_model::backend::StoreUrl;
use helenus_sqlite::{Engine, Options};
use helenus_store::Ports;
#[cfg(feature = "cassandra")]
use helenus_versions::cassandra::CassandraVersions;
use helenus_versions::publish::{DryRun, Publish, PublishError, Published, dry_run, publish};
use helenus_versions::sqlite::SqliteVersions;
use helenus_versions::{
    Catalog, ChangeError, Progress, RecycleOptions, Recycled, Snapshot, TableName, TableVersion,
    include, pin, recycle, rollback, unpin,
};

use crate::open::COMPONENTS;
use crate::{StoreOpenError, StoreOptions};

/// The versioned tables of a store. Cheap to clone.
///
/// ```
/// use helenus::versions::{Progress, Publish, SchemaFrom, TableName, TableSchema};
/// use helenus::{Ports, Timestamp, Versions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", dir.path().join("shop.db").display());
/// # let file = dir.path().join("features.csv");
/// std::fs::write(&file, "id,score\n1,0.5\n2,0.75\n")?;
/// let versions = Versions::open(&url.parse()?, Ports::system()).await?;
/// let table = TableName::new("shop", "features");
/// let run = Publish {
///     schema: SchemaFrom::Infer { key: vec!["id".to_owned()] },
///     ..Publish::new(table, Timestamp::from_millis(1_000), "run_1", vec![file])
/// };
/// let published = versions.publish(run, &Progress::default()).await?;
/// assert_eq!((published.version_name.as_str(), published.routed), ("features_v1", true));
/// let rows = versions.query("SELECT score FROM shop.features WHERE id = 2").await?;
/// assert_eq!(rows, [r#"{"score": 0.75}"#]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Versions {
    backend: Backend,
    ports: Ports,
}

#[derive(Clone, Debug)]
enum Backend {
    Sqlite(SqliteVersions),
    #[cfg(feature = "cassandra")]
    Cassandra(CassandraVersions),
}

/// The same on whichever backend it is.
macro_rules! on {
    ($self:ident, $backend:ident => $body:expr) => {
        match &$self.backend {
            Backend::Sqlite($backend) => $body,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra($backend) => $body,
        }
    };
}

impl Versions {
    /// Opens the versioned tables of the store at `url`: those of a file, or of a cluster.
    pub async fn open(url: &StoreUrl, ports: Ports) -> Result<Versions, StoreOpenError> {
        Box::pin(Versions::open_with(url, StoreOptions::default(), ports)).await
    }

    /// The same, used as `options` say.
    #[cfg_attr(not(feature = "cassandra"), expect(unused_variables, reason = "of a cluster"))]
    pub async fn open_with(
        url: &StoreUrl,
        options: StoreOptions,
        ports: Ports,
    ) -> Result<Versions, StoreOpenError> {
        let backend = match url {
            StoreUrl::Sqlite(path) => {
                let engine = Engine::open(path, Options::default(), &COMPONENTS).await?;
                Backend::Sqlite(SqliteVersions::on(engine, ports.clone()))
            }
            #[cfg(feature = "cassandra")]
            StoreUrl::Cassandra(endpoint) => {
                let open = CassandraVersions::open(endpoint, options.cassandra, ports.clone());
                Backend::Cassandra(Box::pin(open).await?)
            }
            #[cfg(not(feature = "cassandra"))]
            StoreUrl::Cassandra(_) => {
                return Err(StoreOpenError::NotBuilt { url: url.to_string() });
            }
        };
        Ok(Versions { backend, ports })
    }

    /// Publishes a data set as the next version of its table; `progress` shows how far it is.
    pub async fn publish(
        &self,
        run: Publish,
        progress: &Progress,
    ) -> Result<Published, PublishError> {
        on!(self, backend => Box::pin(publish(backend, &self.ports, run, progress)).await)
    }

    /// What a publish would do, without doing it.
    pub async fn dry_run(&self, run: &Publish) -> Result<DryRun, PublishError> {
        on!(self, backend => Box::pin(dry_run(backend, run)).await)
    }

    /// A table's catalog as it is.
    pub async fn snapshot(&self, table: &TableName) -> Result<Snapshot, BackendError> {
        on!(self, backend => backend.snapshot(table).await)
    }

    /// Every table that has versions.
    pub async fn tables(&self) -> Result<Vec<TableName>, BackendError> {
        on!(self, backend => backend.tables().await)
    }

    /// Takes readers off the version they have, or off all newer than `to`; returns what they get.
    pub async fn rollback(
        &self,
        table: &TableName,
        to: Option<&str>,
    ) -> Result<TableVersion, ChangeError> {
        on!(self, backend => rollback(backend, &self.ports, table, to).await)
    }

    /// Undoes an exclusion.
    pub async fn include(
        &self,
        table: &TableName,
        version: &str,
    ) -> Result<TableVersion, ChangeError> {
        on!(self, backend => include(backend, &self.ports, table, version).await)
    }

    /// Holds readers at a version.
    pub async fn pin(&self, table: &TableName, version: &str) -> Result<TableVersion, ChangeError> {
        on!(self, backend => pin(backend, &self.ports, table, version).await)
    }

    /// Lets readers go where the data is latest.
    pub async fn unpin(&self, table: &TableName) -> Result<(), ChangeError> {
        on!(self, backend => unpin(backend, &self.ports, table).await)
    }

    /// Drops what nobody reads; `told` hears of each version as it is done.
    pub async fn recycle(
        &self,
        table: &TableName,
        options: RecycleOptions,
        told: &mut (dyn FnMut(&Recycled) + Send),
    ) -> Result<Vec<Recycled>, ChangeError> {
        on!(self, backend => Box::pin(recycle(backend, &self.ports, table, options, told)).await)
    }

    /// Runs a `SELECT` on the versions readers get; each row is a JSON object.
    pub async fn query(&self, cql: &str) -> Result<Vec<String>, BackendError> {
        on!(self, backend => backend.query(cql).await)
    }

    /// Finishes what is queued and closes the store.
    pub async fn close(&self) {
        if let Backend::Sqlite(backend) = &self.backend {
            backend.engine().close().await;
        }
    }
}
