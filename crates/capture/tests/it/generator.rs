//! Random tables and random statements on them, the same for the same seed.
//!
//! Values come from small pools, so that statements meet: on one row, at one timestamp, in one range.

mod statements;
mod values;

use helenus_cql::datatype::CqlType;
use helenus_model::{Random, SeededRandom};
use std::sync::Arc;

use helenus_cql::datatype::UserType;

pub(crate) use statements::Workload;
pub(crate) use values::{altered_user_type, user_type};

/// Types of keys and of the elements of sets.
const SCALARS: [&str; 19] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
    "int",
];

const NESTED: [&str; 22] = [
    "duration",
    "frozen<list<int>>",
    "frozen<map<text, int>>",
    "frozen<addr>",
    "tuple<int, text, decimal>",
    "list<int>",
    "list<text>",
    "map<text, int>",
    "map<decimal, text>",
    "map<timeuuid, double>",
    "addr",
    "addr",
    "frozen<set<double>>",
    "set<frozen<addr>>",
    "set<frozen<list<varint>>>",
    "map<frozen<tuple<int, text>>, frozen<addr>>",
    "map<inet, frozen<list<timestamp>>>",
    "list<frozen<map<text, frozen<set<int>>>>>",
    "list<frozen<tuple<uuid, duration>>>",
    "frozen<map<frozen<addr>, frozen<list<blob>>>>",
    "tuple<frozen<addr>, frozen<set<date>>, frozen<tuple<boolean>>>",
    "frozen<list<frozen<addr>>>",
];

const VECTORS: [&str; 5] = [
    "vector<float, 3>",
    "vector<text, 2>",
    "vector<frozen<list<int>>, 2>",
    "vector<vector<bigint, 2>, 2>",
    "set<vector<int, 2>>",
];

/// Types of clustering columns behind the first.
const LATER_KEYS: [&str; 9] = [
    "int",
    "text",
    "decimal",
    "boolean",
    "tuple<int, text>",
    "frozen<list<int>>",
    "frozen<set<text>>",
    "frozen<map<int, text>>",
    "frozen<addr>",
];

/// What kind of table it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Ordinary,
    Counter,
    /// COMPACT STORAGE of any of its three kinds.
    Compact,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// As CQL spells it.
    pub(crate) name: String,
    pub(crate) ty: CqlType,
}

impl Column {
    /// The same column after its user type was altered.
    fn of_altered_type(&self) -> Self {
        let find = |_: &str| Some(altered_user_type());
        let ty = CqlType::parse(&self.ty.to_string(), &find).expect("a type of ours");
        Column { name: self.name.clone(), ty }
    }
}

/// A table and what statements may do to it.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// As CQL spells it.
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Every statement names its time, from a few.
    pub(crate) timed: bool,
    pub(crate) partition: Vec<Column>,
    pub(crate) clustering: Vec<(Column, bool)>,
    pub(crate) statics: Vec<Column>,
    pub(crate) regulars: Vec<Column>,
    /// A column that comes and goes.
    pub(crate) fickle: Option<Column>,
    pub(crate) longest_ttl: u32,
}

pub(crate) fn column(name: &str, ty: &str) -> Column {
    let addr = |name: &str| (name == "addr").then(user_type);
    let find = |name: &str| -> Option<Arc<UserType>> { addr(name) };
    Column { name: name.to_owned(), ty: CqlType::parse(ty, &find).expect("a type of ours") }
}

fn pick<'a>(random: &SeededRandom, from: &[&'a str]) -> &'a str {
    from[usize::try_from(random.below(from.len() as u64)).expect("an index")]
}

/// What a node takes that others refuse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Takes {
    pub(crate) vectors: bool,
    /// In seconds.
    pub(crate) longest_ttl: u32,
}

impl Table {
    /// Table `number` of a run: the first ones are the special ones, then every type in turn comes
    /// first among the clustering columns.
    pub(crate) fn random(number: usize, takes: Takes, random: &SeededRandom) -> Self {
        let mut table = Table {
            name: if number % 5 == 1 { format!("\"T{number}\"") } else { format!("t{number}") },
            shape: Shape::Ordinary,
            timed: random.below(2) == 0,
            partition: vec![column("p", "int")],
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: Vec::new(),
            fickle: None,
            longest_ttl: takes.longest_ttl,
        };
        let plain = |prefix: &str, count: usize, ty: &str| -> Vec<Column> {
            (0..count).map(|index| column(&format!("{prefix}{index:02}"), ty)).collect()
        };
        match number {
            0 => {
                table.shape = Shape::Counter;
                table.timed = false;
                table.clustering = vec![(column("c", "int"), false)];
                table.statics = plain("s", 1, "counter");
                table.regulars = plain("n", 2, "counter");
            }
            1 => table.regulars = plain("w", 90, "int"),
            2 => {
                let keys = plain("c", 35, "tinyint");
                table.clustering = keys.into_iter().map(|key| (key, false)).collect();
                table.regulars = plain("v", 2, "text");
            }
            3 => {
                table.shape = Shape::Compact;
                table.clustering = vec![(column("c", "int"), true), (column("d", "text"), false)];
                table.regulars = plain("v", 1, "text");
            }
            4 => {
                table.shape = Shape::Compact;
                table.regulars = vec![column("a", "int"), column("b", "text")];
            }
            5 => {
                table.shape = Shape::Compact;
                table.clustering = vec![(column("c", "text"), false)];
            }
            _ => table.fill(number, takes.vectors, random),
        }
        table
    }

