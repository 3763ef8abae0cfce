//! What becomes of updates, and that JSON gives back every event.

mod masks;
mod schema;

use proptest::prelude::*;
use proptest::sample::select;

use super::json::{self, Policy};
use super::{Change, ChangeEvent, Operation, Origin, Scope, split};
use crate::schema::{Catalog, Column, ColumnKind, Table};
use crate::update::{
    Bound, Cell, ColumnUpdate, Content, Deletion, Expiry, Item, Liveness, Marker, PartitionUpdate,
    RowUpdate, Seconds, Side, Timestamp, Ttl,
};

const TYPES: [&str; 15] = [
    "int",
    "text",
    "blob",
    "decimal",
    "double",
    "timestamp",
    "frozen<map<text, int>>",
    "list<int>",
    "set<decimal>",
    "map<text, varint>",
    "map<inet, float>",
    "addr",
    "list<text>",
    "set<text>",
    "map<text, text>",
];

fn catalog(clustering: bool) -> Catalog {
    let mut columns = vec![
        ("p1".to_owned(), "partition_key", 0, "int"),
        ("p2".to_owned(), "partition_key", 1, "text"),
    ];
    if clustering {
        columns.push(("C1".to_owned(), "clustering", 0, "decimal"));
        columns.push(("c2".to_owned(), "clustering", 1, "text"));
    }
    for (index, ty) in TYPES.iter().enumerate() {
        columns.push((format!("v{index}"), "regular", -1, ty));
        if clustering {
            columns.push((format!("s{index}"), "static", -1, ty));
        }
    }
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, kind, position, ty)| {
            serde_json::json!({"keyspace_name": "ks", "table_name": "t", "column_name": name,
                "kind": kind, "position": position, "type": ty})
        })
        .collect();
    let document = serde_json::json!({
        "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
                    "id": "00000000-0000-0000-0000-000000000001"}],
        "columns": columns,
        "types": [{"keyspace_name": "ks", "type_name": "addr", "field_names": ["street", "No"],
                   "field_types": ["text", "int"]}],
    });
    Catalog::from_document(&document.to_string()).unwrap()
}

fn table(catalog: &Catalog) -> &Table {
    catalog.by_name("ks", "t").unwrap()
}

fn column<'t>(table: &'t Table, name: &str) -> &'t Column {
    table.column(name.as_bytes(), ColumnKind::Regular).unwrap()
}

const KEY: &[u8] = &[0, 4, 0, 0, 0, 7, 0, 0, 1, b'a', 0];

fn update<'a>(table: &'a Table, items: Vec<Item<'a>>) -> PartitionUpdate<'a> {
    PartitionUpdate { table, key: KEY, deletion: None, static_row: None, items }
}

fn deletion(timestamp: i64) -> Deletion {
    Deletion { timestamp: Timestamp(timestamp), at: Seconds(9) }
}

fn live(bytes: &[u8]) -> Cell<&[u8]> {
    Cell { timestamp: Timestamp(5), content: Content::Live(bytes) }
}

const GONE: Cell<&[u8]> = Cell { timestamp: Timestamp(5), content: Content::Deleted(Seconds(9)) };

fn words(update: PartitionUpdate<'_>) -> Vec<(Operation, Scope)> {
    let events = split(update, &Origin::default()).unwrap();
    events.iter().map(|event| (event.operation(), event.scope())).collect()
}

fn row<'a>(columns: Vec<ColumnUpdate<'a>>) -> RowUpdate<'a> {
    RowUpdate { clustering: vec![Some(&[]), Some(b"x")], columns, ..RowUpdate::default() }
}

