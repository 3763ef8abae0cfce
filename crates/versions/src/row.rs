//! From a record of a source to a row of a table: which field goes where, and each as the column's
//! type says. No I/O.
//!
//! A row is kept as the bytes a statement binds: for each column a length and the value, or −1 for
//! null. That is what a driver sends, what a checksum covers and what a read-back is compared with.

mod cast;
mod scalar;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use helenus_cql::token::Token;
use helenus_model::{Failure, Kind};

use crate::TableSchema;
pub use cast::{CastError, cast, is_loadable};

/// A field of a source's record.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// Nothing.
    Null,
    /// Text, to be read as the column's type.
    Text(Cow<'a, str>),
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// Anything JSON can say.
    Json(Cow<'a, serde_json::Value>),
}

/// As a person would write it; bytes in hexadecimal.
impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Null => f.write_str("null"),
            Field::Text(text) => f.write_str(text),
            Field::Bool(truth) => truth.fmt(f),
            Field::Int(number) => number.fmt(f),
            Field::Float(number) => number.fmt(f),
            Field::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Field::Json(value) => value.fmt(f),
        }
    }
}

/// A row, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The how-manieth record of the source it is, from 0: what its write time comes from.
    pub ordinal: u64,
    /// The columns' values, each with its length before it.
    pub cells: Vec<u8>,
}

impl Row {
    /// The values of the columns in order; `None` for null.
    pub fn values(&self) -> Cells<'_> {
        Cells(&self.cells)
    }

    /// A hash over all the values: summed up, the same whatever the order of rows.
    pub fn checksum(&self) -> i64 {
        Token::of(&self.cells).0
    }
}

/// Values with their lengths before them.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'a>(pub &'a [u8]);

impl<'a> Iterator for Cells<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Some(value))
    }
}

/// Which field of a record goes into which column.
#[derive(Clone, Debug)]
pub struct Mapping {
    schema: Arc<TableSchema>,
    /// For each column the place of its field.
    fields: Vec<Option<usize>>,
}

/// Why the fields of a source do not fit a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// A key column has no field.
    #[error("the source has no field for key column {column}; it has {fields}")]
    KeyMissing {
        /// The column.
        column: Box<str>,
        /// What the source has.
        fields: Box<str>,
    },
    /// Fields that no column takes.
    #[error("no column takes the source's {fields}")]
    Extra {
        /// Their names.
        fields: Box<str>,
    },
    /// An option names what is not there.
    #[error("{option} names '{name}', which is no {what}")]
    Unknown {
        /// The option.
        option: &'static str,
        /// The name.
        name: Box<str>,
        /// What it should be.
        what: &'static str,
    },
}

impl Failure for MappingError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "mapping"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            MappingError::KeyMissing { .. } => "name the field with --map COLUMN=FIELD",
            MappingError::Extra { .. } => {
                "add columns with --schema, or leave the fields out with --ignore-extra"
            }
            MappingError::Unknown { .. } => "correct the name, see --dry-run for the columns",
        };
        Some(text.into())
    }
}

/// What a mapping does beyond equal names.
#[derive(Clone, Debug, Default)]
pub struct MappingOptions {
    /// Column and field, where their names differ.
    pub renamed: Vec<(String, String)>,
    /// Fields without a column are left out.
    pub ignore_extra: bool,
}

