//! Leaving a trace in the pending index of what is not a message yet.

use helenus_model::{Message, Timestamp};

use super::report::{Drop, drop_pending};
use super::rows::{Columns, NewPending};
use super::stamp::Stamp;
use crate::cassandra::conditional::write;
use crate::cassandra::staging::Begun;
use crate::cassandra::values::{set, time};
use crate::cassandra::{CassandraStore, Error};
use crate::shard::{shard, token};

/// A trace that was left.
#[derive(Debug)]
pub(in crate::cassandra) struct Trace {
    pub(in crate::cassandra) stamp: Stamp,
    row: Drop,
}

impl super::Messages {
    /// A moment that no other staging of this process has.
    pub(in crate::cassandra) fn stamp(&self, now: Timestamp) -> Stamp {
        self.stamps.next(now)
    }
}

impl CassandraStore {
    /// Leaves a trace of what is begun; without what it tells of, it tells of nothing.
    pub(in crate::cassandra) async fn begin(
        &self,
        message: &Message,
        kind: &str,
        begun: &Begun,
        due: Timestamp,
    ) -> Result<Trace, Error> {
        let messages = self.messages().await?;
        let stamp = messages.stamp(self.ports.clock.now());
        let token = token(message.ordering_key.as_deref(), &message.message_id);
        let shard = shard(token, messages.shards());
        let detail =
            serde_json::to_string(begun).map_err(|error| Error::corrupt(error.to_string()))?;
        // Apart from the message's own row, which may be due in the same millisecond.
        let id = format!("{kind}:{}:{}", message.message_id, stamp.seq);
        let values = NewPending {
            columns: Columns::of(message, stamp).named(&id),
            shard_id: i32::from(shard),
            eligible_at_utc: time(due),
            kind,
            detail: set(Some(detail.as_str())),
            written: stamp.at.as_micros(),
        };
        let statement = &messages.statements.put_pending;
        let put = write(&messages.session, "begin to stage a message", statement, values).await;
        put.map_err(|error| match error {
            Error::Lost { what, source } => Error::Unavailable { what, source },
            error => error,
        })?;
        let (due_ms, written) = (due.as_millis(), stamp.at.as_micros());
        Ok(Trace { stamp, row: Drop { shard, due_ms, message_id: id.clone(), written } })
    }

    /// Removes a trace: what it told of is done.
    pub(in crate::cassandra) async fn end(&self, trace: &Trace) -> Result<(), Error> {
        drop_pending(self.messages().await?, vec![trace.row.clone()]).await
    }
}