/// A statement of every kind, and what it is.
fn statements(table: &Table) -> Vec<(PartitionUpdate<'_>, (Operation, Scope))> {
    let (int, set) = (column(table, "v0"), column(table, "v8"));
    let liveness = Some(Liveness { timestamp: Timestamp(5), expiry: None });
    let expiry = Some(Expiry { at: Seconds(9), ttl: Ttl(3) });
    let expiring = Some(Liveness { timestamp: Timestamp(5), expiry });
    let one = |row| update(table, vec![Item::Row(row)]);
    let written = || vec![ColumnUpdate::Simple(int, live(&[0, 0, 0, 1]))];
    let element = |cell| ColumnUpdate::Complex(set, None, vec![(&[0, 0, 0, 0, 1][..], cell)]);
    let deleted = vec![ColumnUpdate::Simple(int, GONE)];
    let cleared = vec![ColumnUpdate::Complex(set, Some(deletion(4)), Vec::new())];
    let deletion = Some(deletion(4));
    let static_row = |cell| {
        let of_static = table.column(b"s0", ColumnKind::Static).unwrap();
        let columns = vec![ColumnUpdate::Simple(of_static, cell)];
        Some(RowUpdate { columns, ..RowUpdate::default() })
    };
    let nothing = || update(table, Vec::new());
    let marker = |side, end, start| {
        Item::Marker(Marker { bound: Bound { values: vec![Some(&[])], side }, end, start })
    };
    let range = vec![marker(Side::Before, None, deletion), marker(Side::After, deletion, None)];
    vec![
        (one(RowUpdate { liveness, ..row(written()) }), (Operation::Insert, Scope::Row)),
        (one(RowUpdate { liveness: expiring, ..row(vec![]) }), (Operation::Insert, Scope::Row)),
        (one(row(written())), (Operation::Update, Scope::Row)),
        (one(row(deleted)), (Operation::Delete, Scope::Column)),
        (one(row(vec![element(live(b""))])), (Operation::Update, Scope::Element)),
        (one(row(vec![element(GONE)])), (Operation::Delete, Scope::Element)),
        (one(row(cleared)), (Operation::Delete, Scope::Column)),
        (one(RowUpdate { deletion, ..row(vec![]) }), (Operation::Delete, Scope::Row)),
        // Deleted and written again in one batch: one event, and not a deletion.
        (one(RowUpdate { deletion, ..row(written()) }), (Operation::Update, Scope::Row)),
        (PartitionUpdate { deletion, ..nothing() }, (Operation::Delete, Scope::Partition)),
        (update(table, range), (Operation::Delete, Scope::Range)),
        (
            PartitionUpdate { static_row: static_row(live(&[0, 0, 0, 1])), ..nothing() },
            (Operation::Update, Scope::Static),
        ),
        (
            PartitionUpdate { static_row: static_row(GONE), ..nothing() },
            (Operation::Delete, Scope::Static),
        ),
    ]
}

#[test]
fn every_statement_has_its_kind() {
    let catalog = catalog(true);
    for (update, kind) in statements(table(&catalog)) {
        assert_eq!(words(update), [kind]);
    }
}

#[test]
fn adjacent_ranges_are_two_changes_and_loose_ends_are_refused() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let marker = |values: Vec<Option<&'static [u8]>>, end, start| {
        Item::Marker(Marker { bound: Bound { values, side: Side::Before }, end, start })
    };
    let (older, newer) = (Some(deletion(1)), Some(deletion(2)));
    let items = vec![
        marker(vec![], None, older),
        marker(vec![Some(&[0, 0, 0, 0, 5])], older, newer),
        marker(vec![Some(&[0, 0, 0, 0, 9]), Some(b"z")], newer, None),
    ];
    let events = split(update(table, items.clone()), &Origin::default()).unwrap();
    let times: Vec<i64> = events.iter().map(|event| event.timestamp().0).collect();
    assert_eq!(times, [1, 2]);
    assert!(events.iter().all(|event| event.scope() == Scope::Range));
    for loose in [&items[..1], &items[1..], &items[2..]] {
        assert!(split(update(table, loose.to_vec()), &Origin::default()).is_err());
    }
}

#[test]
fn without_clustering_columns_the_partition_is_the_row() {
    let catalog = catalog(false);
    let table = table(&catalog);
    let deleted = PartitionUpdate { deletion: Some(deletion(4)), ..update(table, Vec::new()) };
    assert_eq!(words(deleted.clone()), [(Operation::Delete, Scope::Row)]);
    let written = RowUpdate {
        columns: vec![ColumnUpdate::Simple(column(table, "v0"), live(&[0, 0, 0, 1]))],
        ..RowUpdate::default()
    };
    let again = PartitionUpdate { items: vec![Item::Row(written)], ..deleted };
    let events = split(again, &Origin::default()).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].operation(), Operation::Update);
    assert!(matches!(&events[0].change, Change::Row(row) if row.deletion == Some(deletion(4))));
}

