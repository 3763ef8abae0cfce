//! What is done to a table.

use helenus_cql::datatype::CqlType;
use helenus_model::{Random, SeededRandom};

use super::values::value;
use super::{Column, Shape, Table};

/// Statements on one table, one after the other.
#[derive(Debug)]
pub(crate) struct Workload {
    table: Table,
    random: SeededRandom,
    keyspace: String,
    /// Whether the fickle column is there at the moment.
    has_fickle: bool,
    /// Another table, which shares batches with this one.
    partner: Option<Box<Workload>>,
}

impl Workload {
    pub(crate) fn new(table: Table, keyspace: &str, seed: u64) -> Self {
        let has_fickle = table.fickle.is_some();
        let random = SeededRandom::new(seed);
        Workload { table, random, keyspace: keyspace.to_owned(), has_fickle, partner: None }
    }

    /// Lets batches write to another table, too: to what always stands in it.
    pub(crate) fn beside(self, partner: &Table) -> Self {
        let mut workload = Workload::new(partner.clone(), &self.keyspace, self.random.next_u64());
        workload.has_fickle = false;
        Workload { partner: Some(Box::new(workload)), ..self }
    }

    /// Goes on with the user type altered.
    pub(crate) fn alter_type(&mut self) {
        self.table = self.table.of_altered_type();
        if let Some(partner) = &mut self.partner {
            partner.alter_type();
        }
    }

