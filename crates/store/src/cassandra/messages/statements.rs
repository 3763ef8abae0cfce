//! Every statement of the outbox, prepared once. No table is ever filtered.

use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::tables::MESSAGE_COLUMNS;
use crate::cassandra::options::Names;
use crate::cassandra::statements::prepare;
use crate::cassandra::{Error, Options, routing};

/// What [`super::rows::MessageRow`] reads besides a message's own columns.
pub(super) const FATE_COLUMNS: &str = "dispatched_at_utc, next_attempt_at_utc, deliver_at_utc, \
     state, parked_at_utc, last_error";

/// What [`super::rows::StateRow`] reads.
pub(super) const STATE_COLUMNS: &str = "message_id, state, dispatched_at_utc, parked_at_utc, \
     next_attempt_at_utc, dispatch_attempt_count, ordering_key, staged_seq, holds_key, \
     WRITETIME(state) AS state_written, WRITETIME(next_attempt_at_utc) AS next_written, \
     WRITETIME(dispatch_attempt_count) AS count_written";

#[derive(Debug)]
pub(in crate::cassandra) struct Statements {
    /// [`super::rows::NewPending`].
    pub(in crate::cassandra) put_pending: PreparedStatement,
    /// [`super::rows::NewMessage`]; conditional.
    pub(in crate::cassandra) insert_message: PreparedStatement,
    /// [`super::rows::NewMessage`], of a message that was cancelled; conditional.
    pub(in crate::cassandra) revive: PreparedStatement,
    /// `message_id, channel_id, message_type, created_at_utc, staged_seq`; conditional.
    pub(in crate::cassandra) cancel: PreparedStatement,
    /// `written, shard_id, eligible_at_utc, message_id`.
    pub(in crate::cassandra) drop_pending: PreparedStatement,
    /// `message_id`: [`super::rows::MessageRow`].
    pub(in crate::cassandra) message: PreparedStatement,
    /// `message_id`: [`super::rows::StateRow`].
    pub(in crate::cassandra) state: PreparedStatement,
    /// [`super::report::Update`].
    pub(in crate::cassandra) update: PreparedStatement,
    /// `shard_id, from, to`: [`super::rows::Candidate`].
    pub(in crate::cassandra) candidates: PreparedStatement,
    /// `shard_id, from, before`: the first row's time.
    pub(in crate::cassandra) first: PreparedStatement,
    /// `shard_id, from`: how many rows there are of it.
    pub(in crate::cassandra) count: PreparedStatement,
    /// `shard_id`: [`super::rows::Hold`].
    pub(in crate::cassandra) holds: PreparedStatement,
    /// `shard_id, ordering_key, staged_seq, message_id, until_utc, written`.
    pub(in crate::cassandra) hold: PreparedStatement,
    /// `written, shard_id, ordering_key, staged_seq`.
    pub(in crate::cassandra) release: PreparedStatement,
    /// `shard_id`.
    pub(in crate::cassandra) watermark: PreparedStatement,
    /// `shard_id, watermark_utc`.
    pub(in crate::cassandra) put_watermark: PreparedStatement,
    options: Options,
}

