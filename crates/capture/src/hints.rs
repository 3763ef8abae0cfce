//! Hints for relays: what an outbox's own table says was staged.
//!
//! A message is true with the row of `outbox_messages` that the staging inserts; whatever is written
//! to the row afterwards is the relay's own doing and tells it nothing new. So a row's marker makes
//! the hint. docs/formats/hints-topic.md.

use helenus_broker::contract::NewRecord;
use helenus_cql::update::{ColumnUpdate, Content, Item, PartitionUpdate, RowUpdate};
use helenus_model::{Hint, MessageId, Timestamp};

use crate::options::Outbox;

/// The column that decides, beside the id, where a message is found.
const ORDERING_KEY: &str = "ordering_key";

/// The hints of an update of an outbox's table, one a staged message.
pub(crate) fn hints(
    update: &PartitionUpdate<'_>,
    outbox: &Outbox,
    node: &str,
    now: Timestamp,
) -> Vec<NewRecord> {
    let staged = update.items.iter().filter_map(|item| match item {
        Item::Row(row) if row.liveness.is_some() => Some(row),
        _ => None,
    });
    let hints = staged.filter_map(|row| {
        let id = MessageId::new(std::str::from_utf8(update.key).ok()?).ok()?;
        Some(Hint { id, key: text(row, ORDERING_KEY) })
    });
    let record = |hint: Hint| NewRecord {
        topic: outbox.topic.as_str().into(),
        // Old hints are worth nothing: the topic need not keep more than the last of each node.
        key: Some(node.as_bytes().to_vec()),
        headers: Vec::new(),
        payload: hint.to_bytes(),
        timestamp: now,
    };
    hints.map(record).collect()
}

/// A text that a row sets.
fn text(row: &RowUpdate<'_>, name: &str) -> Option<String> {
    row.columns.iter().find_map(|update| match update {
        ColumnUpdate::Simple(column, cell) if *column.name == *name => match cell.content {
            Content::Live(bytes) | Content::Expiring(bytes, _) => {
                String::from_utf8(bytes.to_vec()).ok()
            }
            Content::Deleted(_) => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use helenus_cql::schema::{Catalog, ColumnKind};
    use helenus_cql::update::{Cell, Liveness, Timestamp as Written};

    use super::*;

    const SCHEMA: &str = r#"{
        "tables": [{"keyspace_name": "shop", "table_name": "helenus_outbox_messages", "cdc": true,
                    "flags": ["compound"], "id": "00000000-0000-0000-0000-000000000001"}],
        "columns": [
            {"keyspace_name": "shop", "table_name": "helenus_outbox_messages", "type": "text",
             "column_name": "message_id", "kind": "partition_key", "position": 0},
            {"keyspace_name": "shop", "table_name": "helenus_outbox_messages", "type": "text",
             "column_name": "ordering_key", "kind": "regular", "position": -1}]
    }"#;

    #[test]
    fn what_is_staged_is_told_and_what_is_settled_is_not() {
        let catalog = Catalog::from_document(SCHEMA).unwrap();
        let table = catalog.by_name("shop", "helenus_outbox_messages").unwrap();
        let outbox = Outbox {
            keyspace: "shop".to_owned(),
            table: "helenus_outbox_messages".to_owned(),
            topic: "helenus.s.hints".to_owned(),
        };
        let key = table.column(b"ordering_key", ColumnKind::Regular).unwrap();
        let written = Written(7);
        let cell = Cell { timestamp: written, content: Content::Live(b"order-7".as_slice()) };
        let told = |liveness, columns, id: &[u8]| {
            let row = RowUpdate { liveness, columns, ..RowUpdate::default() };
            let items = vec![Item::Row(row)];
            let update =
                PartitionUpdate { table, key: id, deletion: None, static_row: None, items };
            hints(&update, &outbox, "n1", Timestamp::EPOCH)
        };
        let inserted = Some(Liveness { timestamp: written, expiry: None });
        let with_key = vec![ColumnUpdate::Simple(key, cell)];
        let records = told(inserted, with_key.clone(), b"m-1");
        assert_eq!((records.len(), &*records[0].topic), (1, "helenus.s.hints"));
        let hint = Hint::parse(&records[0].payload).unwrap();
        assert_eq!((hint.id.as_str(), hint.key.as_deref()), ("m-1", Some("order-7")));
        let hint = Hint::parse(&told(inserted, Vec::new(), b"m-1")[0].payload).unwrap();
        assert_eq!(hint.key, None);
        assert_eq!(told(None, with_key, b"m-1"), [], "an update is a relay's own");
        assert_eq!(told(inserted, Vec::new(), &[0xff]), [], "no message has this id");
    }
}
