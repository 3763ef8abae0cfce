//! Real mutations as change events: their JSON gives them back, and merging them gives the rows.

use std::collections::{BTreeMap, HashSet};

use helenus_commitlog::{Options, Segment, mutation};
use helenus_cql::change::{Origin, json, split};
use helenus_cql::reconcile::TableState;

use crate::fixtures::{SEGMENTS, answers, catalog, payloads, rows};

#[test]
fn events_of_real_segments_come_back_and_merge_to_the_rows() {
    for (variant, bytes) in SEGMENTS {
        let version = Segment::parse(bytes).unwrap().header().version;
        let mut tables = BTreeMap::<String, TableState>::new();
        let mut ids = HashSet::new();
        let mut events = 0;
        for payload in payloads(bytes, Options::default()).0 {
            let mutation = mutation::decode(&payload, version, catalog(variant)).unwrap();
            for update in mutation.updates {
                let name = format!("{}.{}", update.table.keyspace, update.table.name);
                for event in split(update, &Origin::default()).unwrap() {
                    let mut text = String::new();
                    json::write(&event, &json::Policy::default(), &mut text);
                    let read = json::read(&text, catalog(variant)).unwrap();
                    assert_eq!(read.event(), event, "{variant}: {text}");
                    ids.insert(event.event_id);
                    events += 1;
                    let state = tables.entry(name.clone()).or_default();
                    state.apply(&read.event().into_update()).unwrap();
                }
            }
        }
        assert!(events > 100, "{events}");
        assert_eq!(ids.len(), events, "{variant}: no two changes share an id");
        assert_eq!(rows(variant, &tables), answers(variant), "{variant}");
    }
}
