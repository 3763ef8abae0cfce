//! Builds of projections: beginning, swapping and dropping them, each in one transaction.
//!
//! **Invariant:** a row is changed before the schema is, so that the writer undoes both.

use std::collections::BTreeSet;

use helenus_model::{Failure, Kind, Timestamp};
use helenus_sqlite::Error;
use rusqlite::{Connection, OptionalExtension, params};

use super::effect::{Stopped, apply};
use super::{Output, Projection, ProjectionError, physical, quoted, suffix};
use crate::contract::{
    FeedItem, Hold, NewSubscription, OnPoison, Position, Settlement, SubscriptionError,
    SubscriptionName,
};
use crate::sqlite::{feed, subscriptions};
use crate::subscription::{Delivery, told};

/// A build of a projection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Build {
    pub(super) generation: i64,
    pub(super) version: String,
    pub(super) subscription: SubscriptionName,
}

/// Whether a build is read or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    Building,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Building => "building",
        }
    }
}

/// The build of a projection that is in a state.
pub(super) fn find(
    db: &Connection,
    name: &SubscriptionName,
    state: State,
) -> Result<Option<Build>, Error> {
    let mut query = db.prepare_cached(
        "SELECT generation, version, subscription FROM helenus_projections
         WHERE projection = ?1 AND state = ?2",
    )?;
    let found = query.query_row([name.as_str(), state.word()], |row| {
        let subscription: String = row.get("subscription")?;
        Ok(Build {
            generation: row.get("generation")?,
            version: row.get("version")?,
            subscription: SubscriptionName::internal(subscription),
        })
    });
    Ok(found.optional()?)
}

/// Creates the tables of a new build, and its subscription from the beginning of the feed.
pub(super) fn begin<P: Projection>(
    db: &Connection,
    projection: &P,
    state: State,
    on_poison: OnPoison,
    now: Timestamp,
) -> Result<Build, ProjectionError> {
    let (name, version) = (projection.name(), projection.version());
    refuse_subscription(db, &name)?;
    db.prepare_cached(
        "INSERT INTO helenus_projections (projection, version, state, subscription, created_at_utc)
         VALUES (?1, ?2, ?3, '', ?4)",
    )?
    .execute(params![name.as_str(), version, state.word(), now.as_millis()])?;
    let generation = db.last_insert_rowid();
    let subscription = SubscriptionName::internal(format!("{name}@{generation}"));
    db.prepare_cached("UPDATE helenus_projections SET subscription = ?2 WHERE generation = ?1")?
        .execute(params![generation, subscription.as_str()])?;
    let new = NewSubscription { on_poison, ..NewSubscription::new(subscription.clone()) };
    subscriptions::subscribe(db, &new, now)?;

    let before = schema(db)?;
    projection.create(&Output { db, generation, position: 0 }).map_err(|error| {
        match error.downcast_ref::<rusqlite::Error>().map(Error::from_sqlite) {
            Some(error) if error.kind() != Kind::Fatal => ProjectionError::from(error),
            _ => ProjectionError::Create { name: name.clone(), problem: told(&*error).into() },
        }
    })?;
    record_tables(db, &name, generation, &before)?;
    if state == State::Live {
        publish(db, generation)?;
    }
    Ok(Build { generation, version, subscription })
}

/// What came of trying to swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swap {
    /// The new build is live; the old one is gone.
    Done,
    /// Readers would go back in time: the new build has to read on first.
    Behind,
}

/// Puts a build in the place of the live one, if its owner still owns it and it is as far.
pub(super) fn swap<P: Projection>(
    db: &Connection,
    projection: &P,
    hold: &Hold,
    building: &Build,
) -> Result<Swap, SwapError> {
    let state = subscriptions::lanes::state(db, hold)?;
    subscriptions::lanes::fence(db, hold)?;
    if let Some(live) = find(db, &projection.name(), State::Live)? {
        let target = position(db, &live.subscription)?;
        // What waits behind parked events is not applied in passing.
        let is_plain = state.stopped.is_empty();
        let own = position(db, &building.subscription)?;
        if own < target && !(is_plain && reaches(db, projection, hold, building, target)?) {
            return Ok(Swap::Behind);
        }
        drop_build(db, &live)?;
    }
    db.prepare_cached("UPDATE helenus_projections SET state = 'live' WHERE generation = ?1")?
        .execute([building.generation])?;
    publish(db, building.generation)?;
    Ok(Swap::Done)
}

