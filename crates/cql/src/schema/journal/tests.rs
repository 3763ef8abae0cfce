//! DDL older and newer than the document, as Cassandra's `SchemaKeyspace` writes it.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::schema::{Column, ColumnKind, TableId};
use crate::update::{Cell, ColumnUpdate, Content, Deletion, Liveness, RowUpdate};

/// When the document was taken.
const TAKEN_AT: i64 = 100;
const OLD: i64 = 50;
const NEW: i64 = 150;

/// Name, kind, position and type.
type ColumnRow = (&'static str, &'static str, i32, &'static str);

const KEY: ColumnRow = ("p", "partition_key", 0, "int");
const VALUE: ColumnRow = ("v", "regular", -1, "text");

fn id(number: u128) -> TableId {
    TableId(Uuid::from_u128(number))
}

/// What describes `system_schema` itself, and a table `ks.t` of this number if there is one.
fn journal(table: Option<u128>) -> Journal {
    let system: [(&str, u128, &[ColumnRow]); 5] = [
        ("keyspaces", 1000, &[("durable_writes", "regular", -1, "boolean")]),
        ("tables", 1001, &[("table_name", "clustering", 0, "text"), ("id", "regular", -1, "uuid")]),
        (
            "columns",
            1002,
            &[
                ("table_name", "clustering", 0, "text"),
                ("column_name", "clustering", 1, "text"),
                ("kind", "regular", -1, "text"),
                ("position", "regular", -1, "int"),
                ("type", "regular", -1, "text"),
            ],
        ),
        (
            "types",
            1003,
            &[
                ("type_name", "clustering", 0, "text"),
                ("field_names", "regular", -1, "frozen<list<text>>"),
                ("field_types", "regular", -1, "frozen<list<text>>"),
            ],
        ),
        (
            "views",
            1004,
            &[
                ("view_name", "clustering", 0, "text"),
                ("id", "regular", -1, "uuid"),
                ("base_table_id", "regular", -1, "uuid"),
                ("base_table_name", "regular", -1, "text"),
            ],
        ),
    ];
    let (mut tables, mut columns) = (Vec::new(), Vec::new());
    let mut add = |keyspace: &str, name: &str, number: u128, rows: &[ColumnRow]| {
        tables.push(json!({"keyspace_name": keyspace, "table_name": name,
            "id": Uuid::from_u128(number), "flags": ["compound"]}));
        columns.extend(rows.iter().map(|(column, kind, position, ty)| {
            json!({"keyspace_name": keyspace, "table_name": name, "column_name": column,
                "kind": kind, "position": position, "type": ty})
        }));
    };
    for (name, number, rows) in system {
        let key: ColumnRow = ("keyspace_name", "partition_key", 0, "text");
        add("system_schema", name, number, &[&[key], rows].concat());
    }
    if let Some(number) = table {
        add("ks", "t", number, &[KEY, VALUE]);
    }
    let document = json!({"tables": tables, "columns": columns, "types": []}).to_string();
    Journal::new(&document, Timestamp(TAKEN_AT)).unwrap()
}

/// Statements written at one time.
struct Ddl<'a> {
    catalog: &'a Catalog,
    at: i64,
}

impl<'a> Ddl<'a> {
    fn create(&self, table: &'static str, number: u128, columns: &[ColumnRow]) -> Mutation<'a> {
        vec![self.table(table, number), self.columns(table, columns, &[])]
    }

    /// Names the table again, and of its columns only those that change.
    fn alter(
        &self,
        (table, number): (&'static str, u128),
        added: &[ColumnRow],
        dropped: &[&'static str],
    ) -> Mutation<'a> {
        vec![self.table(table, number), self.columns(table, added, dropped)]
    }

    fn drop(&self, table: &'static str, columns: &[&'static str]) -> Mutation<'a> {
        vec![self.update("tables", vec![self.deleted(&[table])]), self.columns(table, &[], columns)]
    }

