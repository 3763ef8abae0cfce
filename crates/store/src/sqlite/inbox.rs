//! Receipts in the file.

use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use helenus_model::{ChannelId, ContentHash, MessageId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use crate::contract::{Begun, Error, Inbox, InboxEntry, Receipt, Received, Work};

/// Entries that are listed with one look at the file.
const PAGE: usize = 500;

const COLUMNS: &str = "message_id, channel_id, message_type, correlation_id, tenant_id, \
     received_at_utc, processed_at_utc, owner, epoch, lease_until_utc, content_hash, result";

impl Inbox for SqliteStore {
    async fn mark_processed(&self, received: Received) -> Result<Receipt, Error> {
        let now = self.now();
        self.engine.write(move |db| Ok(mark(db, &received, now)?)).await
    }

    async fn receipt(&self, message_id: &MessageId) -> Result<Option<Received>, Error> {
        let entry = self.look(message_id).await?;
        Ok(entry.filter(|entry| entry.processed_at.is_some()).map(|entry| entry.received))
    }

    async fn begin(
        &self,
        received: Received,
        content_hash: Option<ContentHash>,
        owner: &str,
        lease: Duration,
    ) -> Result<Begun, Error> {
        let (owner, now) = (owner.to_owned(), self.now());
        let begin = move |db: &Connection| -> Result<_, Error> {
            Ok(begin(db, &received, content_hash, &owner, now, now.plus(lease))?)
        };
        self.engine.write(begin).await
    }

    async fn keep(&self, work: &Work, lease: Duration) -> Result<bool, Error> {
        let (work, until) = (work.clone(), self.now().plus(lease));
        self.engine.write(move |db| Ok(keep(db, &work, until)?)).await
    }

    async fn finish(&self, work: &Work, result: Vec<u8>) -> Result<bool, Error> {
        let (work, now) = (work.clone(), self.now());
        self.engine.write(move |db| Ok(finish(db, &work, &result, now)?)).await
    }

    async fn give_up(&self, work: &Work) -> Result<(), Error> {
        let work = work.clone();
        self.engine.write(move |db| Ok(keep(db, &work, Timestamp::EPOCH).map(|_| ())?)).await
    }

    async fn look(&self, message_id: &MessageId) -> Result<Option<InboxEntry>, Error> {
        let message_id = message_id.clone();
        self.engine
            .read(move |db| Ok(find(db, message_id.as_str())?.map(|found| found.entry)))
            .await
    }

    fn entries(&self) -> impl Stream<Item = Result<InboxEntry, Error>> + Send + use<> {
        let store = self.clone();
        let pages = stream::try_unfold(String::new(), move |after| {
            let store = store.clone();
            async move {
                let page: Vec<InboxEntry> =
                    store.engine.read(move |db| Ok::<_, Error>(page(db, &after)?)).await?;
                let last = page.last().map(|entry| entry.received.message_id.to_string());
                Ok::<_, Error>(last.map(|last| (page, last)))
            }
        });
        pages.map_ok(|page| stream::iter(page).map(Ok)).try_flatten()
    }
}

/// An entry, and what only its owner is asked for.
struct Found {
    entry: InboxEntry,
    owner: Option<String>,
    content_hash: Option<Vec<u8>>,
}

fn mark(
    db: &Connection,
    received: &Received,
    now: Timestamp,
) -> Result<Receipt, helenus_sqlite::Error> {
    let mut insert = db.prepare_cached(
        "INSERT INTO helenus_inbox_receipts
             (message_id, channel_id, message_type, correlation_id, tenant_id, received_at_utc,
              processed_at_utc)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
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

pub(super) fn begin(
    db: &Connection,
    received: &Received,
    content_hash: Option<ContentHash>,
    owner: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<Begun, helenus_sqlite::Error> {
    let mut epoch = 1;
    if let Some(found) = find(db, received.message_id.as_str())? {
        let stored = found.content_hash.as_deref().and_then(ContentHash::from_bytes);
        if stored.is_some() && content_hash.is_some() && stored != content_hash {
            return Ok(Begun::Mismatch);
        }
        if found.entry.processed_at.is_some() {
            return Ok(Begun::Processed { result: found.entry.result.unwrap_or_default() });
        }
        let until = found.entry.lease_until.unwrap_or(Timestamp::EPOCH);
        if found.owner.as_deref() != Some(owner) && until > now {
            return Ok(Begun::Busy { until });
        }
        epoch = found.entry.epoch.saturating_add(1);
    }
    let mut upsert = db.prepare_cached(
        "INSERT INTO helenus_inbox_receipts
             (message_id, channel_id, message_type, correlation_id, tenant_id, received_at_utc,
              state, owner, epoch, lease_until_utc, content_hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'started', ?7, ?8, ?9, ?10)
         ON CONFLICT (message_id) DO UPDATE SET owner = ?7, epoch = ?8, lease_until_utc = ?9",
    )?;
    upsert.execute(params![
        received.message_id.as_str(),
        received.channel_id.as_str(),
        received.message_type,
        received.correlation_id,
        received.tenant_id,
        received.received_at.as_millis(),
        owner,
        epoch,
        until.as_millis(),
        content_hash.as_ref().map(|hash| hash.as_bytes().as_slice()),
    ])?;
    let message_id = received.message_id.clone();
    Ok(Begun::Yours(Work { message_id, owner: owner.to_owned(), epoch }))
}

fn keep(db: &Connection, work: &Work, until: Timestamp) -> Result<bool, helenus_sqlite::Error> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_inbox_receipts SET lease_until_utc = ?4
         WHERE message_id = ?1 AND owner = ?2 AND epoch = ?3 AND state = 'started'",
    )?;
    let (id, owner) = (work.message_id.as_str(), work.owner.as_str());
    Ok(update.execute(params![id, owner, work.epoch, until.as_millis()])? == 1)
}

pub(super) fn finish(
    db: &Connection,
    work: &Work,
    result: &[u8],
    now: Timestamp,
) -> Result<bool, helenus_sqlite::Error> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_inbox_receipts
         SET state = 'processed', processed_at_utc = ?4, result = ?5
         WHERE message_id = ?1 AND owner = ?2 AND epoch = ?3 AND state = 'started'",
    )?;
    let (id, owner) = (work.message_id.as_str(), work.owner.as_str());
    Ok(update.execute(params![id, owner, work.epoch, now.as_millis(), result])? == 1)
}

