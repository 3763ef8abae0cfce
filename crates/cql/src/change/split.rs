//! An update to its changes.

use super::identity::event_id;
use super::{Change, ChangeError, ChangeEvent, Origin, RangeDeletion};
use crate::update::{Bound, Deletion, Item, Marker, PartitionUpdate, RowUpdate};

/// The changes of one update, numbered from 0: the only one of its record. An update of nothing
/// gives none.
///
/// In a table without clustering columns the partition is the row: its deletion is the row's, and
/// one event together with what was written again.
pub fn split<'a>(
    update: PartitionUpdate<'a>,
    origin: &Origin,
) -> Result<Vec<ChangeEvent<'a>>, ChangeError> {
    split_from(update, origin, &mut 0)
}

/// The same for a record of several updates: the changes are numbered on from `next`, which is then
/// the number behind the last of them. It starts at 0 in every record.
///
/// ```
/// use helenus_cql::change::{Origin, split_from};
/// # use helenus_cql::schema::Catalog;
/// # use helenus_cql::update::{Item, PartitionUpdate, RowUpdate};
/// # let catalog = Catalog::from_document(r#"{
/// #     "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
/// #                 "id": "00000000-0000-0000-0000-000000000001"}],
/// #     "columns": [{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
/// #                  "kind": "partition_key", "position": 0, "type": "int"}]
/// # }"#)?;
/// # let table = catalog.by_name("ks", "t").expect("the one in the document");
/// # let items = || vec![Item::Row(RowUpdate::default())];
/// # let update = |key| PartitionUpdate {
/// #     table, key, deletion: None, static_row: None, items: items(),
/// # };
/// # let updates = [update(&[0, 0, 0, 7]), update(&[0, 0, 0, 8])];
///
/// let mut next = 0;
/// let mut numbers = Vec::new();
/// for update in updates {
///     let events = split_from(update, &Origin::default(), &mut next)?;
///     numbers.extend(events.iter().map(|event| event.index));
/// }
/// assert_eq!(numbers, [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn split_from<'a>(
    update: PartitionUpdate<'a>,
    origin: &Origin,
    next: &mut u32,
) -> Result<Vec<ChangeEvent<'a>>, ChangeError> {
    let PartitionUpdate { table, key, deletion, static_row, items } = update;
    if table.key_parts(key).is_none() {
        return Err(ChangeError::Key);
    }
    let mut events = Vec::with_capacity(items.len().max(1));
    let (mut trace_id, mut number) = (None, *next);
    let mut tell = |change: Change<'a>| {
        let event_id = event_id(table.id, key, &change);
        let trace_id = *trace_id.get_or_insert(event_id);
        let (origin, index) = (origin.clone(), number);
        // A record is far too short for so many.
        number = number.saturating_add(1);
        events.push(ChangeEvent { event_id, table, key, change, trace_id, origin, index });
    };
    let mut row_deletion = None;
    match deletion {
        Some(deletion) if table.clustering.is_empty() => row_deletion = Some(deletion),
        Some(deletion) => tell(Change::Partition(deletion)),
        None => {}
    }
    if let Some(mut row) = static_row {
        row.sort_columns();
        tell(Change::Static(row));
    }
    let mut open = None;
    for item in items {
        match item {
            Item::Row(mut row) => {
                row.deletion = row.deletion.max(row_deletion.take());
                row.sort_columns();
                tell(Change::Row(row));
            }
            Item::Marker(marker) => range(marker, &mut open)?.into_iter().for_each(&mut tell),
        }
    }
    if open.is_some() {
        return Err(ChangeError::Markers);
    }
    if row_deletion.is_some() {
        tell(Change::Row(RowUpdate { deletion: row_deletion, ..RowUpdate::default() }));
    }
    *next = number;
    Ok(events)
}

/// The range that a marker closes, and the one it opens into `open`.
fn range<'a>(
    marker: Marker<'a>,
    open: &mut Option<(Bound<'a>, Deletion)>,
) -> Result<Option<Change<'a>>, ChangeError> {
    let Marker { bound, end, start } = marker;
    let closed = match (open.take(), end.is_some()) {
        (Some((start, deletion)), true) => {
            Some(Change::Range(RangeDeletion { start, end: bound.clone(), deletion }))
        }
        (None, false) => None,
        _ => return Err(ChangeError::Markers),
    };
    *open = start.map(|deletion| (bound, deletion));
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Catalog, Table};
    use crate::update::{Seconds, Timestamp};

    fn catalog() -> Catalog {
        let rows = |table: &str, id: u8| {
            let column = |name: &str, kind: &str| {
                format!(
                    r#"{{"keyspace_name": "ks", "table_name": "{table}", "column_name": "{name}",
                        "kind": "{kind}", "position": 0, "type": "tinyint"}}"#
                )
            };
            let columns = [column("id", "partition_key"), column("c", "clustering")].join(",");
            let table = format!(
                r#"{{"keyspace_name": "ks", "table_name": "{table}", "flags": ["compound"],
                    "id": "00000000-0000-0000-0000-00000000000{id}"}}"#
            );
            (table, columns)
        };
        let ((a, a_columns), (b, b_columns)) = (rows("a", 1), rows("b", 2));
        let text = format!(r#"{{"tables": [{a}, {b}], "columns": [{a_columns}, {b_columns}]}}"#);
        Catalog::from_document(&text).unwrap()
    }

    /// A deletion of the partition and two rows: three changes.
    fn update(table: &Table) -> PartitionUpdate<'_> {
        let row = |c| Item::Row(RowUpdate { clustering: vec![Some(c)], ..RowUpdate::default() });
        PartitionUpdate {
            table,
            key: &[7],
            deletion: Some(Deletion { timestamp: Timestamp(1), at: Seconds(0) }),
            static_row: None,
            items: vec![row(&[1]), row(&[2])],
        }
    }

    #[test]
    fn changes_of_all_tables_in_a_record_are_numbered_through() {
        let catalog = catalog();
        let mut next = 0;
        let mut events = Vec::new();
        for table in ["a", "b"] {
            let update = update(catalog.by_name("ks", table).unwrap());
            events.extend(split_from(update, &Origin::default(), &mut next).unwrap());
        }
        let numbers: Vec<u32> = events.iter().map(|event| event.index).collect();
        assert_eq!((numbers, next), (vec![0, 1, 2, 3, 4, 5], 6));
        assert_eq!(events[0].trace_id, events[2].trace_id);
        assert_ne!(events[2].trace_id, events[3].trace_id);
    }

    #[test]
    fn a_number_is_no_part_of_an_id() {
        let catalog = catalog();
        let table = catalog.by_name("ks", "b").unwrap();
        let alone = split(update(table), &Origin::default()).unwrap();
        let behind = split_from(update(table), &Origin::default(), &mut 9).unwrap();
        for (alone, behind) in alone.iter().zip(&behind) {
            assert_eq!(behind.index, alone.index + 9);
            assert_eq!((behind.event_id, behind.trace_id), (alone.event_id, alone.trace_id));
        }
    }

    #[test]
    fn an_update_that_is_refused_takes_no_numbers() {
        let catalog = catalog();
        let mut refused = update(catalog.by_name("ks", "a").unwrap());
        let bound = Bound { values: Vec::new(), side: crate::update::Side::Before };
        refused.items.push(Item::Marker(Marker { bound, end: None, start: refused.deletion }));
        let mut next = 4;
        assert!(split_from(refused, &Origin::default(), &mut next).is_err());
        assert_eq!(next, 4);
    }
}
