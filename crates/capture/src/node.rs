//! What a node is asked: its schema and its settings.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::schema::TableId;
use helenus_model::backend::Endpoint;
use helenus_model::{BackendError, Clock, Failure, Kind, hints_topic};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::serialize::row::SerializeRow;
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::agent::{Pulse, SchemaSource, Terms};
use crate::offline::Truncation;
use crate::options::Outbox;
use crate::space::parse_size;

/// The tables of `system_schema` that a reader of segments needs.
const TABLES: [&str; 6] = ["keyspaces", "tables", "columns", "dropped_columns", "types", "views"];

/// How the name of an outbox's table of messages ends; the store's prefix stands before it.
const MESSAGES: &str = "outbox_messages";

/// A node that cannot be asked, or cannot be captured as it is set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// It does not answer.
    #[error("the node at cassandra:{url} does not answer")]
    Unavailable {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Change data capture is off.
    #[error("change data capture is off at {url}: cdc_enabled is false")]
    CdcOff {
        /// Where.
        url: String,
    },
    /// The folder is not where the log is: no hard links can be made.
    #[error("{cdc_raw} is on another file system than the node's commit log in {commitlog}")]
    OtherFileSystem {
        /// The folder.
        cdc_raw: String,
        /// The log's folder.
        commitlog: String,
    },
    /// There is no outbox where one is named.
    #[error("{table} at {url} is not an outbox's table of messages")]
    NoOutbox {
        /// Where.
        url: String,
        /// The table.
        table: String,
    },
    /// An outbox whose changes are not kept.
    #[error("{table} at {url} has no change data capture: nothing tells of its messages")]
    OutboxWithoutCdc {
        /// Where.
        url: String,
        /// The table.
        table: String,
    },
    /// The node writes elsewhere.
    #[error("the node's cdc_raw_directory is {actual}, not {configured}")]
    OtherFolder {
        /// What the node says.
        actual: String,
        /// What is configured.
        configured: String,
    },
}

impl Failure for NodeError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unavailable { .. } => Kind::Unavailable,
            _ => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "unavailable",
            Self::CdcOff { .. } => "cdc_off",
            Self::OtherFileSystem { .. } => "other_file_system",
            Self::OtherFolder { .. } => "other_folder",
            Self::NoOutbox { .. } => "no_outbox",
            Self::OutboxWithoutCdc { .. } => "outbox_without_cdc",
        }
    }

    fn remedy(&self) -> Option<std::borrow::Cow<'static, str>> {
        if let Self::OutboxWithoutCdc { table, .. } = self {
            return Some(format!("run ALTER TABLE {table} WITH cdc = true").into());
        }
        Some(std::borrow::Cow::from(match self {
            Self::Unavailable { .. } => {
                "check that Cassandra runs there and that capture.url, user and password are right"
            }
            Self::CdcOff { .. } => "set cdc_enabled: true in cassandra.yaml and restart the node",
            Self::OtherFileSystem { .. } => {
                "put cdc_raw_directory and commitlog_directory on one file system"
            }
            Self::OtherFolder { .. } => "set capture.cdc_raw to the node's cdc_raw_directory",
            Self::NoOutbox { .. } | Self::OutboxWithoutCdc { .. } => {
                "set capture.hints to KEYSPACE.PREFIXoutbox_messages of a store that has been opened"
            }
        }))
    }
}

/// A node that is asked.
#[derive(Debug, Clone)]
pub struct Node {
    endpoint: Endpoint,
    clock: Arc<dyn Clock>,
    /// Connected when it is first asked, and again by the driver when the node comes back.
    session: Arc<OnceCell<Session>>,
}

/// What a node says of its change data capture; older releases leave things out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether it is on.
    pub cdc_enabled: bool,
    /// Where it links segments to.
    pub cdc_raw: Option<String>,
    /// Where its log is.
    pub commitlog: Option<String>,
    /// Bytes that `cdc_raw` may hold.
    pub total_space: Option<u64>,
    /// Whether it deletes what nobody has read, rather than refuse writes, where there is no room left.
    pub deletes_unread: bool,
    /// How often the log is synced.
    pub sync_period: Option<String>,
}

impl Settings {
    /// Whether the node's log can be had from this folder, as far as the two can be compared here.
    fn fits(&self, cdc_raw: &Path) -> Result<(), NodeError> {
        let device = |path: &Path| std::fs::metadata(path).ok().map(|folder| folder.dev());
        let inode =
            |path: &Path| std::fs::metadata(path).ok().map(|folder| (folder.dev(), folder.ino()));
        // A container may show the node's folders under other names: only what is seen is compared.
        if let Some(actual) = &self.cdc_raw
            && let (Some(theirs), Some(ours)) = (inode(Path::new(actual)), inode(cdc_raw))
            && theirs != ours
        {
            let configured = cdc_raw.display().to_string();
            return Err(NodeError::OtherFolder { actual: actual.clone(), configured });
        }
        if let Some(commitlog) = &self.commitlog
            && let (Some(log), Some(raw)) = (device(Path::new(commitlog)), device(cdc_raw))
            && log != raw
        {
            let cdc_raw = cdc_raw.display().to_string();
            return Err(NodeError::OtherFileSystem { cdc_raw, commitlog: commitlog.clone() });
        }
        Ok(())
    }
}

