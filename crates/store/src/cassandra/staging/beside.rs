//! The same-partition way: the application's statements and the message's row in one batch.
//!
//! Both tables have the same partition key in the same keyspace, so the batch is one mutation.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use helenus_model::Message;
use helenus_model::limits::ORPHAN_GRACE;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlTimestamp, CqlTimeuuid, CqlValue, Row};

use super::{Begun, Envelope, Key, key_condition, key_values, quoted};
use crate::cassandra::classify::{page_error, read_error, request_error};
use crate::cassandra::read::row_error;
use crate::cassandra::{CassandraStore, Error};
use crate::contract::EnqueueError;

/// An entity's outbox: `{entity}_outbox`, with the entity's own partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityOutbox {
    table: String,
    key: Vec<String>,
}

/// A statement of the application with its values.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The statement.
    pub statement: PreparedStatement,
    /// Its values.
    pub values: Vec<Option<CqlValue>>,
}

/// Message and statements were applied together: one mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Whether the message is in the outbox already; if not, the reconciler brings it there.
    pub is_enqueued: bool,
}

impl CassandraStore {
    /// The outbox of an entity; makes the table where it is missing.
    ///
    /// `entity` is the entity's table, `keyspace.table`; `key` its partition key, each column with
    /// its CQL type.
    pub async fn entity_outbox(
        &self,
        entity: &str,
        key: &[(&str, &str)],
    ) -> Result<EntityOutbox, Error> {
        let table = quoted(&format!("{entity}_outbox"))?;
        let names: Result<Vec<String>, Error> = key.iter().map(|(name, _)| quoted(name)).collect();
        let columns: Vec<String> =
            names?.iter().zip(key).map(|(name, (_, kind))| format!("{name} {kind}")).collect();
        let names: Vec<String> = key.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let cql = format!(
            "CREATE TABLE IF NOT EXISTS {table} ({}, event_id timeuuid, event_type text,
                 event_payload blob, created_at timestamp, published boolean, message_json text,
                 PRIMARY KEY (({}), event_id))",
            columns.join(", "),
            names.join(", ")
        );
        crate::cassandra::tables::change(&self.link().await?.session, cql).await?;
        Ok(EntityOutbox { table, key: key.iter().map(|(name, _)| (*name).to_owned()).collect() })
    }

    /// Stages `message` in one mutation with the application's statements, which all belong to the
    /// partition that `key` names.
    pub async fn stage_beside(
        &self,
        outbox: &EntityOutbox,
        key: &[serde_json::Value],
        message: Message,
        statements: Vec<Bound>,
    ) -> Result<Atomic, EnqueueError> {
        message.check()?;
        let key: Key = outbox.key.iter().cloned().zip(key.iter().cloned()).collect();
        let now = self.ports.clock.now();
        let dirty = Begun::Dirty { outbox: outbox.table.clone(), key: key.clone() };
        let begun = self.begin(&message, "dirty", &dirty, now).await?;
        let names: Result<Vec<String>, Error> = key.iter().map(|(name, _)| quoted(name)).collect();
        let names = names?.join(", ");
        let marks = vec!["fromJson(?)"; key.len()].join(", ");
        let insert = format!(
            "INSERT INTO {} ({names}, event_id, event_type, event_payload, created_at, published,
                 message_json) VALUES ({marks}, ?, ?, ?, ?, false, ?)",
            outbox.table
        );
        let seq = begun.stamp.seq;
        let mut values: Vec<Option<CqlValue>> =
            key_values(&key).into_iter().map(|value| Some(CqlValue::Text(value))).collect();
        values.extend([
            Some(CqlValue::Timeuuid(seq)),
            Some(CqlValue::Text(message.message_type.clone())),
            Some(CqlValue::Blob(message.payload.bytes.clone())),
            Some(CqlValue::Timestamp(CqlTimestamp(begun.stamp.at.as_millis()))),
            Some(CqlValue::Text(Envelope::of(&message).to_json()?)),
        ]);
        let link = self.link().await?;
        let insert = link.session.prepare(insert).await;
        let insert = insert.map_err(crate::cassandra::classify::prepare_error)?;
        let mut batch = Batch::new(BatchType::Logged);
        batch.set_consistency(insert.get_consistency().unwrap_or(self.level()));
        let mut all = Vec::with_capacity(statements.len() + 1);
        for bound in statements {
            batch.append_statement(bound.statement);
            all.push(bound.values);
        }
        batch.append_statement(insert);
        all.push(values);
        let sent = Box::pin(link.session.batch(&batch, all)).await;
        sent.map_err(|error| request_error("apply the batch", error))?;
        let promoted = self.promote(&outbox.table, &key, seq, message).await;
        let is_enqueued = promoted.is_ok() && self.end(&begun).await.is_ok();
        Ok(Atomic { is_enqueued })
    }

    /// Brings a message of an entity's outbox into the outbox, then marks it as published.
    async fn promote(
        &self,
        table: &str,
        key: &Key,
        event_id: CqlTimeuuid,
        message: Message,
    ) -> Result<(), EnqueueError> {
        self.enqueue_begun(message).await?;
        let condition = key_condition(key)?;
        let mut values: Vec<CqlValue> = key_values(key).into_iter().map(CqlValue::Text).collect();
        values.push(CqlValue::Timeuuid(event_id));
        let cql = format!("UPDATE {table} SET published = true WHERE {condition} AND event_id = ?");
        let session = &self.link().await?.session;
        let marked = Box::pin(session.query_unpaged(cql, values)).await;
        marked.map_err(|error| request_error("mark a message as published", error))?;
        Ok(())
    }

    /// Brings everything of a partition that is not published into the outbox; gives how many.
    pub(in crate::cassandra) async fn promote_all(
        &self,
        table: &str,
        key: &Key,
        dry_run: bool,
    ) -> Result<u64, Error> {
        type Event = (CqlTimeuuid, Option<Vec<u8>>, Option<bool>, Option<String>);
        let cql = format!(
            "SELECT event_id, event_payload, published, message_json FROM {table} WHERE {}",
            key_condition(key)?
        );
        let session = &self.link().await?.session;
        let asked = Box::pin(session.query_unpaged(Statement::new(cql), key_values(key))).await;
        let rows = asked.map_err(read_error)?.into_rows_result();
        let rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
        let rows = rows.rows::<Event>().map_err(|error| Error::corrupt(error.to_string()))?;
        let mut promoted = 0;
        for row in rows {
            let row = row.map_err(|error| Error::corrupt(error.to_string()))?;
            let (event_id, payload, published, Some(json)) = row else { continue };
            if published == Some(true) {
                continue;
            }
            promoted += 1;
            if dry_run {
                continue;
            }
            let message = Envelope::from_json(&json)?.into_message(payload.unwrap_or_default());
            let brought = self.promote(table, key, event_id, message).await;
            brought.map_err(|error| Error::Unavailable {
                what: "stage a message that was begun",
                source: Box::new(error),
            })?;
        }
        Ok(promoted)
    }
}

