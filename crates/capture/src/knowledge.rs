//! What an agent knows of tables: how to decode them, whether their changes are published, and what has
//! been told of them.
//!
//! It comes from documents, which say how things are but not since when, and from the log's own DDL,
//! which says exactly since when but may lie in a segment that nobody reads, because it holds no changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use helenus_broker::contract::NewRecord;
use helenus_commitlog::{Mutation, SegmentId};
use helenus_cql::change::schema_version;
use helenus_cql::schema::{ByTable, Catalog, Change, JournalError, Lookup, Table, TableId};
use helenus_model::Timestamp;
use serde_json::Value;

use crate::announce;
use crate::offline::Truncation;
use crate::options::Options;
use crate::schema::{History, is_schema};
use crate::segments::list;
use crate::state::{Remembered, Resume};

/// Tables as they are now, else as they were.
#[derive(Debug)]
pub(crate) struct Tables {
    now: Arc<Catalog>,
    before: Arc<Catalog>,
}

impl Lookup for Tables {
    fn table(&self, id: TableId) -> Option<&Table> {
        self.now.table(id).or_else(|| self.before.table(id))
    }
}

/// A document, and when it was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken<'a> {
    pub(crate) document: &'a str,
    pub(crate) at_us: i64,
}

/// What came of a document.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// What changed, for whoever reads the topics of the tables.
    pub(crate) announcements: Vec<NewRecord>,
    /// A table whose changes were passed over is captured now: since when, nobody knows.
    pub(crate) gained: bool,
}

#[derive(Debug)]
pub(crate) struct Knowledge {
    options: Arc<Options>,
    history: History,
    /// Everything that any schema so far had.
    known: Arc<Catalog>,
    /// Tables whose changes are published; where capture was switched off, up to this segment: when
    /// exactly, a document does not say.
    captured: ByTable<Option<SegmentId>>,
    /// The definition and the topic of each table.
    told: ByTable<(u32, Arc<str>)>,
    /// Up to where each table is known to have been emptied.
    truncated: HashMap<TableId, Truncation>,
    /// Tables that not even the newest document has.
    unknown: HashSet<TableId>,
    /// A column that is to be masked and that its table no longer has.
    unmasked: Option<String>,
}

impl Knowledge {
    /// What was known before, and a document of now. `newest` is the newest segment in the folder.
    pub(crate) fn new(
        options: Arc<Options>,
        history: History,
        resume: Resume,
        taken_at_us: i64,
        newest: Option<SegmentId>,
        now: Timestamp,
    ) -> (Self, Learned) {
        let mut own = Self {
            options,
            history,
            known: Arc::default(),
            captured: ByTable::default(),
            told: ByTable::default(),
            truncated: resume.truncated,
            unknown: HashSet::new(),
            unmasked: None,
        };
        let mut announcements = Vec::new();
        let is_new = resume.documents.is_empty();
        for Remembered { catalog, at_us, announced } in resume.documents {
            let told = own.learn(catalog, at_us, now, |id| resume.ending.get(&id).copied());
            if !announced {
                announcements.extend(told.announcements);
            }
        }
        // Those of which no document that is left tells, too.
        own.captured.extend(resume.ending.iter().map(|(id, until)| (*id, Some(*until))));
        let catalog = Catalog::clone(&own.history.catalog());
        let told = own.learn(catalog, taken_at_us, now, |_| newest);
        // To whoever has seen no document before, nothing has changed.
        if !is_new {
            announcements.extend(told.announcements);
        }
        (own, Learned { announcements, gained: told.gained })
    }

    /// Takes over a newer document.
    pub(crate) fn renew(
        &mut self,
        taken: Taken<'_>,
        newest: Option<SegmentId>,
        now: Timestamp,
    ) -> Result<Learned, JournalError> {
        self.history = History::new(taken.document)?;
        let catalog = Catalog::clone(&self.history.catalog());
        Ok(self.learn(catalog, taken.at_us, now, |_| newest))
    }

