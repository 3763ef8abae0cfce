//! From a URL to an open backend: the one table that says which backends there are.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use helenus_broker::embedded;
use helenus_model::backend::StoreUrl;
use helenus_model::{BackendError, Failure, Kind};
use helenus_sqlite::{Component, Engine, Inspection, OpenError, Options};
#[cfg(feature = "cassandra")]
use helenus_store::cassandra::{self, CassandraStore};
use helenus_store::sqlite::{self, SqliteStore};
use helenus_store::{Bounds, Ports};
use tokio::sync::watch;

/// All parts that share the file bring their tables, whichever of them is used.
pub(crate) static COMPONENTS: [&Component; 3] =
    [&sqlite::COMPONENT, &embedded::COMPONENT, &helenus_versions::sqlite::COMPONENT];

/// Examines a store file, every page of it; creates and changes nothing.
pub async fn inspect(path: impl AsRef<Path>) -> Result<Inspection, OpenError> {
    helenus_sqlite::inspect(path, &COMPONENTS).await
}

/// An open store. Cheap to clone.
///
/// See the crate's documentation for an example.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) backend: Backend,
    /// Never sends: what waits for commits of a cluster waits.
    quiet: Arc<watch::Sender<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Sqlite(SqliteStore),
    #[cfg(feature = "cassandra")]
    Cassandra(CassandraStore),
}

/// How a store is used, beside where it is.
///
/// ```
/// use helenus::{Bounds, StoreOptions};
///
/// let options = StoreOptions {
///     bounds: Bounds { append_bytes_max: 1024 * 1024, ..Bounds::default() },
///     ..StoreOptions::default()
/// };
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// What an append may be, and how long operations are remembered.
    pub bounds: Bounds,
    /// Over how many shards messages are spread. Whoever uses a store first decides, 16 unless said;
    /// another number is refused from then on.
    pub shards: Option<u16>,
    /// How a cluster is used; bounds and shards are those above.
    #[cfg(feature = "cassandra")]
    pub cassandra: cassandra::Options,
}

/// Why a store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// The file cannot be used.
    #[error(transparent)]
    Sqlite(#[from] OpenError),
    /// The cluster cannot be used as it is configured.
    #[cfg(feature = "cassandra")]
    #[error(transparent)]
    Cassandra(#[from] helenus_store::cassandra::Error),
    /// The file's messages are spread over another number of shards. A cluster says so when it is
    /// first used.
    #[error("the outbox has {recorded} shards, not {configured}")]
    Shards {
        /// What it was first used with.
        recorded: u16,
        /// What is configured.
        configured: u16,
    },
    /// The file cannot say what was decided when it was first used.
    #[error(transparent)]
    Settings(#[from] BackendError),
    /// This program was built without that backend.
    #[error("this program was built without the backend of {url}")]
    NotBuilt {
        /// Where it was asked to.
        url: String,
    },
}

/// Something that a store on Cassandra does not do yet.
#[cfg(feature = "cassandra")]
#[derive(Debug, thiserror::Error)]
#[error("this release has no {what} on Cassandra yet, in SQLite files only")]
pub struct NotYet {
    pub(crate) what: &'static str,
}

#[cfg(feature = "cassandra")]
impl Failure for NotYet {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "not_yet"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("use store.url = \"sqlite:helenus.db\"".into())
    }
}

impl Failure for StoreOpenError {
    fn kind(&self) -> Kind {
        match self {
            StoreOpenError::Sqlite(error) => error.kind(),
            #[cfg(feature = "cassandra")]
            StoreOpenError::Cassandra(error) => error.kind(),
            StoreOpenError::Settings(error) => error.kind(),
            StoreOpenError::Shards { .. } | StoreOpenError::NotBuilt { .. } => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            StoreOpenError::Sqlite(error) => error.code(),
            #[cfg(feature = "cassandra")]
            StoreOpenError::Cassandra(error) => error.code(),
            StoreOpenError::Settings(error) => error.code(),
            StoreOpenError::Shards { .. } => "invalid",
            StoreOpenError::NotBuilt { .. } => "not_built",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            StoreOpenError::Sqlite(error) => error.remedy(),
            #[cfg(feature = "cassandra")]
            StoreOpenError::Cassandra(error) => error.remedy(),
            StoreOpenError::Settings(error) => error.remedy(),
            StoreOpenError::Shards { .. } => {
                Some("configure that number, or change it with `helenus outbox reshard`".into())
            }
            StoreOpenError::NotBuilt { .. } => Some("use store.url = \"sqlite:helenus.db\"".into()),
        }
    }
}

/// Closes a file whose messages are spread over another number of shards.
async fn refuse_other_shards(
    store: &SqliteStore,
    configured: Option<u16>,
) -> Result<(), StoreOpenError> {
    let chosen = store.choose_shards(configured).await;
    let refused = match (chosen, configured) {
        (Ok(recorded), Some(configured)) if recorded != configured => {
            StoreOpenError::Shards { recorded, configured }
        }
        (Ok(_), _) => return Ok(()),
        (Err(error), _) => error.into(),
    };
    store.engine().close().await;
    Err(refused)
}

impl Store {
    /// Opens the store at `url`. A SQLite file is created where there is none; a cluster is not
    /// spoken to before the store is first used.
    pub async fn open(url: &StoreUrl, ports: Ports) -> Result<Store, StoreOpenError> {
        Store::open_with(url, StoreOptions::default(), ports).await
    }

    /// The same, used as `options` say.
    pub async fn open_with(
        url: &StoreUrl,
        options: StoreOptions,
        ports: Ports,
    ) -> Result<Store, StoreOpenError> {
        let bounds = options.bounds;
        let backend = match url {
            StoreUrl::Sqlite(path) => {
                let engine = Engine::open(path, Options::default(), &COMPONENTS).await?;
                let store = SqliteStore::on(engine, ports).with_bounds(bounds);
                refuse_other_shards(&store, options.shards).await?;
                Backend::Sqlite(store)
            }
            #[cfg(feature = "cassandra")]
            StoreUrl::Cassandra(endpoint) => {
                let shards = options.shards.or(options.cassandra.shards);
                let options = cassandra::Options { bounds, shards, ..options.cassandra };
                Backend::Cassandra(CassandraStore::new(endpoint.clone(), options, ports)?)
            }
            #[cfg(not(feature = "cassandra"))]
            StoreUrl::Cassandra(_) => {
                return Err(StoreOpenError::NotBuilt { url: url.to_string() });
            }
        };
        Ok(Store::on(backend))
    }

    pub(crate) fn on(backend: Backend) -> Store {
        Store { backend, quiet: Arc::new(watch::Sender::new(0)) }
    }

    /// Changes whenever this process has committed something to the store's file: what a relay
    /// waits on. A cluster tells of nothing.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.engine().map_or_else(|| self.quiet.subscribe(), Engine::commits)
    }

    /// Finishes what is queued and closes the store, for its clones too.
    pub async fn close(&self) {
        if let Some(engine) = self.engine() {
            engine.close().await;
        }
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        match &self.backend {
            Backend::Sqlite(store) => Some(store.engine()),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(_) => None,
        }
    }
}
