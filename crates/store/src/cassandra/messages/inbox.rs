//! Receipts on a cluster: each step one lightweight transaction on the receipt's epoch.

use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use helenus_model::limits::APPEND_ATTEMPTS_MAX;
use helenus_model::{ChannelId, ContentHash, Failure, MessageId, Timestamp};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, MaybeUnset};
use scylla::{DeserializeRow, SerializeRow};

use super::Messages;
use super::leases::repeat;
use super::rows::{from_time, same_hash};
use crate::cassandra::append::{pause, ttl};
use crate::cassandra::classify::page_error;
use crate::cassandra::conditional::{Cas, select, send};
use crate::cassandra::options::Names;
use crate::cassandra::read::row_error;
use crate::cassandra::statements::prepare;
use crate::cassandra::values::{set, time};
use crate::cassandra::{CassandraStore, Error, Options, routing};
use crate::contract::{self, Begun, Inbox, InboxEntry, Receipt, Received, Work};

#[derive(Debug)]
pub(super) struct Statements {
    /// [`NewReceipt`]; conditional.
    insert: PreparedStatement,
    /// `message_id`: [`Row`], by Paxos.
    read: PreparedStatement,
    /// Nothing: every [`Row`].
    all: PreparedStatement,
    /// `ttl, owner, epoch, lease_until_utc, message_id, epoch before`.
    take: PreparedStatement,
    /// `ttl, lease_until_utc, message_id, owner, epoch`.
    keep: PreparedStatement,
    /// `ttl, processed_at_utc, result, owner of the processed, message_id, owner, epoch`.
    finish: PreparedStatement,
    ttl: i32,
}

const COLUMNS: &str = "message_id, channel_id, message_type, correlation_id, tenant_id, \
     received_at_utc, processed_at_utc, owner, epoch, lease_until_utc, content_hash, result";

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Self, Error> {
        let pinned = routing::pinned(options);
        let table = names.table("inbox_receipts");
        let cas = |cql: String| Box::pin(prepare(session, options, cql, Some(&pinned)));
        let read = format!("SELECT {COLUMNS} FROM {table} WHERE message_id = ?");
        let mut read = prepare(session, options, read, None).await?;
        read.set_consistency(options.serial_consistency.read_level());
        Ok(Statements {
            read,
            all: prepare(session, options, format!("SELECT {COLUMNS} FROM {table}"), None).await?,
            insert: cas(format!(
                "INSERT INTO {table} ({COLUMNS}, state)
                 VALUES (:message_id, :channel_id, :message_type, :correlation_id, :tenant_id,
                     :received_at_utc, :processed_at_utc, :owner, :epoch, :lease_until_utc,
                     :content_hash, :result, :state)
                 IF NOT EXISTS USING TTL :keep"
            ))
            .await?,
            take: cas(format!(
                "UPDATE {table} USING TTL ? SET owner = ?, epoch = ?, lease_until_utc = ?
                 WHERE message_id = ? IF epoch = ? AND state = 'started'"
            ))
            .await?,
            keep: cas(format!(
                "UPDATE {table} USING TTL ? SET lease_until_utc = ? WHERE message_id = ?
                 IF owner = ? AND epoch = ? AND state = 'started'"
            ))
            .await?,
            finish: cas(format!(
                "UPDATE {table} USING TTL ? SET state = 'processed', processed_at_utc = ?, result = ?
                 WHERE message_id = ? IF owner = ? AND epoch = ? AND state = 'started'"
            ))
            .await?,
            ttl: ttl(options.receipt_ttl),
        })
    }
}

#[derive(Debug, SerializeRow)]
struct NewReceipt<'a> {
    message_id: &'a str,
    channel_id: &'a str,
    message_type: &'a str,
    correlation_id: MaybeUnset<&'a str>,
    tenant_id: MaybeUnset<&'a str>,
    received_at_utc: CqlTimestamp,
    processed_at_utc: MaybeUnset<CqlTimestamp>,
    owner: &'a str,
    epoch: i64,
    lease_until_utc: MaybeUnset<CqlTimestamp>,
    content_hash: MaybeUnset<&'a [u8]>,
    result: MaybeUnset<&'a [u8]>,
    state: &'a str,
    keep: i32,
}

impl<'a> NewReceipt<'a> {
    fn processed(received: &'a Received, owner: &'a str, now: Timestamp, keep: i32) -> Self {
        NewReceipt {
            message_id: received.message_id.as_str(),
            channel_id: received.channel_id.as_str(),
            message_type: &received.message_type,
            correlation_id: set(received.correlation_id.as_deref()),
            tenant_id: set(received.tenant_id.as_deref()),
            received_at_utc: time(received.received_at),
            processed_at_utc: MaybeUnset::Set(time(now)),
            owner,
            epoch: 0,
            lease_until_utc: MaybeUnset::Unset,
            content_hash: MaybeUnset::Unset,
            result: MaybeUnset::Unset,
            state: "processed",
            keep,
        }
    }
}

