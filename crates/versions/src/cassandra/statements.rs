//! The catalog's tables and the statements on them, prepared once.

use std::sync::Arc;

use helenus_cql::lexer::quoted;
use helenus_store::cassandra::link::{change_schema, prepare_error};
use helenus_store::cassandra::{Error, Options};
use scylla::client::session::Session;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

/// Where the catalog is.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) keyspace: String,
    prefix: String,
}

impl Names {
    pub(super) fn new(options: &Options) -> Names {
        let keyspace = options.keyspace.clone().unwrap_or_else(|| "helenus".to_owned());
        Names { keyspace, prefix: options.prefix.clone() }
    }

    pub(super) fn versions(&self) -> String {
        self.table("table_versions")
    }

    fn leases(&self) -> String {
        self.table("version_leases")
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&format!("{}{name}", self.prefix)))
    }

    /// What the comment of a version's table says: whose it is, and of which run.
    pub(super) fn mark(&self, run_id: &str) -> String {
        format!("{} run {run_id}", self.mark_start())
    }

    /// How every mark of this catalog begins.
    pub(super) fn mark_start(&self) -> String {
        format!("helenus version of {}.{}", self.keyspace, self.prefix)
    }

    pub(super) async fn make_tables(&self, session: &Session) -> Result<(), Error> {
        let metadata = session.get_cluster_state();
        let known = metadata.get_keyspace(&self.keyspace);
        let has = |name: &str| {
            known.is_some_and(|known| known.tables.contains_key(&format!("{}{name}", self.prefix)))
        };
        if has("table_versions") && has("version_leases") {
            return Ok(());
        }
        change_schema(session, create_versions(&self.versions())).await?;
        change_schema(session, create_leases(&self.leases())).await
    }
}

/// A node that was killed is asked for more than ten seconds before its peers give it up, and a table
/// that is new has no latencies from which a node could tell that it waits for too long.
pub(super) const ASK_ANOTHER_SOON: &str = "speculative_retry = 'MIN(99p,50ms)'";

fn create_versions(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
             key_space text, \"table\" text, run_id text, data_ts timestamp, create_ts timestamp,
             version_name text, status text,
             version int, excluded boolean, heartbeat_ts timestamp, publisher uuid,
             deleting_ts timestamp, row_count bigint, bad_rows bigint, checksum bigint,
             progress bigint, progress_checksum bigint, source text, who text, schema_cql text,
             checks text, forced text, null_rates text, failure text, table_id uuid, change_id uuid,
             next_version int static, pinned int static, catalog_epoch bigint static,
             PRIMARY KEY ((key_space, \"table\"), run_id)
         ) WITH {ASK_ANOTHER_SOON}"
    )
}

fn create_leases(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
             key_space text, \"table\" text, version int, lease_id uuid, expires_at timestamp,
             PRIMARY KEY ((key_space, \"table\"), version, lease_id)
         ) WITH {ASK_ANOTHER_SOON}"
    )
}

/// What every row of the catalog is written with, after its key.
pub(super) const COLUMNS: [&str; 24] = [
    "data_ts",
    "create_ts",
    "version_name",
    "status",
    "version",
    "excluded",
    "heartbeat_ts",
    "publisher",
    "deleting_ts",
    "row_count",
    "bad_rows",
    "checksum",
    "progress",
    "progress_checksum",
    "source",
    "who",
    "schema_cql",
    "checks",
    "forced",
    "null_rates",
    "failure",
    "table_id",
    "change_id",
    "run_id",
];