    fn create_type(&self, name: &'static str, field: &str, ty: &str) -> Mutation<'a> {
        let cells = [("field_names", list(field)), ("field_types", list(ty))];
        vec![self.update("types", vec![self.written("types", &[name], &cells)])]
    }

    fn drop_type(&self, name: &'static str) -> Mutation<'a> {
        vec![self.update("types", vec![self.deleted(&[name])])]
    }

    fn alter_keyspace(&self, durable_writes: bool) -> Mutation<'a> {
        let cells = [("durable_writes", vec![u8::from(durable_writes)])];
        vec![self.update("keyspaces", vec![self.written("keyspaces", &[], &cells)])]
    }

    /// A view of the table `t` of number 1.
    fn create_view(&self, name: &'static str, number: u128, columns: &[ColumnRow]) -> Mutation<'a> {
        let id = |number| Uuid::from_u128(number).as_bytes().to_vec();
        let base = [("base_table_id", id(1)), ("base_table_name", b"t".to_vec())];
        let cells = [&base[..], &[("id", id(number))]].concat();
        let row = self.written("views", &[name], &cells);
        vec![self.update("views", vec![row]), self.columns(name, columns, &[])]
    }

    fn table(&self, table: &'static str, number: u128) -> PartitionUpdate<'a> {
        let cells = [("id", Uuid::from_u128(number).as_bytes().to_vec())];
        let mut row = self.written("tables", &[table], &cells);
        row.deletion = Some(Deletion { timestamp: Timestamp(self.at - 1), at: Seconds(0) });
        self.update("tables", vec![row])
    }

    fn columns(
        &self,
        table: &'static str,
        added: &[ColumnRow],
        dropped: &[&'static str],
    ) -> PartitionUpdate<'a> {
        let added = added.iter().map(|(column, kind, position, ty)| {
            let cells = [
                ("kind", kind.as_bytes().to_vec()),
                ("position", position.to_be_bytes().to_vec()),
                ("type", ty.as_bytes().to_vec()),
            ];
            self.written("columns", &[table, column], &cells)
        });
        let dropped = dropped.iter().map(|column| self.deleted(&[table, column]));
        let mut rows: Vec<_> = added.chain(dropped).collect();
        rows.sort_by(|left, right| left.clustering.cmp(&right.clustering));
        self.update("columns", rows)
    }

    fn update(&self, name: &str, rows: Vec<RowUpdate<'a>>) -> PartitionUpdate<'a> {
        let table = self.catalog.by_name("system_schema", name).unwrap();
        let items = rows.into_iter().map(Item::Row).collect();
        PartitionUpdate { table, key: b"ks", deletion: None, static_row: None, items }
    }

    fn written(
        &self,
        name: &str,
        clustering: &[&'static str],
        cells: &[(&str, Vec<u8>)],
    ) -> RowUpdate<'a> {
        let table = self.catalog.by_name("system_schema", name).unwrap();
        let timestamp = Timestamp(self.at);
        let columns = cells.iter().map(|(column, bytes)| {
            let column = table.column(column.as_bytes(), ColumnKind::Regular).unwrap();
            // The bytes outlive the update they are put into.
            let content = Content::Live(&*bytes.clone().leak());
            ColumnUpdate::Simple(column, Cell { timestamp, content })
        });
        RowUpdate {
            clustering: clustering.iter().map(|part| Some(part.as_bytes())).collect(),
            liveness: Some(Liveness { timestamp, expiry: None }),
            deletion: None,
            columns: columns.collect(),
        }
    }

    fn deleted(&self, clustering: &[&'static str]) -> RowUpdate<'a> {
        RowUpdate {
            clustering: clustering.iter().map(|part| Some(part.as_bytes())).collect(),
            deletion: Some(Deletion { timestamp: Timestamp(self.at), at: Seconds(0) }),
            ..RowUpdate::default()
        }
    }
}

type Mutation<'a> = Vec<PartitionUpdate<'a>>;

/// The bytes of a list of one text.
fn list(text: &str) -> Vec<u8> {
    let length = i32::try_from(text.len()).unwrap();
    [&1_i32.to_be_bytes()[..], &length.to_be_bytes(), text.as_bytes()].concat()
}

/// Applies a mutation that was decoded with the journal's own catalog, as a reader of the log does.
fn apply(
    journal: &mut Journal,
    at: i64,
    make: impl for<'a> Fn(&Ddl<'a>) -> Mutation<'a>,
) -> Vec<Change> {
    let catalog = journal.catalog();
    journal.apply(&make(&Ddl { catalog: &catalog, at })).unwrap()
}

/// The names of the columns that are written now, and of those that are not.
fn columns(journal: &Journal, table: TableId) -> (Vec<String>, Vec<String>) {
    let catalog = journal.catalog();
    let table = catalog.table(table).unwrap();
    let keys = table.partition_key.iter().chain(&table.clustering);
    let (current, former): (Vec<_>, Vec<_>) =
        keys.chain(table.columns()).partition(|column| column.current);
    let names = |columns: Vec<&Column>| columns.iter().map(|c| c.name.to_string()).collect();
    (names(current), names(former))
}

#[test]
fn a_table_that_was_gone_before_the_document_is_known_by_its_id() {
    let mut journal = journal(None);
    let rows = journal.rows.clone();
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.create("t", 1, &[KEY, VALUE])), []);
    assert_eq!(columns(&journal, id(1)).0, ["p", "v"]);
    assert_eq!(apply(&mut journal, OLD + 1, |ddl| ddl.drop("t", &["p", "v"])), []);
    assert_eq!(columns(&journal, id(1)).0, ["p", "v"]);
    assert_eq!(journal.rows, rows);
    // Newer DDL neither tells of it nor forgets it.
    let changes = apply(&mut journal, NEW, |ddl| ddl.create("u", 2, &[KEY]));
    assert_eq!(changes, [Change::Created(id(2))]);
    assert_eq!(columns(&journal, id(1)).0, ["p", "v"]);
}

#[test]
fn a_name_stands_for_the_documents_table() {
    let mut journal = journal(Some(2));
    let name = |journal: &Journal| journal.catalog().by_name("ks", "t").unwrap().id;
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.create("t", 1, &[KEY])), []);
    assert_eq!((name(&journal), columns(&journal, id(1)).0), (id(2), vec!["p".to_owned()]));
    let changes = apply(&mut journal, NEW, |ddl| ddl.drop("t", &["p", "v"]));
    assert_eq!(changes, [Change::Dropped(id(2))]);
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.create("t", 9, &[KEY])), []);
    assert_eq!(name(&journal), id(2));
    let changes = apply(&mut journal, NEW + 1, |ddl| ddl.create("t", 3, &[KEY]));
    assert_eq!(changes, [Change::Recreated { old: id(2), new: id(3) }]);
    assert_eq!(name(&journal), id(3));
}

