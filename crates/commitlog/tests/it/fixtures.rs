//! The recorded segments, and reading them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use helenus_commitlog::{Damage, Options, Segment, mutation};
use helenus_cql::reconcile::TableState;
use helenus_cql::schema::Catalog;
use helenus_cql::update::Seconds;
use serde_json::Value;

/// A segment by the name of its variant.
pub(crate) const SEGMENTS: [(&str, &[u8]); 6] = [
    ("plain", include_bytes!("../fixtures/plain.log")),
    ("lz4", include_bytes!("../fixtures/lz4.log")),
    ("snappy", include_bytes!("../fixtures/snappy.log")),
    ("deflate", include_bytes!("../fixtures/deflate.log")),
    ("zstd", include_bytes!("../fixtures/zstd.log")),
    ("v8", include_bytes!("../fixtures/v8.log")),
];

/// The one that is not compressed.
pub(crate) const PLAIN: &[u8] = include_bytes!("../fixtures/plain.log");

pub(crate) static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let document = include_str!("../fixtures/schema.json");
    Catalog::from_document(document).expect("the recorded schema")
});

fn recorded(part: &str) -> Value {
    let answers = include_str!("../fixtures/rows.json");
    let mut answers: BTreeMap<String, Value> =
        serde_json::from_str(answers).expect("the recorded answers");
    answers.remove(part).expect("a part of the recorded answers")
}

/// What the node answered, by table.
pub(crate) fn answers() -> BTreeMap<String, Vec<String>> {
    serde_json::from_value(recorded("rows")).expect("rows by table")
}

/// When it was asked.
pub(crate) fn asked_at(variant: &str) -> Seconds {
    let at = recorded("at");
    Seconds(at.get(variant).and_then(Value::as_i64).expect("seconds by variant"))
}

/// The payloads of all records, and what was damaged.
pub(crate) fn payloads(bytes: &[u8], options: Options) -> (Vec<Vec<u8>>, Vec<Damage>) {
    let mut found = (Vec::new(), Vec::new());
    let Ok(segment) = Segment::parse(bytes) else { return found };
    let mut records = segment.records(options);
    while let Some(next) = records.next_record() {
        match next {
            Ok(record) => found.0.push(record.payload.to_vec()),
            Err(damage) => found.1.push(damage),
        }
    }
    found
}

/// The tables as they are after these mutations.
pub(crate) fn fold<'p>(
    payloads: impl Iterator<Item = &'p Vec<u8>>,
    version: helenus_commitlog::Version,
) -> BTreeMap<String, TableState> {
    let mut tables = BTreeMap::<String, TableState>::new();
    for payload in payloads {
        let mutation = mutation::decode(payload, version, &*CATALOG).expect("a real mutation");
        for update in &mutation.updates {
            let name = format!("{}.{}", update.table.keyspace, update.table.name);
            tables.entry(name).or_default().apply(update).expect("a real write");
        }
    }
    tables
}

/// The rows of the tables that were asked for.
pub(crate) fn rows(
    tables: &BTreeMap<String, TableState>,
    now: Seconds,
) -> BTreeMap<String, Vec<String>> {
    let mut answers = answers();
    for (name, rows) in &mut answers {
        let (keyspace, table) = name.split_once('.').expect("keyspace.table");
        let table = CATALOG.by_name(keyspace, table).expect("a recorded table");
        let empty = TableState::default();
        let state = tables.get(name).unwrap_or(&empty);
        *rows = state.select(table, now).map(|row| row.expect("a real row")).collect();
    }
    answers
}
