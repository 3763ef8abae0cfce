//! Rows to values, and what a damaged row says.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_model::{ChannelId, Message, MessageId, Payload, Timestamp};
use helenus_sqlite::Error;
use rusqlite::Row;

/// The columns of what a message says, in the order [`message`] reads them.
pub(super) const CONTENT: &str = "message_id, channel_id, message_type, payload, content_type, \
     correlation_id, tenant_id, occurred_at_utc, created_at_utc, headers_json, metadata_json, \
     ordering_key, deliver_at_utc";

/// How many those are.
pub(super) const COLUMNS: usize = 13;

/// A message and when it was staged. Columns are found by their place: by name costs as much as
/// reading them.
pub(super) fn message(row: &Row<'_>) -> Result<(Message, Timestamp), Error> {
    let id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
    let damaged = |reason: String| Error::Corrupt { message: format!("message {id}: {reason}") };
    let map = |column: usize, name: &str| -> Result<BTreeMap<String, String>, Error> {
        let text = row.get_ref(column)?.as_str().map_err(|error| damaged(error.to_string()))?;
        if text == "{}" {
            return Ok(BTreeMap::new());
        }
        serde_json::from_str(text).map_err(|error| damaged(format!("{name}: {error}")))
    };
    let channel: Arc<str> = row.get(1)?;
    let message = Message {
        channel_id: ChannelId::new(channel).map_err(|error| damaged(error.to_string()))?,
        message_type: row.get(2)?,
        payload: Payload { bytes: row.get(3)?, content_type: row.get(4)? },
        correlation_id: row.get(5)?,
        tenant_id: row.get(6)?,
        occurred_at: Timestamp::from_millis(row.get(7)?),
        headers: map(9, "headers_json")?,
        metadata: map(10, "metadata_json")?,
        ordering_key: row.get(11)?,
        deliver_at: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_millis),
        message_id: MessageId::new(id).map_err(|error| damaged(error.to_string()))?,
    };
    Ok((message, Timestamp::from_millis(row.get(8)?)))
}

/// A map as the JSON text of its column.
pub(super) fn json(map: &BTreeMap<String, String>) -> String {
    serde_json::json!(map).to_string()
}
