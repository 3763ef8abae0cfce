//! The recorded segments end with `ALTER TABLE fx.readded DROP c`: a schema from before that
//! statement learns of it from the log.

use helenus_commitlog::{Options, Version, mutation};
use helenus_cql::reconcile::TableState;
use helenus_cql::schema::{Catalog, Change, ColumnKind, Journal};
use helenus_cql::update::Timestamp;
use serde_json::{Value, json};

use crate::fixtures::{PLAIN, answers, asked_at, payloads};

/// The recorded schema without the last statement.
fn before() -> String {
    let document = include_str!("../fixtures/schema.json");
    let mut document: Value = serde_json::from_str(document).expect("the recorded schema");
    let rows = |document: &mut Value, name: &str, keep: &dyn Fn(&Value) -> bool| {
        let array = document.get_mut(name).and_then(Value::as_array_mut).expect("an array of rows");
        array.retain(keep);
        array.len()
    };
    let is_c = |row: &Value| row.get("column_name") == Some(&json!("c"));
    let dropped = rows(&mut document, "dropped_columns", &|_| true);
    assert_eq!(rows(&mut document, "dropped_columns", &|row| !is_c(row)), dropped - 1);
    let columns = document.get_mut("columns").and_then(Value::as_array_mut).expect("columns");
    columns.push(json!({
        "keyspace_name": "fx", "table_name": "readded", "column_name": "c",
        "column_name_bytes": "0x63", "clustering_order": "none", "kind": "regular",
        "position": -1, "type": "int",
    }));
    document.to_string()
}

fn has_c(catalog: &Catalog) -> bool {
    let table = catalog.by_name("fx", "readded").expect("a recorded table");
    table.column(b"c", ColumnKind::Regular).expect("current or former").current
}

#[test]
fn a_dropped_column_becomes_a_former_one() {
    let mut journal = Journal::new(&before(), Timestamp(0)).unwrap();
    assert!(has_c(&journal.catalog()));
    let id = journal.catalog().by_name("fx", "readded").unwrap().id;
    let mut state = TableState::default();
    let mut changes = Vec::new();
    for payload in payloads(PLAIN, Options::default()).0 {
        let catalog = journal.catalog();
        let mutation = mutation::decode(&payload, Version::V7, &*catalog).unwrap();
        changes.extend(journal.apply(&mutation.updates).unwrap());
        for update in mutation.updates.iter().filter(|update| update.table.id == id) {
            state.apply(update).unwrap();
        }
    }
    assert_eq!(changes, [Change::Altered(id)]);
    let catalog = journal.catalog();
    assert!(!has_c(&catalog));
    let table = catalog.by_name("fx", "readded").unwrap();
    assert!(table.column(b"c", ColumnKind::Regular).unwrap().dropped_at.is_some());
    let rows: Vec<String> = state.select(table, asked_at("plain")).map(Result::unwrap).collect();
    assert_eq!(rows, answers("plain")["fx.readded"]);
}

#[test]
fn what_the_document_already_has_is_not_done_again() {
    let mut journal = Journal::new(&before(), Timestamp(i64::MAX)).unwrap();
    for payload in payloads(PLAIN, Options::default()).0 {
        let catalog = journal.catalog();
        let mutation = mutation::decode(&payload, Version::V7, &*catalog).unwrap();
        assert_eq!(journal.apply(&mutation.updates).unwrap(), []);
    }
    assert!(has_c(&journal.catalog()));
}
