//! Random histories of one table that has everything: two clustering columns, the second
//! descending, a static, simple columns, a set, a map, and in a second table counters.
//!
//! Times and keys come from small ranges, so that ties and overlaps are the rule.

use helenus_cql::schema::{Catalog, ColumnKind, Table};
use helenus_cql::update::{
    Bound, Cell, ColumnUpdate, Content, Deletion, Expiry, Item, Liveness, Marker, PartitionUpdate,
    RowUpdate, Seconds, Side, Timestamp, Ttl,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// First values of both ends, whether each lies behind them, and the deletion between.
pub(crate) type Range = (Vec<u8>, Vec<u8>, bool, bool, Deletion);
type Element = (u8, Cell<Vec<u8>>);

/// A write, before it borrows from a schema.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) key: u8,
    pub(crate) deletion: Option<Deletion>,
    pub(crate) statics: Option<Row>,
    pub(crate) rows: Vec<Row>,
    pub(crate) range: Option<Range>,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    clustering: [u8; 2],
    liveness: Option<Liveness>,
    deletion: Option<Deletion>,
    value: Option<Cell<Vec<u8>>>,
    set: Option<(Option<Deletion>, Vec<Element>)>,
    counter: Option<Cell<Vec<u8>>>,
}

pub(crate) fn catalog() -> Catalog {
    let column = |table: &str, name: &str, kind: &str, position: i32, ty: &str| {
        let order = if name == "c2" { "desc" } else { "asc" };
        format!(
            r#"{{"keyspace_name": "ks", "table_name": "{table}", "column_name": "{name}",
                "kind": "{kind}", "position": {position}, "type": "{ty}",
                "clustering_order": "{order}"}}"#
        )
    };
    let columns = ["t", "k"].map(|table| {
        let ty = |ordinary: &'static str| if table == "k" { "counter" } else { ordinary };
        let mut columns = vec![
            column(table, "id", "partition_key", 0, "tinyint"),
            column(table, "c1", "clustering", 0, "tinyint"),
            column(table, "c2", "clustering", 1, "tinyint"),
            column(table, "st", "static", -1, ty("blob")),
            column(table, "v", "regular", -1, ty("blob")),
        ];
        if table == "t" {
            columns.push(column(table, "s", "regular", -1, "set<tinyint>"));
        }
        columns.join(",")
    });
    let table = |name: &str, id: u8| {
        let flags = if name == "k" { r#""compound", "counter""# } else { r#""compound""# };
        format!(
            r#"{{"keyspace_name": "ks", "table_name": "{name}", "flags": [{flags}],
                "id": "00000000-0000-0000-0000-00000000000{id}"}}"#
        )
    };
    let text = format!(
        r#"{{"tables": [{}, {}], "columns": [{}]}}"#,
        table("t", 1),
        table("k", 2),
        columns.join(",")
    );
    Catalog::from_document(&text).expect("the document above")
}

impl Write {
    /// The write with all its rows in one place, so that more of them meet.
    pub(crate) fn on_one_row(mut self) -> Self {
        self.key = 0;
        self.rows.iter_mut().for_each(|row| row.clustering = [1, 1]);
        self
    }

    /// The write as an update of a table.
    pub(crate) fn on<'a>(&'a self, table: &'a Table) -> PartitionUpdate<'a> {
        let row = |row: &'a Row, kind| {
            let name: &[u8] = if kind == ColumnKind::Static { b"st" } else { b"v" };
            row.update(table, name, kind)
        };
        let mut items: Vec<_> =
            self.rows.iter().map(|written| Item::Row(row(written, ColumnKind::Regular))).collect();
        if let Some((start, end, after_start, after_end, deletion)) = &self.range {
            let bound = |values: &'a [u8], after: bool| Bound {
                values: values.chunks(1).map(Some).collect(),
                side: if after { Side::After } else { Side::Before },
            };
            let marker = |bound, start, end| Item::Marker(Marker { bound, end, start });
            items.push(marker(bound(start, *after_start), Some(*deletion), None));
            items.push(marker(bound(end, *after_end), None, Some(*deletion)));
        }
        PartitionUpdate {
            table,
            key: std::slice::from_ref(&self.key),
            deletion: self.deletion,
            static_row: self.statics.as_ref().map(|statics| RowUpdate {
                clustering: Vec::new(),
                liveness: None,
                deletion: None,
                columns: row(statics, ColumnKind::Static).columns,
            }),
            items,
        }
    }
}

