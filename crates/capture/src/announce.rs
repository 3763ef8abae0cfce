//! What happens to a whole table: it was emptied, dropped, changed or created again.

use helenus_cql::change::schema_version;
use helenus_cql::schema::{Catalog, Change, Lookup, Table, TableId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::offline::Truncation;

/// The namespace of the ids of announcements.
const ANNOUNCEMENTS: Uuid = Uuid::from_u128(0x0f3c_9b0e_51d7_4e53_8a6c_0e6b_5a7d_d211);

/// A table that was emptied. Each node tells of its own part, up to a position in its own log.
pub(crate) fn truncated(table: &Table, truncation: Truncation, node: &str) -> Value {
    let Truncation { segment, offset, at_ms } = truncation;
    let identity = format!("truncate {} {node} {segment} {offset}", table.id);
    let mut event = frame(table, "TRUNCATE", &identity, node);
    if let Some(event) = event.as_object_mut() {
        event.insert("timestamp".to_owned(), json!(at_ms.saturating_mul(1000)));
        event.insert(
            "position".to_owned(),
            json!({ "segment": segment.0, "offset": offset, "index": 0 }),
        );
    }
    event
}

/// A table whose definition is another now; `None` where the table is not known. `at_us` tells one change
/// of a definition from the next, which may bring back what was before.
pub(crate) fn changed<'c>(
    change: &Change,
    catalog: &'c Catalog,
    node: &str,
    at_us: i64,
) -> Option<(&'c Table, Value)> {
    let (word, id, previous): (_, TableId, Option<TableId>) = match change {
        Change::Created(id) => ("CREATE", *id, None),
        Change::Recreated { old, new } => ("RECREATE", *new, Some(*old)),
        Change::Altered(id) => ("ALTER", *id, None),
        Change::Dropped(id) => ("DROP", *id, None),
        _ => return None,
    };
    let table = catalog.table(id)?;
    let mut identity = format!("{word} {id}");
    if matches!(change, Change::Altered(_)) {
        identity = format!("{identity} {} {node} {at_us}", schema_version(table));
    }
    let mut event = frame(table, word, &identity, node);
    if let (Some(event), Some(previous)) = (event.as_object_mut(), previous) {
        event.insert("previous_table_id".to_owned(), json!(previous.to_string()));
    }
    Some((table, event))
}

fn frame(table: &Table, operation: &str, identity: &str, node: &str) -> Value {
    json!({
        "event_id": Uuid::new_v5(&ANNOUNCEMENTS, identity.as_bytes()),
        "source_table": format!("{}.{}", table.keyspace, table.name),
        "table_id": table.id.to_string(),
        "operation": operation,
        "scope": "table",
        "primary_key": {},
        "before_data": null,
        "after_data": null,
        "cassandra_node": node,
        "schema_version": schema_version(table),
    })
}
