//! One rule a test, each as a short story: writes, then the rows at a moment.

use std::sync::LazyLock;

use helenus_cql::reconcile::TableState;
use helenus_cql::schema::{Catalog, Column, ColumnKind, Table};
use helenus_cql::update::{
    Bound, Cell, ColumnUpdate, Content, Deletion, Expiry, Item, Liveness, Marker, PartitionUpdate,
    RowUpdate, Seconds, Side, Timestamp, Ttl,
};

/// `ks.t`: key `p`, clustering `c`, static `st`, regular `v`, `w` (dropped at 1 s, then added
/// again) and `s set<tinyint>`; all else `tinyint`.
static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let column = |name: &str, kind: &str, ty: &str| {
        format!(
            r#"{{"keyspace_name": "ks", "table_name": "t", "column_name": "{name}",
                "kind": "{kind}", "position": 0, "type": "{ty}"}}"#
        )
    };
    let columns = [
        column("p", "partition_key", "tinyint"),
        column("c", "clustering", "tinyint"),
        column("st", "static", "tinyint"),
        column("v", "regular", "tinyint"),
        column("w", "regular", "tinyint"),
        column("s", "regular", "set<tinyint>"),
    ];
    let text = format!(
        r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
                "id": "00000000-0000-0000-0000-000000000001"}}],
            "columns": [{}],
            "dropped_columns": [{{"keyspace_name": "ks", "table_name": "t", "column_name": "w",
                "dropped_time": "1970-01-01 00:00:01.000Z", "kind": "regular", "type": "int"}}]}}"#,
        columns.join(",")
    );
    Catalog::from_document(&text).expect("the document above")
});

/// A value of one byte, below ten.
fn byte(value: u8) -> &'static [u8] {
    const BYTES: &[u8; 10] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    BYTES.chunks(1).nth(usize::from(value)).expect("a value below ten")
}

/// A table and what was written to it.
struct Story {
    table: &'static Table,
    state: TableState,
}

impl Story {
    fn new() -> Self {
        let table = CATALOG.by_name("ks", "t").expect("the only table");
        Self { table, state: TableState::default() }
    }

