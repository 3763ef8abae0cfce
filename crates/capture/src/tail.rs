//! The end of a node's log, batch by batch.
//!
//! [`Tail`] knows where the reading is; what has been published, and thus where a restart goes on, is
//! the agent's. It reads segments in the order of their ids, each as far as the node says it is
//! durable, and makes records for the broker of what it finds. It blocks, so the agent runs it beside
//! the runtime.
//!
//! **Invariants:** a segment is left only when it is complete and everything in it was handed out; a
//! record that cannot be decoded is handed out as it is.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_broker::contract::NewRecord;
use helenus_commitlog::{Damage, Position, Reason, Record, SegmentId, mutation};
use helenus_cql::change::{Encode, Origin, schema_version, split};
use helenus_cql::schema::{Catalog, JournalError, Lookup, Table, TableId};
use helenus_model::{Failure, Timestamp};

use crate::announce;
use crate::hints::hints;
use crate::offline::truncations;
use crate::options::Options;
use crate::reader::{Next, ReadError, SegmentReader};
use crate::schema::History;
use crate::segments::{ListError, Segment, index_of, index_path, list};

/// Records of one batch, at most.
const BATCH_RECORDS_MAX: usize = 4_000;
/// Bytes after which a batch ends.
const BATCH_BYTES: usize = 4 << 20;

