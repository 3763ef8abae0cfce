//! The schema of a versioned table: columns, keys and options, without a name.
//!
//! It comes from a `CREATE TABLE` statement ([`TableSchema::parse`]), from the previous version (the
//! catalog keeps the statement) or from the data ([`crate::infer`]), and it goes into the statements
//! a version is created, loaded and read back with.

mod parse;

use std::fmt::Write as _;

use helenus_cql::datatype::CqlType;
use helenus_cql::lexer::quote;

pub use parse::SchemaError;

/// A table without its name.
///
/// ```
/// use helenus_versions::TableSchema;
///
/// let schema = TableSchema::parse(
///     "CREATE TABLE features (id uuid, day date, score double, PRIMARY KEY (id, day))
///      WITH CLUSTERING ORDER BY (day DESC)",
/// )?;
/// assert_eq!(schema.columns.len(), 3);
/// assert_eq!(
///     schema.create_cql("shop", "features_v1", None),
///     "CREATE TABLE shop.features_v1 (id uuid, day date, score double, PRIMARY KEY ((id), day)) \
///      WITH CLUSTERING ORDER BY (day DESC)"
/// );
/// # Ok::<(), helenus_versions::SchemaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The columns in declared order.
    pub columns: Vec<Column>,
    /// Places of the partition key's columns, in key order.
    pub partition_key: Vec<usize>,
    /// Places of the clustering columns, in key order, and whether each descends.
    pub clustering: Vec<(usize, bool)>,
    /// Other options of the table, each as it was written.
    pub options: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, as Cassandra stores it.
    pub name: String,
    /// What it holds.
    pub ty: CqlType,
    /// Whether it is one value a partition.
    pub is_static: bool,
}

impl TableSchema {
    /// A table of `columns`, the first `key` of which are its key: one partition column, the rest
    /// clustering.
    pub fn simple(columns: Vec<Column>, key: usize) -> Self {
        let clustering = (1..key.max(1)).map(|place| (place, false)).collect();
        TableSchema { columns, partition_key: vec![0], clustering, options: Vec::new() }
    }

    /// The place of a column.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Places of all key columns, in key order.
    pub fn key(&self) -> impl Iterator<Item = usize> + '_ {
        let clustering = self.clustering.iter().map(|(place, _)| *place);
        self.partition_key.iter().copied().chain(clustering)
    }

    /// Whether a column is part of the key.
    pub fn is_key(&self, place: usize) -> bool {
        self.key().any(|key| key == place)
    }

    /// The statement that creates the table, marked with `comment`.
    pub fn create_cql(&self, keyspace: &str, table: &str, comment: Option<&str>) -> String {
        let mut cql = format!("CREATE TABLE {}.{} (", quote(keyspace), quote(table));
        for Column { name, ty, is_static } in &self.columns {
            let is_static = if *is_static { " STATIC" } else { "" };
            write!(cql, "{} {ty}{is_static}, ", quote(name)).unwrap_or_default();
        }
        let names = |places: &mut dyn Iterator<Item = usize>| self.names(places).join(", ");
        let partition = names(&mut self.partition_key.iter().copied());
        write!(cql, "PRIMARY KEY (({partition})").unwrap_or_default();
        for name in self.names(&mut self.clustering.iter().map(|(place, _)| *place)) {
            write!(cql, ", {name}").unwrap_or_default();
        }
        cql.push_str("))");
        let mut options = Vec::new();
        if self.clustering.iter().any(|(_, descends)| *descends) {
            let places = &mut self.clustering.iter().map(|(place, _)| *place);
            let order = self.names(places).into_iter().zip(&self.clustering);
            let order = order.map(|(name, (_, descends))| {
                format!("{name} {}", if *descends { "DESC" } else { "ASC" })
            });
            let order: Vec<String> = order.collect();
            options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        options.extend(self.options.iter().cloned());
        options.extend(comment.map(|text| format!("comment = '{}'", text.replace('\'', "''"))));
        for (index, option) in options.iter().enumerate() {
            let word = if index == 0 { "WITH" } else { "AND" };
            write!(cql, " {word} {option}").unwrap_or_default();
        }
        cql
    }

    /// The statement that writes a row: a value for each column, then the write time.
    pub fn insert_cql(&self, keyspace: &str, table: &str) -> String {
        let names = self.names(&mut (0..self.columns.len())).join(", ");
        let marks = vec!["?"; self.columns.len()].join(", ");
        let (keyspace, table) = (quote(keyspace), quote(table));
        format!("INSERT INTO {keyspace}.{table} ({names}) VALUES ({marks}) USING TIMESTAMP ?")
    }

    /// The statement that reads the row of a key back, its columns in declared order.
    pub fn select_cql(&self, keyspace: &str, table: &str) -> String {
        let names = self.names(&mut (0..self.columns.len())).join(", ");
        let key: Vec<String> =
            self.names(&mut self.key()).iter().map(|name| format!("{name} = ?")).collect();
        let (keyspace, table) = (quote(keyspace), quote(table));
        format!("SELECT {names} FROM {keyspace}.{table} WHERE {}", key.join(" AND "))
    }

    /// The statement that counts the rows of a range of tokens.
    pub fn count_cql(&self, keyspace: &str, table: &str) -> String {
        let token = self.names(&mut self.partition_key.iter().copied()).join(", ");
        let (keyspace, table) = (quote(keyspace), quote(table));
        format!(
            "SELECT count(*) FROM {keyspace}.{table} \
             WHERE token({token}) >= ? AND token({token}) <= ?"
        )
    }

    fn names(&self, places: &mut dyn Iterator<Item = usize>) -> Vec<String> {
        let columns = places.filter_map(|place| self.columns.get(place));
        columns.map(|column| quote(&column.name).into_owned()).collect()
    }
}
