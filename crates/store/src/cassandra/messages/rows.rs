//! Messages to rows and back, and what a damaged row says.

use std::collections::BTreeMap;

use helenus_model::{ChannelId, ContentHash, Message, MessageId, Payload, Timestamp};
use scylla::value::{CqlTimestamp, CqlTimeuuid, MaybeUnset};
use scylla::{DeserializeRow, SerializeRow};

use super::stamp::Stamp;
use crate::cassandra::Error;
use crate::cassandra::values::{set, time};
use crate::contract::{Pending, StagedMessage};
use crate::shard::{shard, token};

/// What stands in both tables; absent values stay unset, because a null would be a tombstone.
#[derive(Clone, Debug, SerializeRow)]
pub(in crate::cassandra) struct Columns<'a> {
    message_id: &'a str,
    channel_id: &'a str,
    message_type: &'a str,
    payload: MaybeUnset<&'a str>,
    content_type: &'a str,
    correlation_id: MaybeUnset<&'a str>,
    tenant_id: MaybeUnset<&'a str>,
    occurred_at_utc: CqlTimestamp,
    created_at_utc: CqlTimestamp,
    dispatch_attempt_count: i32,
    headers_json: String,
    metadata_json: String,
    payload_bytes: MaybeUnset<&'a [u8]>,
    ordering_key: MaybeUnset<&'a str>,
    staged_seq: CqlTimeuuid,
}

impl<'a> Columns<'a> {
    pub(in crate::cassandra) fn of(message: &'a Message, stamp: Stamp) -> Self {
        let json = |map: &BTreeMap<String, String>| serde_json::json!(map).to_string();
        let text = message.payload.text();
        let bytes = if text.is_none() { Some(message.payload.bytes.as_slice()) } else { None };
        Columns {
            message_id: message.message_id.as_str(),
            channel_id: message.channel_id.as_str(),
            message_type: &message.message_type,
            payload: set(text),
            content_type: &message.payload.content_type,
            correlation_id: set(message.correlation_id.as_deref()),
            tenant_id: set(message.tenant_id.as_deref()),
            occurred_at_utc: time(message.occurred_at),
            created_at_utc: time(stamp.at),
            dispatch_attempt_count: 0,
            headers_json: json(&message.headers),
            metadata_json: json(&message.metadata),
            payload_bytes: set(bytes),
            ordering_key: set(message.ordering_key.as_deref()),
            staged_seq: stamp.seq,
        }
    }

    /// The same under another name.
    pub(super) fn named(self, message_id: &'a str) -> Self {
        Columns { message_id, ..self }
    }

    pub(super) fn tried(self, dispatch_attempt_count: i32) -> Self {
        Columns { dispatch_attempt_count, ..self }
    }
}

/// A row of the pending index.
#[derive(Debug, SerializeRow)]
pub(in crate::cassandra) struct NewPending<'a> {
    #[scylla(flatten)]
    pub(in crate::cassandra) columns: Columns<'a>,
    pub(in crate::cassandra) shard_id: i32,
    pub(in crate::cassandra) eligible_at_utc: CqlTimestamp,
    pub(in crate::cassandra) kind: &'a str,
    pub(in crate::cassandra) detail: MaybeUnset<&'a str>,
    pub(in crate::cassandra) written: i64,
}

/// An authoritative row.
#[derive(Debug, SerializeRow)]
pub(in crate::cassandra) struct NewMessage<'a> {
    #[scylla(flatten)]
    pub(in crate::cassandra) columns: Columns<'a>,
    pub(in crate::cassandra) next_attempt_at_utc: CqlTimestamp,
    pub(in crate::cassandra) deliver_at_utc: MaybeUnset<CqlTimestamp>,
    pub(in crate::cassandra) content_hash: &'a [u8],
}

/// What a message is in the end: each mark is only ever set, so nobody moves it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cassandra) enum Standing {
    Pending,
    Parked,
    Done,
    Cancelled,
}

/// As much of an authoritative row as settling needs.
#[derive(Clone, Debug, DeserializeRow)]
pub(in crate::cassandra) struct StateRow {
    pub(in crate::cassandra) message_id: String,
    pub(in crate::cassandra) state: Option<String>,
    pub(in crate::cassandra) dispatched_at_utc: Option<CqlTimestamp>,
    pub(in crate::cassandra) parked_at_utc: Option<CqlTimestamp>,
    pub(in crate::cassandra) next_attempt_at_utc: Option<CqlTimestamp>,
    pub(in crate::cassandra) dispatch_attempt_count: Option<i32>,
    pub(in crate::cassandra) ordering_key: Option<String>,
    pub(in crate::cassandra) staged_seq: Option<CqlTimeuuid>,
    pub(in crate::cassandra) holds_key: Option<bool>,
    state_written: Option<i64>,
    next_written: Option<i64>,
    count_written: Option<i64>,
}

