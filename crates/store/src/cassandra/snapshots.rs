//! Snapshots in a cluster: one partition a stream, newest first.
//!
//! Rows are written and deleted by lightweight transactions only. Whoever deletes has seen a newer
//! row, so the newest is never deleted, however many save and prune at once and however late what
//! they read is.

use std::num::NonZeroU32;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use helenus_model::limits::APPEND_ATTEMPTS_MAX;
use helenus_model::{Failure, Payload, StreamId, Timestamp, Version};
use scylla::DeserializeRow;
use scylla::value::CqlTimestamp;

use super::append::{head, pause};
use super::classify::{page_error, read_error, request_error};
use super::read::row_error;
use super::rows::{Answer, answer};
use super::{CassandraStore, Error};
use crate::contract::{self, NewSnapshot, Saved, Snapshot, SnapshotError, SnapshotInfo, Snapshots};
use crate::snapshots::Checked;

impl Snapshots for CassandraStore {
    async fn save_snapshot(&self, snapshot: NewSnapshot) -> Result<Saved, SnapshotError> {
        let link = self.link().await.map_err(backend)?;
        let checked = Checked::new(snapshot, link.append_bytes_max)?;
        let NewSnapshot { stream_id, version, .. } = &checked.snapshot;
        // A stream's head only rises: what is reached stays reached.
        let head = head(link, stream_id).await.map_err(backend)?;
        if head < Some(*version) {
            return Err(SnapshotError::BeyondHead { version: *version, head });
        }
        Box::pin(save(self, &checked)).await
    }

    async fn load_snapshot(
        &self,
        stream_id: &StreamId,
        at_most: Option<Version>,
    ) -> Result<Option<Snapshot>, contract::Error> {
        let (link, annex) = self.annex().await?;
        let values = (stream_id.as_str(), at_most.map_or(i64::MAX, Version::as_i64));
        let asked = Box::pin(link.session.execute_unpaged(&annex.snapshots.load, values)).await;
        let rows = asked.map_err(read_error)?.into_rows_result();
        let rows = rows.map_err(|error| Error::corrupt(error.to_string()))?;
        let row = rows.maybe_first_row::<SnapshotRow>();
        let row = row.map_err(|error| Error::corrupt(error.to_string()))?;
        Ok(row.map(|row| row.into_snapshot(stream_id)).transpose()?)
    }

    fn snapshots(
        &self,
        stream_id: &StreamId,
    ) -> impl Stream<Item = Result<SnapshotInfo, contract::Error>> + Send + use<> {
        let (store, stream_id) = (self.clone(), stream_id.clone());
        let open = async move {
            let (link, annex) = store.annex().await?;
            let pager =
                link.session.execute_iter(annex.snapshots.list.clone(), (stream_id.as_str(),));
            let rows = pager.await.map_err(page_error)?.rows_stream::<InfoRow>();
            rows.map_err(|error| Error::corrupt(error.to_string()))
        };
        let opened = stream::once(Box::pin(open));
        let rows = opened.map_ok(|rows| rows.map(|row| row.map_err(row_error))).try_flatten();
        rows.map(|row| Ok(row?.into_info()?))
    }

    async fn prune_snapshots(
        &self,
        stream_id: &StreamId,
        keep: NonZeroU32,
    ) -> Result<u64, contract::Error> {
        let keep = usize::try_from(keep.get()).unwrap_or(usize::MAX);
        let mut old = Box::pin(self.snapshots(stream_id).skip(keep));
        let mut deleted = 0;
        while let Some(info) = old.try_next().await? {
            deleted += u64::from(Box::pin(delete(self, stream_id, info.version)).await?);
        }
        Ok(deleted)
    }
}

fn backend(error: Error) -> SnapshotError {
    SnapshotError::Backend(error.into())
}

