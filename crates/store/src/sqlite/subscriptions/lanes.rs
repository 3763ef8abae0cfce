//! What an owner does with its lane, each on the condition that it still is the owner.

use helenus_model::StreamId;
use rusqlite::{Connection, OptionalExtension, params};

use super::{position, sequence, shape};
use crate::contract::{Hold, LaneState, Position, Settlement, SubscriptionError};

/// Where the lane stands.
pub(in crate::sqlite) fn state(
    db: &Connection,
    hold: &Hold,
) -> Result<LaneState, SubscriptionError> {
    let (name, lane) = (hold.subscription.as_str(), hold.lane);
    let found: Option<i64> = db
        .prepare_cached(
            "SELECT position FROM helenus_subscription_lanes WHERE subscription = ?1 AND lane = ?2",
        )?
        .query_row(params![name, lane], |row| row.get(0))
        .optional()?;
    let (Some(found), Some((lanes, on_poison))) = (found, shape(db, name)?) else {
        return Err(SubscriptionError::NotFound { name: hold.subscription.clone() });
    };
    let mut query = db.prepare_cached(
        "SELECT DISTINCT stream_id FROM helenus_parked_events WHERE subscription = ?1 AND lane = ?2",
    )?;
    let stopped = query
        .query_map(params![name, lane], |row| row.get(0))?
        .map(|id| stream_id(id?))
        .collect::<Result<_, SubscriptionError>>()?;
    Ok(LaneState { position: position(found), lanes, on_poison, stopped })
}

/// Records that events were handled; part of the caller's transaction.
pub(in crate::sqlite) fn settle(
    db: &Connection,
    hold: &Hold,
    settlement: &Settlement,
) -> Result<(), SubscriptionError> {
    fence(db, hold)?;
    match settlement {
        Settlement::Ahead { from, to } => advance(db, hold, from, to),
        Settlement::Replayed { position } => {
            let mut delete = db.prepare_cached(
                "DELETE FROM helenus_parked_events
                 WHERE subscription = ?1 AND lane = ?2 AND global_sequence = ?3",
            )?;
            let row = params![hold.subscription.as_str(), hold.lane, sequence(position)?];
            match delete.execute(row)? {
                0 => Err(SubscriptionError::NotParked { position: position.clone() }),
                _ => Ok(()),
            }
        }
    }
}

/// Counts a failure.
pub(super) fn fail(
    db: &Connection,
    hold: &Hold,
    replayed: Option<&Position>,
    error: &str,
) -> Result<u32, SubscriptionError> {
    fence(db, hold)?;
    let (name, lane) = (hold.subscription.as_str(), hold.lane);
    let Some(replayed) = replayed else {
        let mut update = db.prepare_cached(
            "UPDATE helenus_subscription_lanes SET attempts = attempts + 1, last_error = ?3
             WHERE subscription = ?1 AND lane = ?2 RETURNING attempts",
        )?;
        return Ok(update.query_row(params![name, lane, error], |row| row.get(0))?);
    };
    let mut update = db.prepare_cached(
        "UPDATE helenus_parked_events SET attempts = attempts + 1, last_error = ?4
         WHERE subscription = ?1 AND lane = ?2 AND global_sequence = ?3 RETURNING attempts",
    )?;
    let row = params![name, lane, sequence(replayed)?, error];
    let attempts = update.query_row(row, |row| row.get(0)).optional()?;
    attempts.ok_or_else(|| SubscriptionError::NotParked { position: replayed.clone() })
}

/// Refuses whoever is not the lane's owner.
pub(in crate::sqlite) fn fence(db: &Connection, hold: &Hold) -> Result<(), SubscriptionError> {
    let mut query = db.prepare_cached(
        "SELECT 1 FROM helenus_leases WHERE name = ?1 AND owner = ?2 AND epoch = ?3",
    )?;
    let lease = &hold.lease;
    let is_right = lease.name == Hold::lease_name(&hold.subscription, hold.lane);
    if is_right && query.exists(params![lease.name, lease.owner, lease.epoch])? {
        return Ok(());
    }
    let (name, lane) = (hold.subscription.clone(), hold.lane);
    Err(match shape(db, name.as_str())? {
        Some(_) => SubscriptionError::Fenced { name, lane },
        None => SubscriptionError::NotFound { name },
    })
}

/// Moves the checkpoint from where the owner believes it to be.
pub(super) fn advance(
    db: &Connection,
    hold: &Hold,
    from: &Position,
    to: &Position,
) -> Result<(), SubscriptionError> {
    let (from, to) = (sequence(from)?, sequence(to)?);
    let mut update = db.prepare_cached(
        "UPDATE helenus_subscription_lanes SET position = ?4, attempts = 0, last_error = NULL
         WHERE subscription = ?1 AND lane = ?2 AND position = ?3 AND position <= ?4",
    )?;
    match update.execute(params![hold.subscription.as_str(), hold.lane, from, to])? {
        0 => {
            let (name, lane) = (hold.subscription.clone(), hold.lane);
            Err(SubscriptionError::Moved { name, lane })
        }
        _ => Ok(()),
    }
}

pub(super) fn stream_id(text: String) -> Result<StreamId, SubscriptionError> {
    let corrupt = |error| helenus_sqlite::Error::Corrupt {
        message: format!("a parked event's stream: {error}"),
    };
    Ok(StreamId::new(text).map_err(corrupt)?)
}
