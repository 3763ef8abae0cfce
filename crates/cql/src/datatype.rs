//! CQL types: what a column can hold, how it is spelt, how wide it is on the wire.
//!
//! Types come from `system_schema` as text and are parsed once ([`CqlType::parse`]); marshal
//! class names, which Cassandra prints for custom types, are understood too. Values are decoded
//! in [`crate::value`], ordered in [`crate::compare`] and printed in [`crate::json`].

mod marshal;
mod parse;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use parse::ParseError;

/// A user-defined type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace it lives in.
    pub keyspace: Arc<str>,
    /// Its name, case preserved, without quotes.
    pub name: Arc<str>,
    /// Field names and types in declared order.
    pub fields: Vec<(Arc<str>, CqlType)>,
}

/// A CQL type.
///
/// ```
/// use helenus_cql::datatype::CqlType;
///
/// let scores: CqlType = "map<text, frozen<list<int>>>".parse()?;
/// assert!(scores.is_complex());
/// assert_eq!(scores.to_string(), "map<text, frozen<list<int>>>");
/// assert_eq!("vector<float, 3>".parse::<CqlType>()?.fixed_length(), Some(12));
/// # Ok::<(), helenus_cql::datatype::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CqlType {
    /// `ascii`
    Ascii,
    /// `bigint`
    BigInt,
    /// `blob`
    Blob,
    /// `boolean`
    Boolean,
    /// `counter`
    Counter,
    /// `date`
    Date,
    /// `decimal`
    Decimal,
    /// `double`
    Double,
    /// `duration`
    Duration,
    /// The type of the hidden value column of some compact tables: always zero bytes.
    Empty,
    /// `float`
    Float,
    /// `inet`
    Inet,
    /// `int`
    Int,
    /// `smallint`
    SmallInt,
    /// `text`, also spelt `varchar`
    Text,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timeuuid`
    TimeUuid,
    /// `tinyint`
    TinyInt,
    /// `uuid`
    Uuid,
    /// `varint`
    VarInt,
    /// `list<T>`
    List(Arc<CqlType>),
    /// `set<T>`
    Set(Arc<CqlType>),
    /// `map<K, V>`
    Map(Arc<CqlType>, Arc<CqlType>),
    /// `tuple<…>`, frozen with or without the word
    Tuple(Arc<[CqlType]>),
    /// A user-defined type
    User(Arc<UserType>),
    /// `vector<T, n>`
    Vector(Arc<CqlType>, u32),
    /// `frozen<T>`
    Frozen(Arc<CqlType>),
    /// Any other marshal class; its values stay bytes
    Custom(Arc<str>),
}

/// Names of the native types, as Cassandra prints them.
const NATIVE: [(&str, CqlType); 21] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::BigInt),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("empty", CqlType::Empty),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::SmallInt),
    ("text", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::TimeUuid),
    ("tinyint", CqlType::TinyInt),
    ("uuid", CqlType::Uuid),
    ("varint", CqlType::VarInt),
];

impl CqlType {
    /// Parses a type as `system_schema` prints it; `user_type` finds the user-defined types of
    /// the keyspace by their unquoted name.
    pub fn parse(
        text: &str,
        user_type: &dyn Fn(&str) -> Option<Arc<UserType>>,
    ) -> Result<Self, ParseError> {
        parse::parse(text, user_type)
    }

    /// The native type of this name.
    #[must_use]
    pub fn native(name: &str) -> Option<Self> {
        let name = if name == "varchar" { "text" } else { name };
        NATIVE.iter().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone())
    }

    /// The type without `frozen<…>` around it.
    #[must_use]
    pub fn thawed(&self) -> &Self {
        match self {
            Self::Frozen(inner) => inner.thawed(),
            other => other,
        }
    }

    /// True for what is stored as several cells when it is the type of a static or regular
    /// column: collections and user-defined types that are not frozen.
    #[must_use]
    pub const fn is_complex(&self) -> bool {
        matches!(self, Self::List(_) | Self::Set(_) | Self::Map(..) | Self::User(_))
    }

    /// The length of every value of this type where Cassandra writes it without a length.
    /// `tinyint`, `smallint`, `date`, `time` are not among them.
    #[must_use]
    pub fn fixed_length(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Boolean => Some(1),
            Self::Int | Self::Float => Some(4),
            Self::BigInt | Self::Double | Self::Timestamp => Some(8),
            Self::Uuid | Self::TimeUuid => Some(16),
            Self::Vector(element, dimension) => {
                element.fixed_length()?.checked_mul(usize::try_from(*dimension).ok()?)
            }
            Self::Frozen(inner) => inner.fixed_length(),
            Self::Custom(class) => marshal::fixed_length(class),
            _ => None,
        }
    }
}

impl FromStr for CqlType {
    type Err = ParseError;

    /// Parses a type that mentions no user-defined type.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, &|_| None)
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(element) => write!(formatter, "list<{element}>"),
            Self::Set(element) => write!(formatter, "set<{element}>"),
            Self::Map(key, value) => write!(formatter, "map<{key}, {value}>"),
            Self::Vector(element, dimension) => write!(formatter, "vector<{element}, {dimension}>"),
            Self::Frozen(inner) => write!(formatter, "frozen<{inner}>"),
            Self::Custom(class) => write!(formatter, "'{class}'"),
            Self::User(user) => write_name(formatter, &user.name),
            Self::Tuple(parts) => {
                formatter.write_str("tuple<")?;
                for (index, part) in parts.iter().enumerate() {
                    write!(formatter, "{}{part}", if index == 0 { "" } else { ", " })?;
                }
                formatter.write_str(">")
            }
            native => {
                let name =
                    NATIVE.iter().find(|(_, ty)| ty == native).map_or("custom", |(name, _)| name);
                formatter.write_str(name)
            }
        }
    }
}

/// Writes an identifier, quoted where CQL would not give it back otherwise.
fn write_name(formatter: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain {
        formatter.write_str(name)
    } else {
        write!(formatter, "\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_on_the_wire() {
        for (text, expected) in [
            ("boolean", Some(1)),
            ("int", Some(4)),
            ("timestamp", Some(8)),
            ("timeuuid", Some(16)),
            ("empty", Some(0)),
            ("tinyint", None),
            ("smallint", None),
            ("date", None),
            ("time", None),
            ("counter", None),
            ("frozen<list<int>>", None),
            ("vector<float, 3>", Some(12)),
            ("vector<text, 3>", None),
            ("vector<vector<bigint, 2>, 3>", Some(48)),
            ("'org.apache.cassandra.db.marshal.LexicalUUIDType'", Some(16)),
        ] {
            assert_eq!(text.parse::<CqlType>().unwrap().fixed_length(), expected, "{text}");
        }
    }

    #[test]
    fn complex_is_a_matter_of_the_outermost_type() {
        for (text, expected) in [
            ("list<int>", true),
            ("map<text, frozen<list<int>>>", true),
            ("frozen<set<int>>", false),
            ("tuple<int, text>", false),
            ("int", false),
        ] {
            assert_eq!(text.parse::<CqlType>().unwrap().is_complex(), expected, "{text}");
        }
    }
}
