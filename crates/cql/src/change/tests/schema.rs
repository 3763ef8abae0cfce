//! `docs/formats/change-events.schema.json` describes what is written, and refuses what is not.

use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use super::*;
use crate::change::json::Treatment;

/// The published schema; formats are checked, too.
static PUBLISHED: LazyLock<(Schemas, SchemaIndex)> = LazyLock::new(|| {
    let text = include_str!("../../../../../docs/formats/change-events.schema.json");
    let name = "change-events.schema.json";
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.enable_format_assertions();
    compiler.add_resource(name, serde_json::from_str(text).unwrap()).unwrap();
    let index = compiler.compile(name, &mut schemas).unwrap();
    (schemas, index)
});

fn validate(event: &Value) -> Result<(), String> {
    let (schemas, index) = &*PUBLISHED;
    schemas.validate(event, *index).map_err(|error| format!("{error:#}\n{event}"))
}

/// Nothing is masked; columns are hashed; columns are left out. A part of the key, which
/// must stay, is hashed in both.
fn policies() -> [Policy; 3] {
    let masks = |treatment| {
        let columns = ["ks.t.*", "ks.t.p1", "ks.t.C1"];
        Policy::new(columns.map(|column| (column.to_owned(), treatment)).into(), b"salt")
    };
    [Policy::default(), masks(Treatment::Hash), masks(Treatment::Drop)]
}

fn written(event: &ChangeEvent<'_>, policy: &Policy) -> Value {
    let mut text = String::new();
    json::write(event, policy, &mut text);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The events of all [`statements`], as they are.
fn plain_events(table: &Table) -> Vec<Value> {
    let updates = statements(table).into_iter().map(|(update, _)| update);
    let events = updates.flat_map(|update| split(update, &Origin::default()).unwrap());
    events.map(|event| written(&event, &Policy::default())).collect()
}

#[test]
fn every_operation_and_scope_is_described() {
    let catalog = catalog(true);
    for (update, _) in statements(table(&catalog)) {
        for event in split(update, &Origin::default()).unwrap() {
            for policy in policies() {
                validate(&written(&event, &policy)).unwrap();
            }
        }
    }
}

proptest! {
    #[test]
    fn every_event_is_described(update in any_update()) {
        let catalog = catalog(true);
        for event in update.events(table(&catalog)) {
            for policy in policies() {
                validate(&written(&event, &policy)).unwrap();
            }
        }
    }
}

/// An announcement as `announce.rs` of the capture crate makes it.
fn announcement(operation: &str, more: &Value) -> Value {
    let mut event = json!({
        "event_id": "7e0ff8a0-51d7-5e53-8a6c-0e6b5a7dd211",
        "source_table": "ks.t",
        "table_id": "00000000-0000-0000-0000-000000000001",
        "operation": operation,
        "scope": "table",
        "primary_key": {},
        "before_data": null,
        "after_data": null,
        "cassandra_node": "n1",
        "schema_version": 7,
    });
    let fields = event.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    event
}

#[test]
fn announcements_are_described() {
    let position = json!({"segment": 7, "offset": 8, "index": 0});
    let truncated = json!({"timestamp": 5, "position": position});
    let previous = json!({"previous_table_id": "00000000-0000-0000-0000-000000000002"});
    let none = json!({});
    validate(&announcement("TRUNCATE", &truncated)).unwrap();
    validate(&announcement("RECREATE", &previous)).unwrap();
    for operation in ["CREATE", "ALTER", "DROP"] {
        validate(&announcement(operation, &none)).unwrap();
    }
    for (operation, more) in [
        ("TRUNCATE", &none),
        ("RECREATE", &none),
        ("CREATE", &previous),
        ("INSERT", &none),
        ("DROP", &json!({"columns": {}})),
        ("ALTER", &json!({"primary_key": {"id": 1}})),
    ] {
        assert!(validate(&announcement(operation, more)).is_err(), "{operation} {more}");
    }
}

/// Changes one field, named by its place, and expects that the event is none any more. Without a
/// value the field is taken away.
fn refuses(event: &Value, place: &str, value: Option<Value>) {
    let mut wrong = event.clone();
    let (parent, field) = place.rsplit_once('/').unwrap();
    let parent = wrong.pointer_mut(parent).and_then(Value::as_object_mut);
    let fields = parent.unwrap_or_else(|| panic!("{place} is not in {event}"));
    match value {
        Some(value) => fields.insert(field.to_owned(), value),
        None => fields.remove(field),
    };
    assert_ne!(&wrong, event, "{place} was so before");
    assert!(validate(&wrong).is_err(), "{place}: {wrong}");
}

#[test]
fn what_is_no_event_is_refused() {
    let catalog = catalog(true);
    let events = plain_events(table(&catalog));
    let find = |operation: &str, scope: &str| {
        let is_it = |event: &&Value| event["operation"] == operation && event["scope"] == scope;
        events.iter().find(is_it).unwrap()
    };
    let insert = find("INSERT", "row");
    for (place, value) in [
        ("/timestamp", json!("5")),
        ("/event_id", json!("5")),
        ("/source_table", json!("t")),
        ("/operation", json!("UPSERT")),
        ("/operation", json!("UPDATE")),
        ("/operation", json!("CREATE")),
        ("/scope", json!("range")),
        ("/scope", json!("table")),
        ("/primary_key", json!([7])),
        ("/after_data", json!(null)),
        ("/liveness", json!({"timestamp": 5, "ttl": 3})),
        ("/deletion", json!({"timestamp": 5, "deleted_at": 9})),
        ("/columns/v0", json!({"timestamp": 5, "value": 1})),
        ("/columns/v0", json!({"timestamp": 5, "ttl": 3, "expires_at": 8, "deleted_at": 9})),
        ("/columns/v0", json!({"timestamp": 5, "elements": []})),
        ("/schema_version", json!(-1)),
        ("/trace_id", json!("7")),
        ("/position/offset", json!(1.5)),
        ("/previous_table_id", insert["table_id"].clone()),
        ("/another", json!(1)),
    ] {
        refuses(insert, place, Some(value));
    }
    for place in ["/timestamp", "/liveness", "/columns", "/trace_id", "/position/index"] {
        refuses(insert, place, None);
    }
    let element = find("UPDATE", "element");
    refuses(element, "/columns/v8/elements/0/path", None);
    refuses(element, "/columns/v8/elements/0/path", Some(json!(null)));
    refuses(find("DELETE", "element"), "/columns/v8/elements/0/value", Some(json!(1)));
    let range = find("DELETE", "range");
    refuses(range, "/range/start/inclusive", Some(json!(1)));
    refuses(range, "/range", None);
    refuses(find("DELETE", "partition"), "/deletion/deleted_at", Some(json!("9")));
    refuses(find("DELETE", "column"), "/after_data", Some(json!({})));
}