impl Node {
    /// The node at `endpoint`; nothing is asked yet.
    #[must_use]
    pub fn new(endpoint: Endpoint, clock: Arc<dyn Clock>) -> Self {
        Self { endpoint, clock, session: Arc::default() }
    }

    /// Its schema as a document, with the time it was taken: what `--schema` takes.
    pub async fn schema(&self) -> Result<String, NodeError> {
        let taken_at = self.clock.now().as_micros();
        let mut document = format!("{{\"taken_at_us\": {taken_at}");
        for table in TABLES {
            let query = format!("SELECT JSON * FROM system_schema.{table}");
            let rows = self.ask::<(String,)>(&query, ()).await?;
            let rows: Vec<String> = rows.into_iter().map(|(row,)| row).collect();
            let _infallible = write!(document, ",\n\"{table}\": [\n{}\n]", rows.join(",\n"));
        }
        document.push_str("\n}\n");
        Ok(document)
    }

    /// What it says of its schema's version, of captured tables and of emptied ones.
    ///
    /// The version alone comes too late: a node writes it down after it has begun to go by the new schema.
    /// The rows of the schema are there before that.
    pub async fn pulse(&self) -> Result<Pulse, NodeError> {
        type Row = (Option<Uuid>, Option<HashMap<Uuid, Vec<u8>>>);
        let query = "SELECT schema_version, truncated_at FROM system.local WHERE key = 'local'";
        let local = self.ask::<Row>(query, ()).await?;
        let (version, truncated) = local.into_iter().next().unwrap_or_default();
        let truncated = truncated.unwrap_or_default().into_iter();
        let truncations =
            truncated.filter_map(|(id, bytes)| Some((TableId(id), Truncation::parse(&bytes)?)));
        let query = "SELECT id, cdc FROM system_schema.tables";
        let tables = self.ask::<(Uuid, Option<bool>)>(query, ()).await?;
        let captured = tables.into_iter().filter(|(_, cdc)| cdc.unwrap_or(false));
        let mut captured: Vec<u128> = captured.map(|(id, _)| id.as_u128()).collect();
        captured.sort_unstable();
        let captured: Vec<u8> = captured.into_iter().flat_map(u128::to_be_bytes).collect();
        let captured = Uuid::new_v5(&version.unwrap_or_default(), &captured);
        Ok(Pulse { schema_version: Some(captured.to_string()), truncations: truncations.collect() })
    }

    /// What it says of its change data capture.
    pub async fn settings(&self) -> Result<Settings, NodeError> {
        let query = "SELECT name, value FROM system_views.settings";
        let rows = self.ask::<(String, Option<String>)>(query, ()).await?;
        let values = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut values: HashMap<String, String> =
            values.filter(|(_, value)| value != "null").collect();
        let mut first = |names: &[&str]| names.iter().find_map(|name| values.remove(*name));
        Ok(Settings {
            cdc_enabled: first(&["cdc_enabled"]).is_some_and(|value| value == "true"),
            cdc_raw: first(&["cdc_raw_directory"]),
            commitlog: first(&["commitlog_directory"]),
            total_space: first(&["cdc_total_space", "cdc_total_space_in_mb"])
                .and_then(|size| parse_size(&size))
                .filter(|size| *size > 0),
            deletes_unread: first(&["cdc_block_writes"]).is_some_and(|value| value == "false"),
            sync_period: first(&["commitlog_sync_period", "commitlog_sync_period_in_ms"]),
        })
    }

    /// Whether the node's log can be captured from this folder; changes nothing.
    pub async fn check(&self, cdc_raw: &Path) -> Result<Settings, NodeError> {
        let settings = self.settings().await?;
        if !settings.cdc_enabled {
            return Err(NodeError::CdcOff { url: self.endpoint.to_string() });
        }
        settings.fits(cdc_raw)?;
        Ok(settings)
    }

