//! Rows to values, and what a damaged row says.

use std::collections::BTreeMap;

use helenus_model::{ChannelId, Message, MessageId, Payload, Timestamp};
use helenus_sqlite::Error;
use rusqlite::Row;

use crate::contract::Pending;

/// The columns [`pending`] reads.
pub(super) const COLUMNS: &str = "message_id, shard_id, channel_id, message_type, payload, content_type, \
     correlation_id, tenant_id, occurred_at_utc, created_at_utc, dispatch_attempt_count, \
     next_attempt_at_utc, headers_json, metadata_json, ordering_key, deliver_at_utc";

pub(super) fn pending(row: &Row<'_>) -> Result<Pending, Error> {
    let id: String = row.get("message_id")?;
    let damaged = |reason: String| Error::Corrupt { message: format!("message {id}: {reason}") };
    let map = |column: &str| -> Result<BTreeMap<String, String>, Error> {
        let text: String = row.get(column)?;
        serde_json::from_str(&text).map_err(|error| damaged(format!("{column}: {error}")))
    };
    let channel: String = row.get("channel_id")?;
    let message = Message {
        message_id: MessageId::new(id.as_str()).map_err(|error| damaged(error.to_string()))?,
        channel_id: ChannelId::new(channel).map_err(|error| damaged(error.to_string()))?,
        message_type: row.get("message_type")?,
        payload: Payload { content_type: row.get("content_type")?, bytes: row.get("payload")? },
        ordering_key: row.get("ordering_key")?,
        correlation_id: row.get("correlation_id")?,
        tenant_id: row.get("tenant_id")?,
        occurred_at: Timestamp::from_millis(row.get("occurred_at_utc")?),
        deliver_at: row.get::<_, Option<i64>>("deliver_at_utc")?.map(Timestamp::from_millis),
        headers: map("headers_json")?,
        metadata: map("metadata_json")?,
    };
    Ok(Pending {
        message,
        shard: row.get("shard_id")?,
        attempt_count: row.get("dispatch_attempt_count")?,
        created_at: Timestamp::from_millis(row.get("created_at_utc")?),
        eligible_at: Timestamp::from_millis(row.get("next_attempt_at_utc")?),
    })
}

/// A map as the JSON text of its column.
pub(super) fn json(map: &BTreeMap<String, String>) -> String {
    serde_json::json!(map).to_string()
}
