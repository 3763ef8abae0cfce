//! The contract of looking after the outbox, kept by the modules beside this one.

use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use super::rows::MessageRow;
use super::statements::{FATE_COLUMNS, STATE_COLUMNS};
use super::tables::MESSAGE_COLUMNS;
use super::{reconcile, reshard, scan, sweep};
use crate::cassandra::classify::page_error;
use crate::cassandra::options::Names;
use crate::cassandra::read::row_error;
use crate::cassandra::statements::prepare;
use crate::cassandra::{CassandraStore, Error, Options, routing};
use crate::contract::{
    self, Dispatch, MessageState, Reconciled, StagedMessage, Sweep, Swept, Upkeep,
};
use crate::lanes::Lanes;

/// Statements that walk whole tables; none of them is on a message's way.
#[derive(Debug)]
pub(super) struct Statements {
    /// Nothing: every [`MessageRow`].
    messages: PreparedStatement,
    /// Nothing: every [`super::rows::StateRow`].
    pub(super) states: PreparedStatement,
    /// `after, until`, tokens: every [`super::rows::StateRow`] between them.
    pub(super) states_between: PreparedStatement,
    /// `written, message_id`.
    pub(super) delete_message: PreparedStatement,
    /// Nothing: the number that is recorded, as text.
    pub(super) shards: PreparedStatement,
    /// `value, value before`; conditional.
    pub(super) set_shards: PreparedStatement,
    /// `shard_id, eligible_at_utc, message_id`: [`super::reconcile::BegunRow`].
    pub(super) begun: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Self, Error> {
        let pinned = routing::pinned(options);
        let plain = |cql: String| Box::pin(prepare(session, options, cql, None));
        let (messages, settings) = (names.table("outbox_messages"), names.settings());
        let pending = names.table("outbox_pending_dispatch");
        let set = format!("UPDATE {settings} SET value = ? WHERE name = 'shards' IF value = ?");
        let mut set_shards = prepare(session, options, set, Some(&pinned)).await?;
        // As it was recorded: see the other settings.
        set_shards.set_serial_consistency(Some(scylla::statement::SerialConsistency::Serial));
        Ok(Statements {
            set_shards,
            shards: plain(format!("SELECT value FROM {settings} WHERE name = 'shards'")).await?,
            messages: plain(format!("SELECT {MESSAGE_COLUMNS}, {FATE_COLUMNS} FROM {messages}"))
                .await?,
            states: plain(format!("SELECT {STATE_COLUMNS} FROM {messages}")).await?,
            states_between: plain(format!(
                "SELECT {STATE_COLUMNS} FROM {messages}
                 WHERE token(message_id) > ? AND token(message_id) <= ?"
            ))
            .await?,
            delete_message: plain(format!(
                "DELETE FROM {messages} USING TIMESTAMP ? WHERE message_id = ?"
            ))
            .await?,
            begun: plain(format!(
                "SELECT payload, payload_bytes, detail FROM {pending}
                 WHERE shard_id = ? AND eligible_at_utc = ? AND message_id = ?"
            ))
            .await?,
        })
    }
}

impl Upkeep for CassandraStore {
    fn messages(
        &self,
        state: MessageState,
    ) -> impl Stream<Item = Result<StagedMessage, contract::Error>> + Send + use<> {
        let store = self.clone();
        let open = async move {
            let messages = CassandraStore::messages(&store).await?;
            let pager = messages.session.execute_iter(messages.upkeep.messages.clone(), ());
            let rows = Box::pin(pager).await.map_err(page_error)?.rows_stream::<MessageRow>();
            rows.map_err(|error| Error::corrupt(error.to_string()))
        };
        let wanted: &[&str] = match state {
            MessageState::Pending => &["pending"],
            MessageState::Parked => &["parked"],
            MessageState::Dispatched => &["dispatched", "skipped"],
            MessageState::Cancelled => &["cancelled"],
        };
        let opened = stream::once(Box::pin(open));
        let rows = opened.map_ok(|rows| rows.map(|row| row.map_err(row_error))).try_flatten();
        rows.try_filter_map(move |row| {
            let staged = row
                .into_staged()
                .map(|staged| staged.filter(|staged| wanted.contains(&staged.state.as_str())));
            std::future::ready(staged)
        })
        .map(|staged| Ok(staged?))
    }

    async fn sweep(&self, sweep: Sweep) -> Result<Swept, contract::Error> {
        Ok(Box::pin(sweep::sweep(self, sweep)).await?)
    }

    async fn reconcile(&self, dry_run: bool) -> Result<Reconciled, contract::Error> {
        Ok(Box::pin(reconcile::reconcile(self, dry_run)).await?)
    }

    async fn scan(&self, dry_run: bool) -> Result<Reconciled, contract::Error> {
        Ok(Box::pin(scan::scan(self, dry_run)).await?)
    }

    async fn extend_ttl(&self, by: Duration) -> Result<u64, contract::Error> {
        Ok(Box::pin(self.extend_buckets(by)).await?)
    }

    async fn reshard(&self, shards: u16) -> Result<u64, contract::Error> {
        let before = self.identity().await?.shards;
        let lanes = Lanes::take(self, before, &*self.ports.random).await?;
        let moved = Box::pin(reshard::reshard(self, &lanes, shards.max(1))).await;
        lanes.give_back(self).await?;
        moved
    }
}