    /// The schema that is gone by.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.history.catalog()
    }

    /// The tables to decode a record with.
    pub(crate) fn tables(&self) -> Tables {
        Tables { now: self.history.catalog(), before: Arc::clone(&self.known) }
    }

    /// Whether the changes of a table in this segment are published.
    pub(crate) fn captures(&self, table: &Table, segment: SegmentId) -> bool {
        match self.captured.get(&table.id) {
            Some(until) => until.is_none_or(|until| segment <= until),
            None => false,
        }
    }

    /// The number of a table's definition, and its topic.
    pub(crate) fn told(&mut self, table: &Table) -> (u32, Arc<str>) {
        let options = &self.options;
        let fresh = || (schema_version(table), options.topic(table));
        self.told.entry(table.id).or_insert_with(fresh).clone()
    }

    /// Follows DDL in the log; what it changes, for whoever reads the topics.
    pub(crate) fn follow(&mut self, mutation: &Mutation<'_>, now: Timestamp) -> Vec<NewRecord> {
        if !mutation.updates.iter().any(|update| is_schema(update.table)) {
            return Vec::new();
        }
        let before = self.history.catalog();
        if let Err(error) = self.history.follow(mutation) {
            // The document that is fetched on the next unknown table has the change.
            tracing::warn!(%error, "a schema change in the log cannot be followed");
            return Vec::new();
        }
        self.recall();
        let catalog = self.history.catalog();
        if Arc::ptr_eq(&before, &catalog) {
            return Vec::new();
        }
        self.unmasked = self.options.policy.unknown(&catalog).0.into_iter().next();
        // Tables that were gone before any document was taken are no change, and captured all the same.
        for table in catalog.tables().filter(|table| self.known.table(table.id).is_none()) {
            if self.options.captures(table) {
                self.captured.insert(table.id, None);
            }
        }
        // Compared with everything that was known: the log's own history may begin after a table went.
        let changes = Arc::make_mut(&mut self.known).absorb(Catalog::clone(&catalog));
        let times = mutation.updates.iter().filter_map(|update| update.write_times());
        let written_us = times.map(|(_, last)| last.0).max().unwrap_or_default();
        for change in &changes {
            let (Change::Created(id) | Change::Altered(id) | Change::Recreated { new: id, .. }) =
                change
            else {
                continue;
            };
            match catalog.table(*id) {
                Some(table) if self.options.captures(table) => self.captured.insert(*id, None),
                // From here on; what came before was published.
                _ => self.captured.remove(id),
            };
        }
        self.announce(&changes, written_us, now)
    }

    /// Tables that were captured for a while between two documents, neither of which tells of it. Since
    /// when they are not, nobody knows: what the folder holds now is published.
    fn recall(&mut self) {
        let is_new = |id: &TableId| !self.captured.contains_key(id);
        let known = self.history.captured_before().filter(is_new);
        let known = known.filter_map(|id| self.known.table(id));
        let wanted = known.filter(|table| self.options.wants(table)).map(|table| table.id);
        let wanted: Vec<TableId> = wanted.collect();
        if wanted.is_empty() {
            return;
        }
        let newest = list(&self.options.cdc_raw).ok().and_then(|found| Some(found.last()?.id));
        self.captured.extend(wanted.into_iter().map(|id| (id, newest)));
    }

    /// A table was emptied, as the log tells; nothing if that is known, or nobody reads its topic.
    pub(crate) fn emptied(
        &mut self,
        id: TableId,
        truncation: Truncation,
        now: Timestamp,
    ) -> Option<NewRecord> {
        if self.truncated.get(&id).is_some_and(|known| *known >= truncation) {
            return None;
        }
        self.empty(id, truncation, now)
    }

    fn empty(&mut self, id: TableId, truncation: Truncation, now: Timestamp) -> Option<NewRecord> {
        self.truncated.insert(id, truncation);
        let tables = self.tables();
        let table = tables.table(id).filter(|table| self.captured.contains_key(&table.id))?;
        let event = announce::truncated(table, truncation, &self.options.node);
        Some(announcement(self.options.topic(table), &event, now))
    }

    /// The truncations that the node itself tells of, which are the last ones, whatever their segments'
    /// ids: its clock may have been set back. What is to be told of them; nothing if all are known.
    pub(crate) fn look_at(
        &mut self,
        mut truncations: Vec<(TableId, Truncation)>,
        now: Timestamp,
    ) -> Option<Vec<NewRecord>> {
        truncations.retain(|(id, truncation)| self.truncated.get(id) != Some(truncation));
        if truncations.is_empty() {
            return None;
        }
        let told = truncations.into_iter().filter_map(|(id, it)| self.empty(id, it, now));
        Some(told.collect())
    }

    /// A column that is to be masked and was renamed: from here on it would be published as it is.
    pub(crate) fn unmasked(&self) -> Option<&String> {
        self.unmasked.as_ref()
    }

    /// Whether nobody could say what this table is, since the last document that is another.
    pub(crate) fn is_hopeless(&self, table: Option<TableId>) -> bool {
        table.is_some_and(|id| self.unknown.contains(&id))
    }

    pub(crate) fn give_up(&mut self, table: Option<TableId>) {
        self.unknown.extend(table);
    }

    /// A document that may know what those before did not.
    pub(crate) fn hope_again(&mut self) {
        self.unknown.clear();
    }

    /// What is to be remembered: where tables were emptied.
    pub(crate) fn truncations(&self) -> &HashMap<TableId, Truncation> {
        &self.truncated
    }

    /// What is to be remembered: tables that are captured up to some segment.
    pub(crate) fn ending(&self) -> impl Iterator<Item = (TableId, SegmentId)> {
        self.captured.iter().filter_map(|(id, until)| Some((*id, (*until)?)))
    }

    /// Takes over a newer state of everything. Until which segment a table that is no longer captured
    /// still is, `until` says; not at all where it says nothing.
    fn learn(
        &mut self,
        catalog: Catalog,
        at_us: i64,
        now: Timestamp,
        until: impl Fn(TableId) -> Option<SegmentId>,
    ) -> Learned {
        let before: HashSet<TableId> = self.known.tables().map(|table| table.id).collect();
        let changes = Arc::make_mut(&mut self.known).absorb(catalog);
        let mut gained = false;
        for table in self.known.tables() {
            if self.options.captures(table) {
                let is_new = self.captured.insert(table.id, None) != Some(None);
                // Of a table that nobody knew nothing was passed over.
                gained |= is_new && before.contains(&table.id);
            } else if self.captured.get(&table.id) == Some(&None) {
                match until(table.id) {
                    Some(until) => self.captured.insert(table.id, Some(until)),
                    None => self.captured.remove(&table.id),
                };
            }
        }
        Learned { announcements: self.announce(&changes, at_us, now), gained }
    }

    fn announce(&mut self, changes: &[Change], at_us: i64, now: Timestamp) -> Vec<NewRecord> {
        self.told.clear();
        let told = changes.iter().filter_map(|change| {
            let (table, event) = announce::changed(change, &self.known, &self.options.node, at_us)?;
            let is_captured = self.options.captures(table) || self.captured.contains_key(&table.id);
            is_captured.then(|| announcement(self.options.topic(table), &event, now))
        });
        told.collect()
    }
}

/// The record of an announcement; it is JSON, whatever changes are written as.
fn announcement(topic: Arc<str>, event: &Value, timestamp: Timestamp) -> NewRecord {
    let id = event.get("event_id").and_then(Value::as_str).unwrap_or_default();
    let headers = vec![
        ("event_id".into(), id.as_bytes().to_vec().into()),
        ("content-type".into(), b"application/json".into()),
    ];
    let payload = event.to_string().into_bytes();
    NewRecord { topic, key: None, headers, payload, timestamp }
}
