//! Leases on a cluster: each change one lightweight transaction on the epoch before it.
//!
//! An answer that was lost is settled by reading the lease: owner and epoch say whose it is.

use std::time::Duration;

use helenus_model::limits::APPEND_ATTEMPTS_MAX;
use helenus_model::{Failure, Timestamp};
use scylla::DeserializeRow;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;

use super::Messages;
use super::rows::from_time;
use crate::cassandra::append::pause;
use crate::cassandra::conditional::{Cas, select, send};
use crate::cassandra::options::Names;
use crate::cassandra::statements::prepare;
use crate::cassandra::values::time;
use crate::cassandra::{CassandraStore, Error, Options, routing};
use crate::contract::{self, Acquired, Lease, Leases};

#[derive(Debug)]
pub(super) struct Statements {
    /// `name`, by Paxos: no change that was decided is missed.
    read: PreparedStatement,
    /// `name, owner, epoch, expires_at_utc`.
    insert: PreparedStatement,
    /// `owner, epoch, expires_at_utc, name, epoch before`.
    take: PreparedStatement,
    /// `expires_at_utc, name, owner, epoch`.
    renew: PreparedStatement,
    /// `name, owner, epoch`.
    release: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare(
        session: &Session,
        names: &Names,
        options: &Options,
    ) -> Result<Self, Error> {
        let pinned = routing::pinned(options);
        let table = names.table("leases");
        let cas = |cql: String| Box::pin(prepare(session, options, cql, Some(&pinned)));
        let read = format!("SELECT owner, epoch, expires_at_utc FROM {table} WHERE name = ?");
        let mut read = prepare(session, options, read, None).await?;
        read.set_consistency(options.serial_consistency.read_level());
        Ok(Statements {
            read,
            insert: cas(format!(
                "INSERT INTO {table} (name, owner, epoch, expires_at_utc) VALUES (?, ?, ?, ?)
                 IF NOT EXISTS"
            ))
            .await?,
            take: cas(format!(
                "UPDATE {table} SET owner = ?, epoch = ?, expires_at_utc = ? WHERE name = ?
                 IF epoch = ?"
            ))
            .await?,
            renew: cas(format!(
                "UPDATE {table} SET expires_at_utc = ? WHERE name = ? IF owner = ? AND epoch = ?"
            ))
            .await?,
            release: cas(format!(
                "UPDATE {table} SET owner = null WHERE name = ? IF owner = ? AND epoch = ?"
            ))
            .await?,
        })
    }
}

#[derive(Debug, DeserializeRow)]
struct Row {
    owner: Option<String>,
    epoch: i64,
    expires_at_utc: CqlTimestamp,
}

impl Row {
    fn lease(self, name: &str) -> Option<Lease> {
        let (epoch, expires_at) = (self.epoch, from_time(self.expires_at_utc));
        self.owner.map(|owner| Lease { name: name.to_owned(), owner, epoch, expires_at })
    }

    fn is_free_for(&self, owner: &str, now: Timestamp) -> bool {
        let holder = self.owner.as_deref();
        holder.is_none_or(|holder| holder == owner) || from_time(self.expires_at_utc) <= now
    }
}

impl Leases for CassandraStore {
    async fn acquire(
        &self,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Acquired, contract::Error> {
        let messages = self.messages().await?;
        let mut lost: Option<(Error, Lease)> = None;
        for attempt in 0..APPEND_ATTEMPTS_MAX {
            pause(&self.ports, attempt).await;
            let found = match read(messages, name).await {
                Ok(found) => found,
                Err(error) if lost.is_some() && error.is_retryable() => continue,
                Err(error) => return Err(lost.map_or(error, |(lost, _)| lost).into()),
            };
            if let (Some((_, wanted)), Some(row)) = (&lost, &found)
                && row.owner.as_deref() == Some(owner)
                && row.epoch == wanted.epoch
            {
                return Ok(Acquired::Held(wanted.clone()));
            }
            let now = self.ports.clock.now();
            let before = found.as_ref().map(|row| row.epoch);
            if let Some(row) = found.filter(|row| !row.is_free_for(owner, now))
                && let Some(lease) = row.lease(name)
            {
                return Ok(Acquired::Taken(lease));
            }
            let expires_at = Timestamp::from_millis(now.plus(ttl).as_millis());
            let epoch = before.unwrap_or(0).saturating_add(1);
            let (held_name, held_owner) = (name.to_owned(), owner.to_owned());
            let wanted = Lease { name: held_name, owner: held_owner, epoch, expires_at };
            match take(messages, &wanted, before).await {
                Ok(true) => return Ok(Acquired::Held(wanted)),
                // Somebody was faster.
                Ok(false) => {}
                Err(error) if error.applied().is_none() => lost = Some((error, wanted)),
                Err(error) => return Err(lost.map_or(error, |(lost, _)| lost).into()),
            }
        }
        let contended =
            || Error::Unavailable { what: "take a lease", source: "it is contended".into() };
        Err(lost.map_or_else(contended, |(lost, _)| lost).into())
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, contract::Error> {
        let messages = self.messages().await?;
        let expires_at = Timestamp::from_millis(self.ports.clock.now().plus(ttl).as_millis());
        let values = (time(expires_at), &lease.name, &lease.owner, lease.epoch);
        let renewed = repeat(self, || {
            send(&messages.session, "renew a lease", &messages.leases.renew, values)
        });
        let renewed = renewed.await?;
        Ok(renewed.then(|| Lease { expires_at, ..lease.clone() }))
    }

    async fn release(&self, lease: &Lease) -> Result<(), contract::Error> {
        let messages = self.messages().await?;
        let values = (&lease.name, &lease.owner, lease.epoch);
        let released = repeat(self, || {
            send(&messages.session, "give a lease back", &messages.leases.release, values)
        });
        released.await?;
        Ok(())
    }

    async fn holder(&self, name: &str) -> Result<Option<Lease>, contract::Error> {
        let found = read(self.messages().await?, name).await?;
        Ok(found.and_then(|row| row.lease(name)))
    }
}

async fn read(messages: &Messages, name: &str) -> Result<Option<Row>, Error> {
    let rows = select(&messages.session, &messages.leases.read, (name,)).await?;
    rows.maybe_first_row().map_err(|error| Error::corrupt(error.to_string()))
}

async fn take(messages: &Messages, lease: &Lease, before: Option<i64>) -> Result<bool, Error> {
    let (session, what) = (&messages.session, "take a lease");
    let (owner, expires_at) = (lease.owner.as_str(), time(lease.expires_at));
    let answer = match before {
        None => {
            let values = (lease.name.as_str(), owner, lease.epoch, expires_at);
            send(session, what, &messages.leases.insert, values).await?
        }
        Some(before) => {
            let values = (owner, lease.epoch, expires_at, lease.name.as_str(), before);
            send(session, what, &messages.leases.take, values).await?
        }
    };
    Ok(matches!(answer, Cas::Applied))
}

/// Sends what may be sent again until it is answered: done once or twice it is the same.
pub(super) async fn repeat<F>(
    store: &CassandraStore,
    request: impl Fn() -> F,
) -> Result<bool, Error>
where
    F: Future<Output = Result<Cas, Error>>,
{
    let mut lost = None;
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        match request().await {
            Ok(answer) => return Ok(matches!(answer, Cas::Applied)),
            Err(error) if error.applied().is_none() => lost = Some(error),
            Err(error) if lost.is_some() && error.is_retryable() => {}
            Err(error) => return Err(lost.unwrap_or(error)),
        }
    }
    Err(lost.unwrap_or_else(|| Error::corrupt("a request was never sent")))
}
