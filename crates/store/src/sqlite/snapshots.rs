//! Snapshots in the file.

use std::num::NonZeroU32;

use futures_util::{Stream, TryStreamExt, stream};
use helenus_model::{ContentHash, Payload, StreamId, Timestamp, Version};
use helenus_sqlite::Error;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use super::SqliteStore;
use super::events::write::{extent, stored_version};
use crate::contract::{self, NewSnapshot, Saved, Snapshot, SnapshotError, SnapshotInfo, Snapshots};
use crate::snapshots::Checked;

impl Snapshots for SqliteStore {
    async fn save_snapshot(&self, snapshot: NewSnapshot) -> Result<Saved, SnapshotError> {
        let (checked, now) = (Checked::new(snapshot, self.bounds.append_bytes_max)?, self.now());
        self.engine.write(move |db| save(db, &checked, now)).await
    }

    async fn load_snapshot(
        &self,
        stream_id: &StreamId,
        at_most: Option<Version>,
    ) -> Result<Option<Snapshot>, contract::Error> {
        let stream_id = stream_id.clone();
        Ok(self.engine.read(move |db| load(db, &stream_id, at_most)).await?)
    }

    fn snapshots(
        &self,
        stream_id: &StreamId,
    ) -> impl Stream<Item = Result<SnapshotInfo, contract::Error>> + Send + use<> {
        let (engine, stream_id) = (self.engine.clone(), stream_id.clone());
        let pages = stream::try_unfold(i64::MAX, move |below| {
            let (engine, stream_id) = (engine.clone(), stream_id.clone());
            async move {
                let page = engine.read(move |db| list(db, &stream_id, below)).await?;
                let next = page.last().map(|info| info.version.as_i64());
                let page = page.into_iter().map(Ok::<_, contract::Error>);
                Ok::<_, contract::Error>(next.map(|next| (stream::iter(page), next)))
            }
        });
        pages.try_flatten()
    }

    async fn prune_snapshots(
        &self,
        stream_id: &StreamId,
        keep: NonZeroU32,
    ) -> Result<u64, contract::Error> {
        let stream_id = stream_id.clone();
        self.engine.write(move |db| prune(db, &stream_id, keep)).await
    }
}

fn save(db: &Connection, checked: &Checked, now: Timestamp) -> Result<Saved, SnapshotError> {
    let NewSnapshot { stream_id, version, .. } = &checked.snapshot;
    let head = extent(db, stream_id)?.map(|extent| extent.head);
    if head < Some(*version) {
        return Err(SnapshotError::BeyondHead { version: *version, head });
    }
    let stored: Option<Vec<u8>> = db
        .prepare_cached(
            "SELECT content_hash FROM helenus_event_snapshots
             WHERE stream_id = ?1 AND stream_version = ?2",
        )?
        .query_row(params![stream_id.as_str(), version.as_i64()], |row| row.get(0))
        .optional()?;
    match stored.map(|hash| ContentHash::from_bytes(&hash)) {
        Some(hash) if hash == Some(checked.content_hash) => Ok(Saved::AlreadySaved),
        Some(_) => Err(SnapshotError::Mismatch { version: *version }),
        None => insert(db, checked, now).map(|()| Saved::Saved),
    }
}

fn insert(db: &Connection, checked: &Checked, now: Timestamp) -> Result<(), SnapshotError> {
    let snapshot = &checked.snapshot;
    let mut insert = db.prepare_cached(
        "INSERT INTO helenus_event_snapshots VALUES
             (:stream_id, :version, :type, :schema_version, :payload, :content_type, :metadata,
              :saved_at, :content_hash)",
    )?;
    insert.execute(named_params! {
        ":stream_id": snapshot.stream_id.as_str(),
        ":version": snapshot.version.as_i64(),
        ":type": snapshot.snapshot_type,
        ":schema_version": snapshot.schema_version,
        ":payload": snapshot.payload.bytes,
        ":content_type": snapshot.payload.content_type,
        ":metadata": checked.metadata_json,
        ":saved_at": now.as_millis(),
        ":content_hash": checked.content_hash.as_bytes().as_slice(),
    })?;
    Ok(())
}

