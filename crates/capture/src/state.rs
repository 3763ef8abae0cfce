//! What an agent must not forget, in a folder of its own.
//!
//! | file | what |
//! |---|---|
//! | `position.json` | where a restart goes on; replaced in one step, some time after a batch was acknowledged |
//! | `schema-*.json` | the schemas seen, by the time they were taken: old records name old tables |
//! | `quarantine/*` | records that could not be decoded, with their bytes, and refused events |
//! | `status.json` | what `helenus capture status` shows; not needed to go on |
//!
//! **Invariant:** the position is on the disk before anything that it lies behind is released.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use helenus_commitlog::{Damage, Position, SegmentId};
use helenus_cql::schema::{Catalog, DocumentError, TableId};
use helenus_model::{Failure, Kind};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::done::Done;
use crate::offline::Truncation;
use crate::tail::{Place, Undecoded};

/// The file that says where a restart goes on.
const POSITION: &str = "position.json";

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
    saved: Saved,
    /// What is on the disk of it.
    written: Option<String>,
    _lock: File,
}

/// The file that says where a restart goes on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Saved {
    node: String,
    /// The segment being read, and the marker in it.
    segment: Option<i64>,
    file_offset: u64,
    logical_offset: u64,
    /// Segments that are done with.
    done: Done,
    /// Segments with damage, which are never released.
    kept: Vec<i64>,
    /// Tables whose capture was switched off, and the segment up to which it may have been on.
    ending: BTreeMap<Uuid, i64>,
    /// Where tables are known to have been emptied: segment, offset, milliseconds since 1970.
    truncated: BTreeMap<Uuid, (i64, u64, i64)>,
    /// The newest schema of which everything was announced, by the time it was taken.
    announced_us: i64,
}

/// What an agent goes on from.
#[derive(Debug, Default)]
pub struct Resume {
    /// No agent was here before.
    pub is_first: bool,
    /// Where it was in a segment.
    pub place: Option<Place>,
    /// Segments that are done with.
    pub done: Done,
    /// The schemas seen, oldest first.
    pub documents: Vec<Remembered>,
    /// Tables that are captured up to a segment only.
    pub ending: HashMap<TableId, SegmentId>,
    /// Where tables are known to have been emptied.
    pub truncated: HashMap<TableId, Truncation>,
}

/// A schema that was seen.
#[derive(Debug)]
pub struct Remembered {
    /// What it said.
    pub catalog: Catalog,
    /// When it was taken, in microseconds.
    pub at_us: i64,
    /// Whether everybody was told of what it changed.
    pub announced: bool,
}