impl Mapping {
    /// Maps fields to columns of the same name, in whatever case, and as `options` say. The last
    /// `optional` of the fields may have no column.
    pub fn new(
        schema: Arc<TableSchema>,
        names: &[String],
        optional: usize,
        options: &MappingOptions,
    ) -> Result<Mapping, MappingError> {
        let find = |wanted: &str| {
            let exact = names.iter().position(|name| name == wanted);
            exact.or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(wanted)))
        };
        for (column, field) in &options.renamed {
            let unknown = |name: &String, what| {
                let (option, name) = ("--map", name.as_str().into());
                MappingError::Unknown { option, name, what }
            };
            schema.place(column).ok_or_else(|| unknown(column, "column"))?;
            find(field).ok_or_else(|| unknown(field, "field"))?;
        }
        let mut fields = Vec::with_capacity(schema.columns.len());
        for (place, column) in schema.columns.iter().enumerate() {
            let renamed = options.renamed.iter().find(|(name, _)| *name == column.name);
            let field = find(renamed.map_or(&column.name, |(_, field)| field));
            if field.is_none() && schema.is_key(place) {
                let (column, fields) = (column.name.as_str().into(), names.join(", ").into());
                return Err(MappingError::KeyMissing { column, fields });
            }
            fields.push(field);
        }
        let needed = names.len().saturating_sub(optional);
        let extra = names.iter().take(needed).enumerate();
        let extra = extra.filter(|(place, _)| !fields.contains(&Some(*place)));
        let extra: Vec<&str> = extra.map(|(_, name)| name.as_str()).collect();
        if !extra.is_empty() && !options.ignore_extra {
            return Err(MappingError::Extra { fields: extra.join(", ").into() });
        }
        Ok(Mapping { schema, fields })
    }

    /// The table the rows are for.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Makes a row of a record.
    pub fn row(&self, ordinal: u64, record: &[Field<'_>]) -> Result<Row, CastError> {
        let mut cells = Vec::with_capacity(self.fields.len() * 12);
        for (place, (column, field)) in self.schema.columns.iter().zip(&self.fields).enumerate() {
            let field = field.and_then(|field| record.get(field)).unwrap_or(&Field::Null);
            let before = cells.len();
            cast(field, &column.ty, &mut cells).map_err(|error| error.in_column(&column.name))?;
            let written = cells.get(before..).unwrap_or_default();
            let is_void = matches!(written, [255, ..] | [0, 0, 0, 0]);
            if is_void && self.schema.is_key(place) && (written.len() == 4) {
                let is_null = written.starts_with(&[255]);
                if is_null || self.schema.partition_key == [place] {
                    return Err(CastError::null_key(&column.name));
                }
            }
        }
        Ok(Row { ordinal, cells })
    }

    /// The bytes a row's partition is placed by.
    pub fn partition_key(&self, row: &Row) -> Vec<u8> {
        let values: Vec<Option<&[u8]>> = row.values().collect();
        let value = |place: usize| values.get(place).copied().flatten().unwrap_or_default();
        if let [single] = *self.schema.partition_key {
            return value(single).to_vec();
        }
        let mut key = Vec::new();
        for place in &self.schema.partition_key {
            let value = value(*place);
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            key.extend(length.to_be_bytes());
            key.extend(value);
            key.push(0);
        }
        key
    }

    /// The values of the key, as a statement binds them.
    pub fn key_cells(&self, row: &Row) -> Vec<u8> {
        let values: Vec<Option<&[u8]>> = row.values().collect();
        let mut cells = Vec::new();
        for place in self.schema.key() {
            push(values.get(place).copied().flatten(), &mut cells);
        }
        cells
    }
}

/// Appends a value with its length before it, or a null.
pub fn push(value: Option<&[u8]>, cells: &mut Vec<u8>) {
    match value {
        Some(value) => {
            cells.extend(i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
            cells.extend(value);
        }
        None => cells.extend((-1_i32).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(cql: &str, names: &[&str]) -> Result<Mapping, MappingError> {
        let schema = Arc::new(TableSchema::parse(cql).unwrap());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Mapping::new(schema, &names, 0, &MappingOptions::default())
    }

    fn text(text: &str) -> Field<'_> {
        Field::Text(Cow::Borrowed(text))
    }

    #[test]
    fn fields_find_their_columns_by_name() {
        let cql = "CREATE TABLE t (id int PRIMARY KEY, name text, score double)";
        let map = mapping(cql, &["NAME", "Id"]).unwrap();
        let row = map.row(7, &[text("ada"), text("3")]).unwrap();
        let values: Vec<Option<&[u8]>> = row.values().collect();
        assert_eq!(values, [Some(&[0, 0, 0, 3][..]), Some(b"ada"), None]);
        assert_eq!(map.partition_key(&row), [0, 0, 0, 3]);
        let error = map.row(8, &[text("ada"), text("x")]).unwrap_err();
        assert_eq!(error.to_string(), "column id: 'x' is not an int");
        let error = map.row(8, &[text("ada"), Field::Null]).unwrap_err();
        assert_eq!(error.to_string(), "column id: the key is null or empty");
        let missing = mapping(cql, &["name"]).unwrap_err().to_string();
        assert_eq!(missing, "the source has no field for key column id; it has name");
        let extra = mapping(cql, &["id", "nmae"]).unwrap_err().to_string();
        assert_eq!(extra, "no column takes the source's nmae");
    }

    #[test]
    fn a_key_of_several_columns_is_placed_as_cassandra_places_it() {
        let cql = "CREATE TABLE t (a int, b text, c int, PRIMARY KEY ((a, b), c))";
        let map = mapping(cql, &["a", "b", "c"]).unwrap();
        let row = map.row(0, &[text("1"), text("xy"), text("2")]).unwrap();
        assert_eq!(map.partition_key(&row), [0, 4, 0, 0, 0, 1, 0, 0, 2, b'x', b'y', 0]);
        let key: Vec<Option<Vec<u8>>> =
            Cells(&map.key_cells(&row)).map(|value| value.map(<[u8]>::to_vec)).collect();
        assert_eq!(key.len(), 3);
    }
}
