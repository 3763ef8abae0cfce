//! A backlog, written by plain inserts.

use helenus_sqlite::Error;
use helenus_sqlite::rusqlite::params;
use helenus_store::contract::Dispatch;
use helenus_store::sqlite::SqliteStore;

use crate::Result;

/// Rows of one write.
const ROWS: usize = 10_000;

/// Stages `messages` for `topic`: due now, or `done`.
pub(crate) async fn seed(
    store: &SqliteStore,
    topic: &str,
    messages: usize,
    done: bool,
) -> Result<()> {
    let shards = usize::from(store.identity().await?.shards);
    let now = helenus_store::Ports::system().clock.now().as_millis();
    for first in (0..messages).step_by(ROWS) {
        let topic = topic.to_owned();
        let rows = first..(first + ROWS).min(messages);
        store
            .engine()
            .write(move |db| -> std::result::Result<(), Error> {
                let mut content = db.prepare_cached(
                    "INSERT INTO helenus_outbox_contents
                         (message_id, channel_id, message_type, payload, content_type,
                          correlation_id, tenant_id, occurred_at_utc, created_at_utc,
                          headers_json, metadata_json, ordering_key, content_hash)
                     VALUES (?1, ?2, 'order.placed', ?3, 'application/json', 'request-1', 'shop',
                             ?4, ?4, ?5, '{}', ?6, x'00')",
                )?;
                let mut dispatch = db.prepare_cached(
                    "INSERT INTO helenus_outbox_dispatch
                         (staged_seq, shard_id, next_attempt_at_utc, state, dispatched_at_utc)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?;
                let headers =
                    "{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}";
                for number in rows.clone() {
                    let key = number % 1_000;
                    let shard = u32::try_from(key % shards).unwrap_or_default();
                    content.execute(params![
                        format!("{topic}-{number}"),
                        topic,
                        [b'7'; 256],
                        now,
                        headers,
                        format!("order-{key}"),
                    ])?;
                    let (state, at) = match done {
                        true => ("dispatched", Some(now)),
                        false => ("pending", None),
                    };
                    dispatch.execute(params![db.last_insert_rowid(), shard, now, state, at])?;
                }
                Ok(())
            })
            .await?;
    }
    Ok(())
}