impl Row {
    fn update<'a>(&'a self, table: &'a Table, name: &[u8], kind: ColumnKind) -> RowUpdate<'a> {
        let mut columns = Vec::new();
        let simple = table.column(name, kind).expect("a column of both tables");
        let counters = &*table.name == "k";
        let cell = if counters { self.counter.as_ref() } else { self.value.as_ref() };
        columns.extend(cell.map(|cell| ColumnUpdate::Simple(simple, borrow(cell))));
        if let (Some(column), Some((deletion, elements))) =
            (table.column(b"s", kind), self.set.as_ref())
        {
            let elements =
                elements.iter().map(|(path, cell)| (std::slice::from_ref(path), borrow(cell)));
            columns.push(ColumnUpdate::Complex(column, *deletion, elements.collect()));
        }
        RowUpdate {
            clustering: self.clustering.iter().map(|v| Some(std::slice::from_ref(v))).collect(),
            liveness: self.liveness.filter(|_| !counters),
            deletion: self.deletion,
            columns,
        }
    }
}

fn borrow(cell: &Cell<Vec<u8>>) -> Cell<&[u8]> {
    let content = match &cell.content {
        Content::Live(value) => Content::Live(value.as_slice()),
        Content::Expiring(value, expiry) => Content::Expiring(value.as_slice(), *expiry),
        Content::Deleted(at) => Content::Deleted(*at),
    };
    Cell { timestamp: cell.timestamp, content }
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (0i64..6).prop_map(Timestamp)
}

fn deletion() -> impl Strategy<Value = Deletion> {
    (timestamp(), 0i64..3).prop_map(|(timestamp, at)| Deletion { timestamp, at: Seconds(at) })
}

fn expiry() -> impl Strategy<Value = Expiry> {
    (0i64..20, 1i32..3).prop_map(|(at, ttl)| Expiry { at: Seconds(at), ttl: Ttl(ttl) })
}

fn cell() -> impl Strategy<Value = Cell<Vec<u8>>> {
    let value = || vec(0u8..3, 0..2);
    let content = prop_oneof![
        value().prop_map(Content::Live),
        (value(), expiry()).prop_map(|(value, expiry)| Content::Expiring(value, expiry)),
        (0i64..3).prop_map(|at| Content::Deleted(Seconds(at))),
    ];
    (timestamp(), content).prop_map(|(timestamp, content)| Cell { timestamp, content })
}

fn counter() -> impl Strategy<Value = Cell<Vec<u8>>> {
    let shard = (0u8..3, 0i64..4, -5i64..5).prop_map(|(id, clock, count)| {
        [&[0, 1, 0x80, 0][..], &[id; 16], &clock.to_be_bytes(), &count.to_be_bytes()].concat()
    });
    let content = prop_oneof![
        6 => shard.prop_map(Content::Live),
        1 => (0i64..3).prop_map(|at| Content::Deleted(Seconds(at))),
    ];
    (timestamp(), content).prop_map(|(timestamp, content)| Cell { timestamp, content })
}

fn row() -> impl Strategy<Value = Row> {
    let liveness = (timestamp(), option::of(expiry()))
        .prop_map(|(timestamp, expiry)| Liveness { timestamp, expiry });
    let set = (option::of(deletion()), vec((0u8..3, cell()), 0..3));
    (
        [0u8..3, 0u8..3],
        option::of(liveness),
        option::weighted(0.2, deletion()),
        option::of(cell()),
        option::of(set),
        option::of(counter()),
    )
        .prop_map(|(clustering, liveness, deletion, value, set, counter)| Row {
            clustering,
            liveness,
            deletion,
            value,
            set,
            counter,
        })
}

/// One write; statics, ranges and partition deletions are rarer than rows.
pub(crate) fn write() -> impl Strategy<Value = Write> {
    let range = (vec(0u8..3, 0..=2), vec(0u8..3, 0..=2), any::<bool>(), any::<bool>(), deletion());
    (
        0u8..2,
        option::weighted(0.1, deletion()),
        option::weighted(0.2, row()),
        vec(row(), 0..3),
        option::weighted(0.3, range),
    )
        .prop_map(|(key, deletion, statics, rows, range)| Write {
            key,
            deletion,
            statics,
            rows,
            range,
        })
}