#[test]
fn of_tables_that_are_gone_the_last_has_the_name() {
    let mut journal = journal(None);
    for number in [3, 1, 2] {
        let at = OLD + i64::try_from(number).unwrap();
        assert_eq!(apply(&mut journal, at, |ddl| ddl.create("t", number, &[KEY])), []);
        assert_eq!(apply(&mut journal, at, |ddl| ddl.drop("t", &["p"])), []);
    }
    assert_eq!(journal.catalog().by_name("ks", "t").unwrap().id, id(2));
    let changes = apply(&mut journal, NEW, |ddl| ddl.create("t", 4, &[KEY]));
    assert_eq!(changes, [Change::Recreated { old: id(2), new: id(4) }]);
}

#[test]
fn a_table_that_is_gone_has_the_columns_of_its_whole_life() {
    let mut journal = journal(None);
    apply(&mut journal, OLD, |ddl| ddl.create_type("addr", "street", "text"));
    let typed: [ColumnRow; 2] = [KEY, ("a", "regular", -1, "frozen<addr>")];
    apply(&mut journal, OLD + 1, |ddl| ddl.create("t", 1, &typed));
    apply(&mut journal, OLD + 2, |ddl| ddl.alter(("t", 1), &[VALUE], &["a"]));
    assert_eq!(columns(&journal, id(1)), (vec!["p".into(), "v".into()], vec!["a".into()]));
    apply(&mut journal, OLD + 3, |ddl| ddl.drop("t", &["p", "v"]));
    apply(&mut journal, OLD + 4, |ddl| ddl.drop_type("addr"));
    assert_eq!(columns(&journal, id(1)), (vec!["p".into(), "v".into()], vec!["a".into()]));
}

