//! Subscriptions in the file.
//!
//! Whatever an owner writes begins with a look at its lease in the same transaction; the writer is
//! one thread, so nothing comes between the look and the write.

pub(super) mod lanes;
mod parked;
pub(super) mod status;

use std::time::Duration;

use helenus_model::Timestamp;
use helenus_model::limits::{PARKED_READ_MAX, SUBSCRIPTION_LANES_MAX};
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteStore, feed, projections};
use crate::contract::{
    Error, Hold, LaneState, NewSubscription, OnPoison, Parked, Parking, Position, Settlement,
    Start, SubscriptionError, SubscriptionName, SubscriptionStatus, Subscriptions, Which,
};

impl Subscriptions for SqliteStore {
    async fn subscribe(&self, new: NewSubscription) -> Result<(), SubscriptionError> {
        let now = self.now();
        self.engine
            .write(move |db| {
                projections::refuse_name(db, &new.name)?;
                subscribe(db, &new, now)
            })
            .await
    }

    async fn unsubscribe(&self, name: &SubscriptionName) -> Result<bool, SubscriptionError> {
        let name = name.clone();
        let dropped = self.engine.write(move |db| -> Result<bool, SubscriptionError> {
            Ok(projections::drop_all(db, &name)? || unsubscribe(db, &name)?)
        });
        dropped.await
    }

    async fn subscriptions(&self) -> Result<Vec<SubscriptionStatus>, Error> {
        let now = self.now();
        self.engine.read(move |db| Ok(status::all(db, None, now)?)).await
    }

    async fn subscription(
        &self,
        name: &SubscriptionName,
    ) -> Result<SubscriptionStatus, SubscriptionError> {
        let (name, now) = (name.clone(), self.now());
        self.engine
            .read(move |db| {
                let subscription = resolve(db, &name)?;
                let found = status::all(db, Some(&subscription), now)?;
                found.into_iter().next().ok_or(SubscriptionError::NotFound { name })
            })
            .await
    }

    async fn slowest(&self) -> Result<Option<(SubscriptionName, Position)>, Error> {
        self.engine.read(|db| Ok(status::slowest(db)?)).await
    }

    async fn join(
        &self,
        name: &SubscriptionName,
        consumer: &str,
        ttl: Duration,
    ) -> Result<u32, SubscriptionError> {
        let (name, consumer, now) = (name.clone(), consumer.to_owned(), self.now());
        self.engine.write(move |db| join(db, &name, &consumer, now, now.plus(ttl))).await
    }

    async fn leave(&self, name: &SubscriptionName, consumer: &str) -> Result<(), Error> {
        let (name, consumer) = (name.clone(), consumer.to_owned());
        let left = self.engine.write(move |db| -> Result<(), helenus_sqlite::Error> {
            let mut delete = db.prepare_cached(
                "DELETE FROM helenus_subscription_consumers
                 WHERE subscription = ?1 AND consumer = ?2",
            )?;
            delete.execute(params![name.as_str(), consumer])?;
            Ok(())
        });
        Ok(left.await?)
    }

    async fn lane(&self, hold: &Hold) -> Result<LaneState, SubscriptionError> {
        let hold = hold.clone();
        self.engine.read(move |db| lanes::state(db, &hold)).await
    }

    async fn settle(&self, hold: &Hold, settlement: Settlement) -> Result<(), SubscriptionError> {
        let hold = hold.clone();
        self.engine.write(move |db| lanes::settle(db, &hold, &settlement)).await
    }

    async fn fail(
        &self,
        hold: &Hold,
        replayed: Option<&Position>,
        error: &str,
    ) -> Result<u32, SubscriptionError> {
        let (hold, replayed, error) = (hold.clone(), replayed.cloned(), error.to_owned());
        self.engine.write(move |db| lanes::fail(db, &hold, replayed.as_ref(), &error)).await
    }

    async fn park(&self, hold: &Hold, parking: Parking) -> Result<bool, SubscriptionError> {
        let (hold, now) = (hold.clone(), self.now());
        self.engine.write(move |db| parked::park(db, &hold, &parking, now)).await
    }

    async fn replays(&self, hold: &Hold, limit: usize) -> Result<Vec<Parked>, SubscriptionError> {
        let (hold, limit) = (hold.clone(), limit.min(PARKED_READ_MAX));
        self.engine.read(move |db| parked::replays(db, &hold, limit)).await
    }

    async fn park_again(
        &self,
        hold: &Hold,
        position: &Position,
        error: &str,
    ) -> Result<(), SubscriptionError> {
        let (hold, position, error) = (hold.clone(), position.clone(), error.to_owned());
        self.engine.write(move |db| parked::park_again(db, &hold, &position, &error)).await
    }

    async fn parked(
        &self,
        name: &SubscriptionName,
        limit: usize,
    ) -> Result<Vec<Parked>, SubscriptionError> {
        let (name, limit) = (name.clone(), limit.min(PARKED_READ_MAX));
        self.engine.read(move |db| parked::list(db, &resolve(db, &name)?, limit)).await
    }

    async fn replay(
        &self,
        name: &SubscriptionName,
        which: Which,
    ) -> Result<u64, SubscriptionError> {
        let name = name.clone();
        self.engine.write(move |db| parked::replay(db, &resolve(db, &name)?, &which)).await
    }

