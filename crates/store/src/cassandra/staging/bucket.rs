//! The time-bucket way: one plain write into a partition of the hour, which expires.
//!
//! Nothing is flagged in place, because these partitions are dropped whole; what was brought into the
//! outbox is marked by a row in `outbox_published`, which expires too.

use std::collections::HashSet;
use std::time::Duration;

use helenus_model::{Message, Timestamp};
use scylla::value::CqlTimeuuid;

use super::Envelope;
use crate::cassandra::append::ttl;
use crate::cassandra::classify::{read_error, request_error};
use crate::cassandra::values::time;
use crate::cassandra::{CassandraStore, Error};
use crate::contract::EnqueueError;
use crate::shard::{shard, token};

/// Partitions of one hour.
const BUCKET_SHARDS: u16 = 4;

const HOUR: Duration = Duration::from_secs(3600);

/// What a message tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregate<'a> {
    /// Its type, such as `Order`.
    pub aggregate_type: &'a str,
    /// Its id.
    pub aggregate_id: &'a str,
}

/// The message is durable. It is **not** atomic with any other write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable;

type Event = (CqlTimeuuid, Option<Vec<u8>>, Option<String>);
type Written = (CqlTimeuuid, Option<Vec<u8>>, Option<String>, Option<i64>);

impl CassandraStore {
    /// Stages `message` in the bucket of this hour: one plain write, durable once it returns, and
    /// **not** atomic with whatever else the application writes. It expires with its bucket unless
    /// it is brought into the outbox before.
    pub async fn stage_in_bucket(
        &self,
        message: &Message,
        aggregate: Aggregate<'_>,
    ) -> Result<Durable, EnqueueError> {
        message.check()?;
        let messages = self.messages().await?;
        let stamp = messages.stamp(self.ports.clock.now());
        let own = shard(token(message.ordering_key.as_deref(), &message.message_id), BUCKET_SHARDS);
        let cql = format!(
            "INSERT INTO {} (bucket, shard, event_id, aggregate_type, aggregate_id, event_type,
                 event_payload, created_at, published, message_json)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, false, ?) USING TTL ?",
            self.table("outbox_buckets")
        );
        let values = (
            bucket(stamp.at),
            i32::from(own),
            stamp.seq,
            aggregate.aggregate_type,
            aggregate.aggregate_id,
            message.message_type.as_str(),
            message.payload.bytes.as_slice(),
            time(stamp.at),
            Envelope::of(message).to_json()?,
            ttl(self.bucket_options().0),
        );
        let session = &self.link().await?.session;
        let sent = Box::pin(session.query_unpaged(cql, values)).await;
        sent.map_err(|error| request_error("stage a message", error))?;
        self.wake();
        Ok(Durable)
    }

    /// Brings what stands in the buckets of the last `back` into the outbox; gives how many messages
    /// that were.
    pub(in crate::cassandra) async fn promote_buckets(
        &self,
        back: Duration,
        dry_run: bool,
    ) -> Result<u64, Error> {
        let mut promoted = 0;
        for (bucket, own, event) in self.unpublished(back).await? {
            promoted += 1;
            if dry_run {
                continue;
            }
            let (event_id, payload, Some(json)) = event else { continue };
            let message = Envelope::from_json(&json)?.into_message(payload.unwrap_or_default());
            let staged = self.enqueue_begun(message).await;
            staged.map_err(|error| Error::Unavailable {
                what: "stage a message of a bucket",
                source: Box::new(error),
            })?;
            let cql = format!(
                "INSERT INTO {} (bucket, shard, event_id) VALUES (?, ?, ?) USING TTL ?",
                self.table("outbox_published")
            );
            // The mark outlives what it marks.
            let values = (bucket, own, event_id, ttl(2 * self.bucket_options().0));
            let session = &self.link().await?.session;
            let marked = Box::pin(session.query_unpaged(cql, values)).await;
            marked.map_err(|error| request_error("mark a message as published", error))?;
        }
        Ok(promoted)
    }

    /// Writes what is not published again, to expire `by` later than it would.
    pub(in crate::cassandra) async fn extend_buckets(&self, by: Duration) -> Result<u64, Error> {
        let keep = self.bucket_options().0;
        let mut extended = 0;
        for (bucket, own, (event_id, payload, json)) in self.unpublished(keep).await? {
            let cql = format!(
                "INSERT INTO {} (bucket, shard, event_id, event_payload, published, message_json)
                 VALUES (?, ?, ?, ?, false, ?) USING TTL ?",
                self.table("outbox_buckets")
            );
            let values = (bucket, own, event_id, payload, json, ttl(keep + by));
            let session = &self.link().await?.session;
            let sent = Box::pin(session.query_unpaged(cql, values)).await;
            sent.map_err(|error| request_error("extend a message's time", error))?;
            extended += 1;
        }
        Ok(extended)
    }

    /// Removes buckets whose hour was over at `before`, at most `limit`, if everything in them was
    /// brought into the outbox; gives how many. What was not is left to expire.
    pub(in crate::cassandra) async fn drop_buckets(
        &self,
        before: Timestamp,
        limit: usize,
        dry_run: bool,
    ) -> Result<u64, Error> {
        let now = self.ports.clock.now();
        let oldest = 2 * self.bucket_options().0;
        let over = bucket(before);
        let mut dropped = 0;
        // Names of hours sort as the hours do.
        for bucket in buckets(now, oldest).into_iter().filter(|bucket| *bucket < over) {
            for own in 0..i32::from(BUCKET_SHARDS) {
                let Split { marked, unmarked, written } = self.split(&bucket, own).await?;
                if marked == 0 || !unmarked.is_empty() {
                    continue;
                }
                dropped += 1;
                if !dry_run {
                    self.drop_bucket(&bucket, own, written).await?;
                }
                if usize::try_from(dropped).is_ok_and(|dropped| dropped >= limit) {
                    return Ok(dropped);
                }
            }
        }
        Ok(dropped)
    }

    /// Drops what was seen of a bucket and nothing written after it; the marks go last.
    async fn drop_bucket(&self, bucket: &str, own: i32, written: i64) -> Result<(), Error> {
        let session = &self.link().await?.session;
        let marked = self.ports.clock.now().as_micros();
        for (table, written) in [("outbox_buckets", written), ("outbox_published", marked)] {
            let cql = format!(
                "DELETE FROM {} USING TIMESTAMP ? WHERE bucket = ? AND shard = ?",
                self.table(table)
            );
            let sent = Box::pin(session.query_unpaged(cql, (written, bucket, own))).await;
            sent.map_err(|error| request_error("drop a time bucket", error))?;
        }
        Ok(())
    }

    /// What stands in the buckets of the last `back` and is not marked, oldest first.
    async fn unpublished(&self, back: Duration) -> Result<Vec<(String, i32, Event)>, Error> {
        let mut found = Vec::new();
        for bucket in buckets(self.ports.clock.now(), back) {
            for own in 0..i32::from(BUCKET_SHARDS) {
                let unmarked = self.split(&bucket, own).await?.unmarked;
                found.extend(unmarked.into_iter().map(|event| (bucket.clone(), own, event)));
            }
        }
        Ok(found)
    }

    /// What stands in one bucket. The marks are read first: what is marked meanwhile is brought into
    /// the outbox again, which changes nothing.
    async fn split(&self, bucket: &str, own: i32) -> Result<Split, Error> {
        self.messages().await?;
        let session = &self.link().await?.session;
        let damaged = |error: &dyn std::fmt::Display| Error::corrupt(error.to_string());
        let marks = format!(
            "SELECT event_id FROM {} WHERE bucket = ? AND shard = ?",
            self.table("outbox_published")
        );
        let marks = Box::pin(session.query_unpaged(marks, (bucket, own))).await;
        let marks = marks.map_err(read_error)?.into_rows_result();
        let marks = marks.map_err(|error| damaged(&error))?;
        let marks = marks.rows::<(CqlTimeuuid,)>().map_err(|error| damaged(&error))?;
        let marks: Result<HashSet<_>, _> = marks.map(|row| row.map(|(id,)| id)).collect();
        let marks = marks.map_err(|error| damaged(&error))?;
        let rows = format!(
            "SELECT event_id, event_payload, message_json, WRITETIME(message_json) FROM {}
             WHERE bucket = ? AND shard = ?",
            self.table("outbox_buckets")
        );
        let rows = Box::pin(session.query_unpaged(rows, (bucket, own))).await;
        let rows = rows.map_err(read_error)?.into_rows_result();
        let rows = rows.map_err(|error| damaged(&error))?;
        let mut split = Split::default();
        for row in rows.rows::<Written>().map_err(|error| damaged(&error))? {
            let (id, payload, json, written) = row.map_err(|error| damaged(&error))?;
            split.written = split.written.max(written.unwrap_or_default());
            if marks.contains(&id) {
                split.marked += 1;
            } else {
                split.unmarked.push((id, payload, json));
            }
        }
        Ok(split)
    }
}

/// A bucket's events.
#[derive(Debug, Default)]
struct Split {
    /// So many were brought into the outbox.
    marked: usize,
    /// These were not.
    unmarked: Vec<Event>,
    /// When the last of all was written.
    written: i64,
}

/// The hour as the seed names it: `2026-11-15-14`.
fn bucket(at: Timestamp) -> String {
    let text = at.to_string();
    let (day, hour) = (text.get(..10).unwrap_or_default(), text.get(11..13).unwrap_or_default());
    format!("{day}-{hour}")
}

/// The hours from `back` ago until now, oldest first.
fn buckets(now: Timestamp, back: Duration) -> Vec<String> {
    let hours = u32::try_from(back.as_secs().div_ceil(HOUR.as_secs())).unwrap_or(u32::MAX);
    (0..=hours).rev().map(|hour| bucket(now.minus(HOUR * hour))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_hours_and_reach_back() {
        let now: Timestamp = "2026-11-15T00:30:00Z".parse().unwrap();
        assert_eq!(bucket(now), "2026-11-15-00");
        let back = buckets(now, Duration::from_secs(300));
        assert_eq!(back, ["2026-11-14-23", "2026-11-15-00"]);
    }
}