impl StateRow {
    /// A row that no staging wrote: what a report on a message that was swept leaves behind.
    pub(in crate::cassandra) fn is_ghost(&self) -> bool {
        self.staged_seq.is_none()
    }

    pub(in crate::cassandra) fn standing(&self) -> Standing {
        standing(self.state.as_deref(), self.dispatched_at_utc, self.parked_at_utc)
    }

    /// Whether later messages of its key wait for it.
    pub(in crate::cassandra) fn holds(&self) -> bool {
        match self.standing() {
            Standing::Pending => true,
            Standing::Parked => self.holds_key == Some(true),
            Standing::Done | Standing::Cancelled => false,
        }
    }

    /// When it was done or cancelled, in milliseconds.
    pub(in crate::cassandra) fn ended_ms(&self) -> Option<i64> {
        match self.standing() {
            Standing::Done => self.dispatched_at_utc.map(|time| time.0),
            Standing::Cancelled => {
                let (seconds, nanos) = self.staged_seq?.as_ref().get_timestamp()?.to_unix();
                i64::try_from(seconds.saturating_mul(1_000) + u64::from(nanos / 1_000_000)).ok()
            }
            Standing::Pending | Standing::Parked => None,
        }
    }

    /// When it is due, in milliseconds.
    pub(in crate::cassandra) fn due_ms(&self) -> i64 {
        self.next_attempt_at_utc.map_or(i64::MAX, |time| time.0)
    }

    pub(in crate::cassandra) fn shard(&self, shards: u16) -> Result<u16, Error> {
        let id = MessageId::new(self.message_id.as_str());
        let id = id.map_err(|error| Error::corrupt(error.to_string()))?;
        Ok(shard(token(self.ordering_key.as_deref(), &id), shards))
    }

    /// The time a change must be written with: the clock's, unless an earlier write is ahead of it.
    pub(in crate::cassandra) fn write_time(&self, now: Timestamp) -> i64 {
        let written = [self.state_written, self.next_written, self.count_written];
        let last = written.into_iter().flatten().max().unwrap_or(i64::MIN);
        now.as_micros().max(last.saturating_add(1))
    }
}

fn standing(
    state: Option<&str>,
    dispatched_at: Option<CqlTimestamp>,
    parked_at: Option<CqlTimestamp>,
) -> Standing {
    match (state, dispatched_at, parked_at) {
        (Some("cancelled"), ..) => Standing::Cancelled,
        (_, Some(_), _) => Standing::Done,
        (_, None, Some(_)) => Standing::Parked,
        (_, None, None) => Standing::Pending,
    }
}

/// A whole authoritative row.
#[derive(Debug, DeserializeRow)]
pub(in crate::cassandra) struct MessageRow {
    message_id: String,
    channel_id: Option<String>,
    message_type: Option<String>,
    payload: Option<String>,
    content_type: Option<String>,
    correlation_id: Option<String>,
    tenant_id: Option<String>,
    occurred_at_utc: Option<CqlTimestamp>,
    created_at_utc: Option<CqlTimestamp>,
    dispatch_attempt_count: Option<i32>,
    headers_json: Option<String>,
    metadata_json: Option<String>,
    payload_bytes: Option<Vec<u8>>,
    ordering_key: Option<String>,
    pub(in crate::cassandra) staged_seq: Option<CqlTimeuuid>,
    dispatched_at_utc: Option<CqlTimestamp>,
    next_attempt_at_utc: Option<CqlTimestamp>,
    deliver_at_utc: Option<CqlTimestamp>,
    state: Option<String>,
    parked_at_utc: Option<CqlTimestamp>,
    last_error: Option<String>,
}

impl MessageRow {
    /// As it is listed; `None` for what is left of a message that was swept.
    pub(super) fn into_staged(self) -> Result<Option<StagedMessage>, Error> {
        if self.staged_seq.is_none() {
            return Ok(None);
        }
        let state = match (self.standing(), self.state.as_deref()) {
            (Standing::Pending, _) => "pending",
            (Standing::Parked, _) => "parked",
            (Standing::Done, Some("skipped")) => "skipped",
            (Standing::Done, _) => "dispatched",
            (Standing::Cancelled, _) => "cancelled",
        };
        let damaged = |error: &dyn std::fmt::Display| {
            Error::corrupt(format!("message {}: {error}", self.message_id))
        };
        let id = MessageId::new(self.message_id.as_str()).map_err(|error| damaged(&error))?;
        let channel = self.channel_id.as_deref().map(ChannelId::new).transpose();
        let bytes = self.payload.clone().map(String::into_bytes).or(self.payload_bytes.clone());
        let empty = || "{}".to_owned();
        Ok(Some(StagedMessage {
            message_id: id,
            channel_id: channel.map_err(|error| damaged(&error))?,
            message_type: self.message_type.unwrap_or_default(),
            payload: bytes.map(|bytes| Payload {
                content_type: self.content_type.unwrap_or_default(),
                bytes,
            }),
            ordering_key: self.ordering_key,
            correlation_id: self.correlation_id,
            tenant_id: self.tenant_id,
            occurred_at: self.occurred_at_utc.map(from_time),
            created_at: self.created_at_utc.map_or(Timestamp::EPOCH, from_time),
            dispatched_at: self.dispatched_at_utc.map(from_time),
            attempt_count: u32::try_from(self.dispatch_attempt_count.unwrap_or(0)).unwrap_or(0),
            next_attempt_at: self.next_attempt_at_utc.map(from_time),
            headers_json: self.headers_json.unwrap_or_else(empty),
            metadata_json: self.metadata_json.unwrap_or_else(empty),
            state: state.to_owned(),
            last_error: self.last_error,
        }))
    }

