//! The part of snapshots that both backends share: checking one before it is sent, and telling
//! whether two say the same.

use helenus_model::limits::ID_BYTES_MAX;
use helenus_model::{ContentHash, Fingerprint};

use crate::contract::{NewSnapshot, SnapshotError};

/// A snapshot that can be sent.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) snapshot: NewSnapshot,
    pub(crate) metadata_json: Option<String>,
    /// When it was saved is not part of it.
    pub(crate) content_hash: ContentHash,
}

impl Checked {
    pub(crate) fn new(snapshot: NewSnapshot, bytes_max: usize) -> Result<Checked, SnapshotError> {
        let invalid = |reason: String| SnapshotError::Invalid { reason: reason.into() };
        if snapshot.schema_version < 1 {
            let version = snapshot.schema_version;
            return Err(invalid(format!("a schema version is at least 1, not {version}")));
        }
        for (what, text) in [
            ("a snapshot type", &snapshot.snapshot_type),
            ("a content type", &snapshot.payload.content_type),
        ] {
            if text.is_empty() || text.len() > ID_BYTES_MAX {
                let length = text.len();
                return Err(invalid(format!("{what} has 1 to {ID_BYTES_MAX} bytes, not {length}")));
            }
        }
        let metadata_json =
            snapshot.metadata.as_ref().map(|metadata| serde_json::json!(metadata).to_string());
        let bytes = snapshot.payload.bytes.len() + metadata_json.as_deref().map_or(0, str::len);
        if bytes > bytes_max {
            let (bytes, limit) = (bytes as u64, bytes_max as u64);
            return Err(SnapshotError::TooLarge { bytes, limit });
        }
        let content_hash = Fingerprint::new()
            .text(&snapshot.snapshot_type)
            .number(i64::from(snapshot.schema_version))
            .bytes(&snapshot.payload.bytes)
            .text(&snapshot.payload.content_type)
            .optional(metadata_json.as_deref())
            .hash();
        Ok(Checked { snapshot, metadata_json, content_hash })
    }
}