    async fn discard(
        &self,
        name: &SubscriptionName,
        which: Which,
    ) -> Result<u64, SubscriptionError> {
        let name = name.clone();
        self.engine.write(move |db| parked::discard(db, &resolve(db, &name)?, &which)).await
    }
}

/// Registers a subscription, whatever its name means.
pub(super) fn subscribe(
    db: &Connection,
    new: &NewSubscription,
    now: Timestamp,
) -> Result<(), SubscriptionError> {
    if !(1..=SUBSCRIPTION_LANES_MAX).contains(&new.lanes) {
        return Err(SubscriptionError::Lanes { lanes: new.lanes });
    }
    let name = new.name.as_str();
    if let Some((lanes, policy)) = shape(db, name)? {
        let differs = |what, stored: String| {
            let name = new.name.clone();
            Err(SubscriptionError::Differs { name, what, stored: stored.into() })
        };
        return match () {
            () if lanes != new.lanes => differs("lanes", lanes.to_string()),
            () if policy != new.on_poison => differs("on_poison", word(policy).to_owned()),
            () => Ok(()),
        };
    }
    let head = feed::head(db)?;
    let start = match &new.start {
        Start::Beginning => 0,
        Start::End => head,
        Start::After(position) => sequence(position)?,
    };
    if let (true, Start::After(position)) = (start > head, &new.start) {
        return Err(SubscriptionError::Position { position: position.clone() });
    }
    db.prepare_cached("INSERT INTO helenus_subscriptions VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![name, new.lanes, word(new.on_poison), now.as_millis()])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO helenus_subscription_lanes (subscription, lane, position) VALUES (?1, ?2, ?3)",
    )?;
    for lane in 0..new.lanes {
        insert.execute(params![name, lane, start])?;
    }
    Ok(())
}

/// Forgets a subscription. Its leases are only given back: should it be registered again, epochs go
/// on where they were.
pub(super) fn unsubscribe(
    db: &Connection,
    name: &SubscriptionName,
) -> Result<bool, SubscriptionError> {
    let rows = db
        .prepare_cached("DELETE FROM helenus_subscriptions WHERE subscription = ?1")?
        .execute([name.as_str()])?;
    db.prepare_cached("UPDATE helenus_leases SET owner = NULL WHERE name GLOB ?1")?
        .execute([format!("subscription/{name}/*")])?;
    Ok(rows == 1)
}

fn join(
    db: &Connection,
    name: &SubscriptionName,
    consumer: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<u32, SubscriptionError> {
    if shape(db, name.as_str())?.is_none() {
        return Err(SubscriptionError::NotFound { name: name.clone() });
    }
    db.prepare_cached(
        "DELETE FROM helenus_subscription_consumers
         WHERE subscription = ?1 AND expires_at_utc <= ?2 AND consumer <> ?3",
    )?
    .execute(params![name.as_str(), now.as_millis(), consumer])?;
    db.prepare_cached(
        "INSERT INTO helenus_subscription_consumers VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET expires_at_utc = excluded.expires_at_utc",
    )?
    .execute(params![name.as_str(), consumer, expires_at.as_millis()])?;
    let mut count = db.prepare_cached(
        "SELECT count(*) FROM helenus_subscription_consumers WHERE subscription = ?1",
    )?;
    Ok(count.query_row([name.as_str()], |row| row.get(0))?)
}

/// Lanes and policy of a subscription.
fn shape(db: &Connection, name: &str) -> Result<Option<(u32, OnPoison)>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(
        "SELECT lanes, on_poison FROM helenus_subscriptions WHERE subscription = ?1",
    )?;
    let found = query.query_row([name], |row| Ok((row.get(0)?, row.get(1)?)));
    let found: Option<(u32, String)> = found.optional()?;
    Ok(found.map(|(lanes, policy)| (lanes, on_poison(&policy))))
}

/// The subscription a name stands for: that of a projection's live build, or its own.
fn resolve(
    db: &Connection,
    name: &SubscriptionName,
) -> Result<SubscriptionName, SubscriptionError> {
    let mut query = db.prepare_cached(
        "SELECT subscription FROM helenus_projections WHERE projection = ?1 AND state = 'live'
         UNION ALL SELECT subscription FROM helenus_subscriptions WHERE subscription = ?1",
    )?;
    let found: Option<String> = query.query_row([name.as_str()], |row| row.get(0)).optional()?;
    let found = found.ok_or_else(|| SubscriptionError::NotFound { name: name.clone() })?;
    Ok(SubscriptionName::internal(found))
}

fn word(policy: OnPoison) -> &'static str {
    match policy {
        OnPoison::StopStream => "stop_stream",
        OnPoison::GoOn => "go_on",
    }
}

/// The table takes two words only.
fn on_poison(word: &str) -> OnPoison {
    if word == "go_on" { OnPoison::GoOn } else { OnPoison::StopStream }
}

/// The number a position stands for.
pub(super) fn sequence(position: &Position) -> Result<i64, SubscriptionError> {
    let number = feed::sequence(position);
    number.ok_or_else(|| SubscriptionError::Position { position: position.clone() })
}

fn position(sequence: i64) -> Position {
    Position::new(sequence.to_string())
}

impl From<helenus_sqlite::Error> for SubscriptionError {
    fn from(error: helenus_sqlite::Error) -> Self {
        SubscriptionError::Backend(error.into())
    }
}

impl From<rusqlite::Error> for SubscriptionError {
    fn from(error: rusqlite::Error) -> Self {
        helenus_sqlite::Error::from(error).into()
    }
}
