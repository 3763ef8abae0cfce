//! Keyspace and tables: made once, where they are missing.
//!
//! What exists is left alone, so a user without the right to create anything can use tables that
//! somebody else made.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::unprepared::Statement;
use tokio::sync::Mutex;

use super::classify::request_error;
use super::options::Names;
use super::rows::{Answer, answer};
use super::{Error, Options, Replication};

/// A cluster may be slow to agree on a schema.
const DDL_TIMEOUT: Duration = Duration::from_secs(30);

/// Cassandra before 5.1 can lose one of two schema changes made at the same time; those of this
/// process wait for each other.
static SCHEMA_CHANGE: Mutex<()> = Mutex::const_new(());

pub(super) async fn bootstrap(
    session: &Session,
    names: &Names,
    options: &Options,
) -> Result<(), Error> {
    if !has_tables(session, names).await? {
        let _turn = SCHEMA_CHANGE.lock().await;
        if !has_keyspace(session, &names.keyspace).await? {
            change(session, create_keyspace(names, options)).await?;
        }
        change(session, create_events(names)).await?;
        change(session, create_settings(names)).await?;
    }
    record_serial_consistency(session, names, options).await
}

async fn has_tables(session: &Session, names: &Names) -> Result<bool, Error> {
    let query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name IN (?, ?)";
    let values = (&names.keyspace, &names.events, &names.settings);
    Ok(count(session, query, values).await? == 2)
}

async fn has_keyspace(session: &Session, keyspace: &str) -> Result<bool, Error> {
    let query = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    Ok(count(session, query, (keyspace,)).await? == 1)
}

async fn count(
    session: &Session,
    query: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<usize, Error> {
    let asked = Box::pin(session.query_unpaged(query, values)).await;
    let rows = asked.map_err(|error| request_error("read its schema", error))?.into_rows_result();
    Ok(rows.map_err(|error| Error::corrupt(error.to_string()))?.rows_num())
}

/// Makes a keyspace where there is none.
pub async fn ensure_keyspace(
    session: &Session,
    keyspace: &str,
    options: &Options,
) -> Result<(), Error> {
    let names = Names::new(options, Some(keyspace))?;
    if has_keyspace(session, keyspace).await? {
        return Ok(());
    }
    change_schema(session, create_keyspace(&names, options)).await
}

/// Makes a schema change that does nothing the second time, after those of this process.
pub async fn change_schema(session: &Session, cql: String) -> Result<(), Error> {
    let _turn = SCHEMA_CHANGE.lock().await;
    change(session, cql).await
}

pub(super) async fn change(session: &Session, cql: String) -> Result<(), Error> {
    let mut statement = Statement::new(cql);
    statement.set_request_timeout(Some(DDL_TIMEOUT));
    // Made twice is made once: a lost answer leaves nothing to settle.
    let changed = Box::pin(session.query_unpaged(statement, ())).await;
    changed.map(drop).map_err(|error| match request_error("make keyspace and tables", error) {
        Error::Lost { what, source } => Error::Unavailable { what, source },
        error => error,
    })
}

/// The largest mutation the node takes, less what Paxos adds to it; `None` where it does not say.
pub(super) async fn mutation_bytes_max(session: &Session) -> Option<usize> {
    let kibibytes: usize = setting(session, "max_mutation_size_in_kb").await?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024) / 8 * 7)
}

/// A line of the node's configuration; `None` where it does not have it or does not show it.
pub(super) async fn setting(session: &Session, name: &str) -> Option<String> {
    let query = "SELECT value FROM system_views.settings WHERE name = ?";
    let asked = Box::pin(session.query_unpaged(query, (name,))).await;
    let answer = asked.ok()?.into_rows_result().ok()?;
    answer.maybe_first_row::<(Option<String>,)>().ok()??.0
}

/// Makes those of `tables` that are missing: a name, and what stands after it.
pub(super) async fn make(
    session: &Session,
    names: &Names,
    tables: &[(&str, &str)],
) -> Result<(), Error> {
    let wanted: Vec<&str> = tables.iter().map(|(name, _)| *name).collect();
    let query =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name IN ?";
    if count(session, query, (&names.keyspace, &wanted)).await? == tables.len() {
        return Ok(());
    }
    let _turn = SCHEMA_CHANGE.lock().await;
    for (name, definition) in tables {
        let table = names.quoted(name);
        change(session, format!("CREATE TABLE IF NOT EXISTS {table} {definition}")).await?;
    }
    Ok(())
}

