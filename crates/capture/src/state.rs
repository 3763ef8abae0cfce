//! What an agent must not forget, in a folder of its own.
//!
//! | file | what |
//! |---|---|
//! | `position.json` | where a restart goes on; replaced in one step after each acknowledged batch |
//! | `schema-*.json` | the schemas seen, by the time they were taken: old records name old tables |
//! | `quarantine/*.json` | records that could not be decoded, with their bytes |
//! | `status.json` | what `helenus capture status` shows; not needed to go on |
//!
//! **Invariant:** the position is on the disk before anything that it lies behind is released.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use helenus_commitlog::{Position, SegmentId};
use helenus_cql::schema::{Catalog, DocumentError};
use helenus_model::{Failure, Kind};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tail::{Place, Undecoded};

/// Schemas that are kept.
const SCHEMAS_MAX: usize = 32;

/// A state folder that cannot be used. Nothing was released.
#[derive(Debug, thiserror::Error)]
#[error("the agent's state in {} cannot be used", path.display())]
pub struct StateError {
    path: PathBuf,
    #[source]
    source: Box<Cause>,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Schema(#[from] DocumentError),
    #[error("it is the state of node {0}")]
    OtherNode(String),
    #[error("another agent uses it")]
    InUse,
}

impl Failure for StateError {
    fn kind(&self) -> Kind {
        match &*self.source {
            Cause::Io(_) | Cause::InUse => Kind::Unavailable,
            Cause::Json(_) | Cause::Schema(_) => Kind::Corrupt,
            Cause::OtherNode(_) => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match &*self.source {
            Cause::Io(_) => "state_unusable",
            Cause::InUse => "state_in_use",
            Cause::Json(_) | Cause::Schema(_) => "state_corrupt",
            Cause::OtherNode(_) => "state_of_other_node",
        }
    }

    fn remedy(&self) -> Option<std::borrow::Cow<'static, str>> {
        Some(std::borrow::Cow::from(match &*self.source {
            Cause::Io(_) => "let this user write there, and free some space",
            Cause::InUse => "stop the other agent, or give each its own capture.state",
            Cause::Json(_) | Cause::Schema(_) => {
                "move the folder away; the agent then starts with the oldest segment in cdc_raw"
            }
            Cause::OtherNode(_) => "give each node's agent its own capture.state",
        }))
    }
}

/// The open folder. One agent holds it at a time.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    node: String,
    /// Segments with damage, which are never released.
    kept: Vec<i64>,
    _lock: File,
}

/// The file that says where a restart goes on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    node: String,
    segment: Option<i64>,
    file_offset: u64,
    logical_offset: u64,
    finished: bool,
    /// Segments with damage, which are never released.
    #[serde(default)]
    kept: Vec<i64>,
}

