//! The end of a node's log, batch by batch.
//!
//! [`Tail`] knows where the reading is; what has been published, and thus where a restart goes on, is
//! the agent's. It reads segments in the order of their ids, each as far as the node says it is
//! durable, and makes records for the broker of what it finds. It blocks, so the agent runs it beside
//! the runtime.
//!
//! **Invariants:** a segment is left only when it is complete and everything in it was handed out; a
//! record that cannot be decoded is handed out as it is.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use helenus_broker::contract::NewRecord;
use helenus_commitlog::{Damage, Position, Reason, Record, SegmentId, mutation};
use helenus_cql::change::{Origin, split_from};
use helenus_cql::schema::{JournalError, Lookup, Table, TableId};
use helenus_cql::update::PartitionUpdate;
use helenus_model::{Failure, Timestamp};

use crate::current::{Advanced, Current};
use crate::done::Done;
use crate::hints::hints;
use crate::knowledge::{Knowledge, Learned, Taken};
use crate::offline::{Truncation, truncations};
use crate::options::Options;
use crate::reader::{ReadError, SegmentReader};
use crate::records::Records;
use crate::schema::History;
use crate::segments::{ListError, index_path, list};
use crate::state::Resume;

/// Records of one batch, at most. Larger ones no longer fit the caches: 4,000 take a fifth more time of
/// the processors, and 300 as much, because each batch is waited for.
const BATCH_RECORDS_MAX: usize = 1_000;
/// Bytes after which a batch ends.
const BATCH_BYTES: usize = 1 << 20;

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
    /// A column that is to be masked has another name from here on.
    #[error("{column} is to be masked, and was renamed")]
    Unmasked {
        /// As `keyspace.table.column`.
        column: String,
    },
}

