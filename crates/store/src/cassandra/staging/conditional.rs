//! The conditional way: an intent, then the application's own lightweight transaction, then the
//! message.
//!
//! The entity carries the operation's id, so whoever finds the intent later can see whether the
//! transaction was applied. What remains: a process that is paused for longer than the grace exactly
//! between the check of the deadline and the sending, and is killed before it stages the message.

use helenus_model::limits::{ENQUEUE_DEADLINE, ORPHAN_GRACE};
use helenus_model::{Failure, Message, OperationId, Timestamp};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlValue, Row};
use serde::{Deserialize, Serialize};

use super::{Begun, Envelope, Key, key_condition, key_values, quoted};
use crate::cassandra::classify::read_error;
use crate::cassandra::conditional::{Cas, send};
use crate::cassandra::{CassandraStore, Error};
use crate::contract::{EnqueueError, Outbox};

/// A row of the application that carries the id of the operation that wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// Its table, `keyspace.table`.
    pub table: String,
    /// Its primary key, each column with its value as `SELECT JSON` prints it.
    pub key: Vec<(String, serde_json::Value)>,
    /// Where the operation's id stands.
    pub mark: Mark,
}

/// Where a row carries the ids of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The column `operation_id uuid`: for rows that are created once, `IF NOT EXISTS`.
    OperationId,
    /// The column `operations map<uuid, timestamp>`: for updates, so that a second one cannot hide
    /// the first.
    Operations,
}

/// What came of a conditional staging. Atomic once it is reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReconciliation {
    /// The transaction was applied and the message is staged.
    Staged,
    /// The transaction was applied; the reconciler stages the message.
    Later,
    /// The transaction was refused; there is no message.
    Refused,
}

impl CassandraStore {
    /// Stages `message` if and only if the application's lightweight transaction is applied.
    ///
    /// `values` must write `operation_id` where `entity` says. After [`Error::Lost`] the reconciler
    /// finds out; nothing else has to be done.
    pub async fn stage_conditional(
        &self,
        message: Message,
        entity: Entity,
        operation_id: OperationId,
        transaction: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<AfterReconciliation, EnqueueError> {
        message.check()?;
        let clock = &*self.ports.clock;
        let started = clock.elapsed();
        let deadline = clock.now().plus(ENQUEUE_DEADLINE);
        let intent = Begun::Intent {
            envelope: Envelope::of(&message),
            table: quoted(&entity.table)?,
            key: entity.key,
            mark: entity.mark,
            operation_id,
            deadline_ms: deadline.as_millis(),
        };
        let begun = self.begin(&message, "intent", &intent, deadline).await?;
        if clock.elapsed().saturating_sub(started) >= ENQUEUE_DEADLINE {
            drop(self.end(&begun).await);
            return Err(Error::Late { deadline: ENQUEUE_DEADLINE }.into());
        }
        let mut transaction = transaction.clone();
        transaction.set_request_timeout(Some(ENQUEUE_DEADLINE));
        let session = &self.link().await.map_err(EnqueueError::from)?.session;
        match send(session, "apply the transaction", &transaction, values).await {
            Ok(Cas::Applied) => {}
            Ok(Cas::Refused(_)) => {
                // Should this fail, the reconciler sees that nothing was applied.
                drop(self.end(&begun).await);
                return Ok(AfterReconciliation::Refused);
            }
            Err(error) => {
                if error.applied() == Some(false) {
                    drop(self.end(&begun).await);
                }
                return Err(error.into());
            }
        }
        if self.enqueue(message).await.is_err() || self.end(&begun).await.is_err() {
            return Ok(AfterReconciliation::Later);
        }
        Ok(AfterReconciliation::Staged)
    }

    /// Whether an entity carries an operation. Read by Paxos, which finishes a round that is half
    /// done.
    pub(in crate::cassandra) async fn carries(
        &self,
        table: &str,
        key: &Key,
        mark: Mark,
        operation_id: OperationId,
    ) -> Result<bool, Error> {
        let column = match mark {
            Mark::OperationId => "operation_id",
            Mark::Operations => "operations",
        };
        let cql = format!("SELECT {column} FROM {table} WHERE {}", key_condition(key)?);
        let mut statement = Statement::new(cql);
        statement.set_consistency(self.serial_read_level());
        let session = &self.link().await?.session;
        let asked = Box::pin(session.query_unpaged(statement, key_values(key))).await;
        let rows = asked.map_err(read_error)?.into_rows_result();
        let rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
        let row = rows.maybe_first_row::<Row>();
        let row = row.map_err(|error| Error::corrupt(error.to_string()))?;
        let value = row.and_then(|row| row.columns.into_iter().next()).flatten();
        let wanted = CqlValue::Uuid(operation_id.as_uuid());
        Ok(match value {
            Some(CqlValue::Map(entries)) => entries.iter().any(|(id, _)| *id == wanted),
            Some(value) => value == wanted,
            None => false,
        })
    }
}

/// When nobody can still be at work on an intent.
pub(in crate::cassandra) fn is_over(deadline_ms: i64, now: Timestamp) -> bool {
    Timestamp::from_millis(deadline_ms).plus(ORPHAN_GRACE) <= now
}

impl From<Error> for EnqueueError {
    fn from(error: Error) -> Self {
        EnqueueError::Backend(error.into())
    }
}