/// Inserts it until it is known to be there. Sent again, it finds itself.
async fn save(store: &CassandraStore, checked: &Checked) -> Result<Saved, SnapshotError> {
    let (link, annex) = store.annex().await.map_err(backend)?;
    let NewSnapshot { stream_id, version, snapshot_type, schema_version, payload, .. } =
        &checked.snapshot;
    let text = payload.text();
    let bytes = if text.is_none() { Some(payload.bytes.as_slice()) } else { None };
    let mut failure = None;
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        let values = (
            stream_id.as_str(),
            version.as_i64(),
            snapshot_type,
            schema_version,
            text,
            bytes,
            &payload.content_type,
            &checked.metadata_json,
            CqlTimestamp(store.ports.clock.now().as_millis()),
            checked.content_hash.as_bytes().as_slice(),
        );
        let sent = Box::pin(link.session.execute_unpaged(&annex.snapshots.save, values)).await;
        match sent.map_err(|error| request_error("save a snapshot", error)) {
            Ok(result) => match answer(result).map_err(backend)? {
                Answer::Applied => return Ok(Saved::Saved),
                Answer::Refused(rows) => {
                    let same = rows.iter().any(|row| row.hash() == Some(checked.content_hash));
                    let mismatch = SnapshotError::Mismatch { version: *version };
                    return if same { Ok(Saved::AlreadySaved) } else { Err(mismatch) };
                }
            },
            Err(error) if error.is_retryable() => failure = worse(failure, error),
            Err(error) => return Err(backend(failure.unwrap_or(error))),
        }
    }
    Err(backend(failure.unwrap_or_else(|| Error::corrupt("a snapshot was never sent"))))
}

/// Of two failures the one that leaves more open.
pub(super) fn worse(before: Option<Error>, error: Error) -> Option<Error> {
    before.filter(|before| before.applied().is_none()).or(Some(error))
}

/// Deletes one snapshot; whether it was there. A lost answer counts as one that was not.
async fn delete(
    store: &CassandraStore,
    stream_id: &StreamId,
    version: Version,
) -> Result<bool, Error> {
    let (link, annex) = store.annex().await?;
    let mut failure = None;
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        let values = (stream_id.as_str(), version.as_i64());
        let sent = Box::pin(link.session.execute_unpaged(&annex.snapshots.delete, values)).await;
        match sent.map_err(|error| request_error("delete a snapshot", error)) {
            Ok(result) => return Ok(matches!(answer(result)?, Answer::Applied)),
            Err(error) if error.is_retryable() => failure = worse(failure, error),
            Err(error) => return Err(failure.unwrap_or(error)),
        }
    }
    Err(failure.unwrap_or_else(|| Error::corrupt("a deletion was never sent")))
}

#[derive(Debug, DeserializeRow)]
struct InfoRow {
    stream_version: i64,
    snapshot_type: Option<String>,
    schema_version: Option<i32>,
    saved_at_utc: Option<CqlTimestamp>,
}

impl InfoRow {
    fn into_info(self) -> Result<SnapshotInfo, Error> {
        let number = self.stream_version;
        let damaged = || Error::corrupt(format!("snapshot of version {number}"));
        Ok(SnapshotInfo {
            version: Version::new(number).ok_or_else(damaged)?,
            snapshot_type: self.snapshot_type.ok_or_else(damaged)?,
            schema_version: self.schema_version.ok_or_else(damaged)?,
            saved_at: Timestamp::from_millis(self.saved_at_utc.ok_or_else(damaged)?.0),
        })
    }
}

#[derive(Debug, DeserializeRow)]
struct SnapshotRow {
    stream_version: i64,
    snapshot_type: Option<String>,
    schema_version: Option<i32>,
    payload: Option<String>,
    payload_bytes: Option<Vec<u8>>,
    content_type: Option<String>,
    metadata_json: Option<String>,
    saved_at_utc: Option<CqlTimestamp>,
}

impl SnapshotRow {
    fn into_snapshot(self, stream_id: &StreamId) -> Result<Snapshot, Error> {
        let SnapshotRow { stream_version, snapshot_type, schema_version, saved_at_utc, .. } = self;
        let info = InfoRow { stream_version, snapshot_type, schema_version, saved_at_utc };
        let SnapshotInfo { version, snapshot_type, schema_version, saved_at } = info.into_info()?;
        let damaged = |what: &dyn std::fmt::Display| {
            Error::corrupt(format!("snapshot of stream {stream_id}, version {version}: {what}"))
        };
        let bytes = self.payload.map(String::into_bytes).or(self.payload_bytes);
        let metadata = self.metadata_json.map(|text| serde_json::from_str(&text)).transpose();
        Ok(Snapshot {
            stream_id: stream_id.clone(),
            version,
            snapshot_type,
            schema_version,
            payload: Payload {
                content_type: self.content_type.ok_or_else(|| damaged(&"no content type"))?,
                bytes: bytes.ok_or_else(|| damaged(&"no payload"))?,
            },
            metadata: metadata.map_err(|error| damaged(&error))?,
            saved_at,
        })
    }
}
