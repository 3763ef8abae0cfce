//! Retiring events in the file: each step is one transaction that moves a bounded number of them
//! and says so in the stream's head, so there is nothing to repair after a crash.
//!
//! The feed goes on over retired events. Archived ones keep their number and are read from the
//! archive; of dropped ones their numbers are kept, as ranges, so that nobody takes a gap for the
//! end of the world or passes over it unawares.

mod dropping;

use std::ops::Range;
use std::time::Duration;

use futures_util::{Stream, stream};
use helenus_model::limits::{ARCHIVE_CHUNK, EVENT_PAGE_BYTES};
use helenus_model::{StreamId, Timestamp, Version};
use helenus_sqlite::{Engine, Error};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::events::write::{extent, stored_version};
use super::snapshots::latest;
use crate::contract::{
    self, Cut, Disposal, Extent, Retention, Retire, RetireError, RetirePlan, RetireStep,
};

impl Retention for SqliteStore {
    async fn extent(&self, stream_id: &StreamId) -> Result<Option<Extent>, contract::Error> {
        let stream_id = stream_id.clone();
        Ok(self.engine.read(move |db| extent(db, &stream_id)).await?)
    }

    async fn plan(&self, retire: &Retire) -> Result<RetirePlan, RetireError> {
        let retire = retire.clone();
        self.engine.read(move |db| Ok(plan(db, &retire)?.0)).await
    }

    fn retire(
        &self,
        retire: Retire,
    ) -> impl Stream<Item = Result<RetireStep, RetireError>> + Send + use<> {
        stream::try_unfold((self.clone(), retire, false), |state| async move {
            let (store, mut retire, mut begun) = state;
            if !begun {
                retire = settled(&store.engine, retire).await?;
                begun = true;
            }
            let (work, now, window) = (retire.clone(), store.now(), store.bounds.operation_window);
            let step = store.engine.write(move |db| step(db, &work, now, window)).await?;
            Ok(step.map(|step| (step, (store, retire, begun))))
        })
    }
}

/// The request with its cut as a version: one that moves with time or appends might never end.
async fn settled(engine: &Engine, retire: Retire) -> Result<Retire, RetireError> {
    let asked = retire.clone();
    let (plan, _) = engine.read(move |db| plan(db, &asked)).await?;
    Ok(Retire { cut: Cut::Before(plan.before), ..retire })
}

fn plan(db: &Connection, retire: &Retire) -> Result<(RetirePlan, Extent), RetireError> {
    let stream_id = &retire.stream_id;
    let extent = extent(db, stream_id)?.ok_or(RetireError::NoStream)?;
    let cut = match (retire.cut_of(extent)?, retire.cut) {
        (Some(cut), _) => cut,
        (None, Cut::OlderThan(time)) => first_since(db, stream_id, extent, time)?,
        (None, _) => extent.truncated_before,
    };
    let plan = retire.plan_of(extent, cut, latest(db, stream_id)?)?;
    if retire.disposal == Disposal::Drop && !retire.forced {
        dropping::check_subscriptions(db, &plan)?;
    }
    Ok((plan, extent))
}

/// The first event that was not appended before `time`; one past the last where all were.
fn first_since(
    db: &Connection,
    stream_id: &StreamId,
    extent: Extent,
    time: Timestamp,
) -> Result<Version, Error> {
    for table in [ARCHIVE, STREAMS] {
        let found: Option<i64> = db
            .prepare_cached(&format!(
                "SELECT stream_version FROM {table}
                 WHERE stream_id = ?1 AND appended_at_utc >= ?2 ORDER BY stream_version LIMIT 1"
            ))?
            .query_row(params![stream_id.as_str(), time.as_millis()], |row| row.get(0))
            .optional()?;
        if let Some(number) = found {
            return stored_version(stream_id, number);
        }
    }
    Ok(extent.head.next())
}

const STREAMS: &str = "helenus_event_streams";
const ARCHIVE: &str = "helenus_event_archive";