/// Why a newer schema was not taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenewError {
    #[error("what the node answered is no schema")]
    Document(#[from] JournalError),
    #[error(transparent)]
    List(#[from] ListError),
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
    /// Records tell of what changed of tables up to this schema.
    pub announces_us: Option<i64>,
    /// A table or column that the schema does not have: fetch it, then ask again.
    pub needs_schema: bool,
    /// Segments that were removed before they were read to their end.
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
            && self.announces_us.is_none()
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
}

/// The end of a node's log.
#[derive(Debug)]
pub struct Tail {
    options: Arc<Options>,
    knowledge: Knowledge,
    current: Option<Current>,
    /// Where the reading was in a segment that is not open.
    place: Option<Place>,
    /// Segments that are done with.
    done: Done,
    /// Segments that were handed out to their end and are not done with yet.
    finished: BTreeSet<SegmentId>,
    records: Records,
    /// Announcements that wait for the next batch.
    waiting: Vec<NewRecord>,
    /// The schema that is gone by, and whether the next batch tells of something up to it.
    schema_us: i64,
    announces: bool,
}

impl Tail {
    /// A tail that goes on where an agent was. True if it has to go back in its segment, because a table
    /// is captured now that was passed over.
    pub fn new(
        options: Arc<Options>,
        history: History,
        mut resume: Resume,
        taken_at_us: i64,
        now: Timestamp,
    ) -> Result<(Self, bool), ListError> {
        let newest = newest(&options)?;
        let (place, done) = (resume.place.take(), std::mem::take(&mut resume.done));
        let (knowledge, Learned { announcements, gained }) =
            Knowledge::new(Arc::clone(&options), history, resume, taken_at_us, newest, now);
        let tail = Self {
            records: Records::new(Arc::clone(&options)),
            options,
            knowledge,
            current: None,
            place: place.filter(|place| !gained && !done.contains(place.segment)),
            done,
            finished: BTreeSet::new(),
            waiting: announcements,
            schema_us: taken_at_us,
            announces: true,
        };
        Ok((tail, gained && place.is_some()))
    }

    /// Takes over a newer schema. True if the segments that are not done with are read again from their
    /// beginning, because a table is captured now that was passed over.
    pub(crate) fn renew(&mut self, taken: Taken<'_>, now: Timestamp) -> Result<bool, RenewError> {
        let newest = newest(&self.options)?;
        let learned = self.knowledge.renew(taken, newest, now)?;
        self.waiting.extend(learned.announcements);
        (self.schema_us, self.announces) = (taken.at_us, true);
        if learned.gained {
            // What has lost its name cannot be opened again; it is read on.
            self.current.take_if(|current| !current.is_unnamed);
            self.place = None;
            self.finished.clear();
        }
        Ok(learned.gained)
    }

    /// Takes what the node tells of emptied tables.
    pub(crate) fn look_at(&mut self, truncations: Vec<(TableId, Truncation)>, now: Timestamp) {
        let Some(told) = self.knowledge.look_at(truncations, now) else { return };
        // Also where nobody is to be told: a table may be captured later, and that would be news then.
        self.announces = true;
        self.waiting.extend(told);
    }

    /// What this tail knows of tables.
    pub(crate) const fn knowledge(&mut self) -> &mut Knowledge {
        &mut self.knowledge
    }

    /// Whether segments were handed out to their end that are not done with.
    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Takes back the records of a batch that is published.
    pub(crate) fn reuse(&mut self, published: Vec<NewRecord>) {
        self.records.reuse(published, BATCH_RECORDS_MAX);
    }

    /// Everything that was finished is done with; others are `there`.
    pub(crate) fn settle(&mut self, there: &[SegmentId]) -> Vec<SegmentId> {
        let finished: Vec<SegmentId> = std::mem::take(&mut self.finished).into_iter().collect();
        finished.iter().for_each(|segment| self.done.insert(*segment));
        self.done.trim(there);
        finished
    }

    /// Reads on. `give_up` is set when the schema was fetched for the record that comes first, and
    /// did not help: it is handed out undecoded then.
    pub fn next_batch(&mut self, now: Timestamp, give_up: bool) -> Result<Batch, TailError> {
        if let Some(column) = self.knowledge.unmasked().cloned() {
            return Err(TailError::Unmasked { column });
        }
        let mut batch = Batch {
            records: std::mem::take(&mut self.waiting),
            announces_us: std::mem::take(&mut self.announces).then_some(self.schema_us),
            ..Batch::default()
        };
        let mut give_up = give_up;
        loop {
            match self.read_on(now, &mut give_up, &mut batch) {
                Ok(Read::Full | Read::Waiting) => return Ok(batch),
                Ok(Read::More) => {}
                Ok(Read::Finished) => self.finish_segment(&mut batch),
                // What was read before is handed out first: the segments it is from may be finished. The
                // error comes again.
                Err(_) if !batch.is_empty() => return Ok(batch),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads on in the open segment, or in the next one.
    fn read_on(
        &mut self,
        now: Timestamp,
        give_up: &mut bool,
        batch: &mut Batch,
    ) -> Result<Read, TailError> {
        if self.current.is_none() && !self.next_segment(batch)? {
            return Ok(Read::Waiting);
        }
        self.read_section(now, give_up, batch)
    }

    /// Opens the next segment that has something to read; false if there is none.
    fn next_segment(&mut self, batch: &mut Batch) -> Result<bool, TailError> {
        let segments = list(&self.options.cdc_raw)?;
        if let Some(place) = self.place
            && !segments.iter().any(|segment| segment.id == place.segment)
        {
            // It is not done with: a node that is restarted may bring it back.
            batch.missing.push(place.segment);
            self.place = None;
        }
        let newest = segments.iter().rev().find(|segment| segment.index.is_some());
        let newest = newest.map(|segment| segment.id);
        for segment in &segments {
            if self.done.contains(segment.id) || self.finished.contains(&segment.id) {
                continue;
            }
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
            if let Some(place) = self.place.take_if(|place| place.segment == segment.id) {
                reader.seek(place.position);
            }
            self.current = Some(Current::new(segment, reader));
            return Ok(true);
        }
        Ok(false)
    }

    /// Leaves a segment that cannot be read.
    fn pass_over(&mut self, segment: SegmentId, batch: &mut Batch) {
        self.place.take_if(|place| place.segment == segment);
        self.finished.insert(segment);
        batch.position = Some(Place { segment, position: Position { file: 0, logical: 0 } });
    }

    fn finish_segment(&mut self, batch: &mut Batch) {
        let Some(current) = self.current.take() else { return };
        self.finished.insert(current.segment);
        batch.position = Some(current.place());
    }

    /// Reads on in the open section, or the next one.
    fn read_section(
        &mut self,
        now: Timestamp,
        give_up: &mut bool,
        batch: &mut Batch,
    ) -> Result<Read, TailError> {
        let Some(mut current) = self.current.take() else { return Ok(Read::Waiting) };
        if current.open.is_some() {
            return Ok(self.hand_out(current, now, give_up, batch));
        }
        let advanced = match current.advance(self.options.read_ahead) {
            Ok(advanced) => advanced,
            Err(error) => {
                // It is opened again, and read from here; without its name it cannot be.
                if current.is_unnamed {
                    self.current = Some(current);
                } else {
                    self.place = Some(current.place());
                }
                return Err(error);
            }
        };
        Ok(match advanced {
            Advanced::Section => self.hand_out(current, now, give_up, batch),
            Advanced::Damage(damage) => {
                batch.undecoded.push(Undecoded { damage, bytes: Vec::new() });
                self.passed(current, batch);
                Read::More
            }
            Advanced::Removed => {
                batch.missing.push(current.segment);
                self.current = Some(current);
                Read::Waiting
            }
            Advanced::Waiting => {
                self.current = Some(current);
                Read::Waiting
            }
            Advanced::Finished(damage) => {
                let damage = damage.map(|damage| Undecoded { damage, bytes: Vec::new() });
                batch.undecoded.extend(damage);
                self.current = Some(current);
                Read::Finished
            }
        })
    }

    /// Hands out the records of the open section, until the batch is full.
    fn hand_out(
        &mut self,
        mut current: Current,
        now: Timestamp,
        give_up: &mut bool,
        batch: &mut Batch,
    ) -> Read {
        let offset = current.open.unwrap_or(0);
        let Some(section) = current.reader.current_section() else {
            current.open = None;
            self.current = Some(current);
            return Read::More;
        };
        let mut records = section.records().starting_at(offset);
        let mut at = offset;
        let mut size = bytes(&batch.records);
        let full = loop {
            let before = batch.records.len();
            let is_full =
                before + batch.undecoded.len() >= BATCH_RECORDS_MAX || size >= BATCH_BYTES;
            if is_full || self.knowledge.unmasked().is_some() {
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
                    if is_schema_lack(&damage) {
                        if !*give_up && !self.knowledge.is_hopeless(damage.table) {
                            batch.needs_schema = true;
                            break true;
                        }
                        self.knowledge.give_up(damage.table);
                    }
                    *give_up = false;
                    size += record.payload.len();
                    batch.undecoded.push(Undecoded { damage, bytes: record.payload.to_vec() });
                }
            }
            at = records.offset();
        };
        if full {
            current.open = Some(at);
            self.current = Some(current);
            return Read::Full;
        }
        self.passed(current, batch);
        Read::More
    }

    /// A section has been handed out.
    fn passed(&mut self, mut current: Current, batch: &mut Batch) {
        current.open = None;
        batch.position = Some(current.place());
        self.current = Some(current);
    }

    /// Makes records of a record of the log; of one that fails, perhaps a few.
    fn take(
        &mut self,
        record: &Record<'_>,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<(), Damage> {
        let tables = self.knowledge.tables();
        if let ([1, ..], Some(id)) = (record.payload, record.first_table())
            && let Some(table) = tables.table(id)
            && !self.knowledge.captures(table, record.segment)
            && !is_watched(table)
            && self.options.outbox(table).is_none()
        {
            return Ok(());
        }
        let mutation = mutation::decode(record.payload, record.version, &tables)
            .map_err(|error| undecodable(record, error.table, Reason::Mutation(error)))?;
        let announcements = self.knowledge.follow(&mutation, now);
        let mut next = 0;
        for update in mutation.updates {
            for (id, truncation) in truncations(&update) {
                if let Some(told) = self.knowledge.emptied(id, truncation, now) {
                    batch.records.push(told);
                    batch.announces_us = Some(self.schema_us);
                }
            }
            if let Some(outbox) = self.options.outbox(update.table) {
                batch.records.extend(hints(&update, outbox, &self.options.node, now));
            }
            if self.knowledge.captures(update.table, record.segment) {
                self.publish(update, record, &mut next, now, batch)?;
            }
        }
        batch.records.extend(announcements);
        Ok(())
    }

    /// Makes records of the changes of one table.
    fn publish(
        &mut self,
        update: PartitionUpdate<'_>,
        record: &Record<'_>,
        next: &mut u32,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<(), Damage> {
        let table = update.table;
        let (version, topic) = self.knowledge.told(table);
        let origin = Origin {
            node: Arc::clone(&self.options.node),
            segment: record.segment.0,
            offset: record.end,
            schema_version: version,
        };
        let events = split_from(update, &origin, next).map_err(|_| {
            undecodable(record, Some(table.id), Reason::Mutation(Box::new(malformed(table.id))))
        })?;
        let records = &mut self.records;
        batch.records.extend(events.iter().map(|event| records.make(event, &topic, now)));
        Ok(())
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

/// The newest segment in the folder.
fn newest(options: &Options) -> Result<Option<SegmentId>, ListError> {
    Ok(list(&options.cdc_raw)?.last().map(|segment| segment.id))
}

/// Whether there is an index, readable or just being rewritten.
fn has_index(log: &Path) -> bool {
    index_path(log).try_exists().unwrap_or(true)
}

/// Cassandra's own tables that tell of schema changes and truncations.
fn is_watched(table: &Table) -> bool {
    &*table.keyspace == "system_schema" || (&*table.keyspace == "system" && &*table.name == "local")
}

fn bytes(records: &[NewRecord]) -> usize {
    records.iter().map(|record| record.payload.len()).sum()
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
