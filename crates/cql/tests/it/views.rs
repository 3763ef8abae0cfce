//! Rows of materialised views, which a node keeps in tables of their own.

use helenus_cql::reconcile::TableState;
use helenus_cql::schema::{Catalog, ColumnKind, Table};
use helenus_cql::update::{
    Cell, ColumnUpdate, Content, Expiry, Item, Liveness, PartitionUpdate, RowUpdate, Seconds,
    Timestamp, Ttl,
};

/// `ks.t (k, v, a)`, where `v` may be of the key, and a view with `PRIMARY KEY (v, k)`; all `tinyint`.
fn catalog(kind_of_v: &str) -> Catalog {
    let column = |table: &str, name: &str, kind: &str| {
        format!(
            r#"{{"keyspace_name": "ks", "table_name": "{table}", "column_name": "{name}",
                "kind": "{kind}", "position": 0, "type": "tinyint"}}"#
        )
    };
    let columns = [
        column("t", "k", "partition_key"),
        column("t", "v", kind_of_v),
        column("t", "a", "regular"),
        column("view", "v", "partition_key"),
        column("view", "k", "clustering"),
        column("view", "a", "regular"),
    ];
    let text = format!(
        r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
                "id": "00000000-0000-0000-0000-000000000001"}}],
            "views": [{{"keyspace_name": "ks", "view_name": "view", "base_table_name": "t",
                "id": "00000000-0000-0000-0000-000000000002"}}],
            "columns": [{}]}}"#,
        columns.join(",")
    );
    Catalog::from_document(&text).expect("the document above")
}

/// A row `(1, 1)` of the view, with `a` or without.
fn write(state: &mut TableState, table: &Table, liveness: Liveness, a: Option<&[u8]>) {
    let column = table.column(b"a", ColumnKind::Regular).expect("a column of the view");
    let cell = |value| Cell { timestamp: Timestamp(10), content: Content::Live(value) };
    let row = RowUpdate {
        clustering: vec![Some(&[1])],
        liveness: Some(liveness),
        deletion: None,
        columns: a.map(|a| ColumnUpdate::Simple(column, cell(a))).into_iter().collect(),
    };
    let items = vec![Item::Row(row)];
    let update = PartitionUpdate { table, key: &[1], deletion: None, static_row: None, items };
    state.apply(&update).expect("a valid write");
}

fn rows(state: &TableState, table: &Table, now: i64) -> Vec<String> {
    state.select(table, Seconds(now)).map(|row| row.expect("a valid row")).collect()
}

fn expiring(ttl: i32) -> Liveness {
    let expiry = Some(Expiry { at: Seconds(50), ttl: Ttl(ttl) });
    Liveness { timestamp: Timestamp(20), expiry }
}

const LIVE: Liveness = Liveness { timestamp: Timestamp(10), expiry: None };

/// What a node writes to the view for `UPDATE t SET v = 2` over `(1, 1, 5)`, and for a `v` that
/// was written with a TTL: the marker goes, the cell stays.
#[test]
fn a_row_whose_marker_is_gone_is_not_shown_though_it_has_a_value() {
    let catalog = catalog("regular");
    let table = catalog.by_name("ks", "view").expect("the view");
    for (marker, shown_before) in [(expiring(i32::MAX), 0), (expiring(30), 1)] {
        let mut state = TableState::default();
        write(&mut state, table, LIVE, Some(&[5]));
        assert_eq!(rows(&state, table, 49), [r#"{"v": 1, "k": 1, "a": 5}"#]);
        write(&mut state, table, marker, None);
        assert_eq!(rows(&state, table, 49).len(), shown_before);
        assert_eq!(rows(&state, table, 50), Vec::<String>::new());
    }
}

#[test]
fn a_view_with_the_key_of_its_base_table_shows_what_has_a_value() {
    let catalog = catalog("clustering");
    let table = catalog.by_name("ks", "view").expect("the view");
    let mut state = TableState::default();
    write(&mut state, table, LIVE, Some(&[5]));
    write(&mut state, table, expiring(30), None);
    assert_eq!(rows(&state, table, 50), [r#"{"v": 1, "k": 1, "a": 5}"#]);
}
