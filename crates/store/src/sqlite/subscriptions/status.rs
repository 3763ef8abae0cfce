//! How subscriptions stand.

use helenus_model::Timestamp;
use helenus_sqlite::Error;
use rusqlite::{Connection, OptionalExtension, Row};

use super::{on_poison, position};
use crate::contract::{Generation, LaneStatus, Position, SubscriptionName, SubscriptionStatus};
use crate::sqlite::feed;

/// Every subscription, or the one named.
pub(super) fn all(
    db: &Connection,
    name: Option<&SubscriptionName>,
    now: Timestamp,
) -> Result<Vec<SubscriptionStatus>, Error> {
    let mut query = db.prepare_cached(
        "SELECT subscription, on_poison, generation, projection, version, state = 'live' AS is_live,
                (SELECT count(*) FROM helenus_parked_events AS parked
                 WHERE parked.subscription = helenus_subscriptions.subscription) AS parked
         FROM helenus_subscriptions LEFT JOIN helenus_projections USING (subscription)
         WHERE ?1 IS NULL OR subscription = ?1 ORDER BY subscription",
    )?;
    let mut rows = query.query([name.map(SubscriptionName::as_str)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(status(db, row, now)?);
    }
    Ok(found)
}

fn status(db: &Connection, row: &Row<'_>, now: Timestamp) -> Result<SubscriptionStatus, Error> {
    let subscription: String = row.get("subscription")?;
    let lanes = lanes(db, &subscription)?;
    let least: i64 = db
        .prepare_cached(
            "SELECT min(position) FROM helenus_subscription_lanes WHERE subscription = ?1",
        )?
        .query_row([&subscription], |row| row.get(0))?;
    let (lag_events, lag) = match first_after(db, least)? {
        Some((first, appended_at)) => {
            let events = feed::head(db)? - first + 1;
            (u64::try_from(events).unwrap_or(0), now.since(appended_at))
        }
        None => (0, std::time::Duration::ZERO),
    };
    let policy: String = row.get("on_poison")?;
    Ok(SubscriptionStatus {
        name: SubscriptionName::internal(subscription),
        on_poison: on_poison(&policy),
        lanes,
        lag_events,
        lag,
        parked: u64::try_from(row.get::<_, i64>("parked")?).unwrap_or(0),
        projection: generation(db, row)?,
    })
}

fn generation(db: &Connection, row: &Row<'_>) -> Result<Option<Generation>, Error> {
    let Some(generation) = row.get::<_, Option<i64>>("generation")? else { return Ok(None) };
    let projection: String = row.get("projection")?;
    Ok(Some(Generation {
        projection: SubscriptionName::internal(projection),
        version: row.get("version")?,
        generation,
        is_live: row.get("is_live")?,
        tables: crate::sqlite::projections::tables(db, generation)?,
    }))
}

fn lanes(db: &Connection, subscription: &str) -> Result<Vec<LaneStatus>, Error> {
    let mut query = db.prepare_cached(
        "SELECT lane, position, attempts, last_error, owner, expires_at_utc
         FROM helenus_subscription_lanes LEFT JOIN helenus_leases
              ON name = 'subscription/' || subscription || '/' || lane AND owner IS NOT NULL
         WHERE subscription = ?1 ORDER BY lane",
    )?;
    let lanes = query.query_map([subscription], |row| {
        Ok(LaneStatus {
            lane: row.get("lane")?,
            position: position(row.get("position")?),
            owner: row.get("owner")?,
            expires_at: row.get::<_, Option<i64>>("expires_at_utc")?.map(Timestamp::from_millis),
            attempts: row.get("attempts")?,
            error: row.get("last_error")?,
        })
    })?;
    Ok(lanes.collect::<Result<_, _>>()?)
}

/// The first event after a position, and when it was appended.
fn first_after(db: &Connection, sequence: i64) -> Result<Option<(i64, Timestamp)>, Error> {
    let mut query = db.prepare_cached(
        "SELECT global_sequence, appended_at_utc FROM helenus_event_streams
         WHERE global_sequence > ?1
         UNION ALL
         SELECT global_sequence, appended_at_utc FROM helenus_event_archive
         WHERE global_sequence > ?1
         ORDER BY global_sequence LIMIT 1",
    )?;
    let first =
        query.query_row([sequence], |row| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?))));
    Ok(first.optional()?)
}

/// Who is furthest behind, and what everybody is done with.
pub(in crate::sqlite) fn slowest(
    db: &Connection,
) -> Result<Option<(SubscriptionName, Position)>, Error> {
    let mut query = db.prepare_cached(
        "SELECT coalesce(projection, subscription), sequence FROM (
             SELECT subscription, position AS sequence FROM helenus_subscription_lanes
             UNION ALL SELECT subscription, global_sequence - 1 FROM helenus_parked_events)
         LEFT JOIN helenus_projections USING (subscription)
         ORDER BY sequence, subscription LIMIT 1",
    )?;
    let found = query.query_row([], |row| {
        let name: String = row.get(0)?;
        Ok((SubscriptionName::internal(name), position(row.get(1)?)))
    });
    Ok(found.optional()?)
}