/// Columns of a table: name, kind, place in its kind.
type Described = Vec<(String, String, i32)>;

impl CassandraStore {
    /// The outboxes of entities that there are, with their partition keys: tables that have the name and
    /// the columns of one, in any keyspace.
    pub(in crate::cassandra) async fn entity_outboxes(
        &self,
    ) -> Result<Vec<(String, Vec<String>)>, Error> {
        type Column = (String, String, String, String, i32);
        let cql = "SELECT keyspace_name, table_name, column_name, kind, position
             FROM system_schema.columns";
        let session = &self.link().await?.session;
        let damaged = |error: &dyn std::fmt::Display| Error::corrupt(error.to_string());
        let asked = Box::pin(session.query_unpaged(cql, ())).await;
        let rows = asked.map_err(read_error)?.into_rows_result();
        let rows = rows.map_err(|error| damaged(&error))?;
        let mut tables: BTreeMap<(String, String), Described> = BTreeMap::new();
        for row in rows.rows::<Column>().map_err(|error| damaged(&error))? {
            let (keyspace, table, column, kind, position) = row.map_err(|error| damaged(&error))?;
            if table.ends_with("_outbox") {
                tables.entry((keyspace, table)).or_default().push((column, kind, position));
            }
        }
        let mut outboxes = Vec::new();
        for ((keyspace, table), columns) in tables {
            let is_ours = ["event_id", "event_payload", "published", "message_json"]
                .iter()
                .all(|wanted| columns.iter().any(|(column, ..)| column == wanted));
            let mut key: Vec<_> =
                columns.into_iter().filter(|(_, kind, _)| kind == "partition_key").collect();
            key.sort_by_key(|(.., position)| *position);
            if let (true, Ok(table)) = (is_ours, quoted(&format!("{keyspace}.{table}"))) {
                outboxes.push((table, key.into_iter().map(|(column, ..)| column).collect()));
            }
        }
        Ok(outboxes)
    }

    /// Brings everything of a part of the ring that is not published into the outbox; gives how many.
    pub(in crate::cassandra) async fn promote_part(
        &self,
        table: &str,
        key: &[String],
        part: (i64, i64),
        dry_run: bool,
    ) -> Result<u64, Error> {
        let names: Result<Vec<String>, Error> = key.iter().map(|name| quoted(name)).collect();
        let names = names?;
        let (columns, json) =
            (names.join(", "), names.iter().map(|name| format!("toJson({name})")));
        let cql = format!(
            "SELECT published, {} FROM {table} WHERE token({columns}) > ? AND token({columns}) <= ?",
            json.collect::<Vec<_>>().join(", ")
        );
        let session = &self.link().await?.session;
        let pager = Box::pin(session.query_iter(cql, part)).await.map_err(page_error)?;
        let rows = pager.rows_stream::<Row>();
        let mut rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
        let mut dirty: Vec<Key> = Vec::new();
        while let Some(row) = rows.try_next().await.map_err(row_error)? {
            let mut values = row.columns.into_iter();
            if matches!(values.next(), Some(Some(CqlValue::Boolean(true)))) {
                continue;
            }
            let parse = |value: Option<CqlValue>| match value {
                Some(CqlValue::Text(text)) => serde_json::from_str(&text).ok(),
                _ => None,
            };
            let values: Option<Vec<serde_json::Value>> = values.map(parse).collect();
            let Some(values) = values else { continue };
            let own: Key = key.iter().cloned().zip(values).collect();
            // The rows of a partition follow each other.
            if dirty.last() != Some(&own) {
                dirty.push(own);
            }
        }
        let mut promoted = 0;
        for key in dirty {
            promoted += self.promote_all(table, &key, dry_run).await?;
        }
        Ok(promoted)
    }
}

/// Whether a batch that has not shown up may still be on its way.
pub(in crate::cassandra) fn may_come(written_us: i64, now_us: i64) -> bool {
    let grace = i64::try_from(ORPHAN_GRACE.as_micros()).unwrap_or(i64::MAX);
    now_us.saturating_sub(written_us) < grace
}