#[test]
fn ids_tell_changes_apart_and_not_readings() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let (a, b) = (column(table, "v0"), column(table, "v1"));
    let id = |columns: Vec<ColumnUpdate<'_>>, node: &str| {
        let origin = Origin { node: node.into(), segment: 7, ..Origin::default() };
        split(update(table, vec![Item::Row(row(columns))]), &origin).unwrap()[0].event_id
    };
    let (first, second) =
        (ColumnUpdate::Simple(a, live(&[0, 0, 0, 1])), ColumnUpdate::Simple(b, live(b"x")));
    let straight = id(vec![first.clone(), second.clone()], "one");
    assert_eq!(straight, id(vec![second.clone(), first.clone()], "two"));
    assert_ne!(straight, id(vec![first], "one"));
    assert_ne!(straight, id(vec![second], "one"));
}

fn round_trip(event: &ChangeEvent<'_>, catalog: &Catalog) -> String {
    let mut text = String::new();
    json::write(event, &Policy::default(), &mut text);
    let read = json::read(&text, catalog).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&read.event(), event, "{text}");
    text
}

// Any bytes will do for a value: the point is that they come back.
type Bytes = Vec<u8>;

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..6),
        select(vec![vec![0, 0, 0, 7], b"abc".to_vec(), 1.5f64.to_be_bytes().to_vec()]),
    ]
}

fn any_deletion() -> impl Strategy<Value = Deletion> {
    // The smallest time stands for none.
    ((i64::MIN + 1)..i64::MAX, 0..i64::from(u32::MAX))
        .prop_map(|(timestamp, at)| Deletion { timestamp: Timestamp(timestamp), at: Seconds(at) })
}

fn any_expiry() -> impl Strategy<Value = Expiry> {
    (0..i64::from(u32::MAX), any::<i32>())
        .prop_map(|(at, ttl)| Expiry { at: Seconds(at), ttl: Ttl(ttl) })
}

fn any_cell() -> impl Strategy<Value = Cell<Bytes>> {
    let content = prop_oneof![
        any_bytes().prop_map(Content::Live),
        (any_bytes(), any_expiry()).prop_map(|(bytes, expiry)| Content::Expiring(bytes, expiry)),
        (0..i64::from(u32::MAX)).prop_map(|at| Content::Deleted(Seconds(at))),
    ];
    (any::<i64>(), content)
        .prop_map(|(timestamp, content)| Cell { timestamp: Timestamp(timestamp), content })
}

/// A column by number, its cells, and the deletion before them if it is a collection.
type AnyColumn = (usize, Option<Deletion>, Vec<(Bytes, Cell<Bytes>)>);

#[derive(Debug, Clone)]
struct AnyRow {
    clustering: Vec<Option<Bytes>>,
    liveness: Option<Liveness>,
    deletion: Option<Deletion>,
    columns: Vec<AnyColumn>,
}

fn any_row() -> impl Strategy<Value = AnyRow> {
    let column = (
        0..TYPES.len(),
        proptest::option::of(any_deletion()),
        proptest::collection::vec((any_bytes(), any_cell()), 1..4),
    );
    let liveness = (any::<i64>(), proptest::option::of(any_expiry()))
        .prop_map(|(timestamp, expiry)| Liveness { timestamp: Timestamp(timestamp), expiry });
    (
        proptest::collection::vec(proptest::option::of(any_bytes()), 2),
        proptest::option::of(liveness),
        proptest::option::of(any_deletion()),
        proptest::collection::vec(column, 0..5),
    )
        .prop_map(|(clustering, liveness, deletion, mut columns)| {
            columns.sort_by_key(|column| column.0);
            columns.dedup_by_key(|column| column.0);
            AnyRow { clustering, liveness, deletion, columns }
        })
}