/// Whether a build is as far as `target`, after applying a page of what it lacks: with writers at
/// work, it might else never be as far as one that follows.
fn reaches<P: Projection>(
    db: &Connection,
    projection: &P,
    hold: &Hold,
    building: &Build,
    target: i64,
) -> Result<bool, SwapError> {
    let from = position(db, &building.subscription)?;
    let mut reached = from;
    let at = |sequence: i64| Position::new(sequence.to_string());
    for (sequence, item) in feed::fetch(db, from)? {
        if sequence > target {
            break;
        }
        if let FeedItem::Event { position, event } = item {
            let delivery = Delivery { position, event: event.into() };
            apply(db, projection, building.generation, &delivery)?;
        }
        reached = sequence;
    }
    let settlement = Settlement::Ahead { from: at(from), to: at(reached) };
    subscriptions::lanes::settle(db, hold, &settlement)?;
    Ok(reached >= target)
}

/// Why a swap was undone.
#[derive(Debug)]
pub(super) enum SwapError {
    /// An event could not be applied on the way; retrying and parking is the consumer's business.
    Behind,
    /// Something failed.
    Failed(ProjectionError),
}

impl<E: Into<ProjectionError>> From<E> for SwapError {
    fn from(error: E) -> Self {
        SwapError::Failed(error.into())
    }
}

impl From<Stopped> for SwapError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::At { .. } => SwapError::Behind,
            Stopped::Refused(error) => SwapError::Failed(error.into()),
        }
    }
}

fn position(db: &Connection, subscription: &SubscriptionName) -> Result<i64, Error> {
    let mut query = db.prepare_cached(
        "SELECT min(position) FROM helenus_subscription_lanes WHERE subscription = ?1",
    )?;
    Ok(query.query_row([subscription.as_str()], |row| row.get(0))?)
}

/// Drops a build with everything that belongs to it. Its lease goes too: its name is never used
/// again.
pub(super) fn drop_build(db: &Connection, build: &Build) -> Result<(), SubscriptionError> {
    subscriptions::unsubscribe(db, &build.subscription)?;
    db.prepare_cached("DELETE FROM helenus_leases WHERE name GLOB ?1")?
        .execute([format!("subscription/{}/*", build.subscription)])?;
    let generation = build.generation;
    for name in tables(db, generation)? {
        if published(db, &name)? == Published::By(generation) {
            db.execute_batch(&format!("DROP VIEW {}", quoted(&name)))?;
        }
    }
    let mut query = db.prepare_cached(
        "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY rowid DESC",
    )?;
    let all = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let all: Vec<(String, String)> = all.collect::<Result<_, _>>()?;
    drop(query);
    let own: BTreeSet<String> = tables(db, generation)?
        .iter()
        .map(|name| format!("{name}{}", suffix(generation)))
        .collect();
    for (kind, name) in all.iter().filter(|(_, name)| own.contains(name)) {
        db.execute_batch(&format!("DROP {kind} {}", quoted(name)))?;
    }
    db.prepare_cached("DELETE FROM helenus_projections WHERE generation = ?1")?
        .execute([generation])?;
    Ok(())
}

/// Drops every build of a projection; `false` if there is none.
pub(in crate::sqlite) fn drop_all(
    db: &Connection,
    name: &SubscriptionName,
) -> Result<bool, SubscriptionError> {
    let mut found = false;
    for state in [State::Building, State::Live] {
        if let Some(build) = find(db, name, state)? {
            drop_build(db, &build)?;
            found = true;
        }
    }
    Ok(found)
}