    pub(in crate::cassandra) fn standing(&self) -> Standing {
        standing(self.state.as_deref(), self.dispatched_at_utc, self.parked_at_utc)
    }

    /// What a reader gets; a row that lacks what every staging writes is damaged.
    pub(in crate::cassandra) fn into_pending(self, shards: u16) -> Result<Pending, Error> {
        let attempts = self.dispatch_attempt_count.unwrap_or(0);
        let created_at = self.created_at_utc.map_or(Timestamp::EPOCH, from_time);
        let eligible_at = self.next_attempt_at_utc.map_or(Timestamp::EPOCH, from_time);
        let message = self.into_message()?;
        let shard = shard(token(message.ordering_key.as_deref(), &message.message_id), shards);
        let attempt_count = u32::try_from(attempts).unwrap_or(0);
        Ok(Pending { message, shard, attempt_count, created_at, eligible_at })
    }

    fn into_message(self) -> Result<Message, Error> {
        let id = self.message_id;
        let damaged =
            |reason: &dyn std::fmt::Display| Error::corrupt(format!("message {id}: {reason}"));
        let missing = |column: &str| damaged(&format!("{column} is missing"));
        let map = |text: Option<String>, column: &str| -> Result<BTreeMap<String, String>, Error> {
            let text = text.ok_or_else(|| missing(column))?;
            serde_json::from_str(&text).map_err(|error| damaged(&format!("{column}: {error}")))
        };
        let bytes = self.payload.map(String::into_bytes).or(self.payload_bytes);
        let channel = self.channel_id.ok_or_else(|| missing("channel_id"))?;
        let occurred_at = self.occurred_at_utc.ok_or_else(|| missing("occurred_at_utc"))?;
        Ok(Message {
            message_id: MessageId::new(id.as_str()).map_err(|error| damaged(&error))?,
            channel_id: ChannelId::new(channel).map_err(|error| damaged(&error))?,
            message_type: self.message_type.ok_or_else(|| missing("message_type"))?,
            payload: Payload {
                content_type: self.content_type.ok_or_else(|| missing("content_type"))?,
                bytes: bytes.ok_or_else(|| missing("payload"))?,
            },
            ordering_key: self.ordering_key,
            correlation_id: self.correlation_id,
            tenant_id: self.tenant_id,
            occurred_at: from_time(occurred_at),
            deliver_at: self.deliver_at_utc.map(from_time),
            headers: map(self.headers_json, "headers_json")?,
            metadata: map(self.metadata_json, "metadata_json")?,
        })
    }
}

/// A row of the pending index, as far as a reader needs it to find what is true.
#[derive(Clone, Debug, DeserializeRow)]
pub(in crate::cassandra) struct Candidate {
    pub(in crate::cassandra) eligible_at_utc: CqlTimestamp,
    pub(in crate::cassandra) message_id: String,
    pub(in crate::cassandra) kind: Option<String>,
    pub(in crate::cassandra) channel_id: Option<String>,
    pub(in crate::cassandra) message_type: Option<String>,
    pub(in crate::cassandra) staged_seq: Option<CqlTimeuuid>,
    pub(in crate::cassandra) kind_written: Option<i64>,
}

/// A message whose key waits for it.
#[derive(Clone, Debug, DeserializeRow)]
pub(in crate::cassandra) struct Hold {
    pub(in crate::cassandra) ordering_key: String,
    pub(in crate::cassandra) staged_seq: CqlTimeuuid,
    pub(in crate::cassandra) message_id: Option<String>,
    pub(in crate::cassandra) until_utc: Option<CqlTimestamp>,
    pub(in crate::cassandra) id_written: Option<i64>,
}

pub(in crate::cassandra) fn from_time(time: CqlTimestamp) -> Timestamp {
    Timestamp::from_millis(time.0)
}

/// Whether a stored hash is this one.
pub(in crate::cassandra) fn same_hash(stored: Option<&[u8]>, hash: ContentHash) -> bool {
    stored.and_then(ContentHash::from_bytes) == Some(hash)
}