/// A setting as it was first recorded: `value` now, if nobody has before.
pub(super) async fn recorded(
    session: &Session,
    names: &Names,
    name: &str,
    value: &str,
) -> Result<String, Error> {
    let table = names.settings();
    let failed = |error| match request_error("record its settings", error) {
        Error::Lost { what, source } => Error::Unavailable { what, source },
        error => error,
    };
    let read = format!("SELECT value FROM {table} WHERE name = ?");
    let found = Box::pin(session.query_unpaged(read, (name,))).await.map_err(failed)?;
    let found = found.into_rows_result().map_err(|error| Error::corrupt(error.to_string()))?;
    let found = found.maybe_first_row::<(String,)>();
    if let Some((recorded,)) = found.map_err(|error| Error::corrupt(error.to_string()))? {
        return Ok(recorded);
    }
    let mut insert =
        Statement::new(format!("INSERT INTO {table} (name, value) VALUES (?, ?) IF NOT EXISTS"));
    // Of all settings the level of Paxos is one, so this one stands above it.
    insert.set_serial_consistency(Some(scylla::statement::SerialConsistency::Serial));
    let inserted = Box::pin(session.query_unpaged(insert, (name, value))).await;
    match answer(inserted.map_err(failed)?)? {
        Answer::Applied => Ok(value.to_owned()),
        Answer::Refused(rows) => rows
            .into_iter()
            .find_map(|row| row.value)
            .ok_or_else(|| Error::corrupt(format!("setting {name} has no value"))),
    }
}

fn create_keyspace(names: &Names, options: &Options) -> String {
    let replication = match &options.replication {
        Replication::Simple(copies) => {
            format!("'class': 'SimpleStrategy', 'replication_factor': {copies}")
        }
        Replication::PerDataCentre(centres) => {
            let copies = centres.iter().map(|(name, copies)| format!(", '{name}': {copies}"));
            format!("'class': 'NetworkTopologyStrategy'{}", copies.collect::<String>())
        }
    };
    let keyspace = &names.keyspace;
    format!("CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = {{{replication}}}")
}

fn create_events(names: &Names) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (
             stream_id text, stream_version bigint, event_type text, payload text,
             occurred_at_utc timestamp, appended_at_utc timestamp, event_id uuid,
             schema_version int, content_type text, payload_bytes blob, correlation_id text,
             causation_id text, tenant_id text, metadata_json text, operation_id uuid,
             operation_state text, content_hash blob, head_version bigint,
             truncated_before bigint, slot text, first_version bigint, archived_from bigint,
             PRIMARY KEY (stream_id, stream_version)
         ) WITH CLUSTERING ORDER BY (stream_version ASC)
           AND speculative_retry = 'MIN(99p,50ms)'",
        names.events()
    )
}

fn create_settings(names: &Names) -> String {
    format!("CREATE TABLE IF NOT EXISTS {} (name text PRIMARY KEY, value text)", names.settings())
}

/// Paxos rounds of different levels do not see each other, so the first writer's level stands.
async fn record_serial_consistency(
    session: &Session,
    names: &Names,
    options: &Options,
) -> Result<(), Error> {
    let configured = options.serial_consistency.name();
    let recorded = recorded(session, names, "serial_consistency", configured).await?;
    if recorded == configured {
        return Ok(());
    }
    let keyspace = names.keyspace.clone();
    Err(Error::SerialConsistency { keyspace, recorded, configured })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn copies_are_kept_where_the_options_say() {
        let made = |replication| {
            let options = Options { replication, ..Options::default() };
            create_keyspace(&Names::new(&options, Some("shop")).unwrap(), &options)
        };
        let start = "CREATE KEYSPACE IF NOT EXISTS \"shop\" WITH replication = ";
        assert_eq!(
            made(Replication::Simple(3)),
            format!("{start}{{'class': 'SimpleStrategy', 'replication_factor': 3}}")
        );
        let centres = BTreeMap::from([("dc1".to_owned(), 3), ("dc2".to_owned(), 2)]);
        assert_eq!(
            made(Replication::PerDataCentre(centres)),
            format!("{start}{{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 2}}")
        );
    }
}
