//! Every statement of the event store, prepared once.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::classify::prepare_error;
use super::options::Names;
use super::{Error, Options, routing};

#[derive(Debug)]
pub(super) struct Statements {
    /// `stream_id, head_version, operation_id`.
    pub(super) new_head: PreparedStatement,
    /// `head_version, operation_id, stream_id, expected head_version`.
    pub(super) move_head: PreparedStatement,
    /// `stream_id, row, operation_id, first_version, head_version, content_hash, ttl`.
    pub(super) operation: PreparedStatement,
    /// The columns of [`EVENT_COLUMNS`].
    pub(super) event: PreparedStatement,
    /// `stream_id, row, operation_id, ttl`.
    pub(super) cancel: PreparedStatement,
    /// `stream_id, row, row`: head, operation row, or an event's operation.
    pub(super) look: PreparedStatement,
    /// `stream_id, from`.
    pub(super) forward: PreparedStatement,
    /// `stream_id, from`.
    pub(super) backward: PreparedStatement,
    /// `stream_id, operation_id`: versions of an operation's events.
    pub(super) operation_events: PreparedStatement,
    /// Nothing: every head.
    pub(super) heads: PreparedStatement,
    pinned: Arc<dyn LoadBalancingPolicy>,
    options: Options,
}

/// What an event's row is written with.
const EVENT_COLUMNS: &str = "stream_id, stream_version, event_type, payload, occurred_at_utc, \
     appended_at_utc, event_id, schema_version, content_type, payload_bytes, correlation_id, \
     causation_id, tenant_id, metadata_json, operation_id, content_hash";

/// What [`super::rows::EventRow`] reads.
pub(super) const READ_COLUMNS: &str = "stream_version, event_type, payload, occurred_at_utc, \
     appended_at_utc, event_id, schema_version, content_type, payload_bytes, correlation_id, \
     causation_id, tenant_id, metadata_json, operation_id";

/// What [`super::rows::ConditionRow`] reads.
const LOOK_COLUMNS: &str = "stream_version, first_version, head_version, operation_id, \
     operation_state, content_hash, truncated_before, archived_from";

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Statements, Error> {
        let (table, pinned) = (names.events(), routing::pinned(options));
        let cas = |cql: String| Box::pin(prepare(session, options, cql, Some(&pinned)));
        let read = |cql: String| Box::pin(prepare(session, options, cql, None));
        let select = |rest: &str| format!("SELECT {READ_COLUMNS} FROM {table} WHERE {rest}");
        Ok(Statements {
            new_head: cas(format!(
                "INSERT INTO {table} (stream_id, stream_version, head_version, operation_id)
                 VALUES (?, 0, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            move_head: cas(format!(
                "UPDATE {table} SET head_version = ?, operation_id = ?
                 WHERE stream_id = ? AND stream_version = 0 IF head_version = ?"
            ))
            .await?,
            operation: cas(format!(
                "INSERT INTO {table} (stream_id, stream_version, operation_id, operation_state,
                     first_version, head_version, content_hash)
                 VALUES (?, ?, ?, 'applied', ?, ?, ?) IF NOT EXISTS USING TTL ?"
            ))
            .await?,
            event: cas(format!(
                "INSERT INTO {table} ({EVENT_COLUMNS})
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            ))
            .await?,
            cancel: cas(format!(
                "INSERT INTO {table} (stream_id, stream_version, operation_id, operation_state)
                 VALUES (?, ?, ?, 'cancelled') IF NOT EXISTS USING TTL ?"
            ))
            .await?,
            look: read(format!(
                "SELECT {LOOK_COLUMNS} FROM {table} WHERE stream_id = ? AND stream_version IN (?, ?)"
            ))
            .await?,
            forward: read(select("stream_id = ? AND stream_version >= ?")).await?,
            backward: read(select(
                "stream_id = ? AND stream_version >= 1 AND stream_version <= ?
                 ORDER BY stream_version DESC",
            ))
            .await?,
            operation_events: read(format!(
                "SELECT stream_version FROM {table}
                 WHERE stream_id = ? AND stream_version >= 1 AND operation_id = ? ALLOW FILTERING"
            ))
            .await?,
            heads: read(format!(
                "SELECT stream_id, head_version FROM {table}
                 WHERE stream_version = 0 ALLOW FILTERING"
            ))
            .await?,
            options: options.clone(),
            pinned: Arc::clone(&pinned),
        })
    }

    /// An empty conditional batch.
    pub(super) fn batch(&self) -> Batch {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.options.consistency.level());
        batch.set_serial_consistency(Some(self.options.serial_consistency.level()));
        batch.set_request_timeout(Some(self.options.request_timeout));
        // The default policy sends some errors again even where that is not known to be safe.
        batch.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
        batch.set_load_balancing_policy(Some(Arc::clone(&self.pinned)));
        batch
    }
}

pub(super) async fn prepare(
    session: &Session,
    options: &Options,
    cql: String,
    pinned: Option<&Arc<dyn LoadBalancingPolicy>>,
) -> Result<PreparedStatement, Error> {
    let mut statement = session.prepare(cql).await.map_err(prepare_error)?;
    // Said here too: a host's own session has defaults of its own.
    statement.set_consistency(options.consistency.level());
    statement.set_request_timeout(Some(options.request_timeout));
    if let Some(pinned) = pinned {
        statement.set_load_balancing_policy(Some(Arc::clone(pinned)));
        statement.set_serial_consistency(Some(options.serial_consistency.level()));
        statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
    } else {
        statement.set_is_idempotent(true);
    }
    Ok(statement)
}