    /// The next statement.
    pub(crate) fn next(&mut self) -> String {
        if let Some(change) = self.alter() {
            return change;
        }
        match self.table.shape {
            Shape::Counter => match self.below(12) {
                0 => {
                    let counts: Vec<String> =
                        (0..2 + self.below(3)).map(|_| self.count()).collect();
                    format!("BEGIN COUNTER BATCH {}; APPLY BATCH", counts.join("; "))
                }
                1 => self.uncount(),
                _ => self.count(),
            },
            Shape::Compact => self.single(self.below(2) == 0),
            Shape::Ordinary => match self.random.below(12) {
                0 => self.batch(),
                1 if !self.table.timed => self.conditional(),
                _ => self.single(true),
            },
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn name(&self) -> String {
        format!("{}.{}", self.keyspace, self.table.name)
    }

    fn alter(&mut self) -> Option<String> {
        let fickle = self.table.fickle.clone()?;
        if self.below(150) > 0 {
            return None;
        }
        self.has_fickle = !self.has_fickle;
        let name = self.name();
        Some(if self.has_fickle {
            format!("ALTER TABLE {name} ADD {} {}", fickle.name, fickle.ty)
        } else {
            format!("ALTER TABLE {name} DROP {}", fickle.name)
        })
    }

    fn single(&self, rich: bool) -> String {
        match self.below(20) {
            0..=8 => self.insert(rich),
            9..=14 if !self.table.regulars.is_empty() => self.update(rich),
            15 if rich && !self.table.statics.is_empty() && self.below(3) == 0 => {
                self.delete_statics()
            }
            15 if rich && !self.table.regulars.is_empty() => self.delete_columns(),
            16 if !self.table.clustering.is_empty() => {
                format!("DELETE FROM {}{} WHERE {}", self.name(), self.at(), self.partition())
            }
            17 | 18 if rich && !self.table.clustering.is_empty() => self.delete_range(),
            19 => format!("DELETE FROM {}{} WHERE {}", self.name(), self.at(), self.row()),
            _ => self.insert(rich),
        }
    }

    fn insert(&self, rich: bool) -> String {
        let mut names = Vec::new();
        let mut values = Vec::new();
        let mut put = |column: &Column, value: String| {
            names.push(column.name.clone());
            values.push(value);
        };
        for column in &self.table.partition {
            put(column, self.key_value(column));
        }
        // Sometimes the static columns alone.
        let only_statics = !self.table.statics.is_empty() && self.below(8) == 0;
        if !only_statics {
            for (column, _) in &self.table.clustering {
                put(column, self.clustering_value(column));
            }
            for column in self.regulars() {
                if !rich || self.below(3) > 0 {
                    put(column, self.maybe_null(column, rich));
                }
            }
        }
        for column in &self.table.statics {
            if only_statics || self.below(4) == 0 {
                put(column, self.maybe_null(column, rich));
            }
        }
        let (names, values) = (names.join(", "), values.join(", "));
        format!("INSERT INTO {} ({names}) VALUES ({values}){}", self.name(), self.using())
    }

    fn update(&self, rich: bool) -> String {
        let mut changes: Vec<String> = Vec::new();
        for column in self.regulars() {
            if changes.is_empty() || self.below(3) == 0 {
                changes.push(self.change(column, rich));
            }
        }
        let statics = !self.table.statics.is_empty() && self.below(6) == 0;
        let place = if statics {
            changes = self.table.statics.iter().map(|column| self.change(column, rich)).collect();
            self.partition()
        } else {
            self.row()
        };
        let changes = changes.join(", ");
        format!("UPDATE {}{} SET {changes} WHERE {place}", self.name(), self.using())
    }

    /// One assignment, in any way its type allows.
    fn change(&self, column: &Column, rich: bool) -> String {
        let name = &column.name;
        let whole = || format!("{name} = {}", self.maybe_null(column, rich));
        let value_of = |ty: &CqlType| value(ty, &self.random);
        match (&column.ty, self.below(5)) {
            (CqlType::List(_), 0) => format!("{name} = {name} + {}", value_of(&column.ty)),
            (CqlType::List(_), 1) => format!("{name} = {} + {name}", value_of(&column.ty)),
            (CqlType::List(_), 2) => format!("{name} = {name} - {}", value_of(&column.ty)),
            // Refused where the list is shorter.
            (CqlType::List(element), 3) => {
                format!("{name}[{}] = {}", self.below(2), value_of(element))
            }
            (CqlType::Set(_), 0 | 1) => format!("{name} = {name} + {}", value_of(&column.ty)),
            (CqlType::Set(_), 2) => format!("{name} = {name} - {}", value_of(&column.ty)),
            (CqlType::Map(key, mapped), 0 | 1) => {
                format!("{name}[{}] = {}", value_of(key), value_of(mapped))
            }
            (CqlType::Map(..), 2) => format!("{name} = {name} + {}", value_of(&column.ty)),
            (CqlType::Map(key, _), 3) => format!("{name} = {name} - {{{}}}", value_of(key)),
            (CqlType::User(_), 0) => format!("{name}.street = {}", value_of(&CqlType::Text)),
            (CqlType::User(_), 1) => format!("{name}.\"No\" = null"),
            _ => whole(),
        }
    }

    fn delete_columns(&self) -> String {
        let regulars: Vec<&Column> = self.regulars().collect();
        let index = usize::try_from(self.below(regulars.len() as u64)).expect("an index");
        let column = regulars[index];
        let what = match (&column.ty, self.below(2)) {
            (CqlType::Map(key, _) | CqlType::Set(key), 0) => {
                format!("{}[{}]", column.name, value(key, &self.random))
            }
            (CqlType::List(_), 0) => format!("{}[0]", column.name),
            (CqlType::User(_), 0) => format!("{}.street", column.name),
            _ => column.name.clone(),
        };
        format!("DELETE {what} FROM {}{} WHERE {}", self.name(), self.at(), self.row())
    }

    /// Static columns and nothing else.
    fn delete_statics(&self) -> String {
        let count = usize::try_from(1 + self.below(2)).expect("one or two");
        let names = self.table.statics.iter().take(count).map(|column| column.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        format!("DELETE {names} FROM {}{} WHERE {}", self.name(), self.at(), self.partition())
    }

    /// Rows between two values of a clustering column, with those before it fixed or compared too; or
    /// the rows of several values.
    fn delete_range(&self) -> String {
        let keys = &self.table.clustering;
        let depth = usize::try_from(self.below(keys.len().min(3) as u64)).expect("an index");
        let (before, name) = (&keys[..depth], &keys[depth].0.name);
        let bound = || self.clustering_value(&keys[depth].0);
        let mut place = self.partition();
        for (column, _) in before {
            place += &format!(" AND {} = {}", column.name, self.clustering_value(column));
        }
        let range = match self.below(7) {
            0 => format!("{name} = {}", bound()),
            1 => format!("{name} > {}", bound()),
            2 => format!("{name} <= {}", bound()),
            3 => format!("{name} >= {} AND {name} < {}", bound(), bound()),
            4 => format!("{name} > {} AND {name} <= {}", bound(), bound()),
            5 => format!("{name} IN ({}, {})", bound(), bound()),
            _ => {
                place = self.partition();
                let keys = &keys[..=depth];
                let names: Vec<&str> = keys.iter().map(|(column, _)| &*column.name).collect();
                let values = keys.iter().map(|(column, _)| self.clustering_value(column));
                let values = values.collect::<Vec<_>>().join(", ");
                let sign = [">", "<="][usize::from(self.below(2) == 0)];
                format!("({}) {sign} ({values})", names.join(", "))
            }
        };
        format!("DELETE FROM {}{} WHERE {place} AND {range}", self.name(), self.at())
    }

    fn batch(&self) -> String {
        let kind = if self.below(2) == 0 { "UNLOGGED " } else { "" };
        let statements: Vec<String> = (0..2 + self.below(4))
            .map(|_| match &self.partner {
                Some(partner) if self.below(3) == 0 => partner.single(true),
                _ => self.single(true),
            })
            .collect();
        format!("BEGIN {kind}BATCH {}; APPLY BATCH", statements.join("; "))
    }

    fn conditional(&self) -> String {
        match self.below(2) {
            0 => {
                let insert = self.insert(true);
                let insert = insert.split(" USING ").next().unwrap_or_default().to_owned();
                format!("{insert} IF NOT EXISTS")
            }
            _ => {
                let changes: Vec<String> = self
                    .regulars()
                    .take(2)
                    .map(|column| format!("{} = {}", column.name, self.maybe_null(column, true)))
                    .collect();
                let (changes, row) = (changes.join(", "), self.row());
                format!("UPDATE {} SET {changes} WHERE {row} IF EXISTS", self.name())
            }
        }
    }

    fn count(&self) -> String {
        let step = i64::try_from(self.below(9)).unwrap_or(0) - 4;
        let sign = if step < 0 { "-" } else { "+" };
        let (column, place) = match self.below(5) {
            0 => ("s00", self.partition()),
            1 | 2 => ("n00", self.row()),
            _ => ("n01", self.row()),
        };
        let step = step.unsigned_abs();
        let set = format!("{column} = {column} {sign} {step}");
        format!("UPDATE {} SET {set} WHERE {place}", self.name())
    }

    /// Deletes counters: a column, a row or a partition of them.
    fn uncount(&self) -> String {
        let (what, place) = match self.below(12) {
            0 => ("n00", self.row()),
            1 => ("s00", self.partition()),
            2 => ("", self.partition()),
            _ => ("", self.row()),
        };
        format!("DELETE {what} FROM {} WHERE {place}", self.name())
    }

    fn regulars(&self) -> impl Iterator<Item = &Column> {
        let fickle = self.table.fickle.iter().filter(|_| self.has_fickle);
        self.table.regulars.iter().chain(fickle)
    }

    fn maybe_null(&self, column: &Column, rich: bool) -> String {
        if rich && self.below(10) == 0 {
            "null".to_owned()
        } else {
            value(&column.ty, &self.random)
        }
    }

    /// The value of a partition key: a few partitions, none with an empty key.
    fn key_value(&self, column: &Column) -> String {
        match &column.ty {
            CqlType::Int => self.below(12).to_string(),
            CqlType::Text => format!("'k{}'", self.below(3)),
            ty => value(ty, &self.random),
        }
    }

    /// The value of a clustering column. A node fails over `{}` there, which it takes for a set.
    fn clustering_value(&self, column: &Column) -> String {
        let is_map =
            matches!(&column.ty, CqlType::Frozen(inner) if matches!(**inner, CqlType::Map(..)));
        let mut values = std::iter::repeat_with(|| value(&column.ty, &self.random));
        values.find(|text| !is_map || text != "{}").expect("values without end")
    }

    fn partition(&self) -> String {
        let parts = self.table.partition.iter();
        let parts = parts.map(|column| format!("{} = {}", column.name, self.key_value(column)));
        parts.collect::<Vec<_>>().join(" AND ")
    }

    fn row(&self) -> String {
        let clustering = self.table.clustering.iter();
        let clustering = clustering
            .map(|(column, _)| format!(" AND {} = {}", column.name, self.clustering_value(column)));
        self.partition() + &clustering.collect::<String>()
    }

    /// The time of a deletion.
    fn at(&self) -> String {
        if self.table.timed {
            format!(" USING TIMESTAMP {}", 1000 + self.below(30))
        } else {
            String::new()
        }
    }

    /// Time and TTL of a write.
    fn using(&self) -> String {
        let ttl = match self.below(12) {
            0 => Some("TTL 1".to_owned()),
            1 => Some("TTL 1000000".to_owned()),
            2 => Some(format!("TTL {}", self.table.longest_ttl)),
            _ => None,
        };
        match (self.table.timed, ttl) {
            (true, Some(ttl)) => format!("{} AND {ttl}", self.at()),
            (true, None) => self.at(),
            (false, Some(ttl)) => format!(" USING {ttl}"),
            (false, None) => String::new(),
        }
    }
}
