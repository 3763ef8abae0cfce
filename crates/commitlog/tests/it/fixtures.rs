//! The recorded segments, and reading them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use helenus_commitlog::{Damage, Options, Segment, mutation};
use helenus_cql::reconcile::TableState;
use helenus_cql::schema::Catalog;
use helenus_cql::update::Seconds;
use serde_json::Value;

/// A segment by the name of its variant; those of other releases than 5.0 say so.
pub(crate) const SEGMENTS: [(&str, &[u8]); 8] = [
    ("plain", include_bytes!("../fixtures/plain.log")),
    ("lz4", include_bytes!("../fixtures/lz4.log")),
    ("snappy", include_bytes!("../fixtures/snappy.log")),
    ("deflate", include_bytes!("../fixtures/deflate.log")),
    ("zstd", include_bytes!("../fixtures/zstd.log")),
    ("v8", include_bytes!("../fixtures/v8.log")),
    ("4.1/plain", include_bytes!("../fixtures/4.1/plain.log")),
    ("4.1/lz4", include_bytes!("../fixtures/4.1/lz4.log")),
];

/// The one that is not compressed.
pub(crate) const PLAIN: &[u8] = include_bytes!("../fixtures/plain.log");

/// The schema of the segments from 5.0.
pub(crate) static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| parse(include_str!("../fixtures/schema.json")));

static CATALOG_41: LazyLock<Catalog> =
    LazyLock::new(|| parse(include_str!("../fixtures/4.1/schema.json")));

fn parse(document: &str) -> Catalog {
    Catalog::from_document(document).expect("the recorded schema")
}

/// The schema of a variant's node.
pub(crate) fn catalog(variant: &str) -> &'static Catalog {
    if variant.starts_with("4.1/") { &CATALOG_41 } else { &CATALOG }
}

fn recorded(variant: &str, part: &str) -> Value {
    let answers = if variant.starts_with("4.1/") {
        include_str!("../fixtures/4.1/rows.json")
    } else {
        include_str!("../fixtures/rows.json")
    };
    let mut answers: BTreeMap<String, Value> =
        serde_json::from_str(answers).expect("the recorded answers");
    answers.remove(part).expect("a part of the recorded answers")
}

/// What the variant's node answered, by table.
pub(crate) fn answers(variant: &str) -> BTreeMap<String, Vec<String>> {
    serde_json::from_value(recorded(variant, "rows")).expect("rows by table")
}

/// When it was asked.
pub(crate) fn asked_at(variant: &str) -> Seconds {
    Seconds(number("at", variant))
}

/// How far the segment's `_cdc.idx` said it was durable, just before the segment was copied.
pub(crate) fn index_of(variant: &str) -> u64 {
    u64::try_from(number("index", variant)).expect("an offset")
}

fn number(part: &str, variant: &str) -> i64 {
    let name = variant.trim_start_matches("4.1/");
    recorded(variant, part).get(name).and_then(Value::as_i64).expect("a number by variant")
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
    variant: &str,
    payloads: impl Iterator<Item = &'p Vec<u8>>,
    version: helenus_commitlog::Version,
) -> BTreeMap<String, TableState> {
    let mut tables = BTreeMap::<String, TableState>::new();
    for payload in payloads {
        let mutation =
            mutation::decode(payload, version, catalog(variant)).expect("a real mutation");
        for update in &mutation.updates {
            let name = format!("{}.{}", update.table.keyspace, update.table.name);
            tables.entry(name).or_default().apply(update).expect("a real write");
        }
    }
    tables
}

/// The rows of the tables that were asked for.
pub(crate) fn rows(
    variant: &str,
    tables: &BTreeMap<String, TableState>,
) -> BTreeMap<String, Vec<String>> {
    let (mut answers, now) = (answers(variant), asked_at(variant));
    for (name, rows) in &mut answers {
        let (keyspace, table) = name.split_once('.').expect("keyspace.table");
        let table = catalog(variant).by_name(keyspace, table).expect("a recorded table");
        let empty = TableState::default();
        let state = tables.get(name).unwrap_or(&empty);
        *rows = state.select(table, now).map(|row| row.expect("a real row")).collect();
    }
    answers
}
