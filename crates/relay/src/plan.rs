//! What of the due messages goes into the next transaction. No I/O.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use helenus_broker::contract::NewRecord;
use helenus_broker::partition;
use helenus_model::Message;
use helenus_store::contract::Pending;

use crate::Options;
use crate::record::{take_record, topic};

/// Bytes of the records in a transaction, at most; a single record may be larger.
const RECORD_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of the ids in a marker, at most: a marker is a record, and topics have limits.
const MARKER_BYTES: usize = 512 * 1024;
/// Events that a lane remembers as published.
const EVENTS_REMEMBERED: usize = 100_000;

/// Messages and their records, place by place.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) messages: Vec<Pending>,
    pub(crate) records: Vec<NewRecord>,
}

impl Batch {
    fn push(&mut self, message: Pending, record: NewRecord) {
        self.messages.push(message);
        self.records.push(record);
    }
}

/// What to do next.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// To be published, in this order.
    pub(crate) publish: Batch,
    /// Of events that have been published; not to be published.
    pub(crate) skip: Vec<Pending>,
}

/// Takes from the front of `due` what fits into one transaction of `count` messages.
pub(crate) fn plan(due: Vec<Pending>, count: usize, options: &Options, events: &Events) -> Plan {
    let mut plan = Plan::default();
    let (mut record_bytes, mut marker_bytes) = (0, 0);
    let mut told = HashSet::new();
    for mut pending in due {
        if let Some(event) = event(&pending.message, options) {
            if events.contains(&event) {
                plan.skip.push(pending);
                continue;
            }
            // Whether it is to be skipped is known once the first one is published.
            if !told.insert(event) {
                break;
            }
        }
        let name = topic(&pending.message, options);
        let topic = match plan.publish.records.last() {
            Some(last) if *last.topic == *name => Arc::clone(&last.topic),
            _ => name.into(),
        };
        let record = take_record(&mut pending.message, topic);
        record_bytes += record.bytes_max();
        // Quotes, a comma, and room for what JSON escapes.
        marker_bytes += 3 + 2 * pending.message.message_id.as_str().len();
        let is_full = plan.publish.records.len() >= count
            || record_bytes > RECORD_BYTES
            || marker_bytes > MARKER_BYTES;
        if is_full && !plan.publish.records.is_empty() {
            break;
        }
        plan.publish.push(pending, record);
    }
    plan
}

/// What makes messages wait for each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// Every message waits for every one before it.
    pub(crate) all: bool,
    /// The messages of a partition wait for each other, in topics with so many partitions.
    pub(crate) partitions: HashMap<Arc<str>, u32>,
}

/// A line in which messages wait for those before them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Line {
    All,
    Key(String),
    Partition(Arc<str>, u32),
}

impl Lines {
    fn of(&self, message: &Message, record: &NewRecord) -> impl Iterator<Item = Line> + use<> {
        let key = message.ordering_key.clone().map(Line::Key);
        let partition = self.partitions.get(&record.topic).map(|count| {
            let key = record.key.as_deref().unwrap_or_default();
            Line::Partition(Arc::clone(&record.topic), partition::of_key(key, *count))
        });
        key.into_iter().chain(partition).chain(self.all.then_some(Line::All))
    }
}

/// Takes out the messages at these places, and leaves out of the rest what waits for them.
pub(crate) fn without(
    batch: Batch,
    places: &HashSet<usize>,
    lines: &Lines,
) -> (Vec<Pending>, Batch) {
    let mut waiting = HashSet::new();
    let (mut refused, mut rest) = (Vec::new(), Batch::default());
    let planned = batch.messages.into_iter().zip(batch.records);
    for (place, (pending, record)) in planned.enumerate() {
        let mut own = lines.of(&pending.message, &record);
        if places.contains(&place) {
            waiting.extend(own);
            refused.push(pending);
        } else if !own.any(|line| waiting.contains(&line)) {
            rest.push(pending, record);
        }
    }
    (refused, rest)
}

/// What names the event a message tells of, where its metadata say so.
pub(crate) fn event(message: &Message, options: &Options) -> Option<String> {
    if !options.deduplicate {
        return None;
    }
    let named = |name: &str| message.metadata.get(name).map(String::as_str);
    let event_id = named("event_id")?;
    let aggregate_type = named("aggregate_type").unwrap_or_default();
    let aggregate_id =
        named("aggregate_id").or(message.ordering_key.as_deref()).unwrap_or_default();
    // One event may be told to several channels.
    Some(format!("{}/{aggregate_type}:{aggregate_id}:{event_id}", message.channel_id))
}

/// The events a lane has published lately.
#[derive(Debug, Default)]
pub(crate) struct Events {
    known: HashSet<String>,
    by_age: VecDeque<String>,
}

impl Events {
    pub(crate) fn contains(&self, event: &str) -> bool {
        self.known.contains(event)
    }

    pub(crate) fn remember(&mut self, event: String) {
        if self.known.insert(event.clone()) {
            self.by_age.push_back(event);
        }
        if self.by_age.len() > EVENTS_REMEMBERED
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