/// Why the log cannot be followed. Nothing was released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TailError {
    /// The folder.
    #[error(transparent)]
    List(#[from] ListError),
    /// A segment.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A record or section that could not be decoded.
#[derive(Debug, Clone)]
pub struct Undecoded {
    /// Where and why.
    pub damage: Damage,
    /// The record's bytes, where it could be read that far.
    pub bytes: Vec<u8>,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Batch {
    /// For the broker, in this order.
    pub records: Vec<NewRecord>,
    /// What could not be decoded.
    pub undecoded: Vec<Undecoded>,
    /// Where a restart goes on once all of this is done with; nothing in the middle of a section.
    pub position: Option<Place>,
    /// A table or column that the schema does not have: fetch it, then ask again.
    pub needs_schema: bool,
    /// Segments that were removed before they were read.
    pub missing: Vec<SegmentId>,
    /// Segments that cannot be read at all: encrypted, of another version, not segments.
    pub refused: Vec<(SegmentId, ReadError)>,
}

impl Batch {
    /// True if there was nothing to be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.undecoded.is_empty()
            && self.position.is_none()
            && self.missing.is_empty()
            && self.refused.is_empty()
            && !self.needs_schema
    }
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The segment.
    pub segment: SegmentId,
    /// The marker in it.
    pub position: Position,
    /// Everything in it is done with.
    pub finished: bool,
}

/// The end of a node's log.
#[derive(Debug)]
pub struct Tail {
    options: Arc<Options>,
    history: History,
    /// Everything that any schema so far had.
    known: Catalog,
    /// The definition and the topic of each table.
    told: HashMap<TableId, (u32, Arc<str>)>,
    current: Option<Current>,
    /// Where the reading is; nothing before the first segment.
    place: Option<Place>,
    /// Announcements that wait for the next batch.
    waiting: Vec<NewRecord>,
}

#[derive(Debug)]
struct Current {
    segment: SegmentId,
    path: PathBuf,
    reader: SegmentReader,
    /// How far the open section has been handed out.
    open: Option<usize>,
    /// How far the segment was durable when last looked at; never less than before.
    durable: u64,
}

impl Tail {
    /// A tail that goes on at `place`.
    #[must_use]
    pub fn new(
        options: Arc<Options>,
        history: History,
        known: Catalog,
        place: Option<Place>,
    ) -> Self {
        let mut tail = Self {
            options,
            history,
            known,
            told: HashMap::new(),
            current: None,
            place,
            waiting: Vec::new(),
        };
        tail.learn(Timestamp::EPOCH);
        tail
    }

    /// Takes over a newer schema.
    pub fn renew(&mut self, document: &str, now: Timestamp) -> Result<(), JournalError> {
        self.history = History::new(document)?;
        self.learn(now);
        Ok(())
    }

    /// Reads on. `give_up` is set when the schema was fetched for the record that comes first, and
    /// did not help: it is handed out undecoded then.
    pub fn next_batch(&mut self, now: Timestamp, give_up: bool) -> Result<Batch, TailError> {
        let mut batch = Batch { records: std::mem::take(&mut self.waiting), ..Batch::default() };
        let mut give_up = give_up;
        loop {
            if self.current.is_none() && !self.next_segment(&mut batch)? {
                return Ok(batch);
            }
            match self.read_section(now, &mut give_up, &mut batch)? {
                Read::Full => return Ok(batch),
                Read::More => {}
                Read::Waiting => return Ok(batch),
                Read::Finished => self.finish_segment(&mut batch),
            }
        }
    }

    /// Opens the next segment that has something to read; false if there is none.
    fn next_segment(&mut self, batch: &mut Batch) -> Result<bool, TailError> {
        let segments = list(&self.options.cdc_raw)?;
        if let Some(place) = self.place.filter(|place| !place.finished)
            && !segments.iter().any(|segment| segment.id == place.segment)
        {
            batch.missing.push(place.segment);
            self.place = Some(Place { finished: true, ..place });
        }
        let place = self.place;
        let is_next = |segment: &&Segment| match place {
            None => true,
            Some(place) if place.finished => segment.id > place.segment,
            Some(place) => segment.id >= place.segment,
        };
        let newest = segments.iter().rev().find(|segment| segment.index.is_some());
        let newest = newest.map(|segment| segment.id);
        for segment in segments.iter().filter(is_next) {
            // A segment without index has no changes, unless its index came after we looked: indexes
            // appear in the order of the segments, so a second look tells.
            let indexed = segment.index.is_some()
                || newest.is_some_and(|newest| newest > segment.id && has_index(&segment.log));
            let is_open = newest.is_none_or(|newest| segment.id > newest);
            let is_wanted = indexed || (is_open && self.options.read_ahead);
            if !is_wanted {
                continue;
            }
            let mut reader = match SegmentReader::open(&segment.log) {
                Err(error) if error.is_missing() => {
                    batch.missing.push(segment.id);
                    self.pass_over(segment.id, batch);
                    continue;
                }
                Err(error) if error.is_retryable() => return Err(error.into()),
                Err(error) => {
                    batch.refused.push((segment.id, error));
                    self.pass_over(segment.id, batch);
                    continue;
                }
                Ok(reader) => reader,
            };
            if let Some(place) = self.place.filter(|place| place.segment == segment.id) {
                reader.seek(place.position);
            }
            self.current = Some(Current {
                segment: segment.id,
                path: segment.log.clone(),
                reader,
                open: None,
                durable: 0,
            });
            return Ok(true);
        }
        Ok(false)
    }

    /// Leaves a segment that cannot be read.
    fn pass_over(&mut self, segment: SegmentId, batch: &mut Batch) {
        let place = Place { segment, position: Position { file: 0, logical: 0 }, finished: true };
        self.place = Some(place);
        batch.position = Some(place);
    }

    fn finish_segment(&mut self, batch: &mut Batch) {
        let Some(current) = self.current.take() else { return };
        let position = current.reader.position();
        let place = Place { segment: current.segment, position, finished: true };
        self.place = Some(place);
        batch.position = Some(place);
    }

    /// Reads on in the open section, or the next one.
    fn read_section(
        &mut self,
        now: Timestamp,
        give_up: &mut bool,
        batch: &mut Batch,
    ) -> Result<Read, TailError> {
        let Some(mut current) = self.current.take() else { return Ok(Read::Waiting) };
        if current.open.is_none() {
            match current.advance(self.options.read_ahead)? {
                Advanced::Section => {}
                Advanced::Damage(damage) => {
                    batch.undecoded.push(Undecoded { damage, bytes: Vec::new() });
                    self.passed(current, batch);
                    return Ok(Read::More);
                }
                Advanced::Waiting => {
                    self.current = Some(current);
                    return Ok(Read::Waiting);
                }
                Advanced::Finished(damage) => {
                    let damage = damage.map(|damage| Undecoded { damage, bytes: Vec::new() });
                    batch.undecoded.extend(damage);
                    self.current = Some(current);
                    return Ok(Read::Finished);
                }
            }
        }
        let offset = current.open.unwrap_or(0);
        let Some(section) = current.reader.current_section() else {
            current.open = None;
            self.current = Some(current);
            return Ok(Read::More);
        };
        let mut records = section.records().starting_at(offset);
        let mut at = offset;
        let mut size = bytes(&batch.records);
        let full = loop {
            let before = batch.records.len();
            if before >= BATCH_RECORDS_MAX || size >= BATCH_BYTES {
                break true;
            }
            match records.next() {
                None => break false,
                Some(Err(damage)) => {
                    batch.undecoded.push(Undecoded { damage, bytes: Vec::new() });
                }
                Some(Ok(record)) => {
                    let Err(damage) = self.take(&record, now, batch) else {
                        at = records.offset();
                        size += batch.records.get(before..).map_or(0, bytes);
                        *give_up = false;
                        continue;
                    };
                    // Half a record is none.
                    batch.records.truncate(before);
                    if is_schema_lack(&damage) && !*give_up {
                        batch.needs_schema = true;
                        break true;
                    }
                    *give_up = false;
                    batch.undecoded.push(Undecoded { damage, bytes: record.payload.to_vec() });
                }
            }
            at = records.offset();
        };
        if full {
            current.open = Some(at);
            self.current = Some(current);
            return Ok(Read::Full);
        }
        self.passed(current, batch);
        Ok(Read::More)
    }

    /// A section has been handed out.
    fn passed(&mut self, mut current: Current, batch: &mut Batch) {
        current.open = None;
        let position = current.reader.position();
        let place = Place { segment: current.segment, position, finished: false };
        self.place = Some(place);
        batch.position = Some(place);
        self.current = Some(current);
    }

    /// Makes records of a record of the log; of one that fails, perhaps a few.
    fn take(
        &mut self,
        record: &Record<'_>,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<(), Damage> {
        let catalog = self.history.catalog();
        let tables = Tables { now: &catalog, before: &self.known };
        if let ([1, ..], Some(id)) = (record.payload, record.first_table())
            && let Some(table) = tables.table(id)
            && !self.options.captures(table)
            && !is_watched(table)
            && self.options.outbox(table).is_none()
        {
            return Ok(());
        }
        let mutation = mutation::decode(record.payload, record.version, &tables)
            .map_err(|error| undecodable(record, error.table, Reason::Mutation(error)))?;
        let follows = self.history.follow(&mutation);
        let made = &mut batch.records;
        for update in mutation.updates {
            for (id, truncation) in truncations(&update) {
                if let Some(table) = tables.table(id).filter(|table| self.options.captures(table)) {
                    let body = announce::truncated(table, truncation, &self.options.node);
                    made.push(announcement(self.options.topic(table), body, now));
                }
            }
            if let Some(outbox) = self.options.outbox(update.table) {
                made.extend(hints(&update, outbox, &self.options.node, now));
            }
            if !self.options.captures(update.table) {
                continue;
            }
            let table = update.table;
            let (version, topic) = self
                .told
                .entry(table.id)
                .or_insert_with(|| (schema_version(table), self.options.topic(table)))
                .clone();
            let origin = Origin {
                node: Arc::clone(&self.options.node),
                segment: record.segment.0,
                offset: record.end,
                schema_version: version,
            };
            let events = split(update, &origin).map_err(|_| {
                undecodable(record, Some(table.id), Reason::Mutation(Box::new(malformed(table.id))))
            })?;
            made.extend(events.iter().map(|event| NewRecord {
                topic: Arc::clone(&topic),
                key: Some(self.record_key(table, event.key)),
                headers: vec![
                    ("event_id".into(), event.event_id.to_string().into_bytes().into()),
                    ("content-type".into(), self.options.policy.content_type().as_bytes().into()),
                ],
                payload: self.options.policy.encode(event),
                timestamp: written_at(event.timestamp().0, now),
            }));
        }
        match follows {
            Ok(changes) if !changes.is_empty() => {
                self.learn(now);
                batch.records.append(&mut self.waiting);
            }
            Ok(_) => {}
            // The document that is fetched on the next unknown table has the change.
            Err(error) => tracing::warn!(%error, "a schema change in the log cannot be followed"),
        }
        Ok(())
    }

    /// The bytes of the partition key, or a hash of them where a part of it is masked.
    fn record_key(&self, table: &Table, key: &[u8]) -> Vec<u8> {
        use helenus_cql::change::json::Treatment;
        let policy = &self.options.policy;
        let is_masked = |column| policy.treatment(table, column) != Treatment::Keep;
        if table.partition_key.iter().any(is_masked) {
            policy.hash(key).as_bytes().to_vec()
        } else {
            key.to_vec()
        }
    }

    /// Remembers the schema as it is now, and announces what changed.
    fn learn(&mut self, now: Timestamp) {
        let first = self.known.tables().next().is_none();
        let changes = self.known.absorb(Catalog::clone(&self.history.catalog()));
        self.told.clear();
        if first {
            return;
        }
        for change in &changes {
            if let Some((table, body)) = announce::changed(change, &self.known, &self.options.node)
                && self.options.captures(table)
            {
                self.waiting.push(announcement(self.options.topic(table), body, now));
            }
        }
    }
}

/// What became of a section.
enum Read {
    /// The batch is full, or cannot go on without a newer schema.
    Full,
    /// It was handed out.
    More,
    /// There is nothing to read for now.
    Waiting,
    /// The segment is read to its end.
    Finished,
}

enum Advanced {
    Section,
    Damage(Damage),
    Waiting,
    Finished(Option<Damage>),
}

impl Current {
    /// Reads the next section as far as it may be read.
    fn advance(&mut self, read_ahead: bool) -> Result<Advanced, ReadError> {
        let index = index_of(&self.path).unwrap_or(None);
        if let Some(index) = index {
            self.durable = self.durable.max(index.offset);
        }
        // The node has dropped its own name of the file: it will not write to it any more.
        let discarded = std::fs::metadata(&self.path).is_ok_and(|file| file.nlink() == 1);
        let complete = index.is_some_and(|index| index.completed) || (index.is_some() && discarded);
        let until = if complete || read_ahead { None } else { Some(self.durable) };
        let at = self.reader.position();
        let id = self.reader.header().id;
        Ok(match self.reader.next_section(until)? {
            Next::Section(_) => {
                self.open = Some(0);
                Advanced::Section
            }
            Next::Damage(damage) => Advanced::Damage(damage),
            Next::End(_) if !complete => Advanced::Waiting,
            Next::End(end) => {
                let reason = end.reason();
                // What lies behind a torn marker is for a person to look at: the segment is kept.
                Advanced::Finished(reason.map(|reason| Damage {
                    segment: id,
                    offset: at.logical,
                    section: at.file,
                    table: None,
                    reason,
                }))
            }
        })
    }
}

/// Whether there is an index, readable or just being rewritten.
fn has_index(log: &Path) -> bool {
    index_path(log).try_exists().unwrap_or(true)
}

/// Tables as they are now, else as they were.
struct Tables<'a> {
    now: &'a Catalog,
    before: &'a Catalog,
}

