//! Change events as records for the broker, in memory that is used again.
//!
//! A batch is up to a thousand records of several pieces each, made in one thread and done with in
//! another: what allocators are slowest at.

use std::sync::Arc;

use helenus_broker::contract::NewRecord;
use helenus_cql::change::json::{Policy, Treatment};
use helenus_cql::change::{ChangeEvent, Encode};
use helenus_cql::schema::Table;
use helenus_model::Timestamp;
use uuid::Uuid;

use crate::options::Options;

/// Records with room for more are not kept: most events are small, and a few large ones must not stay.
const SPARE_BYTES_MAX: usize = 4 << 10;

/// Makes records.
#[derive(Debug)]
pub(crate) struct Records {
    options: Arc<Options>,
    /// Records that are done with.
    spare: Vec<NewRecord>,
}

impl Records {
    pub(crate) const fn new(options: Arc<Options>) -> Self {
        Self { options, spare: Vec::new() }
    }

    /// Takes back records that nobody needs any more, of which `most` are kept.
    pub(crate) fn reuse(&mut self, done: Vec<NewRecord>, most: usize) {
        let small = done.into_iter().filter(|record| {
            let key = record.key.as_ref().map_or(0, Vec::capacity);
            key + record.payload.capacity() <= SPARE_BYTES_MAX
        });
        self.spare.extend(small.take(most.saturating_sub(self.spare.len())));
    }

    /// The record of an event. It is dated when it is published, not when it was written: brokers remove
    /// what is old, and a write may have any time.
    pub(crate) fn make(
        &mut self,
        event: &ChangeEvent<'_>,
        topic: &Arc<str>,
        now: Timestamp,
    ) -> NewRecord {
        let policy = &self.options.policy;
        let (key, mut headers, mut payload) = match self.spare.pop() {
            Some(spare) => (spare.key, spare.headers, spare.payload),
            None => Default::default(),
        };
        let mut key = key.unwrap_or_default();
        record_key(policy, event.table, event.key, &mut key);
        policy.encode(event, &mut payload);
        let id = headers.first_mut().map(|(_, id)| std::mem::take(id).into_owned());
        let mut id = id.unwrap_or_default();
        id.clear();
        let shown = policy.shown_id(event.table, event.event_id);
        id.extend(shown.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
        headers.clear();
        headers.push(("event_id".into(), id.into()));
        headers.push(("content-type".into(), policy.content_type().as_bytes().into()));
        NewRecord { topic: Arc::clone(topic), key: Some(key), headers, payload, timestamp: now }
    }
}

/// The bytes of the partition key, or a hash of them where a part of it is masked.
fn record_key(policy: &Policy, table: &Table, key: &[u8], out: &mut Vec<u8>) {
    let is_masked = |column| policy.treatment(table, column) != Treatment::Keep;
    out.clear();
    if table.partition_key.iter().any(is_masked) {
        out.extend(policy.hash(key).as_bytes());
    } else {
        out.extend(key);
    }
}

#[cfg(test)]
mod tests {
    use helenus_cql::change::{Origin, split};
    use helenus_cql::datatype::CqlType;
    use helenus_cql::schema::{Column, ColumnKind, TableId};
    use helenus_cql::update::{Item, PartitionUpdate, RowUpdate};

    use super::*;

    /// The records of the rows with these keys.
    fn records(maker: &mut Records, keys: &[&[u8]]) -> Vec<NewRecord> {
        let key = Column::new("id", b"id", ColumnKind::PartitionKey, CqlType::Text);
        let table = Table::new(TableId(Uuid::from_u128(1)), "ks", "t", vec![key]);
        let made = keys.iter().map(|key| {
            let items = vec![Item::Row(RowUpdate::default())];
            let update =
                PartitionUpdate { table: &table, key, deletion: None, static_row: None, items };
            let events = split(update, &Origin::default()).unwrap();
            maker.make(&events[0], &"ks.t".into(), Timestamp::EPOCH)
        });
        made.collect()
    }

    fn maker() -> Records {
        Records::new(Arc::new(Options::new("cdc_raw", "state")))
    }

    #[test]
    fn nothing_of_a_record_is_left_in_the_one_that_takes_its_place() {
        let (mut fresh, mut used) = (maker(), maker());
        let long = "x".repeat(200);
        let mut before = records(&mut used, &[long.as_bytes(), b"a", b"b"]);
        // What concerns a whole table has no key, and a hint no headers.
        before[1].key = None;
        before[2].headers.clear();
        used.reuse(before, 10);
        let keys: [&[u8]; 4] = [b"c", b"", b"d", b"e"];
        assert_eq!(records(&mut used, &keys), records(&mut fresh, &keys));
    }

    #[test]
    fn large_records_and_more_than_a_batch_are_not_kept() {
        let mut maker = maker();
        let large = "x".repeat(SPARE_BYTES_MAX);
        let done = records(&mut maker, &[b"a", large.as_bytes(), b"b", b"c"]);
        maker.reuse(done, 2);
        assert_eq!(maker.spare.len(), 2);
        assert!(maker.spare.iter().all(|spare| spare.payload.capacity() <= SPARE_BYTES_MAX));
    }
}