impl State {
    /// Opens the folder, or makes it.
    pub fn open(folder: &Path, node: &str) -> Result<(Self, Resume), StateError> {
        let failed =
            |source: Cause| StateError { path: folder.to_owned(), source: Box::new(source) };
        let io = |error: io::Error| failed(error.into());
        fs::create_dir_all(folder.join("quarantine")).map_err(io)?;
        let lock = File::create(folder.join("lock")).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => failed(Cause::InUse),
            fs::TryLockError::Error(error) => io(error),
        })?;
        let mut saved = match fs::read(folder.join(POSITION)) {
            Ok(bytes) => serde_json::from_slice::<Saved>(&bytes).map_err(|e| failed(e.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Saved::default(),
            Err(error) => return Err(io(error)),
        };
        let is_first = saved.node.is_empty();
        if !is_first && saved.node != node {
            return Err(failed(Cause::OtherNode(saved.node)));
        }
        node.clone_into(&mut saved.node);
        let seen = documents(folder)?.into_iter();
        let mut documents: Vec<Remembered> = seen
            .map(|(at_us, catalog)| Remembered {
                catalog,
                at_us,
                announced: at_us <= saved.announced_us,
            })
            .collect();
        // Of the first there was nothing to be told.
        if let Some(first) = documents.first_mut() {
            first.announced = true;
        }
        let resume = Resume { is_first, documents, ..saved.resume() };
        Ok((Self { folder: folder.to_owned(), saved, written: None, _lock: lock }, resume))
    }

    /// Whether an agent holds the folder at the moment; nothing is changed.
    #[must_use]
    pub fn is_in_use(folder: &Path) -> bool {
        let lock = File::open(folder.join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Whether a segment has damage and must stay.
    #[must_use]
    pub fn keeps(&self, segment: SegmentId) -> bool {
        self.saved.kept.contains(&segment.0)
    }

    /// Never lets a segment be released.
    pub fn keep(&mut self, segment: SegmentId) {
        if !self.keeps(segment) {
            self.saved.kept.push(segment.0);
        }
    }

    /// The segments that are done with.
    #[must_use]
    pub fn done(&self) -> &Done {
        &self.saved.done
    }

    /// Segments are done with; others are `there`.
    pub fn finish(&mut self, segments: &[SegmentId], there: &[SegmentId]) {
        segments.iter().for_each(|segment| self.saved.done.insert(*segment));
        self.saved.done.trim(there);
    }

    /// Goes on here after a restart, or at the beginning of what is not done with.
    pub fn go_on_at(&mut self, place: Option<Place>) {
        self.saved.segment = place.map(|place| place.segment.0);
        let Position { file, logical } =
            place.map_or(Position { file: 0, logical: 0 }, |place| place.position);
        (self.saved.file_offset, self.saved.logical_offset) = (file, logical);
    }

    /// Tables that are captured up to a segment only; true if they are others than before.
    pub fn ending(&mut self, tables: impl Iterator<Item = (TableId, SegmentId)>) -> bool {
        let ending = tables.map(|(table, until)| (table.0, until.0)).collect();
        let changed = self.saved.ending != ending;
        self.saved.ending = ending;
        changed
    }

    /// Everybody was told of what changed up to this schema.
    pub fn announced(&mut self, at_us: i64) {
        self.saved.announced_us = self.saved.announced_us.max(at_us);
    }

    /// Whoever is to be told that these tables were emptied was; true if they are others than before.
    pub fn emptied(&mut self, truncated: &HashMap<TableId, Truncation>) -> bool {
        let entries = truncated.iter().map(|(table, Truncation { segment, offset, at_ms })| {
            (table.0, (segment.0, *offset, *at_ms))
        });
        let truncated = entries.collect();
        let changed = self.saved.truncated != truncated;
        self.saved.truncated = truncated;
        changed
    }

    /// Makes all of this durable: it is on the disk when this returns.
    pub fn save(&mut self) -> Result<(), StateError> {
        let text = json!(self.saved).to_string();
        if self.written.as_ref() != Some(&text) {
            self.replace(POSITION, &text, true)?;
            self.written = Some(text);
        }
        Ok(())
    }

    /// When this schema was first seen; `now` if the last one was another.
    pub fn time_of(&self, document: &str, now_us: i64) -> Result<i64, StateError> {
        let schemas = schemas(&self.folder).map_err(|error| self.failed(error))?;
        let Some((at_us, path)) = schemas.last() else { return Ok(now_us) };
        let last = fs::read_to_string(path).map_err(|error| self.failed(error))?;
        Ok(if undated(&last) == undated(document) { *at_us } else { now_us.max(at_us + 1) })
    }

    /// Keeps a schema, so that its tables stay known.
    pub fn remember(&self, document: &str, at_us: i64) -> Result<(), StateError> {
        let name = format!("schema-{at_us:020}.json");
        if self.folder.join(&name).try_exists().map_err(|error| self.failed(error))? {
            return Ok(());
        }
        self.replace(&name, document, true)?;
        let schemas = schemas(&self.folder).map_err(|error| self.failed(error))?;
        let surplus = schemas.len().saturating_sub(SCHEMAS_MAX);
        // The oldest goes on being the base; those right after it are the least missed.
        for (_, path) in schemas.iter().skip(1).take(surplus) {
            fs::remove_file(path).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Keeps records that could not be decoded, with their bytes: a file for all of a batch.
    pub fn quarantine(&self, undecoded: &[Undecoded]) -> Result<(), StateError> {
        let Some(first) = undecoded.first() else { return Ok(()) };
        let mut lines = String::new();
        for Undecoded { damage, bytes } in undecoded {
            let document = json!({
                "node": self.saved.node, "segment": damage.segment.0, "offset": damage.offset,
                "table_id": damage.table.map(|id| id.to_string()),
                "reason": damage.reason.to_string(), "bytes": hex(bytes),
            });
            let _infallible = writeln!(lines, "{document}");
        }
        let Damage { segment, offset, .. } = first.damage;
        self.replace(&format!("quarantine/{segment}-{offset}.jsonl"), &lines, true)
    }

    /// Keeps a record that the broker refuses.
    pub fn quarantine_refused(
        &self,
        event_id: &str,
        payload: &[u8],
        reason: &str,
    ) -> Result<(), StateError> {
        let payload = String::from_utf8_lossy(payload);
        let document = json!({ "node": self.saved.node, "event": payload, "reason": reason });
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
            // Values that are masked elsewhere may be in it.
            let mut file =
                File::options().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
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

impl Saved {
    fn resume(&self) -> Resume {
        let position = Position { file: self.file_offset, logical: self.logical_offset };
        let ending = self.ending.iter().map(|(id, until)| (TableId(*id), SegmentId(*until)));
        let truncated = self.truncated.iter().map(|(id, (segment, offset, at_ms))| {
            let (segment, offset, at_ms) = (SegmentId(*segment), *offset, *at_ms);
            (TableId(*id), Truncation { segment, offset, at_ms })
        });
        Resume {
            place: self.segment.map(|segment| Place { segment: SegmentId(segment), position }),
            done: self.done.clone(),
            ending: ending.collect(),
            truncated: truncated.collect(),
            ..Resume::default()
        }
    }
}

/// A schema without the time it was taken, which stands on its first line.
fn undated(document: &str) -> &str {
    match document.split_once('\n') {
        Some((first, rest)) if first.starts_with("{\"taken_at_us\"") => rest,
        _ => document,
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// What the schemas in an agent's folder say, with the times they were taken, oldest first; nothing if
/// there is no such folder.
pub(crate) fn documents(folder: &Path) -> Result<Vec<(i64, Catalog)>, StateError> {
    let failed = |source: Cause| StateError { path: folder.to_owned(), source: Box::new(source) };
    let schemas = match schemas(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        schemas => schemas.map_err(|error| failed(error.into()))?,
    };
    let read = |(at_us, path)| {
        let text = fs::read_to_string(path).map_err(|error| failed(error.into()))?;
        Ok((at_us, Catalog::from_document(&text).map_err(|error| failed(error.into()))?))
    };
    schemas.into_iter().map(read).collect()
}

/// The schemas in the folder with the times they were taken, oldest first.
fn schemas(folder: &Path) -> io::Result<Vec<(i64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let time = name.and_then(|name| name.strip_prefix("schema-")?.strip_suffix(".json"));
        if let Some(at_us) = time.and_then(|time| time.parse().ok()) {
            found.push((at_us, path));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(segment: i64) -> Place {
        let position = Position { file: 5, logical: 9 };
        Place { segment: SegmentId(segment), position }
    }

    fn document(table: u8) -> String {
        format!(
            r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "t",
            "id": "00000000-0000-0000-0000-0000000000{table:02}"}}], "columns": []}}"#
        )
    }

    #[test]
    fn what_was_saved_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        let (mut state, resume) = State::open(&folder, "n1").unwrap();
        assert!(resume.is_first && resume.place.is_none() && resume.documents.is_empty());
        let table = TableId(Uuid::from_u128(1));
        let truncation = Truncation { segment: SegmentId(4), offset: 7, at_ms: 8 };
        state.keep(SegmentId(3));
        state.finish(&[SegmentId(2), SegmentId(3)], &[]);
        state.go_on_at(Some(place(4)));
        state.ending([(table, SegmentId(5))].into_iter());
        state.announced(6);
        assert!(state.emptied(&[(table, truncation)].into()));
        assert!(!state.emptied(&[(table, truncation)].into()));
        state.save().unwrap();
        for (number, at_us) in [(1, 5), (2, 6), (3, 7)] {
            state.remember(&document(number), at_us).unwrap();
        }
        drop(state);
        let (state, resume) = State::open(&folder, "n1").unwrap();
        assert_eq!((resume.is_first, resume.place), (false, Some(place(4))));
        assert!(resume.done.contains(SegmentId(2)) && !resume.done.contains(SegmentId(4)));
        assert_eq!(resume.ending, [(table, SegmentId(5))].into());
        assert_eq!(resume.truncated, [(table, truncation)].into());
        let told: Vec<_> = resume.documents.iter().map(|it| (it.at_us, it.announced)).collect();
        assert_eq!(told, [(5, true), (6, true), (7, false)]);
        assert!(state.keeps(SegmentId(3)) && !state.keeps(SegmentId(4)));
    }

    #[test]
    fn a_folder_is_one_agent_s_and_one_node_s() {
        let dir = tempfile::tempdir().unwrap();
        let (mut state, ..) = State::open(dir.path(), "n1").unwrap();
        assert_eq!(State::open(dir.path(), "n1").unwrap_err().code(), "state_in_use");
        assert!(State::is_in_use(dir.path()));
        state.save().unwrap();
        drop(state);
        assert!(!State::is_in_use(dir.path()));
        assert_eq!(State::open(dir.path(), "n2").unwrap_err().code(), "state_of_other_node");
        fs::write(dir.path().join("position.json"), "{").unwrap();
        assert_eq!(State::open(dir.path(), "n1").unwrap_err().code(), "state_corrupt");
    }

    #[test]
    fn what_is_on_the_disk_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut state, ..) = State::open(dir.path(), "n1").unwrap();
        let path = dir.path().join(POSITION);
        let is_written = |state: &mut State| {
            state.save().unwrap();
            fs::remove_file(&path).is_ok()
        };
        assert!(is_written(&mut state), "the folder is tried before anything is published");
        assert!(!is_written(&mut state));
        state.go_on_at(Some(place(4)));
        assert!(is_written(&mut state));
        assert!(!is_written(&mut state));
    }

    #[test]
    fn few_schemas_are_kept_the_first_and_the_latest() {
        let dir = tempfile::tempdir().unwrap();
        let (state, ..) = State::open(dir.path(), "n1").unwrap();
        for at_us in 0..40 {
            state.remember(&document(u8::try_from(at_us).unwrap()), at_us).unwrap();
        }
        let times: Vec<i64> = schemas(dir.path()).unwrap().into_iter().map(|(at, _)| at).collect();
        assert_eq!(times.len(), SCHEMAS_MAX);
        assert_eq!((times[0], times[31]), (0, 39));
    }

    #[test]
    fn a_schema_that_is_the_same_again_is_not_kept_twice() {
        let dir = tempfile::tempdir().unwrap();
        let (state, ..) = State::open(dir.path(), "n1").unwrap();
        let taken = |at: i64, table| {
            document(table).replacen('{', &format!("{{\"taken_at_us\": {at},\n"), 1)
        };
        for (at, table, time) in [(5, 1, 5), (8, 1, 5), (9, 2, 9), (10, 1, 10)] {
            let document = taken(at, table);
            assert_eq!(state.time_of(&document, at).unwrap(), time);
            state.remember(&document, time).unwrap();
        }
        assert_eq!(schemas(dir.path()).unwrap().len(), 3);
    }

    #[test]
    fn what_an_agent_keeps_is_for_its_own_user_to_read() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (state, ..) = State::open(dir.path(), "n1").unwrap();
        state.quarantine_refused("id", b"secret", "too large").unwrap();
        let file = dir.path().join("quarantine/event-id.json");
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