impl Lookup for Tables<'_> {
    fn table(&self, id: TableId) -> Option<&Table> {
        self.now.table(id).or_else(|| self.before.table(id))
    }
}

/// Cassandra's own tables that tell of schema changes and truncations.
fn is_watched(table: &Table) -> bool {
    &*table.keyspace == "system_schema" || (&*table.keyspace == "system" && &*table.name == "local")
}

fn bytes(records: &[NewRecord]) -> usize {
    records.iter().map(|record| record.payload.len()).sum()
}

fn announcement(topic: Arc<str>, payload: Vec<u8>, timestamp: Timestamp) -> NewRecord {
    NewRecord { topic, key: None, headers: Vec::new(), payload, timestamp }
}

/// The write time, where it is one: `USING TIMESTAMP` takes anything.
fn written_at(micros: i64, now: Timestamp) -> Timestamp {
    let written = Timestamp::from_micros(micros);
    if (Timestamp::EPOCH..=now).contains(&written) { written } else { now }
}

fn undecodable(record: &Record<'_>, table: Option<TableId>, reason: Reason) -> Damage {
    Damage { segment: record.segment, offset: record.start, section: record.section, table, reason }
}

fn malformed(table: TableId) -> mutation::Error {
    mutation::Error { offset: 0, table: Some(table), kind: mutation::ErrorKind::Columns }
}

fn is_schema_lack(damage: &Damage) -> bool {
    use mutation::ErrorKind::{UnknownColumn, UnknownTable};
    matches!(&damage.reason, Reason::Mutation(error)
        if matches!(error.kind, UnknownTable | UnknownColumn(_)))
}