    fn column(&self, name: &str) -> &'static Column {
        self.table.column(name.as_bytes(), ColumnKind::Regular).expect("a regular column")
    }

    fn update(&mut self, change: impl FnOnce(&mut PartitionUpdate<'static>)) -> &mut Self {
        let mut update = empty(self.table);
        change(&mut update);
        self.state.apply(&update).expect("a valid write");
        self
    }

    fn row(&mut self, c: u8, fill: impl FnOnce(&mut RowUpdate<'static>)) -> &mut Self {
        let mut row = RowUpdate { clustering: vec![Some(byte(c))], ..RowUpdate::default() };
        fill(&mut row);
        self.update(|update| update.items.push(Item::Row(row)))
    }

    /// An INSERT of `v`.
    fn insert(&mut self, c: u8, v: u8, at: i64, expiry: Option<Expiry>) -> &mut Self {
        let column = self.column("v");
        let content = match expiry {
            Some(expiry) => Content::Expiring(byte(v), expiry),
            None => Content::Live(byte(v)),
        };
        let timestamp = Timestamp(at);
        self.row(c, |row| {
            row.liveness = Some(Liveness { timestamp, expiry });
            row.columns.push(ColumnUpdate::Simple(column, Cell { timestamp, content }));
        })
    }

    /// An UPDATE of a column.
    fn set(&mut self, c: u8, name: &str, v: u8, at: i64) -> &mut Self {
        let column = self.column(name);
        let cell = Cell { timestamp: Timestamp(at), content: Content::Live(byte(v)) };
        self.row(c, |row| row.columns.push(ColumnUpdate::Simple(column, cell)))
    }

    /// A DELETE of a column.
    fn unset(&mut self, c: u8, name: &str, at: i64) -> &mut Self {
        let column = self.column(name);
        let cell = Cell { timestamp: Timestamp(at), content: Content::Deleted(Seconds(0)) };
        self.row(c, |row| row.columns.push(ColumnUpdate::Simple(column, cell)))
    }

    fn set_static(&mut self, v: u8, at: i64) -> &mut Self {
        let column = self.table.column(b"st", ColumnKind::Static).expect("the static column");
        let cell = Cell { timestamp: Timestamp(at), content: Content::Live(byte(v)) };
        let columns = vec![ColumnUpdate::Simple(column, cell)];
        let statics = RowUpdate { columns, ..RowUpdate::default() };
        self.update(|update| update.static_row = Some(statics))
    }

    /// A change of the set: replaced as a whole or added to.
    fn set_elements(&mut self, at: i64, replace: bool, elements: &[u8]) -> &mut Self {
        let column = self.column("s");
        let cell = Cell { timestamp: Timestamp(at), content: Content::Live(byte(0)) };
        let elements = elements.iter().map(|element| (byte(*element), cell)).collect();
        let before = replace.then(|| deletion(at - 1));
        self.row(1, |row| row.columns.push(ColumnUpdate::Complex(column, before, elements)))
    }

    /// `v` of every row at a moment, by clustering.
    fn rows(&self, now: i64) -> Vec<String> {
        let rows = self.state.select(self.table, Seconds(now));
        let short = |row: String| row.replace(r#""p": 7, "#, "").replace(r#", "s": null"#, "");
        rows.map(|row| short(row.expect("a valid row"))).collect()
    }
}

fn empty(table: &'static Table) -> PartitionUpdate<'static> {
    PartitionUpdate { table, key: byte(7), deletion: None, static_row: None, items: Vec::new() }
}

fn deletion(at: i64) -> Deletion {
    Deletion { timestamp: Timestamp(at), at: Seconds(0) }
}

fn expiry(at: i64) -> Option<Expiry> {
    Some(Expiry { at: Seconds(at), ttl: Ttl(1) })
}

#[test]
fn insert_then_delete_of_the_column_leaves_a_row_update_then_delete_leaves_none() {
    let mut story = Story::new();
    story.insert(1, 5, 10, None).unset(1, "v", 11);
    story.set(2, "v", 5, 10).unset(2, "v", 11);
    assert_eq!(story.rows(0), [r#"{"c": 1, "st": null, "v": null, "w": null}"#]);
}

#[test]
fn an_expired_winner_still_hides_what_it_has_beaten() {
    let mut story = Story::new();
    story.insert(1, 5, 10, None).insert(1, 6, 11, expiry(100));
    assert_eq!(story.rows(99), [r#"{"c": 1, "st": null, "v": 6, "w": null}"#]);
    assert_eq!(story.rows(100), Vec::<String>::new());
    story.set(1, "w", 9, 2_000_000);
    assert_eq!(story.rows(100), [r#"{"c": 1, "st": null, "v": null, "w": 9}"#]);
}

#[test]
fn a_deletion_covers_its_own_timestamp_and_what_arrives_later() {
    let mut story = Story::new();
    story.row(1, |row| row.deletion = Some(deletion(10)));
    story.insert(1, 5, 10, None);
    assert_eq!(story.rows(0), Vec::<String>::new());
    story.insert(1, 6, 11, None);
    assert_eq!(story.rows(0), [r#"{"c": 1, "st": null, "v": 6, "w": null}"#]);
}

#[test]
fn statics_alone_show_one_row_and_fall_with_the_partition_only() {
    let mut story = Story::new();
    story.set_static(3, 10);
    let alone = r#"{"c": null, "st": 3, "v": null, "w": null}"#;
    assert_eq!(story.rows(0), [alone]);
    story.insert(1, 5, 10, None).insert(2, 6, 10, None);
    let both =
        [r#"{"c": 1, "st": 3, "v": 5, "w": null}"#, r#"{"c": 2, "st": 3, "v": 6, "w": null}"#];
    assert_eq!(story.rows(0), both);
    story.update(|update| {
        let marker = |side, start, end| {
            Item::Marker(Marker { bound: Bound { values: Vec::new(), side }, start, end })
        };
        update.items.push(marker(Side::Before, Some(deletion(20)), None));
        update.items.push(marker(Side::After, None, Some(deletion(20))));
    });
    assert_eq!(story.rows(0), [alone]);
    story.update(|update| update.deletion = Some(deletion(10)));
    assert_eq!(story.rows(0), Vec::<String>::new());
}

#[test]
fn cells_from_before_a_column_was_dropped_are_void() {
    let mut story = Story::new();
    // At any time of the millisecond.
    story.set(1, "w", 1, 1_000_999);
    assert_eq!(story.rows(0), Vec::<String>::new());
    story.set(1, "w", 2, 1_001_000);
    assert_eq!(story.rows(0), [r#"{"c": 1, "st": null, "v": null, "w": 2}"#]);
}

#[test]
fn a_collection_is_replaced_as_a_whole_and_added_to_by_element() {
    let mut story = Story::new();
    story.set_elements(10, true, &[3, 1]);
    story.set_elements(20, false, &[2]);
    assert_eq!(story.rows(0), [r#"{"c": 1, "st": null, "s": [1, 2, 3], "v": null, "w": null}"#]);
    story.set_elements(15, true, &[9]);
    assert_eq!(story.rows(0), [r#"{"c": 1, "st": null, "s": [2, 9], "v": null, "w": null}"#]);
    story.set_elements(30, true, &[]);
    assert_eq!(story.rows(0), Vec::<String>::new());
}

#[test]
fn markers_that_do_not_pair_and_values_that_are_none_are_refused() {
    let mut story = Story::new();
    story.insert(1, 5, 10, None);
    let before = story.state.clone();
    let open = Item::Marker(Marker {
        bound: Bound { values: Vec::new(), side: Side::Before },
        start: Some(deletion(20)),
        end: None,
    });
    let wrong =
        Item::Row(RowUpdate { clustering: vec![Some(b"too long")], ..RowUpdate::default() });
    for item in [open, wrong] {
        let mut update = empty(story.table);
        update.deletion = Some(deletion(99));
        update.items.push(item);
        assert!(story.state.apply(&update).is_err());
    }
    assert_eq!(story.state, before);
}

#[test]
fn write_times_span_everything_that_was_written() {
    let story = Story::new();
    let mut update = empty(story.table);
    assert_eq!(update.write_times(), None);
    let cell = Cell { timestamp: Timestamp(-4), content: Content::Live(byte(1)) };
    let elements = vec![(byte(1), cell)];
    let columns = vec![ColumnUpdate::Complex(story.column("s"), Some(deletion(3)), elements)];
    update.items.push(Item::Row(RowUpdate { columns, ..RowUpdate::default() }));
    assert_eq!(update.write_times(), Some((Timestamp(-4), Timestamp(3))));
    update.deletion = Some(deletion(9));
    assert_eq!(update.write_times(), Some((Timestamp(-4), Timestamp(9))));
}

/// A node stores any eight bytes as a time, and so must not stop at them.
#[test]
fn a_clustering_time_beyond_the_day_has_its_row() {
    let catalog = Catalog::from_document(
        r#"{"tables": [{"keyspace_name": "ks", "table_name": "d", "flags": ["compound"],
                "id": "00000000-0000-0000-0000-000000000002"}],
            "columns": [{"keyspace_name": "ks", "table_name": "d", "column_name": "p",
                "kind": "partition_key", "position": 0, "type": "tinyint"},
                {"keyspace_name": "ks", "table_name": "d", "column_name": "at",
                "kind": "clustering", "position": 0, "type": "time"}]}"#,
    );
    let catalog = catalog.expect("the document above");
    let table = catalog.by_name("ks", "d").expect("the only table");
    let times = [-1, 86_400_000_000_000, 3_600_000_000_000].map(i64::to_be_bytes);
    let liveness = Some(Liveness { timestamp: Timestamp(1), expiry: None });
    let items = times.iter().map(|time| {
        let clustering = vec![Some(&time[..])];
        Item::Row(RowUpdate { clustering, liveness, ..RowUpdate::default() })
    });
    let items = items.collect();
    let update = PartitionUpdate { table, key: byte(7), deletion: None, static_row: None, items };
    let mut state = TableState::default();
    state.apply(&update).expect("times as a node stores them");
    let rows: Vec<_> = state.select(table, Seconds(0)).map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 3);
    // Below zero is last, because the bytes have no sign.
    assert_eq!(rows[0], r#"{"p": 7, "at": "01:00:00.000000000"}"#);
}

/// `CREATE TABLE d (p, c, PRIMARY KEY (p, c)) WITH COMPACT STORAGE`, whose rows are cells of a column
/// that is not declared, and then `ALTER TABLE d DROP COMPACT STORAGE`, which changes nothing but the
/// table's flags.
#[test]
fn the_value_column_of_a_table_of_nothing_but_a_key_shows_when_the_table_is_no_longer_compact() {
    let column = |name: &str, kind: &str, ty: &str| {
        format!(
            r#"{{"keyspace_name": "ks", "table_name": "d", "column_name": "{name}",
                "kind": "{kind}", "position": 0, "type": "{ty}"}}"#
        )
    };
    let rows = |flags: &str| -> Vec<String> {
        let columns = [
            column("p", "partition_key", "tinyint"),
            column("c", "clustering", "tinyint"),
            column("value", "regular", "empty"),
        ];
        let catalog = Catalog::from_document(&format!(
            r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "d", "flags": [{flags}],
                    "id": "00000000-0000-0000-0000-000000000002"}}],
                "columns": [{}]}}"#,
            columns.join(",")
        ));
        let catalog = catalog.expect("the document above");
        let table = catalog.by_name("ks", "d").expect("the only table");
        let value = table.column(b"value", ColumnKind::Regular).expect("its value column");
        let cell = Cell { timestamp: Timestamp(1), content: Content::Live(&b""[..]) };
        let liveness = Some(Liveness { timestamp: Timestamp(2), expiry: None });
        let row = |clustering| RowUpdate {
            clustering: vec![Some(byte(clustering))],
            ..RowUpdate::default()
        };
        let items = vec![
            Item::Row(RowUpdate { columns: vec![ColumnUpdate::Simple(value, cell)], ..row(1) }),
            Item::Row(RowUpdate { liveness, ..row(2) }),
        ];
        let (key, deletion, static_row) = (byte(7), None, None);
        let mut state = TableState::default();
        let update = PartitionUpdate { table, key, deletion, static_row, items };
        state.apply(&update).expect("a valid write");
        state.select(table, Seconds(0)).map(|row| row.expect("a row")).collect()
    };
    for compact in [r#""dense""#, r#""dense", "compound""#] {
        assert_eq!(rows(compact), [r#"{"p": 7, "c": 1}"#, r#"{"p": 7, "c": 2}"#]);
    }
    let shown = [r#"{"p": 7, "c": 1, "value": ""}"#, r#"{"p": 7, "c": 2, "value": null}"#];
    assert_eq!(rows(r#""compound""#), shown);
}