    /// The outbox whose messages are in this table, if its changes are kept.
    pub async fn outbox(&self, keyspace: &str, table: &str) -> Result<Outbox, NodeError> {
        let (url, name) = (self.endpoint.to_string(), format!("{keyspace}.{table}"));
        let Some(prefix) = table.strip_suffix(MESSAGES) else {
            return Err(NodeError::NoOutbox { url, table: name });
        };
        let query = "SELECT table_name, cdc FROM system_schema.tables WHERE keyspace_name = ?";
        let tables = self.ask::<(String, Option<bool>)>(query, (keyspace,)).await?;
        let tables: HashMap<String, Option<bool>> = tables.into_iter().collect();
        let settings = format!("{prefix}settings");
        let (Some(cdc), true) = (tables.get(table), tables.contains_key(&settings)) else {
            return Err(NodeError::NoOutbox { url, table: name });
        };
        if !cdc.unwrap_or(false) {
            return Err(NodeError::OutboxWithoutCdc { url, table: name });
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let query = format!(
            "SELECT value FROM {}.{} WHERE name = 'store_id'",
            quoted(keyspace),
            quoted(&settings)
        );
        let Some((store_id,)) = self.ask::<(String,)>(&query, ()).await?.pop() else {
            return Err(NodeError::NoOutbox { url, table: name });
        };
        let topic = hints_topic(store_id);
        Ok(Outbox { keyspace: keyspace.to_owned(), table: table.to_owned(), topic })
    }

    /// The rows that a query gives.
    async fn ask<R>(&self, query: &str, values: impl SerializeRow) -> Result<Vec<R>, NodeError>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        let answer = self.session().await?.query_unpaged(query, values).await;
        let rows = answer.map_err(|error| self.failed(error))?.into_rows_result();
        let rows = rows.map_err(|error| self.failed(error))?;
        let rows = rows.rows::<R>().map_err(|error| self.failed(error))?;
        rows.map(|row| row.map_err(|error| self.failed(error))).collect()
    }

    async fn session(&self) -> Result<&Session, NodeError> {
        self.session.get_or_try_init(|| Box::pin(self.connect())).await
    }

    /// A session with this node alone: settings are each node's own.
    async fn connect(&self) -> Result<Session, NodeError> {
        let addresses = self.endpoint.addresses();
        let only = AllowListHostFilter::new(addresses.iter().map(String::as_str));
        let only = only.map_err(|error| self.failed(error))?;
        let profile = ExecutionProfile::builder()
            .request_timeout(Some(Duration::from_secs(30)))
            .consistency(scylla::statement::Consistency::LocalOne)
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(addresses)
            .host_filter(Arc::new(only))
            .connection_timeout(Duration::from_secs(10))
            .default_execution_profile_handle(profile.into_handle());
        if let (Some(user), Some(password)) = (&self.endpoint.username, &self.endpoint.password) {
            builder = builder.user(user, password.expose_secret());
        }
        if self.endpoint.tls {
            let config = helenus_tls::client_config(self.endpoint.ca_file.as_deref());
            builder = builder.tls_context(Some(config.map_err(|error| self.failed(error))?));
        }
        builder.build().await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> NodeError {
        NodeError::Unavailable { url: self.endpoint.to_string(), source: error.into() }
    }
}

impl SchemaSource for Node {
    async fn fetch(&self) -> Result<String, BackendError> {
        Box::pin(self.schema()).await.map_err(BackendError::new)
    }

    async fn pulse(&self) -> Result<Pulse, BackendError> {
        Box::pin(Node::pulse(self)).await.map_err(BackendError::new)
    }

    async fn terms(&self) -> Option<Terms> {
        let settings = Box::pin(self.settings()).await.ok()?;
        Some(Terms {
            total_space: settings.total_space,
            is_cdc_off: !settings.cdc_enabled,
            deletes_unread: settings.deletes_unread,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cdc_raw: Option<&Path>, commitlog: Option<&Path>) -> Settings {
        let text = |path: &Path| path.display().to_string();
        let (cdc_raw, commitlog) = (cdc_raw.map(text), commitlog.map(text));
        let (total_space, deletes_unread, sync_period) = (None, false, None);
        Settings { cdc_enabled: true, cdc_raw, commitlog, total_space, deletes_unread, sync_period }
    }

    #[test]
    fn a_folder_that_is_not_the_node_s_or_on_another_file_system_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (raw, log) = (dir.path().join("cdc_raw"), dir.path().join("commitlog"));
        let other = dir.path().join("other");
        for folder in [&raw, &log, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        assert!(settings(Some(&raw), Some(&log)).fits(&raw).is_ok());
        let error = settings(Some(&raw), Some(&log)).fits(&other).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("other_folder", Kind::Invalid));
        // The kernel's own files are never where a log is.
        let proc = Path::new("/proc");
        let error = settings(Some(&raw), Some(proc)).fits(&raw).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("other_file_system", Kind::Invalid));
        assert!(error.to_string().contains("/proc") && error.remedy().is_some(), "{error}");
        // What a container does not show is not compared.
        let hidden = dir.path().join("hidden");
        assert!(settings(Some(&hidden), Some(&hidden)).fits(&raw).is_ok());
        assert!(settings(None, None).fits(&raw).is_ok());
    }

    #[test]
    fn errors_are_small() {
        assert!(size_of::<NodeError>() <= 64, "{}", size_of::<NodeError>());
    }
}
