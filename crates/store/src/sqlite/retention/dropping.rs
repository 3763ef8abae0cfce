//! What is kept of events that are dropped: their numbers in the feed, and for a while what they
//! remembered of their operations.

use std::ops::Range;
use std::time::Duration;

use helenus_model::{StreamId, Timestamp, Version};
use helenus_sqlite::Error;
use rusqlite::{Connection, OptionalExtension, params};

use super::{ARCHIVE, STREAMS};
use crate::contract::{RetireError, RetirePlan};
use crate::sqlite::subscriptions::status::slowest;

/// Deletes events from `table`, leaving what must outlive them.
pub(super) fn drop(
    db: &Connection,
    table: &str,
    stream_id: &StreamId,
    versions: &Range<Version>,
    now: Timestamp,
    window: Duration,
) -> Result<(), Error> {
    let within = "WHERE stream_id = ?1 AND stream_version >= ?2 AND stream_version < ?3";
    let (low, high) = (versions.start.as_i64(), versions.end.as_i64());
    let values = params![stream_id.as_str(), low, high];
    for run in runs(db, table, within, values)? {
        remember_gap(db, run)?;
    }
    db.prepare_cached("DELETE FROM helenus_event_dropped_operations WHERE expires_at_utc <= ?1")?
        .execute([now.as_millis()])?;
    let expires = now.plus(window);
    db.prepare_cached(&format!(
        "INSERT INTO helenus_event_dropped_operations
         SELECT stream_id, operation_id, stream_version, operation_count, content_hash, ?4
         FROM {table} {within} AND operation_count IS NOT NULL"
    ))?
    .execute(params![stream_id.as_str(), low, high, expires.as_millis()])?;
    db.prepare_cached(&format!("DELETE FROM {table} {within}"))?.execute(values)?;
    Ok(())
}

/// The events' numbers in the feed, as ranges.
fn runs(
    db: &Connection,
    table: &str,
    within: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(i64, i64)>, Error> {
    let mut query = db.prepare_cached(&format!(
        "SELECT global_sequence FROM {table} {within} ORDER BY global_sequence"
    ))?;
    let mut rows = query.query(values)?;
    let mut runs: Vec<(i64, i64)> = Vec::new();
    while let Some(row) = rows.next()? {
        let sequence: i64 = row.get(0)?;
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == sequence => *last = sequence,
            _ => runs.push((sequence, sequence)),
        }
    }
    Ok(runs)
}

/// Adds a range to those of the feed, making one of it and those it touches.
fn remember_gap(db: &Connection, (mut first, mut last): (i64, i64)) -> Result<(), Error> {
    let before: Option<i64> = db
        .prepare_cached(
            "DELETE FROM helenus_event_dropped WHERE last_sequence = ?1 RETURNING first_sequence",
        )?
        .query_row([first - 1], |row| row.get(0))
        .optional()?;
    let after: Option<i64> = db
        .prepare_cached(
            "DELETE FROM helenus_event_dropped WHERE first_sequence = ?1 RETURNING last_sequence",
        )?
        .query_row([last + 1], |row| row.get(0))
        .optional()?;
    first = before.unwrap_or(first);
    last = after.unwrap_or(last);
    db.prepare_cached("INSERT INTO helenus_event_dropped VALUES (?1, ?2)")?
        .execute([first, last])?;
    Ok(())
}

/// Refuses to drop what the slowest subscription has not read.
pub(super) fn check_subscriptions(db: &Connection, plan: &RetirePlan) -> Result<(), RetireError> {
    let Some((subscription, position)) = slowest(db)? else { return Ok(()) };
    let lowest: i64 = position.as_str().parse().unwrap_or(0);
    for table in [ARCHIVE, STREAMS] {
        let newest: Option<i64> = db
            .prepare_cached(&format!(
                "SELECT max(global_sequence) FROM {table}
                 WHERE stream_id = ?1 AND stream_version >= ?2 AND stream_version < ?3"
            ))?
            .query_row(
                params![plan.stream_id.as_str(), plan.from.as_i64(), plan.before.as_i64()],
                |row| row.get(0),
            )?;
        if newest > Some(lowest) {
            return Err(RetireError::Unread { subscription, position });
        }
    }
    Ok(())
}