fn borrow_cell(cell: &Cell<Bytes>, is_set: bool) -> Cell<&[u8]> {
    // The cells of a set hold nothing: the element is the path.
    let value = |bytes: &'_ Bytes| -> usize { if is_set { 0 } else { bytes.len() } };
    let content = match &cell.content {
        Content::Live(bytes) => Content::Live(&bytes[..value(bytes)]),
        Content::Expiring(bytes, expiry) => Content::Expiring(&bytes[..value(bytes)], *expiry),
        Content::Deleted(at) => Content::Deleted(*at),
    };
    Cell { timestamp: cell.timestamp, content }
}

fn borrow_row<'a>(table: &'a Table, row: &'a AnyRow, kind: ColumnKind) -> RowUpdate<'a> {
    let columns = row.columns.iter().map(|(number, deletion, cells)| {
        let letter = if kind == ColumnKind::Static { 's' } else { 'v' };
        let column = table.column(format!("{letter}{number}").as_bytes(), kind).unwrap();
        let is_set = TYPES[*number].starts_with("set");
        if column.is_complex() {
            let cells = cells.iter().map(|(path, cell)| (&**path, borrow_cell(cell, is_set)));
            ColumnUpdate::Complex(column, *deletion, cells.collect())
        } else {
            ColumnUpdate::Simple(column, borrow_cell(&cells[0].1, false))
        }
    });
    let is_static = kind == ColumnKind::Static;
    RowUpdate {
        clustering: if is_static {
            Vec::new()
        } else {
            row.clustering.iter().map(Option::as_deref).collect()
        },
        liveness: row.liveness.filter(|_| !is_static),
        deletion: row.deletion.filter(|_| !is_static),
        columns: columns.collect(),
    }
}

/// A deletion and its first and last bound, each with its side.
type AnyRange = (Deletion, (Vec<Bytes>, bool), (Vec<Bytes>, bool));

/// Everything that one mutation can do to a partition.
#[derive(Debug, Clone)]
struct AnyUpdate {
    whole: Option<Deletion>,
    of_static: Option<AnyRow>,
    rows: Vec<AnyRow>,
    range: Option<AnyRange>,
    node: String,
}

fn any_update() -> impl Strategy<Value = AnyUpdate> {
    let bound = || (proptest::collection::vec(any_bytes(), 0..3), any::<bool>());
    (
        proptest::option::of(any_deletion()),
        proptest::option::of(any_row()),
        proptest::collection::vec(any_row(), 0..3),
        proptest::option::of((any_deletion(), bound(), bound())),
        "[a-z\"é]{0,6}",
    )
        .prop_map(|(whole, of_static, rows, range, node)| AnyUpdate {
            whole,
            of_static,
            rows,
            range,
            node,
        })
}

impl AnyUpdate {
    fn events<'a>(&'a self, table: &'a Table) -> Vec<ChangeEvent<'a>> {
        let rows = self.rows.iter().map(|row| borrow_row(table, row, ColumnKind::Regular));
        let mut items: Vec<Item<'_>> = rows.map(Item::Row).collect();
        if let Some((deletion, start, end)) = &self.range {
            let mut mark = |(values, side): &'a (Vec<Bytes>, bool), end, start| {
                let values = values.iter().map(|value| Some(&**value)).collect();
                let side = if *side { Side::Before } else { Side::After };
                items.push(Item::Marker(Marker { bound: Bound { values, side }, end, start }));
            };
            mark(start, None, Some(*deletion));
            mark(end, Some(*deletion), None);
        }
        let static_row = self.of_static.as_ref();
        let update = PartitionUpdate {
            table,
            key: KEY,
            deletion: self.whole,
            static_row: static_row.map(|row| borrow_row(table, row, ColumnKind::Static)),
            items,
        };
        let node = self.node.as_str().into();
        let origin = Origin { node, segment: -3, offset: 8, schema_version: 2 };
        split(update, &origin).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_change_comes_back_from_its_json(update in any_update()) {
        let catalog = catalog(true);
        for event in update.events(table(&catalog)) {
            round_trip(&event, &catalog);
        }
    }
}