fn load(
    db: &Connection,
    stream_id: &StreamId,
    at_most: Option<Version>,
) -> Result<Option<Snapshot>, Error> {
    let mut query = db.prepare_cached(
        "SELECT stream_version, snapshot_type, schema_version, saved_at_utc, payload, content_type,
                metadata_json
         FROM helenus_event_snapshots
         WHERE stream_id = ?1 AND stream_version <= ?2 ORDER BY stream_version DESC LIMIT 1",
    )?;
    let at_most = at_most.map_or(i64::MAX, Version::as_i64);
    let mut rows = query.query(params![stream_id.as_str(), at_most])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let SnapshotInfo { version, snapshot_type, schema_version, saved_at } = info(stream_id, row)?;
    let metadata: Option<String> = row.get("metadata_json")?;
    let metadata = metadata.map(|text| serde_json::from_str(&text)).transpose();
    Ok(Some(Snapshot {
        stream_id: stream_id.clone(),
        version,
        snapshot_type,
        schema_version,
        payload: Payload { content_type: row.get("content_type")?, bytes: row.get("payload")? },
        metadata: metadata.map_err(|error| Error::Corrupt {
            message: format!("snapshot of stream {stream_id}, version {version}: {error}"),
        })?,
        saved_at,
    }))
}

/// The newest snapshot's version.
pub(super) fn latest(db: &Connection, stream_id: &StreamId) -> Result<Option<Version>, Error> {
    let newest: Option<i64> = db
        .prepare_cached(
            "SELECT max(stream_version) FROM helenus_event_snapshots WHERE stream_id = ?1",
        )?
        .query_row([stream_id.as_str()], |row| row.get(0))?;
    newest.map(|number| stored_version(stream_id, number)).transpose()
}

/// Snapshots listed at once.
const PAGE: u32 = 100;

fn list(db: &Connection, stream_id: &StreamId, below: i64) -> Result<Vec<SnapshotInfo>, Error> {
    let mut query = db.prepare_cached(
        "SELECT stream_version, snapshot_type, schema_version, saved_at_utc
         FROM helenus_event_snapshots
         WHERE stream_id = ?1 AND stream_version < ?2 ORDER BY stream_version DESC LIMIT ?3",
    )?;
    let mut rows = query.query(params![stream_id.as_str(), below, PAGE])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        page.push(info(stream_id, row)?);
    }
    Ok(page)
}

fn info(stream_id: &StreamId, row: &Row<'_>) -> Result<SnapshotInfo, Error> {
    Ok(SnapshotInfo {
        version: stored_version(stream_id, row.get("stream_version")?)?,
        snapshot_type: row.get("snapshot_type")?,
        schema_version: row.get("schema_version")?,
        saved_at: Timestamp::from_millis(row.get("saved_at_utc")?),
    })
}

fn prune(db: &Connection, stream_id: &StreamId, keep: NonZeroU32) -> Result<u64, contract::Error> {
    let deleted = db
        .prepare_cached(
            "DELETE FROM helenus_event_snapshots WHERE stream_id = ?1 AND stream_version <=
                 (SELECT stream_version FROM helenus_event_snapshots WHERE stream_id = ?1
                  ORDER BY stream_version DESC LIMIT 1 OFFSET ?2)",
        )
        .and_then(|mut delete| delete.execute(params![stream_id.as_str(), keep.get()]))
        .map_err(Error::from)?;
    Ok(deleted as u64)
}

impl From<Error> for SnapshotError {
    fn from(error: Error) -> Self {
        SnapshotError::Backend(error.into())
    }
}

impl From<rusqlite::Error> for SnapshotError {
    fn from(error: rusqlite::Error) -> Self {
        Error::from(error).into()
    }
}