impl Statements {
    #[expect(clippy::too_many_lines, reason = "a table: one statement after the other")]
    pub(super) async fn prepare(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Statements, Error> {
        let pinned = routing::pinned(options);
        let cas = |cql: String| Box::pin(prepare(session, options, cql, Some(&pinned)));
        let plain = |cql: String| Box::pin(prepare(session, options, cql, None));
        let (messages, pending) =
            (names.table("outbox_messages"), names.table("outbox_pending_dispatch"));
        let (held, shards) = (names.table("outbox_held"), names.table("outbox_shards"));
        let marks = ":message_id, :channel_id, :message_type, :payload, :content_type,
             :correlation_id, :tenant_id, :occurred_at_utc, :created_at_utc,
             :dispatch_attempt_count, :headers_json, :metadata_json, :payload_bytes,
             :ordering_key, :staged_seq";
        Ok(Statements {
            put_pending: plain(format!(
                "INSERT INTO {pending} ({MESSAGE_COLUMNS}, shard_id, eligible_at_utc, kind, detail)
                 VALUES ({marks}, :shard_id, :eligible_at_utc, :kind, :detail)
                 USING TIMESTAMP :written"
            ))
            .await?,
            insert_message: cas(format!(
                "INSERT INTO {messages} ({MESSAGE_COLUMNS}, next_attempt_at_utc, deliver_at_utc,
                     content_hash, state)
                 VALUES ({marks}, :next_attempt_at_utc, :deliver_at_utc, :content_hash, 'pending')
                 IF NOT EXISTS"
            ))
            .await?,
            revive: cas(format!(
                "UPDATE {messages}
                 SET channel_id = :channel_id, message_type = :message_type, payload = :payload,
                     content_type = :content_type, correlation_id = :correlation_id,
                     tenant_id = :tenant_id, occurred_at_utc = :occurred_at_utc,
                     created_at_utc = :created_at_utc,
                     dispatch_attempt_count = :dispatch_attempt_count,
                     headers_json = :headers_json, metadata_json = :metadata_json,
                     payload_bytes = :payload_bytes, ordering_key = :ordering_key,
                     staged_seq = :staged_seq, next_attempt_at_utc = :next_attempt_at_utc,
                     deliver_at_utc = :deliver_at_utc, content_hash = :content_hash,
                     state = 'pending'
                 WHERE message_id = :message_id IF state = 'cancelled'"
            ))
            .await?,
            cancel: cas(format!(
                "INSERT INTO {messages} (message_id, channel_id, message_type, created_at_utc,
                     staged_seq, state)
                 VALUES (?, ?, ?, ?, ?, 'cancelled') IF NOT EXISTS"
            ))
            .await?,
            drop_pending: plain(format!(
                "DELETE FROM {pending} USING TIMESTAMP ?
                 WHERE shard_id = ? AND eligible_at_utc = ? AND message_id = ?"
            ))
            .await?,
            message: plain(format!(
                "SELECT {MESSAGE_COLUMNS}, {FATE_COLUMNS} FROM {messages} WHERE message_id = ?"
            ))
            .await?,
            state: plain(format!(
                "SELECT {STATE_COLUMNS} FROM {messages} WHERE message_id = ?"
            ))
            .await?,
            update: plain(format!(
                "UPDATE {messages} USING TIMESTAMP :written
                 SET state = :state, dispatched_at_utc = :dispatched_at_utc,
                     parked_at_utc = :parked_at_utc, next_attempt_at_utc = :next_attempt_at_utc,
                     dispatch_attempt_count = :dispatch_attempt_count, last_error = :last_error,
                     holds_key = :holds_key
                 WHERE message_id = :message_id"
            ))
            .await?,
            candidates: plain(format!(
                "SELECT eligible_at_utc, message_id, kind, channel_id, message_type, staged_seq,
                     WRITETIME(kind) AS kind_written
                 FROM {pending} WHERE shard_id = ? AND eligible_at_utc >= ? AND eligible_at_utc <= ?"
            ))
            .await?,
            first: plain(format!(
                "SELECT eligible_at_utc FROM {pending}
                 WHERE shard_id = ? AND eligible_at_utc >= ? AND eligible_at_utc < ? LIMIT 1"
            ))
            .await?,
            count: plain(format!(
                "SELECT count(*) FROM {pending} WHERE shard_id = ? AND eligible_at_utc >= ?"
            ))
            .await?,
            holds: plain(format!(
                "SELECT ordering_key, staged_seq, message_id, until_utc,
                     WRITETIME(message_id) AS id_written
                 FROM {held} WHERE shard_id = ?"
            ))
            .await?,
            hold: plain(format!(
                "INSERT INTO {held} (shard_id, ordering_key, staged_seq, message_id, until_utc)
                 VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
            ))
            .await?,
            release: plain(format!(
                "DELETE FROM {held} USING TIMESTAMP ?
                 WHERE shard_id = ? AND ordering_key = ? AND staged_seq = ?"
            ))
            .await?,
            watermark: plain(format!("SELECT watermark_utc FROM {shards} WHERE shard_id = ?"))
                .await?,
            put_watermark: plain(format!(
                "INSERT INTO {shards} (shard_id, watermark_utc) VALUES (?, ?)"
            ))
            .await?,
            options: options.clone(),
        })
    }

    /// An empty batch of plain writes.
    pub(super) fn batch(&self) -> Batch {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.options.consistency.level());
        batch.set_request_timeout(Some(self.options.request_timeout));
        batch.set_is_idempotent(true);
        batch
    }
}