fn find(db: &Connection, message_id: &str) -> Result<Option<Found>, helenus_sqlite::Error> {
    let query = format!("SELECT {COLUMNS} FROM helenus_inbox_receipts WHERE message_id = ?1");
    let mut query = db.prepare_cached(&query)?;
    query.query_row([message_id], |row| Ok(found(row))).optional()?.transpose()
}

fn page(db: &Connection, after: &str) -> Result<Vec<InboxEntry>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM helenus_inbox_receipts WHERE message_id > ?1
         ORDER BY message_id LIMIT {PAGE}"
    ))?;
    let rows = query.query_map([after], |row| Ok(found(row)))?;
    rows.map(|row| row?.map(|found| found.entry)).collect()
}

fn found(row: &Row<'_>) -> Result<Found, helenus_sqlite::Error> {
    let id: String = row.get("message_id")?;
    let channel: String = row.get("channel_id")?;
    let damaged = |error: &dyn std::fmt::Display| helenus_sqlite::Error::Corrupt {
        message: format!("receipt {id}: {error}"),
    };
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let received = Received {
        message_id: MessageId::new(id.as_str()).map_err(|error| damaged(&error))?,
        channel_id: ChannelId::new(channel).map_err(|error| damaged(&error))?,
        message_type: row.get("message_type")?,
        correlation_id: row.get("correlation_id")?,
        tenant_id: row.get("tenant_id")?,
        received_at: Timestamp::from_millis(row.get("received_at_utc")?),
    };
    let entry = InboxEntry {
        received,
        processed_at: time("processed_at_utc")?,
        epoch: row.get("epoch")?,
        lease_until: time("lease_until_utc")?,
        result: row.get("result")?,
    };
    Ok(Found { entry, owner: row.get("owner")?, content_hash: row.get("content_hash")? })
}