/// Retires as many events as one transaction should; `None` when there are none left.
fn step(
    db: &Connection,
    retire: &Retire,
    now: Timestamp,
    window: Duration,
) -> Result<Option<RetireStep>, RetireError> {
    let (plan, old) = plan(db, retire)?;
    if plan.events() == 0 {
        return Ok(None);
    }
    let (table, end) = if plan.from < old.truncated_before {
        (ARCHIVE, plan.before.min(old.truncated_before))
    } else {
        (STREAMS, plan.before)
    };
    let chunk = bounded(db, table, &plan.stream_id, plan.from..end)?;
    let new = old.cut(chunk.end, plan.disposal);
    match plan.disposal {
        Disposal::Archive => archive(db, &plan.stream_id, &chunk)?,
        Disposal::Drop => dropping::drop(db, table, &plan.stream_id, &chunk, now, window)?,
    }
    db.prepare_cached(
        "UPDATE helenus_event_heads SET archived_from = ?2, truncated_before = ?3
         WHERE stream_id = ?1",
    )?
    .execute(params![
        plan.stream_id.as_str(),
        new.archived_from.as_i64(),
        new.truncated_before.as_i64()
    ])?;
    Ok(Some(RetireStep::Truncated { before: chunk.end }))
}

/// The beginning of `versions` that is not too much for one transaction.
fn bounded(
    db: &Connection,
    table: &str,
    stream_id: &StreamId,
    versions: Range<Version>,
) -> Result<Range<Version>, Error> {
    let mut query = db.prepare_cached(&format!(
        "SELECT stream_version, length(payload) FROM {table}
         WHERE stream_id = ?1 AND stream_version >= ?2 AND stream_version < ?3
         ORDER BY stream_version LIMIT ?4"
    ))?;
    let (low, high) = (versions.start.as_i64(), versions.end.as_i64());
    let mut rows = query.query(params![stream_id.as_str(), low, high, ARCHIVE_CHUNK])?;
    let (mut end, mut bytes) = (versions.start, 0_usize);
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if number != end.as_i64() {
            break;
        }
        end = end.next();
        bytes = bytes.saturating_add(usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0));
        if bytes >= EVENT_PAGE_BYTES {
            break;
        }
    }
    if end == versions.start {
        let message = format!("stream {stream_id}: version {end} is missing from {table}");
        return Err(Error::Corrupt { message });
    }
    Ok(versions.start..end)
}

/// All columns of an event, in the stream and in the archive.
const COLUMNS: &str = "global_sequence, stream_id, stream_version, event_type, payload, \
     occurred_at_utc, appended_at_utc, event_id, schema_version, content_type, correlation_id, \
     causation_id, tenant_id, metadata_json, operation_id, operation_count, content_hash";

/// Copies events into the archive, compares, and deletes the originals.
fn archive(
    db: &Connection,
    stream_id: &StreamId,
    versions: &Range<Version>,
) -> Result<(), RetireError> {
    let within = "WHERE stream_id = ?1 AND stream_version >= ?2 AND stream_version < ?3";
    let values = params![stream_id.as_str(), versions.start.as_i64(), versions.end.as_i64()];
    db.prepare_cached(&format!(
        "INSERT INTO {ARCHIVE} ({COLUMNS}) SELECT {COLUMNS} FROM {STREAMS} {within}"
    ))?
    .execute(values)?;
    let differing: Option<i64> = db
        .prepare_cached(&format!(
            "SELECT stream_version FROM (SELECT {COLUMNS} FROM {STREAMS} {within}
                 EXCEPT SELECT {COLUMNS} FROM {ARCHIVE} {within}) ORDER BY stream_version LIMIT 1"
        ))?
        .query_row(values, |row| row.get(0))
        .optional()?;
    if let Some(number) = differing {
        return Err(RetireError::CopyDiffers { version: stored_version(stream_id, number)? });
    }
    db.prepare_cached(&format!("DELETE FROM {STREAMS} {within}"))?.execute(values)?;
    Ok(())
}

impl From<Error> for RetireError {
    fn from(error: Error) -> Self {
        RetireError::Backend(error.into())
    }
}

impl From<rusqlite::Error> for RetireError {
    fn from(error: rusqlite::Error) -> Self {
        Error::from(error).into()
    }
}
