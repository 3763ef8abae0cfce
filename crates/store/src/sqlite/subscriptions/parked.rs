//! Events set aside: parking them, looking at them, trying them again or giving them up.

use helenus_model::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::lanes::{advance, fence, stream_id};
use super::{position, sequence, shape};
use crate::contract::{
    Hold, OnPoison, Parked, Parking, Position, Reason, SubscriptionError, SubscriptionName, Which,
};
use crate::sqlite::events::read::event_at;

/// Sets an event aside and moves past it, in one step.
pub(super) fn park(
    db: &Connection,
    hold: &Hold,
    parking: &Parking,
    now: Timestamp,
) -> Result<bool, SubscriptionError> {
    fence(db, hold)?;
    let (name, stream) = (hold.subscription.as_str(), parking.stream_id.as_str());
    let (attempts, error, replay) = match &parking.reason {
        Reason::Failed { error } => {
            let mut query = db.prepare_cached(
                "SELECT attempts FROM helenus_subscription_lanes
                 WHERE subscription = ?1 AND lane = ?2",
            )?;
            let attempts: u32 = query.query_row(params![name, hold.lane], |row| row.get(0))?;
            (attempts, Some(error), false)
        }
        Reason::Behind => {
            // Where the whole stream is being replayed, what comes behind belongs to it.
            let mut query = db.prepare_cached(
                "SELECT min(replay) FROM helenus_parked_events
                 WHERE subscription = ?1 AND stream_id = ?2",
            )?;
            let replay: Option<bool> = query.query_row(params![name, stream], |row| row.get(0))?;
            let Some(replay) = replay else { return Ok(false) };
            (0, None, replay)
        }
    };
    advance(db, hold, &parking.from, &parking.position)?;
    db.prepare_cached("INSERT INTO helenus_parked_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            name,
            sequence(&parking.position)?,
            hold.lane,
            stream,
            attempts,
            error,
            now.as_millis(),
            replay,
        ])?;
    Ok(true)
}

/// Ends a replay that failed; where a failure stops its stream, with the rest of the stream's.
pub(super) fn park_again(
    db: &Connection,
    hold: &Hold,
    position: &Position,
    error: &str,
) -> Result<(), SubscriptionError> {
    fence(db, hold)?;
    let name = hold.subscription.as_str();
    let sequence = sequence(position)?;
    let mut update = db.prepare_cached(
        "UPDATE helenus_parked_events SET replay = 0, last_error = ?3
         WHERE subscription = ?1 AND global_sequence = ?2 RETURNING stream_id",
    )?;
    let parked = update.query_row(params![name, sequence, error], |row| row.get(0)).optional()?;
    let stream: Option<String> = parked;
    if let (Some(stream), true) = (stream, stops_streams(db, name)?) {
        let mut update = db.prepare_cached(
            "UPDATE helenus_parked_events SET replay = 0 WHERE subscription = ?1 AND stream_id = ?2",
        )?;
        update.execute(params![name, stream])?;
    }
    Ok(())
}

/// Asks for parked events to be tried again.
pub(super) fn replay(
    db: &Connection,
    name: &SubscriptionName,
    which: &Which,
) -> Result<u64, SubscriptionError> {
    if let Which::One(position) = which
        && stops_streams(db, name.as_str())?
    {
        refuse_behind(db, name, position)?;
    }
    change(db, name, which, "UPDATE helenus_parked_events SET replay = 1")
}

/// Gives parked events up.
pub(super) fn discard(
    db: &Connection,
    name: &SubscriptionName,
    which: &Which,
) -> Result<u64, SubscriptionError> {
    change(db, name, which, "DELETE FROM helenus_parked_events")
}

fn change(
    db: &Connection,
    name: &SubscriptionName,
    which: &Which,
    what: &str,
) -> Result<u64, SubscriptionError> {
    let name = name.as_str();
    let all = format!("{what} WHERE subscription = ?1");
    let rows = match which {
        Which::All => db.prepare_cached(&all)?.execute([name])?,
        Which::Stream(stream) => db
            .prepare_cached(&format!("{all} AND stream_id = ?2"))?
            .execute(params![name, stream.as_str()])?,
        Which::One(position) => {
            let mut change = db.prepare_cached(&format!("{all} AND global_sequence = ?2"))?;
            match change.execute(params![name, sequence(position)?])? {
                0 => return Err(SubscriptionError::NotParked { position: position.clone() }),
                rows => rows,
            }
        }
    };
    Ok(rows as u64)
}

fn refuse_behind(
    db: &Connection,
    name: &SubscriptionName,
    position: &Position,
) -> Result<(), SubscriptionError> {
    let mut query = db.prepare_cached(
        "SELECT stream_id FROM helenus_parked_events AS one
         WHERE subscription = ?1 AND global_sequence = ?2 AND EXISTS (
             SELECT 1 FROM helenus_parked_events AS other
             WHERE other.subscription = one.subscription AND other.stream_id = one.stream_id
               AND other.global_sequence < one.global_sequence)",
    )?;
    let row = params![name.as_str(), sequence(position)?];
    let behind: Option<String> = query.query_row(row, |row| row.get(0)).optional()?;
    match behind {
        None => Ok(()),
        Some(stream) => Err(SubscriptionError::NotFirst {
            position: position.clone(),
            stream_id: Box::new(stream_id(stream)?),
        }),
    }
}

fn stops_streams(db: &Connection, name: &str) -> Result<bool, SubscriptionError> {
    Ok(shape(db, name)?.is_some_and(|(_, policy)| policy == OnPoison::StopStream))
}

/// The parked events of a subscription.
pub(super) fn list(
    db: &Connection,
    name: &SubscriptionName,
    limit: usize,
) -> Result<Vec<Parked>, SubscriptionError> {
    select(db, "TRUE OR ?3", name, 0, limit)
}

/// Those of a lane that are to be tried again.
pub(super) fn replays(
    db: &Connection,
    hold: &Hold,
    limit: usize,
) -> Result<Vec<Parked>, SubscriptionError> {
    select(db, "replay = 1 AND lane = ?3", &hold.subscription, hold.lane, limit)
}

fn select(
    db: &Connection,
    condition: &str,
    name: &SubscriptionName,
    lane: u32,
    limit: usize,
) -> Result<Vec<Parked>, SubscriptionError> {
    let mut query = db.prepare_cached(&format!(
        "SELECT global_sequence, stream_id, attempts, last_error, parked_at_utc, replay
         FROM helenus_parked_events
         WHERE subscription = ?1 AND ({condition})
         ORDER BY global_sequence LIMIT ?2"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = query.query(params![name.as_str(), limit, lane])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(parked(db, row)?);
    }
    Ok(found)
}

fn parked(db: &Connection, row: &Row<'_>) -> Result<Parked, SubscriptionError> {
    let stream_id = stream_id(row.get(1)?)?;
    let event = event_at(db, &stream_id, row.get(0)?)?;
    Ok(Parked {
        position: position(row.get(0)?),
        stream_id,
        event,
        error: row.get("last_error")?,
        attempts: row.get("attempts")?,
        parked_at: Timestamp::from_millis(row.get("parked_at_utc")?),
        replay: row.get("replay")?,
    })
}