impl State {
    /// Opens the folder, or makes it.
    pub fn open(folder: &Path, node: &str) -> Result<(Self, Option<Place>, Catalog), StateError> {
        let failed =
            |source: Cause| StateError { path: folder.to_owned(), source: Box::new(source) };
        let io = |error: io::Error| failed(error.into());
        fs::create_dir_all(folder.join("quarantine")).map_err(io)?;
        let lock = File::create(folder.join("lock")).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => failed(Cause::InUse),
            fs::TryLockError::Error(error) => io(error),
        })?;
        let saved = match fs::read(folder.join("position.json")) {
            Ok(bytes) => serde_json::from_slice::<Saved>(&bytes).map_err(|e| failed(e.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Saved::default(),
            Err(error) => return Err(io(error)),
        };
        if !saved.node.is_empty() && saved.node != node {
            return Err(failed(Cause::OtherNode(saved.node)));
        }
        let mut known = Catalog::default();
        for path in schemas(folder).map_err(io)? {
            let text = fs::read_to_string(path).map_err(io)?;
            known.absorb(Catalog::from_document(&text).map_err(|e| failed(e.into()))?);
        }
        let place = saved.segment.map(|segment| Place {
            segment: SegmentId(segment),
            position: Position { file: saved.file_offset, logical: saved.logical_offset },
            finished: saved.finished,
        });
        let state = Self {
            folder: folder.to_owned(),
            node: node.to_owned(),
            kept: saved.kept,
            _lock: lock,
        };
        Ok((state, place, known))
    }

    /// Whether a segment has damage and must stay.
    #[must_use]
    pub fn keeps(&self, segment: SegmentId) -> bool {
        self.kept.contains(&segment.0)
    }

    /// Never lets a segment be released.
    pub fn keep(&mut self, segment: SegmentId) {
        if !self.keeps(segment) {
            self.kept.push(segment.0);
        }
    }

    /// Makes a place durable: it is on the disk when this returns.
    pub fn save(&self, place: Place) -> Result<(), StateError> {
        let saved = Saved {
            node: self.node.clone(),
            segment: Some(place.segment.0),
            file_offset: place.position.file,
            logical_offset: place.position.logical,
            finished: place.finished,
            kept: self.kept.clone(),
        };
        self.replace("position.json", &json!(saved).to_string(), true)
    }

    /// Keeps a schema, so that its tables stay known.
    pub fn remember(&self, document: &str, taken_at_us: i64) -> Result<(), StateError> {
        self.replace(&format!("schema-{taken_at_us:020}.json"), document, true)?;
        let schemas = schemas(&self.folder).map_err(|error| self.failed(error))?;
        let surplus = schemas.len().saturating_sub(SCHEMAS_MAX);
        // The oldest goes on being the base; those right after it are the least missed.
        for path in schemas.iter().skip(1).take(surplus) {
            fs::remove_file(path).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Keeps a record that could not be decoded, with its bytes.
    pub fn quarantine(&self, undecoded: &Undecoded) -> Result<(), StateError> {
        let damage = &undecoded.damage;
        let mut bytes = String::from("0x");
        for byte in &undecoded.bytes {
            use std::fmt::Write as _;
            let _infallible = write!(bytes, "{byte:02x}");
        }
        let document = json!({
            "node": self.node, "segment": damage.segment.0, "offset": damage.offset,
            "table_id": damage.table.map(|id| id.to_string()),
            "reason": damage.reason.to_string(), "bytes": bytes,
        });
        let name = format!("quarantine/{}-{}.json", damage.segment, damage.offset);
        self.replace(&name, &document.to_string(), true)
    }

    /// Keeps a record that the broker refuses.
    pub fn quarantine_refused(
        &self,
        event_id: &str,
        payload: &[u8],
        reason: &str,
    ) -> Result<(), StateError> {
        let payload = String::from_utf8_lossy(payload);
        let document = json!({ "node": self.node, "event": payload, "reason": reason });
        self.replace(&format!("quarantine/event-{event_id}.json"), &document.to_string(), true)
    }

    /// How many files the quarantine holds.
    pub fn quarantined(&self) -> Result<usize, StateError> {
        let entries = fs::read_dir(self.folder.join("quarantine"));
        entries.map(Iterator::count).map_err(|error| self.failed(error))
    }

    /// Writes what `capture status` shows.
    pub fn show(&self, status: &impl Serialize) -> Result<(), StateError> {
        self.replace("status.json", &json!(status).to_string(), false)
    }

    /// Puts a file in place in one step: whoever reads it sees the old text or the new.
    fn replace(&self, name: &str, text: &str, durable: bool) -> Result<(), StateError> {
        let path = self.folder.join(name);
        let fresh = path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            if durable {
                file.sync_all()?;
            }
            fs::rename(&fresh, &path)?;
            match path.parent().filter(|_| durable) {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            }
        };
        write().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> StateError {
        StateError { path: self.folder.clone(), source: Box::new(error.into()) }
    }
}

/// The schemas in the folder, oldest first.
fn schemas(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("schema-") && name.ends_with(".json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(segment: i64, finished: bool) -> Place {
        let position = Position { file: 5, logical: 9 };
        Place { segment: SegmentId(segment), position, finished }
    }

    #[test]
    fn what_was_saved_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        let (mut state, at, known) = State::open(&folder, "n1").unwrap();
        assert_eq!((at, known.tables().count()), (None, 0));
        state.keep(SegmentId(3));
        state.save(place(4, true)).unwrap();
        let document = r#"{"tables": [{"keyspace_name": "ks", "table_name": "t",
            "id": "00000000-0000-0000-0000-000000000001"}], "columns": []}"#;
        state.remember(document, 7).unwrap();
        drop(state);
        let (state, at, known) = State::open(&folder, "n1").unwrap();
        assert_eq!((at, known.tables().count()), (Some(place(4, true)), 1));
        assert!(state.keeps(SegmentId(3)) && !state.keeps(SegmentId(4)));
    }

    #[test]
    fn a_folder_is_one_agent_s_and_one_node_s() {
        let dir = tempfile::tempdir().unwrap();
        let (state, ..) = State::open(dir.path(), "n1").unwrap();
        assert_eq!(State::open(dir.path(), "n1").unwrap_err().code(), "state_in_use");
        state.save(place(4, false)).unwrap();
        drop(state);
        assert_eq!(State::open(dir.path(), "n2").unwrap_err().code(), "state_of_other_node");
        fs::write(dir.path().join("position.json"), "{").unwrap();
        assert_eq!(State::open(dir.path(), "n1").unwrap_err().code(), "state_corrupt");
    }

    #[test]
    fn few_schemas_are_kept_the_first_and_the_latest() {
        let dir = tempfile::tempdir().unwrap();
        let (state, ..) = State::open(dir.path(), "n1").unwrap();
        for taken_at in 0..40 {
            state.remember(r#"{"tables": [], "columns": []}"#, taken_at).unwrap();
        }
        let names = schemas(dir.path()).unwrap();
        assert_eq!(names.len(), SCHEMAS_MAX);
        assert!(names[0].ends_with("schema-00000000000000000000.json"));
        assert!(names[31].ends_with("schema-00000000000000000039.json"));
    }
}
