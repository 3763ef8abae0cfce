//! `helenus events snapshot`: what a stream had come to.

use std::io::Read;
use std::num::NonZeroU32;

use futures_util::TryStreamExt;
use helenus::store::{NewSnapshot, Saved, Snapshots};
use helenus::{Failure, Kind, Payload, Store, StreamId};
use serde_json::json;

use super::{INPUT_BYTES_MAX, shown};
use crate::args::{SaveSnapshot, Snapshot};
use crate::exit::Failed;
use crate::output::Output;

/// There is none to show.
#[derive(Debug, thiserror::Error)]
#[error("stream '{stream}' has no snapshot")]
struct NoSnapshot {
    stream: StreamId,
}

impl Failure for NoSnapshot {
    fn kind(&self) -> Kind {
        Kind::NotFound
    }

    fn code(&self) -> &'static str {
        "not_found"
    }
}

/// The snapshot's payload, if one is to be saved.
pub(super) fn payload(snapshot: &Snapshot) -> Result<Option<Payload>, Failed> {
    let SaveSnapshot { save, content_type, .. } = &snapshot.saving;
    if !save {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let mut input = std::io::stdin().lock().take(INPUT_BYTES_MAX);
    input.read_to_end(&mut bytes).map_err(Failed::system("read stdin", "check the input"))?;
    Ok(Some(Payload { content_type: content_type.clone(), bytes }))
}

pub(super) async fn run(
    store: &Store,
    snapshot: &Snapshot,
    payload: Option<Payload>,
    output: &Output,
) -> Result<(), Failed> {
    let (stream_id, saving) = (&snapshot.stream, &snapshot.saving);
    if let (Some(payload), Some(version), Some(name)) = (payload, saving.version, &saving.r#type) {
        let new = NewSnapshot {
            schema_version: saving.schema_version,
            ..NewSnapshot::new(stream_id.clone(), version, name.as_str(), payload)
        };
        let outcome = match store.save_snapshot(new).await? {
            Saved::Saved => "saved",
            Saved::AlreadySaved => "already_saved",
        };
        let deleted = prune(store, stream_id, snapshot.keep).await?;
        let version = json!(version);
        output.json_line(
            &json!({ "outcome": outcome, "stream_version": version, "deleted": deleted }),
        );
    } else if snapshot.keep.is_some() {
        let deleted = prune(store, stream_id, snapshot.keep).await?;
        output.json_line(&json!({ "outcome": "pruned", "deleted": deleted }));
    } else if snapshot.list {
        let mut list = Box::pin(store.snapshots(stream_id));
        while let Some(info) = list.try_next().await? {
            output.json_line(&shown::snapshot_info(stream_id, &info));
        }
    } else {
        let latest = store.load_snapshot(stream_id, saving.version).await?;
        let latest = latest.ok_or_else(|| NoSnapshot { stream: stream_id.clone() })?;
        output.json_line(&shown::Snapshot::of(&latest));
    }
    Ok(())
}

async fn prune(
    store: &Store,
    stream_id: &StreamId,
    keep: Option<NonZeroU32>,
) -> Result<u64, Failed> {
    match keep {
        Some(keep) => Ok(store.prune_snapshots(stream_id, keep).await?),
        None => Ok(0),
    }
}