#[derive(Debug, DeserializeRow)]
struct Row {
    message_id: String,
    channel_id: Option<String>,
    message_type: Option<String>,
    correlation_id: Option<String>,
    tenant_id: Option<String>,
    received_at_utc: Option<CqlTimestamp>,
    processed_at_utc: Option<CqlTimestamp>,
    owner: Option<String>,
    epoch: Option<i64>,
    lease_until_utc: Option<CqlTimestamp>,
    content_hash: Option<Vec<u8>>,
    result: Option<Vec<u8>>,
}

impl Row {
    /// `None` for what is left of a receipt that expires: its cells do so one after the other.
    fn entry(self) -> Result<Option<InboxEntry>, Error> {
        let id = self.message_id;
        let damaged = |reason: String| Error::corrupt(format!("receipt {id}: {reason}"));
        let Some(channel) = self.channel_id else { return Ok(None) };
        let received = Received {
            message_id: MessageId::new(id.as_str()).map_err(|error| damaged(error.to_string()))?,
            channel_id: ChannelId::new(channel).map_err(|error| damaged(error.to_string()))?,
            message_type: self.message_type.unwrap_or_default(),
            correlation_id: self.correlation_id,
            tenant_id: self.tenant_id,
            received_at: self.received_at_utc.map_or(Timestamp::EPOCH, from_time),
        };
        Ok(Some(InboxEntry {
            received,
            processed_at: self.processed_at_utc.map(from_time),
            epoch: self.epoch.unwrap_or(0),
            lease_until: self.lease_until_utc.map(from_time),
            result: self.result,
        }))
    }

    /// What the receipt says to an attempt; `None` if it may take the message.
    fn verdict(&self, owner: &str, hash: Option<ContentHash>, now: Timestamp) -> Option<Begun> {
        if let (Some(stored), Some(hash)) = (self.content_hash.as_deref(), hash)
            && !same_hash(Some(stored), hash)
        {
            return Some(Begun::Mismatch);
        }
        if self.processed_at_utc.is_some() {
            return Some(Begun::Processed { result: self.result.clone().unwrap_or_default() });
        }
        let until = self.lease_until_utc.map_or(Timestamp::EPOCH, from_time);
        let taken = self.owner.as_deref() != Some(owner) && until > now;
        taken.then_some(Begun::Busy { until })
    }
}

async fn read(messages: &Messages, message_id: &str) -> Result<Option<Row>, Error> {
    let rows = select(&messages.session, &messages.inbox.read, (message_id,)).await?;
    rows.maybe_first_row().map_err(|error| Error::corrupt(error.to_string()))
}

impl Inbox for CassandraStore {
    async fn mark_processed(&self, received: Received) -> Result<Receipt, contract::Error> {
        let messages = self.messages().await?;
        // A lost answer is asked for again, and whose receipt it is says what came of it.
        let owner = self.ports.random.uuid().to_string();
        let mut lost = None;
        for attempt in 0..APPEND_ATTEMPTS_MAX {
            pause(&self.ports, attempt).await;
            let now = self.ports.clock.now();
            let values = NewReceipt::processed(&received, &owner, now, messages.inbox.ttl);
            let insert = &messages.inbox.insert;
            match send(&messages.session, "record a receipt", insert, values).await {
                Ok(Cas::Applied) => return Ok(Receipt::First),
                Ok(Cas::Refused(row)) => {
                    let own = row.text("owner") == Some(owner.as_str());
                    return Ok(if own { Receipt::First } else { Receipt::Repeated });
                }
                Err(error) if error.applied().is_none() => lost = Some(error),
                Err(error) if lost.is_some() && error.is_retryable() => {}
                Err(error) => return Err(lost.unwrap_or(error).into()),
            }
        }
        Err(lost.unwrap_or_else(|| Error::corrupt("a receipt was never sent")).into())
    }

    async fn receipt(&self, message_id: &MessageId) -> Result<Option<Received>, contract::Error> {
        let entry = self.look(message_id).await?;
        Ok(entry.filter(|entry| entry.processed_at.is_some()).map(|entry| entry.received))
    }

