//! What snapshots and archive need: two tables beside the one of events, made when they are first
//! used, and the statements on them.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use super::options::Names;
use super::statements::{READ_COLUMNS, prepare};
use super::{Error, Options, routing, tables};

/// The statements on snapshots.
#[derive(Debug)]
pub(super) struct SnapshotStatements {
    /// `stream_id, stream_version, snapshot_type, schema_version, payload, payload_bytes,
    /// content_type, metadata_json, saved_at_utc, content_hash`.
    pub(super) save: PreparedStatement,
    /// `stream_id, at most`.
    pub(super) load: PreparedStatement,
    /// `stream_id`.
    pub(super) list: PreparedStatement,
    /// `stream_id, stream_version`.
    pub(super) delete: PreparedStatement,
}

/// Those, and the statements that retire events and read them back.
#[derive(Debug)]
pub(super) struct Annex {
    pub(super) snapshots: SnapshotStatements,
    /// `stream_id`: the head, by a serial read.
    pub(super) head: PreparedStatement,
    /// `truncated_before, archived_from, stream_id`, then the old two and the least head.
    pub(super) truncate: PreparedStatement,
    /// `stream_id, before`.
    pub(super) delete_events: PreparedStatement,
    /// `stream_id, stream_version`.
    pub(super) empty_event: PreparedStatement,
    /// `stream_id, from, before`: [`COPY_COLUMNS`] of the stream.
    pub(super) originals: PreparedStatement,
    /// `stream_id, chunk, from, before`: [`COPY_COLUMNS`] of the archive.
    pub(super) copies: PreparedStatement,
    /// `stream_id, chunk`, then [`COPY_COLUMNS`].
    pub(super) copy: PreparedStatement,
    /// `stream_id, chunk, from, before`.
    pub(super) forward: PreparedStatement,
    /// `stream_id, chunk, from, before`.
    pub(super) backward: PreparedStatement,
    /// `stream_id, chunk, stream_version`: an event's operation.
    pub(super) operation_at: PreparedStatement,
    /// `stream_id, chunk, operation_id`: versions of an operation's events.
    pub(super) operation_events: PreparedStatement,
    /// `stream_id, chunk, before`: whether there is one.
    pub(super) leftover: PreparedStatement,
    /// `stream_id, chunk, before`.
    pub(super) delete_copies: PreparedStatement,
}

/// All that an event's row holds but its stream; what is added to it must be added here.
const COPY_COLUMNS: &str = "stream_version, event_type, payload, occurred_at_utc, \
     appended_at_utc, event_id, schema_version, content_type, payload_bytes, correlation_id, \
     causation_id, tenant_id, metadata_json, operation_id, content_hash, slot";

/// What of an event is not needed to know where its stream ends, or which operation wrote it.
const EMPTIED_COLUMNS: &str = "event_type, payload, payload_bytes, content_type, correlation_id, \
     causation_id, tenant_id, metadata_json";

const ARCHIVE: &str = "(
         stream_id text, chunk bigint, stream_version bigint, event_type text, payload text,
         occurred_at_utc timestamp, appended_at_utc timestamp, event_id uuid, schema_version int,
         content_type text, payload_bytes blob, correlation_id text, causation_id text,
         tenant_id text, metadata_json text, operation_id uuid, content_hash blob, slot text,
         PRIMARY KEY ((stream_id, chunk), stream_version)
     ) WITH CLUSTERING ORDER BY (stream_version ASC)";

const SNAPSHOTS: &str = "(
         stream_id text, stream_version bigint, snapshot_type text, schema_version int,
         payload text, payload_bytes blob, content_type text, metadata_json text,
         saved_at_utc timestamp, content_hash blob,
         PRIMARY KEY (stream_id, stream_version)
     ) WITH CLUSTERING ORDER BY (stream_version DESC)";

