//! Receipts in the file.

use helenus_model::{ChannelId, MessageId, Timestamp};
use rusqlite::{Connection, params};

use super::SqliteStore;
use crate::contract::{Error, Inbox, Receipt, Received};

impl Inbox for SqliteStore {
    async fn mark_processed(&self, received: Received) -> Result<Receipt, Error> {
        let now = self.now();
        self.engine.write(move |db| Ok(mark(db, &received, now)?)).await
    }

    async fn receipt(&self, message_id: &MessageId) -> Result<Option<Received>, Error> {
        let message_id = message_id.clone();
        self.engine.read(move |db| Ok(find(db, message_id)?)).await
    }
}

fn mark(
    db: &Connection,
    received: &Received,
    now: Timestamp,
) -> Result<Receipt, helenus_sqlite::Error> {
    let mut insert = db.prepare_cached(
        "INSERT INTO helenus_inbox_receipts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (message_id) DO NOTHING",
    )?;
    let rows = insert.execute(params![
        received.message_id.as_str(),
        received.channel_id.as_str(),
        received.message_type,
        received.correlation_id,
        received.tenant_id,
        received.received_at.as_millis(),
        now.as_millis(),
    ])?;
    Ok(if rows == 1 { Receipt::First } else { Receipt::Repeated })
}

fn find(db: &Connection, message_id: MessageId) -> Result<Option<Received>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(
        "SELECT channel_id, message_type, correlation_id, tenant_id, received_at_utc
         FROM helenus_inbox_receipts WHERE message_id = ?1",
    )?;
    let mut rows = query.query([message_id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let channel: String = row.get("channel_id")?;
    let channel_id = ChannelId::new(channel).map_err(|error| helenus_sqlite::Error::Corrupt {
        message: format!("receipt {message_id}: {error}"),
    })?;
    Ok(Some(Received {
        channel_id,
        message_type: row.get("message_type")?,
        correlation_id: row.get("correlation_id")?,
        tenant_id: row.get("tenant_id")?,
        received_at: Timestamp::from_millis(row.get("received_at_utc")?),
        message_id,
    }))
}