    async fn begin(
        &self,
        received: Received,
        content_hash: Option<ContentHash>,
        owner: &str,
        lease: Duration,
    ) -> Result<Begun, contract::Error> {
        let messages = self.messages().await?;
        let mut lost = None;
        for attempt in 0..APPEND_ATTEMPTS_MAX {
            pause(&self.ports, attempt).await;
            let begun = try_begin(self, messages, &received, content_hash, owner, lease).await;
            match begun {
                Ok(Some(begun)) => return Ok(begun),
                // Somebody was faster.
                Ok(None) => {}
                Err(error) if error.applied().is_none() => lost = Some(error),
                Err(error) if lost.is_some() && error.is_retryable() => {}
                Err(error) => return Err(lost.unwrap_or(error).into()),
            }
        }
        let contended =
            || Error::Unavailable { what: "take a message up", source: "it is contended".into() };
        Err(lost.unwrap_or_else(contended).into())
    }

    async fn keep(&self, work: &Work, lease: Duration) -> Result<bool, contract::Error> {
        let until = self.ports.clock.now().plus(lease);
        keep_until(self, work, until).await
    }

    async fn finish(&self, work: &Work, result: Vec<u8>) -> Result<bool, contract::Error> {
        let messages = self.messages().await?;
        let now = time(self.ports.clock.now());
        let id = work.message_id.as_str();
        let values = (messages.inbox.ttl, now, result, id, work.owner.as_str(), work.epoch);
        let sent = repeat(self, || {
            send(&messages.session, "record a result", &messages.inbox.finish, &values)
        });
        if sent.await? {
            return Ok(true);
        }
        // Refused: another attempt has it, or this one's first answer was lost.
        let row = read(messages, id).await?;
        Ok(row.is_some_and(|row| {
            row.processed_at_utc.is_some()
                && (row.owner.as_deref(), row.epoch) == (Some(&work.owner), Some(work.epoch))
        }))
    }

    async fn give_up(&self, work: &Work) -> Result<(), contract::Error> {
        keep_until(self, work, Timestamp::EPOCH).await.map(|_| ())
    }

    async fn look(&self, message_id: &MessageId) -> Result<Option<InboxEntry>, contract::Error> {
        let row = read(self.messages().await?, message_id.as_str()).await?;
        Ok(row.map(Row::entry).transpose()?.flatten())
    }

    fn entries(&self) -> impl Stream<Item = Result<InboxEntry, contract::Error>> + Send + use<> {
        let store = self.clone();
        let open = async move {
            let messages = store.messages().await?;
            let pager = messages.session.execute_iter(messages.inbox.all.clone(), ());
            let rows = Box::pin(pager).await.map_err(page_error)?.rows_stream::<Row>();
            rows.map_err(|error| Error::corrupt(error.to_string()))
        };
        let opened = stream::once(Box::pin(open));
        let rows = opened.map_ok(|rows| rows.map(|row| row.map_err(row_error))).try_flatten();
        rows.try_filter_map(|row| std::future::ready(row.entry())).map(|entry| Ok(entry?))
    }
}

/// Takes the message up as it stands; `None` if it was not so any more.
async fn try_begin(
    store: &CassandraStore,
    messages: &Messages,
    received: &Received,
    content_hash: Option<ContentHash>,
    owner: &str,
    lease: Duration,
) -> Result<Option<Begun>, Error> {
    let (id, statements) = (received.message_id.as_str(), &messages.inbox);
    let now = store.ports.clock.now();
    let until = MaybeUnset::Set(time(now.plus(lease)));
    let found = read(messages, id).await?;
    let (epoch, answer) = match found {
        None => {
            let hash = content_hash.as_ref().map(|hash| hash.as_bytes().as_slice());
            let values = NewReceipt {
                processed_at_utc: MaybeUnset::Unset,
                epoch: 1,
                lease_until_utc: until,
                content_hash: set(hash),
                state: "started",
                ..NewReceipt::processed(received, owner, now, statements.ttl)
            };
            let sent = send(&messages.session, "take a message up", &statements.insert, values);
            (1, sent.await?)
        }
        Some(row) => {
            if let Some(verdict) = row.verdict(owner, content_hash, now) {
                return Ok(Some(verdict));
            }
            let before = row.epoch.unwrap_or(0);
            let epoch = before.saturating_add(1);
            let values = (statements.ttl, owner, epoch, until, id, before);
            let sent = send(&messages.session, "take a message up", &statements.take, values);
            (epoch, sent.await?)
        }
    };
    let work = Work { message_id: received.message_id.clone(), owner: owner.to_owned(), epoch };
    Ok(matches!(answer, Cas::Applied).then_some(Begun::Yours(work)))
}

async fn keep_until(
    store: &CassandraStore,
    work: &Work,
    until: Timestamp,
) -> Result<bool, contract::Error> {
    let messages = store.messages().await?;
    let id = work.message_id.as_str();
    let values = (messages.inbox.ttl, time(until), id, work.owner.as_str(), work.epoch);
    let sent = repeat(store, || {
        send(&messages.session, "hold on to a message", &messages.inbox.keep, values)
    });
    Ok(sent.await?)
}