#[derive(Debug)]
pub(super) struct Statements {
    /// `catalog_epoch, next_version, pinned, key_space, table, epoch it was`.
    pub(super) move_epoch: PreparedStatement,
    /// The columns of [`COLUMNS`], then `key_space, table`.
    pub(super) insert: PreparedStatement,
    /// The columns of [`COLUMNS`] without `run_id`, then `key_space, table, run_id, status it was`.
    pub(super) update: PreparedStatement,
    /// `heartbeat_ts, progress, progress_checksum, row_count, bad_rows, table_id, key_space, table,
    /// run_id, publisher`.
    pub(super) beat: PreparedStatement,
    /// `key_space, table`.
    pub(super) snapshot: PreparedStatement,
    /// Nothing.
    pub(super) tables: PreparedStatement,
    /// `key_space, table, version, lease_id, expires_at`.
    pub(super) hold: PreparedStatement,
    /// `key_space, table, version, lease_id`.
    pub(super) release: PreparedStatement,
    /// `key_space, table`.
    pub(super) leases: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Statements, Error> {
        let (table, leases) = (names.versions(), names.leases());
        let columns = COLUMNS.join(", ");
        let marks = ["?"; COLUMNS.len()].join(", ");
        let key = "key_space = ? AND \"table\" = ?";
        let settable = COLUMNS.iter().filter(|name| **name != "run_id");
        let sets: Vec<String> = settable.map(|name| format!("{name} = ?")).collect();
        let sets = sets.join(", ");
        let cas = |cql: String| Box::pin(conditional(session, options, cql));
        let plain = |cql: String, level| Box::pin(repeatable(session, options, cql, level));
        let level = options.consistency.level();
        Ok(Statements {
            move_epoch: cas(format!(
                "UPDATE {table} SET catalog_epoch = ?, next_version = ?, pinned = ?
                 WHERE {key} IF catalog_epoch = ?"
            ))
            .await?,
            insert: cas(format!(
                "INSERT INTO {table} ({columns}, key_space, \"table\") VALUES ({marks}, ?, ?)
                 IF NOT EXISTS"
            ))
            .await?,
            update: cas(format!(
                "UPDATE {table} SET {sets} WHERE {key} AND run_id = ? IF status = ?"
            ))
            .await?,
            beat: cas(format!(
                "UPDATE {table} SET heartbeat_ts = ?, progress = ?, progress_checksum = ?,
                     row_count = ?, bad_rows = ?, table_id = ?
                 WHERE {key} AND run_id = ? IF status = 'PENDING' AND publisher = ?"
            ))
            .await?,
            // Finishes a round that was left half-way, so that what it shows is settled.
            snapshot: plain(
                format!(
                    "SELECT {columns}, next_version, pinned, catalog_epoch FROM {table} WHERE {key}"
                ),
                serial(options),
            )
            .await?,
            tables: plain(format!("SELECT DISTINCT key_space, \"table\" FROM {table}"), level)
                .await?,
            hold: plain(
                format!(
                    "INSERT INTO {leases} (key_space, \"table\", version, lease_id, expires_at)
                     VALUES (?, ?, ?, ?, ?)"
                ),
                level,
            )
            .await?,
            release: plain(
                format!("DELETE FROM {leases} WHERE {key} AND version = ? AND lease_id = ?"),
                level,
            )
            .await?,
            leases: plain(
                format!("SELECT version, lease_id, expires_at FROM {leases} WHERE {key}"),
                level,
            )
            .await?,
        })
    }
}

/// A read that is serial spans what the conditional writes span.
fn serial(options: &Options) -> Consistency {
    use scylla::statement::SerialConsistency;
    match options.serial_consistency.level() {
        SerialConsistency::Serial => Consistency::Serial,
        SerialConsistency::LocalSerial => Consistency::LocalSerial,
    }
}

async fn conditional(
    session: &Session,
    options: &Options,
    cql: String,
) -> Result<PreparedStatement, Error> {
    let mut statement = session.prepare(cql).await.map_err(prepare_error)?;
    statement.set_consistency(options.consistency.level());
    statement.set_serial_consistency(Some(options.serial_consistency.level()));
    statement.set_request_timeout(Some(options.request_timeout));
    statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
    Ok(statement)
}

async fn repeatable(
    session: &Session,
    options: &Options,
    cql: String,
    level: Consistency,
) -> Result<PreparedStatement, Error> {
    let mut statement = session.prepare(cql).await.map_err(prepare_error)?;
    statement.set_consistency(level);
    statement.set_request_timeout(Some(options.request_timeout));
    statement.set_is_idempotent(true);
    Ok(statement)
}