impl SnapshotStatements {
    async fn prepare(session: &Session, names: &Names, options: &Options) -> Result<Self, Error> {
        let (snapshots, pinned) = (names.quoted(&names.snapshots), routing::pinned(options));
        let cas = |cql: String| Box::pin(prepare(session, options, cql, Some(&pinned)));
        let plain = |cql: String| Box::pin(prepare(session, options, cql, None));
        Ok(SnapshotStatements {
            save: cas(format!(
                "INSERT INTO {snapshots} (stream_id, stream_version, snapshot_type, schema_version,
                     payload, payload_bytes, content_type, metadata_json, saved_at_utc, content_hash)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            load: plain(format!(
                "SELECT stream_version, snapshot_type, schema_version, payload, payload_bytes,
                     content_type, metadata_json, saved_at_utc
                 FROM {snapshots} WHERE stream_id = ? AND stream_version <= ? LIMIT 1"
            ))
            .await?,
            list: plain(format!(
                "SELECT stream_version, snapshot_type, schema_version, saved_at_utc
                 FROM {snapshots} WHERE stream_id = ?"
            ))
            .await?,
            delete: cas(format!(
                "DELETE FROM {snapshots} WHERE stream_id = ? AND stream_version = ? IF EXISTS"
            ))
            .await?,
        })
    }
}

impl Annex {
    pub(super) async fn open(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Annex, Error> {
        let made = [(names.archive.as_str(), ARCHIVE), (names.snapshots.as_str(), SNAPSHOTS)];
        tables::make(session, names, &made).await?;
        let (events, archive) = (names.events(), names.quoted(&names.archive));
        let chunk = "stream_id = ? AND chunk = ?";
        let range = "stream_version >= ? AND stream_version < ?";
        let pinned = routing::pinned(options);
        let cas = |cql: String| Box::pin(prepare(session, options, cql, Some(&pinned)));
        let plain = |cql: String| Box::pin(prepare(session, options, cql, None));
        Ok(Annex {
            snapshots: SnapshotStatements::prepare(session, names, options).await?,
            head: head(session, names, options).await?,
            truncate: cas(format!(
                "UPDATE {events} SET truncated_before = ?, archived_from = ?
                 WHERE stream_id = ? AND stream_version = 0
                 IF truncated_before = ? AND archived_from = ? AND head_version >= ?"
            ))
            .await?,
            delete_events: cas(format!(
                "DELETE FROM {events}
                 WHERE stream_id = ? AND stream_version >= 1 AND stream_version < ?"
            ))
            .await?,
            empty_event: cas(format!(
                "DELETE {EMPTIED_COLUMNS} FROM {events} WHERE stream_id = ? AND stream_version = ?"
            ))
            .await?,
            originals: plain(format!(
                "SELECT {COPY_COLUMNS} FROM {events} WHERE stream_id = ? AND {range}"
            ))
            .await?,
            copies: plain(format!(
                "SELECT {COPY_COLUMNS} FROM {archive} WHERE {chunk} AND {range}"
            ))
            .await?,
            copy: plain(format!(
                "INSERT INTO {archive} (stream_id, chunk, {COPY_COLUMNS})
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            ))
            .await?,
            forward: plain(format!(
                "SELECT {READ_COLUMNS} FROM {archive} WHERE {chunk} AND {range}"
            ))
            .await?,
            backward: plain(format!(
                "SELECT {READ_COLUMNS} FROM {archive} WHERE {chunk} AND {range}
                 ORDER BY stream_version DESC"
            ))
            .await?,
            operation_at: plain(format!(
                "SELECT stream_version, operation_id, content_hash FROM {archive}
                 WHERE {chunk} AND stream_version = ?"
            ))
            .await?,
            operation_events: plain(format!(
                "SELECT stream_version FROM {archive}
                 WHERE {chunk} AND operation_id = ? ALLOW FILTERING"
            ))
            .await?,
            leftover: plain(format!(
                "SELECT stream_version FROM {archive} WHERE {chunk} AND stream_version < ? LIMIT 1"
            ))
            .await?,
            delete_copies: plain(format!(
                "DELETE FROM {archive} WHERE {chunk} AND stream_version < ?"
            ))
            .await?,
        })
    }
}

/// The head, by a read that finishes what is under way in the stream's partition first.
async fn head(
    session: &Session,
    names: &Names,
    options: &Options,
) -> Result<PreparedStatement, Error> {
    let cql = format!(
        "SELECT head_version, truncated_before, archived_from FROM {}
         WHERE stream_id = ? AND stream_version = 0",
        names.events()
    );
    let mut head = Box::pin(prepare(session, options, cql, None)).await?;
    head.set_consistency(options.serial_consistency.read_level());
    Ok(head)
}
