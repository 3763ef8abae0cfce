//! What becomes of updates, and that JSON gives back every event.

use proptest::prelude::*;
use proptest::sample::select;

use super::json::{self, Policy, Treatment};
use super::{Change, ChangeEvent, Operation, Origin, Scope, split};
use crate::schema::{Catalog, Column, ColumnKind, Table};
use crate::update::{
    Bound, Cell, ColumnUpdate, Content, Deletion, Expiry, Item, Liveness, Marker, PartitionUpdate,
    RowUpdate, Seconds, Side, Timestamp, Ttl,
};

const TYPES: [&str; 12] = [
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

#[test]
fn every_statement_has_its_kind() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let (int, set) = (column(table, "v0"), column(table, "v8"));
    let liveness = Some(Liveness { timestamp: Timestamp(5), expiry: None });
    let one = |row| words(update(table, vec![Item::Row(row)]));
    let written = || vec![ColumnUpdate::Simple(int, live(&[0, 0, 0, 1]))];
    let element = |cell| ColumnUpdate::Complex(set, None, vec![(&[0, 0, 0, 0, 1][..], cell)]);
    assert_eq!(one(RowUpdate { liveness, ..row(written()) }), [(Operation::Insert, Scope::Row)]);
    assert_eq!(one(row(written())), [(Operation::Update, Scope::Row)]);
    let deleted = vec![ColumnUpdate::Simple(int, GONE)];
    assert_eq!(one(row(deleted)), [(Operation::Delete, Scope::Column)]);
    assert_eq!(one(row(vec![element(live(b""))])), [(Operation::Update, Scope::Element)]);
    assert_eq!(one(row(vec![element(GONE)])), [(Operation::Delete, Scope::Element)]);
    let cleared = vec![ColumnUpdate::Complex(set, Some(deletion(4)), Vec::new())];
    assert_eq!(one(row(cleared)), [(Operation::Delete, Scope::Column)]);
    let deletion = Some(deletion(4));
    assert_eq!(one(RowUpdate { deletion, ..row(vec![]) }), [(Operation::Delete, Scope::Row)]);
    // Deleted and written again in one batch: one event, and not a deletion.
    let both = RowUpdate { deletion, ..row(written()) };
    assert_eq!(one(both), [(Operation::Update, Scope::Row)]);
    let whole = PartitionUpdate { deletion, ..update(table, Vec::new()) };
    assert_eq!(words(whole), [(Operation::Delete, Scope::Partition)]);
    let of_static = table.column(b"s0", ColumnKind::Static).unwrap();
    let static_row = RowUpdate {
        columns: vec![ColumnUpdate::Simple(of_static, live(&[0, 0, 0, 1]))],
        ..RowUpdate::default()
    };
    let update = PartitionUpdate { static_row: Some(static_row), ..update(table, Vec::new()) };
    assert_eq!(words(update), [(Operation::Update, Scope::Static)]);
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
fn masked_columns_are_hashed_or_left_out() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let secret = ColumnUpdate::Simple(column(table, "v1"), live(b"secret"));
    let hidden = ColumnUpdate::Simple(column(table, "v2"), live(b"hidden"));
    let events =
        split(update(table, vec![Item::Row(row(vec![secret, hidden]))]), &Origin::default());
    let policy = Policy::new(
        [("ks.t.v1".to_owned(), Treatment::Hash), ("ks.t.v2".to_owned(), Treatment::Drop)].into(),
        b"salt",
    );
    let mut text = String::new();
    json::write(&events.unwrap()[0], &policy, &mut text);
    assert!(!text.contains("secret") && !text.contains("686964") && !text.contains("v2"), "{text}");
    assert!(text.contains(&format!("{{\"$hash\":\"{}\"}}", policy.hash(b"secret").simple())));
    assert_ne!(policy.hash(b"secret"), Policy::new([].into(), b"pepper").hash(b"secret"));
    assert!(json::read(&text, &catalog).is_err(), "what was masked cannot be read back");
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_change_comes_back_from_its_json(
        whole in proptest::option::of(any_deletion()),
        of_static in proptest::option::of(any_row()),
        rows in proptest::collection::vec(any_row(), 0..3),
        range in proptest::option::of((
            any_deletion(),
            (proptest::collection::vec(any_bytes(), 0..3), any::<bool>()),
            (proptest::collection::vec(any_bytes(), 0..3), any::<bool>()),
        )),
        node in "[a-z\"é]{0,6}",
    ) {
        let catalog = catalog(true);
        let table = table(&catalog);
        let mut items: Vec<Item<'_>> = Vec::new();
        items.extend(rows.iter().map(|row| Item::Row(borrow_row(table, row, ColumnKind::Regular))));
        if let Some((deletion, start, end)) = &range {
            let mut mark = |(values, side): &'_ (Vec<Bytes>, bool), end, start| {
                // The bounds outlive the items they are put into.
                let values = values.iter().map(|value| Some(&*value.clone().leak())).collect();
                let side = if *side { Side::Before } else { Side::After };
                let bound = Bound { values, side };
                items.push(Item::Marker(Marker { bound, end, start }));
            };
            mark(start, None, Some(*deletion));
            mark(end, Some(*deletion), None);
        }
        let update = PartitionUpdate {
            table,
            key: KEY,
            deletion: whole,
            static_row: of_static.as_ref().map(|row| borrow_row(table, row, ColumnKind::Static)),
            items,
        };
        let origin = Origin { node: node.as_str().into(), segment: -3, offset: 8, schema_version: 2 };
        for event in split(update, &origin).unwrap() {
            round_trip(&event, &catalog);
        }
    }
}