    fn fill(&mut self, number: usize, vectors: bool, random: &SeededRandom) {
        if random.below(3) == 0 {
            let others = ["frozen<list<text>>", "tuple<int, text>", "frozen<set<int>>"];
            let from: &[&str] = if random.below(4) == 0 { &others } else { &SCALARS };
            self.partition.push(column("\"Q\"", pick(random, from)));
        }
        let first = SCALARS[number % SCALARS.len()];
        // Every type comes first among the clustering columns; some tables have none.
        let clustering = if first == "int" { random.below(3) } else { 1 + random.below(3) };
        for index in 0..clustering {
            let ty = match index {
                0 => first,
                _ => pick(random, &LATER_KEYS),
            };
            self.clustering.push((column(&format!("c{index}"), ty), random.below(2) == 0));
        }
        let regular = |name: &str, random: &SeededRandom| match random.below(5) {
            0 | 1 => column(name, pick(random, &SCALARS)),
            2 => column(name, &format!("set<{}>", pick(random, &SCALARS))),
            3 if vectors => column(name, pick(random, &VECTORS)),
            _ => column(name, pick(random, &NESTED)),
        };
        // And every type is the element of a set.
        let element = SCALARS[(number + 7) % SCALARS.len()];
        self.regulars.push(column("v0", &format!("set<{element}>")));
        for name in ["\"MiXed\"", "\"Größe\"", "v1", "v2"] {
            self.regulars.push(regular(name, random));
        }
        if clustering > 0 && random.below(2) == 0 {
            self.statics.push(regular("s0", random));
            self.statics.push(regular("\"S1\"", random));
        }
        if random.below(2) == 0 {
            let types =
                ["int", "text", "list<int>", "set<text>", "map<int, text>", "tuple<int, text>"];
            self.fickle = Some(column("x", pick(random, &types)));
        }
    }

    /// The name as a schema has it.
    pub(crate) fn bare_name(&self) -> &str {
        self.name.trim_matches('"')
    }

    /// The same table after the user type was altered.
    pub(crate) fn of_altered_type(&self) -> Self {
        let all = |columns: &[Column]| columns.iter().map(Column::of_altered_type).collect();
        Table {
            partition: all(&self.partition),
            clustering: self.clustering.iter().map(|(c, d)| (c.of_altered_type(), *d)).collect(),
            statics: all(&self.statics),
            regulars: all(&self.regulars),
            fickle: self.fickle.as_ref().map(Column::of_altered_type),
            ..self.clone()
        }
    }

    /// The statement that makes it in `keyspace`.
    pub(crate) fn create(&self, keyspace: &str) -> String {
        let spelt = |column: &Column, mark: &str| format!("{} {}{mark}", column.name, column.ty);
        let mut parts: Vec<String> = self.partition.iter().map(|c| spelt(c, "")).collect();
        parts.extend(self.clustering.iter().map(|(c, _)| spelt(c, "")));
        parts.extend(self.statics.iter().map(|c| spelt(c, " static")));
        parts.extend(self.regulars.iter().chain(&self.fickle).map(|c| spelt(c, "")));
        let names = |columns: &mut dyn Iterator<Item = &Column>| {
            columns.map(|c| c.name.clone()).collect::<Vec<_>>().join(", ")
        };
        let partition = names(&mut self.partition.iter());
        let clustering = names(&mut self.clustering.iter().map(|(c, _)| c));
        let key = match clustering.as_str() {
            "" => format!("({partition})"),
            _ => format!("({partition}), {clustering}"),
        };
        // What a compaction makes of expired cells decides ties differently from then on, and a log
        // does not tell of it: see spellings.rs.
        let compaction = "{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}";
        let mut options = vec!["cdc = true".to_owned(), format!("compaction = {compaction}")];
        if !self.clustering.is_empty() {
            let order = self.clustering.iter().map(|(column, descending)| {
                format!("{} {}", column.name, if *descending { "DESC" } else { "ASC" })
            });
            let order = order.collect::<Vec<_>>().join(", ");
            options.push(format!("CLUSTERING ORDER BY ({order})"));
        }
        if self.shape == Shape::Compact {
            options.push("COMPACT STORAGE".to_owned());
        }
        let (parts, options) = (parts.join(", "), options.join(" AND "));
        format!(
            "CREATE TABLE {keyspace}.{} ({parts}, PRIMARY KEY ({key})) WITH {options}",
            self.name
        )
    }
}