/// Refuses a name for a subscription that a projection has.
pub(in crate::sqlite) fn refuse_name(
    db: &Connection,
    name: &SubscriptionName,
) -> Result<(), SubscriptionError> {
    let mut query = db.prepare_cached("SELECT 1 FROM helenus_projections WHERE projection = ?1")?;
    if query.exists([name.as_str()])? {
        return Err(SubscriptionError::NameTaken { name: name.clone(), by: "a projection" });
    }
    Ok(())
}

fn refuse_subscription(db: &Connection, name: &SubscriptionName) -> Result<(), SubscriptionError> {
    let mut query =
        db.prepare_cached("SELECT 1 FROM helenus_subscriptions WHERE subscription = ?1")?;
    if query.exists([name.as_str()])? {
        return Err(SubscriptionError::NameTaken { name: name.clone(), by: "a subscription" });
    }
    Ok(())
}

/// The tables of a build, as readers name them.
pub(in crate::sqlite) fn tables(db: &Connection, generation: i64) -> Result<Vec<String>, Error> {
    let mut query = db.prepare_cached(
        "SELECT name FROM helenus_projection_tables WHERE generation = ?1 ORDER BY name",
    )?;
    let names = query.query_map([generation], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Type and name of everything in the file.
fn schema(db: &Connection) -> Result<BTreeSet<(String, String)>, Error> {
    let mut query = db.prepare_cached("SELECT type, name FROM sqlite_schema")?;
    let all = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(all.collect::<Result<_, _>>()?)
}

/// Remembers what a build has created, and refuses what it could not be found by again.
fn record_tables(
    db: &Connection,
    projection: &SubscriptionName,
    generation: i64,
    before: &BTreeSet<(String, String)>,
) -> Result<(), ProjectionError> {
    let wrong = |problem: String| ProjectionError::Create {
        name: projection.clone(),
        problem: problem.into(),
    };
    let mut count = 0;
    for (kind, name) in schema(db)?.difference(before) {
        if name.starts_with("sqlite_") {
            continue;
        }
        let Some(plain) = name.strip_suffix(&suffix(generation)) else {
            return Err(wrong(format!(
                "{kind} '{name}' was not created under the name it was given"
            )));
        };
        if is_reserved(plain) {
            return Err(wrong(format!("the name '{plain}' is reserved")));
        }
        if kind == "table" || kind == "view" {
            db.prepare_cached("INSERT INTO helenus_projection_tables VALUES (?1, ?2)")?
                .execute(params![generation, plain])?;
            count += 1;
        }
    }
    if count == 0 {
        return Err(wrong("it creates no table".to_owned()));
    }
    Ok(())
}

/// Names that belong to Helenus or SQLite.
pub(super) fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("helenus_") || name.starts_with("sqlite_")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    Not,
    By(i64),
    Foreign,
}

/// What stands under a plain name.
fn published(db: &Connection, name: &str) -> Result<Published, Error> {
    let mut query =
        db.prepare_cached("SELECT sql FROM sqlite_schema WHERE lower(name) = lower(?1)")?;
    let sql: Option<Option<String>> = query.query_row([name], |row| row.get(0)).optional()?;
    let Some(sql) = sql else { return Ok(Published::Not) };
    let mut query =
        db.prepare_cached("SELECT generation FROM helenus_projection_tables WHERE name = ?1")?;
    let mut rows = query.query([name])?;
    while let Some(row) = rows.next()? {
        let generation: i64 = row.get(0)?;
        if sql.as_deref() == Some(view(name, generation).as_str()) {
            return Ok(Published::By(generation));
        }
    }
    Ok(Published::Foreign)
}

fn view(name: &str, generation: i64) -> String {
    format!("CREATE VIEW {} AS SELECT * FROM {}", quoted(name), physical(name, generation))
}

/// Lets the plain names stand for a build's tables.
fn publish(db: &Connection, generation: i64) -> Result<(), ProjectionError> {
    for name in tables(db, generation)? {
        if published(db, &name)? != Published::Not {
            return Err(ProjectionError::TableTaken { table: name.into() });
        }
        db.execute_batch(&view(&name, generation))?;
    }
    Ok(())
}
