//! From where a shard is read, so that settled history costs nothing.
//!
//! Every read starts at a cursor that trails the clock by little. What was staged slowly, by
//! another process or by a slower clock, stands before it; so the time before is looked at too, the
//! more rarely the longer it is past: a message may be found late, never not at all. Looking means
//! asking for the first row of a slice of time, so that no request walks over too many deletions.

use std::time::Duration;

use helenus_model::limits::{FULL_READ_EVERY, WATERMARK_LAG};
use helenus_model::{Clock, Timestamp};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::value::CqlTimestamp;

use super::Messages;
use crate::cassandra::Error;
use crate::cassandra::classify::read_error;
use crate::cassandra::conditional::{select, write};
use crate::cassandra::values::time;

/// How far every read goes back.
const NEAR: Duration = Duration::from_secs(2);
/// How far back, and how often, a look goes that is cheap.
const MIDDLE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(2));
/// How often everything since the watermark is looked at.
const WIDE_EVERY: Duration = Duration::from_secs(60);
/// The slices of a look since the watermark.
const SLICE: Duration = Duration::from_secs(60);
/// A slice that cannot be read is halved down to this.
const SLICE_MIN: Duration = Duration::from_secs(1);
/// How far a watermark moves before it is stored again.
const STORE_STEP: Duration = Duration::from_secs(60);

/// From where to read a shard up to `horizon`, the clock's own time.
pub(super) async fn start(
    messages: &Messages,
    shard: u16,
    horizon: Timestamp,
    clock: &dyn Clock,
) -> Result<Timestamp, Error> {
    let mut known = messages.memory.take(shard);
    let elapsed = clock.elapsed();
    let due = |looked: Option<Duration>, every| {
        looked.is_none_or(|looked| elapsed.saturating_sub(looked) >= every)
    };
    let lag = horizon.minus(WATERMARK_LAG);
    let watermark = match known.watermark {
        Some(watermark) => watermark,
        None => stored(messages, shard).await?.map_or(lag, |stored| stored.min(lag)),
    };
    known.watermark = Some(watermark);
    let [middle, wide, full] = known.looked;
    let mut start = known.cursor.unwrap_or(horizon).min(horizon.minus(NEAR));
    if due(full, FULL_READ_EVERY) {
        let first = first_of(messages, shard, slices_before(watermark)).await?;
        start = first.map_or(start, |first| first.min(start));
        known.looked[2] = Some(elapsed);
    }
    if due(wide, WIDE_EVERY) {
        let first = first_of(messages, shard, slices_between(watermark, start)).await?;
        start = first.map_or(start, |first| first.min(start));
        known.looked[1] = Some(elapsed);
    }
    if due(middle, MIDDLE.1) {
        start = start.min(horizon.minus(MIDDLE.0));
        known.looked[0] = Some(elapsed);
    }
    known.cursor = Some(start);
    known.watermark = Some(watermark.min(start));
    messages.memory.put(shard, known);
    Ok(start)
}

/// After a read from `start`: until where no row is left.
pub(super) async fn advance(
    messages: &Messages,
    shard: u16,
    start: Timestamp,
    free_until: Timestamp,
    horizon: Timestamp,
) -> Result<(), Error> {
    let watermark = free_until.min(horizon.minus(WATERMARK_LAG));
    if !messages.memory.advance(shard, start, free_until, watermark, STORE_STEP) {
        return Ok(());
    }
    let values = (i32::from(shard), time(watermark));
    let statement = &messages.statements.put_watermark;
    write(&messages.session, "store a watermark", statement, values).await
}

/// The watermark of a shard: as this process knows it, else as it was last stored.
pub(super) async fn known(messages: &Messages, shard: u16) -> Result<Option<Timestamp>, Error> {
    match messages.memory.watermark(shard) {
        Some(known) => Ok(Some(known)),
        None => stored(messages, shard).await,
    }
}

/// The watermark of a shard as it was last stored, by whichever process.
async fn stored(messages: &Messages, shard: u16) -> Result<Option<Timestamp>, Error> {
    let statement = &messages.statements.watermark;
    let rows = select(&messages.session, statement, (i32::from(shard),)).await?;
    let row = rows.maybe_first_row::<(Option<CqlTimestamp>,)>();
    let row = row.map_err(|error| Error::corrupt(error.to_string()))?;
    Ok(row.and_then(|(time,)| time).map(|time| Timestamp::from_millis(time.0)))
}

/// Milliseconds from one to the other.
type Slice = (i64, i64);

/// All time before a moment, oldest first, in slices that are the longer the older they are:
/// deletions are forgotten with time.
fn slices_before(end: Timestamp) -> Vec<Slice> {
    let mut slices = Vec::new();
    let mut length = i64::try_from(WATERMARK_LAG.as_millis()).unwrap_or(i64::MAX);
    let mut end = end.as_millis();
    while end > 0 {
        let start = end.saturating_sub(length).max(0);
        slices.push((start, end));
        end = start;
        length = length.saturating_mul(2);
    }
    slices.push((i64::MIN, 0));
    slices.reverse();
    slices
}

fn slices_between(start: Timestamp, end: Timestamp) -> Vec<Slice> {
    let length = i64::try_from(SLICE.as_millis()).unwrap_or(i64::MAX);
    let (mut start, end) = (start.as_millis(), end.as_millis());
    let mut slices = Vec::new();
    while start < end {
        let next = start.saturating_add(length).min(end);
        slices.push((start, next));
        start = next;
    }
    slices
}

/// The time of the first row in the slices.
async fn first_of(
    messages: &Messages,
    shard: u16,
    mut slices: Vec<Slice>,
) -> Result<Option<Timestamp>, Error> {
    let narrowest = i64::try_from(SLICE_MIN.as_millis()).unwrap_or(1);
    slices.reverse();
    while let Some((start, end)) = slices.pop() {
        let values = (i32::from(shard), CqlTimestamp(start), CqlTimestamp(end));
        let asked = messages.session.execute_unpaged(&messages.statements.first, values);
        let rows = match Box::pin(asked).await {
            Ok(rows) => rows,
            // Too many deletions for one request.
            Err(error) if is_overwhelmed(&error) && end.saturating_sub(start) > narrowest => {
                let middle = start.max(0).midpoint(end);
                slices.extend([(middle, end), (start, middle)]);
                continue;
            }
            Err(error) => return Err(read_error(error)),
        };
        let rows = rows.into_rows_result().map_err(|error| Error::corrupt(error.to_string()))?;
        let row = rows.maybe_first_row::<(CqlTimestamp,)>();
        if let Some((time,)) = row.map_err(|error| Error::corrupt(error.to_string()))? {
            return Ok(Some(Timestamp::from_millis(time.0)));
        }
    }
    Ok(None)
}

fn is_overwhelmed(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::ReadFailure { .. } | DbError::ReadTimeout { .. },
            _
        ))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_leave_nothing_out() {
        let now = Timestamp::from_millis(1_794_744_000_000);
        let before = slices_before(now);
        assert!(before.len() < 40, "{}", before.len());
        let start = now.minus(WATERMARK_LAG);
        for (slices, first, last) in [
            (before, i64::MIN, now.as_millis()),
            (slices_between(start, now), start.as_millis(), now.as_millis()),
        ] {
            assert_eq!((slices[0].0, slices[slices.len() - 1].1), (first, last));
            assert!(slices.windows(2).all(|pair| pair[0].1 == pair[1].0), "{slices:?}");
        }
    }
}