#[test]
fn older_ddl_without_sense_is_ignored() {
    let mut journal = journal(None);
    let unknown: [ColumnRow; 2] = [KEY, ("a", "regular", -1, "frozen<nowhere>")];
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.create("t", 1, &unknown)), []);
    // Tables whose creation was not seen: one gets a column, one has its key renamed.
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.alter(("u", 2), &[VALUE], &[])), []);
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.alter(("w", 3), &[KEY], &["old"])), []);
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.alter(("w", 3), &[VALUE], &[])), []);
    let catalog = journal.catalog();
    assert!([1, 2, 3].iter().all(|number| catalog.table(id(*number)).is_none()));
    // And what has sense is still understood.
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.create("x", 4, &[KEY])), []);
    assert_eq!(columns(&journal, id(4)).0, ["p"]);
}

#[test]
fn older_ddl_does_not_change_what_the_document_says() {
    let mut journal = journal(Some(1));
    let (added, newer): (ColumnRow, ColumnRow) =
        (("x", "regular", -1, "int"), ("w", "regular", -1, "int"));
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.create("t", 1, &[KEY, added])), []);
    assert_eq!(apply(&mut journal, OLD, |ddl| ddl.drop("t", &["p", "x"])), []);
    assert_eq!(columns(&journal, id(1)), (vec!["p".into(), "v".into()], vec![]));
    let changes = apply(&mut journal, NEW, |ddl| ddl.alter(("t", 1), &[newer], &["v"]));
    assert_eq!(changes, [Change::Altered(id(1))]);
    assert_eq!(columns(&journal, id(1)), (vec!["p".into(), "w".into()], vec!["v".into()]));
}

#[test]
fn whether_a_keyspace_is_logged_is_no_change_of_its_tables() {
    let mut journal = journal(Some(1));
    let is_logged = |journal: &Journal| {
        let catalog = journal.catalog();
        catalog.is_logged(catalog.table(id(1)).unwrap())
    };
    assert!(is_logged(&journal));
    assert_eq!(apply(&mut journal, NEW, |ddl| ddl.alter_keyspace(false)), []);
    assert!(!is_logged(&journal));
    let changes = apply(&mut journal, NEW + 1, |ddl| ddl.create("other", 2, &[KEY]));
    assert_eq!(changes, [Change::Created(id(2))]);
    assert!(!is_logged(&journal));
    assert_eq!(apply(&mut journal, NEW + 2, |ddl| ddl.alter_keyspace(true)), []);
    assert!(is_logged(&journal));
}

/// Both views come with the log; the key of their base table comes with the document, or with the log.
#[test]
fn a_view_knows_whether_its_rows_need_their_markers() {
    let by_value: [ColumnRow; 2] =
        [("v", "partition_key", 0, "text"), ("p", "clustering", 0, "int")];
    for at in [OLD, NEW] {
        for documented in [true, false] {
            let mut journal = journal(documented.then_some(1));
            if !documented {
                apply(&mut journal, at, |ddl| ddl.create("t", 1, &[KEY, VALUE]));
            }
            apply(&mut journal, at, |ddl| ddl.create_view("by_value", 2, &by_value));
            apply(&mut journal, at, |ddl| ddl.create_view("by_key", 3, &[KEY, VALUE]));
            let catalog = journal.catalog();
            let is_strict = |number| catalog.table(id(number)).unwrap().strict_liveness;
            assert_eq!([1, 2, 3].map(is_strict), [false, true, false], "{at} {documented}");
        }
    }
}
