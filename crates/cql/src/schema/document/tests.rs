//! Documents good and bad, and one schema after another.

use super::*;
use crate::schema::{Change, Lookup as _};

const ID: &str = "cf5c1330-e12a-11f1-8855-3b04128900bb";

fn table(id: &str, flags: &str) -> String {
    format!(
        r#"{{"keyspace_name": "ks", "table_name": "t", "id": "{id}", "flags": [{flags}],
            "cdc": null, "comment": "not looked at"}}"#
    )
}

fn column(name: &str, kind: &str, position: i32, ty: &str) -> String {
    format!(
        r#"{{"keyspace_name": "ks", "table_name": "t", "column_name": "{name}", "kind": "{kind}",
            "position": {position}, "type": "{ty}", "clustering_order": "none"}}"#
    )
}

fn dropped(name: &str, time: &str) -> String {
    format!(
        r#"{{"keyspace_name": "ks", "table_name": "t", "column_name": "{name}",
            "dropped_time": "{time}", "kind": "regular", "type": "frozen<tuple<int, text>>"}}"#
    )
}

fn load(id: &str, columns: &[String], rest: &str) -> Result<Catalog, String> {
    let (table, columns) = (table(id, r#""compound""#), columns.join(","));
    let text = format!(r#"{{"tables": [{table}], "columns": [{columns}]{rest}}}"#);
    Catalog::from_document(&text).map_err(|error| error.to_string())
}

#[test]
fn keys_come_in_their_order_and_columns_by_name() {
    let columns = [
        column("v", "regular", -1, "int"),
        column("c2", "clustering", 1, "text"),
        column("l", "regular", -1, "list<int>"),
        column("c1", "clustering", 0, "int"),
        column("p", "partition_key", 0, "int"),
        column("é", "regular", -1, "int"),
        column("st", "static", -1, "int"),
    ];
    let catalog = load(ID, &columns, "").unwrap();
    let table = catalog.by_name("ks", "t").unwrap();
    let names =
        |columns: Vec<&Column>| columns.iter().map(|c| c.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(table.clustering.iter().collect()), ["c1", "c2"]);
    assert_eq!(names(table.statics()), ["st"]);
    assert_eq!(names(table.regulars()), ["é", "l", "v"]);
    assert!(table.column(b"l", ColumnKind::Regular).unwrap().is_complex());
    assert!(table.column(b"l", ColumnKind::Static).is_none());
    assert!(!table.cdc && catalog.table(table.id).is_some());
}

#[test]
fn user_types_in_any_order() {
    let columns = [column("p", "partition_key", 0, "int"), column("u", "regular", -1, "outer")];
    let ty = |name: &str, field: &str| {
        format!(
            r#"{{"keyspace_name": "ks", "type_name": "{name}", "field_names": ["a"],
                "field_types": ["{field}"]}}"#
        )
    };
    let types = |inner: &str| {
        format!(r#", "types": [{}, {}]"#, ty("outer", "frozen<inner>"), ty("inner", inner))
    };
    let catalog = load(ID, &columns, &types("int")).unwrap();
    let table = catalog.by_name("ks", "t").unwrap();
    assert_eq!(table.column(b"u", ColumnKind::Regular).unwrap().ty.to_string(), "outer");
    let error = load(ID, &columns, &types("frozen<outer>")).unwrap_err();
    assert_eq!(error, r#"ks.inner: type "outer" is not known"#);
}

#[test]
fn dropped_columns_are_former_ones_or_the_past_of_their_successor() {
    let columns = [column("p", "partition_key", 0, "int"), column("back", "regular", -1, "int")];
    let rows =
        [dropped("back", "1970-01-01 00:00:01.000Z"), dropped("gone", "1970-01-01 00:00:02.000Z")];
    let rest = format!(r#", "dropped_columns": [{}]"#, rows.join(","));
    let catalog = load(ID, &columns, &rest).unwrap();
    let table = catalog.by_name("ks", "t").unwrap();
    let back = table.column(b"back", ColumnKind::Regular).unwrap();
    assert!(back.current && back.dropped_at == Some(Timestamp(1_000_999)));
    assert_eq!(*back.ty, CqlType::Int);
    let gone = table.column(b"gone", ColumnKind::Regular).unwrap();
    assert!(!gone.current && gone.dropped_at == Some(Timestamp(2_000_999)));
    assert_eq!(table.regulars().len(), 1);
}

#[test]
fn rows_of_a_view_need_their_markers_if_its_key_has_more_than_that_of_its_base_table() {
    let of_view = |row: String| row.replace(r#""t""#, r#""view""#);
    let base = [column("p", "partition_key", 0, "int"), column("v", "regular", -1, "int")];
    let is_strict = |base_name: &str, names: [&str; 2]| {
        let keys = [
            of_view(column(names[0], "partition_key", 0, "int")),
            of_view(column(names[1], "clustering", 0, "int")),
        ];
        let rest = format!(
            r#", "views": [{{"keyspace_name": "ks", "view_name": "view",
                "base_table_name": {base_name},
                "id": "00000000-0000-0000-0000-000000000007"}}]"#
        );
        let catalog = load(ID, &[&base[..], &keys].concat(), &rest).unwrap();
        assert!(!catalog.by_name("ks", "t").unwrap().strict_liveness);
        catalog.by_name("ks", "view").unwrap().strict_liveness
    };
    assert!(is_strict(r#""t""#, ["v", "p"]) && is_strict(r#""t""#, ["p", "v"]));
    assert!(!is_strict(r#""t""#, ["p", "p"]));
    // Without its base table nothing is known of it.
    assert!(!is_strict(r#""gone""#, ["v", "p"]) && !is_strict("null", ["v", "p"]));
}

#[test]
fn layouts() {
    for (flags, layout, counter) in [
        (r#""compound""#, Layout::Ordinary, false),
        (r#""compound", "counter""#, Layout::Ordinary, true),
        (r#""dense""#, Layout::Dense, false),
        (r#""dense", "compound""#, Layout::Dense, false),
        ("", Layout::StaticCompact, false),
    ] {
        let (table, key) = (table(ID, flags), column("p", "partition_key", 0, "int"));
        let text = format!(r#"{{"tables": [{table}], "columns": [{key}]}}"#);
        let catalog = Catalog::from_document(&text).unwrap();
        let table = catalog.by_name("ks", "t").unwrap();
        assert_eq!((table.layout, table.counter), (layout, counter), "{flags}");
    }
}

#[test]
fn rows_may_be_texts_and_say_no_more_than_they_need() {
    let rows = [
        format!(r#"{{"keyspace_name": "ks", "table_name": "t", "id": "{ID}"}}"#),
        r#"{"keyspace_name": "ks", "table_name": "t", "column_name": "P", "kind": "partition_key",
            "type": "int"}"#
            .to_owned(),
    ];
    let quoted = rows.clone().map(|row| Value::from(row).to_string());
    for [table, key] in [rows, quoted] {
        let text = format!(r#"{{"tables": [{table}], "columns": [{key}]}}"#);
        let catalog = Catalog::from_document(&text).unwrap();
        let table = catalog.by_name("ks", "t").unwrap();
        assert_eq!((table.layout, &*table.partition_key[0].name), (Layout::Ordinary, "P"));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let key = || column("p", "partition_key", 0, "int");
    for (columns, rest, expected) in [
        (
            vec![column("v", "odd", 0, "int")],
            String::new(),
            r#"ks.t.v: kind "odd" is not understood"#,
        ),
        (vec![column("v", "regular", 0, "lst<int>")], String::new(), "ks.t.v: frozen, list, set"),
        (
            vec![key()],
            format!(r#", "dropped_columns": [{}]"#, dropped("v", "soon")),
            r#"ks.t.v: dropped_time "soon" is not understood"#,
        ),
        (vec!["7".to_owned()], String::new(), "the schema document is malformed"),
    ] {
        let error = load(ID, &columns, &rest).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_newer_schema_forgets_nothing() {
    let key = column("p", "partition_key", 0, "int");
    let (a, b) = (column("a", "regular", -1, "int"), column("b", "regular", -1, "text"));
    let mut catalog = load(ID, &[key.clone(), a.clone()], "").unwrap();
    let id = catalog.by_name("ks", "t").unwrap().id;
    assert_eq!(catalog.absorb(load(ID, &[key.clone(), a], "").unwrap()), []);
    let changes = catalog.absorb(load(ID, &[key.clone(), b.clone()], "").unwrap());
    assert_eq!(changes, [Change::Altered(id)]);
    let table = catalog.by_name("ks", "t").unwrap();
    assert!(!table.column(b"a", ColumnKind::Regular).unwrap().current);
    assert!(table.column(b"b", ColumnKind::Regular).unwrap().current);
    let other = "00000000-0000-0000-0000-000000000009";
    let changes = catalog.absorb(load(other, &[key, b], "").unwrap());
    let new = catalog.by_name("ks", "t").unwrap().id;
    assert_eq!(changes, [Change::Recreated { old: id, new }]);
    assert!(catalog.table(id).is_some());
    assert_eq!(catalog.absorb(Catalog::default()), [Change::Dropped(new)]);
    assert_eq!(catalog.absorb(Catalog::default()), []);
    assert!(catalog.table(new).is_some());
}

/// One that is dropped after `tables` was read and before `columns` is.
#[test]
fn a_table_without_a_partition_key_is_left_out() {
    let (key, value) = (column("p", "partition_key", 0, "int"), column("v", "regular", -1, "text"));
    for torso in [vec![], vec![value.clone()], vec![column("c", "clustering", 0, "int")]] {
        let mut catalog = load(ID, &torso, "").unwrap();
        assert!(catalog.tables().next().is_none() && catalog.by_name("ks", "t").is_none());
        let whole = load(ID, &[key.clone(), value.clone()], "").unwrap();
        let id = whole.by_name("ks", "t").unwrap().id;
        // What is whole is new, and nothing of the part is mixed into it.
        assert_eq!(catalog.absorb(whole.clone()), [Change::Created(id)]);
        assert_eq!(catalog.table(id), whole.table(id));
        assert_eq!(catalog.absorb(load(ID, &torso, "").unwrap()), [Change::Dropped(id)]);
        assert_eq!(catalog.table(id), whole.table(id));
    }
}

#[test]
fn a_table_that_the_newer_schema_only_remembers_is_gone() {
    let key = column("p", "partition_key", 0, "int");
    let state = || load(ID, std::slice::from_ref(&key), "").unwrap();
    let id = state().by_name("ks", "t").unwrap().id;
    let mut newer = state();
    newer.absorb(Catalog::default());
    let mut catalog = state();
    assert_eq!(catalog.absorb(newer.clone()), [Change::Dropped(id)]);
    assert_eq!(catalog.absorb(newer.clone()), []);
    assert!(catalog.table(id).is_some());
    // Whoever did not know it hears nothing, now or later, and can read its records.
    let mut stranger = Catalog::default();
    assert_eq!(stranger.absorb(newer), []);
    assert_eq!(stranger.absorb(Catalog::default()), []);
    assert!(stranger.table(id).is_some());
}

#[test]
fn a_recalled_table_that_is_there_after_all_is_news() {
    let key = column("p", "partition_key", 0, "int");
    let other = "00000000-0000-0000-0000-000000000009";
    let present = load(other, std::slice::from_ref(&key), "").unwrap();
    let former = [key.clone(), column("a", "regular", -1, "int")];
    let recalled = load(ID, &former, "").unwrap().by_name("ks", "t").unwrap().clone();
    let id = recalled.id;
    let mut catalog = present.clone();
    let old = catalog.by_name("ks", "t").unwrap().id;
    catalog.recall(recalled);
    assert_eq!(catalog.by_name("ks", "t").unwrap().id, old);
    assert_eq!(catalog.absorb(present), []);
    let changes = catalog.absorb(load(ID, &[key], "").unwrap());
    assert_eq!(changes, [Change::Recreated { old, new: id }]);
    let table = catalog.by_name("ks", "t").unwrap();
    assert_eq!(table.id, id);
    assert!(!table.column(b"a", ColumnKind::Regular).unwrap().current);
}
