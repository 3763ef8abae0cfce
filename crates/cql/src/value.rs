//! Values: the bytes of a cell, a key or an element, read as a CQL type says.
//!
//! Text and blobs borrow from the input. Decoding checks what Cassandra checks before it stores a
//! value, so ordering ([`crate::compare`]) and printing ([`crate::json`]) can rest on it; it is
//! more lenient in one point only, and takes zero bytes for a value of any scalar type. Encoding
//! is not here.

mod counter;
mod decode;

use core::net::IpAddr;

use num_bigint::BigInt;
use thiserror::Error;
use uuid::Uuid;

use crate::datatype::{CqlType, UserType};
use crate::wire::Short;

pub use counter::{CounterContext, Shard, ShardKind};

/// A decoded value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Zero bytes where the type has no value of that length: neither null nor zero.
    Empty,
    /// `ascii` or `text`
    Text(&'a str),
    /// `blob`
    Blob(&'a [u8]),
    /// `boolean`
    Boolean(bool),
    /// `tinyint`
    TinyInt(i8),
    /// `smallint`
    SmallInt(i16),
    /// `int`
    Int(i32),
    /// `bigint`
    BigInt(i64),
    /// `varint`
    VarInt(BigInt),
    /// `decimal`
    Decimal(Decimal),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `timestamp`: milliseconds since 1970
    Timestamp(i64),
    /// `date`: days since 1970
    Date(i64),
    /// `time`: nanoseconds since midnight; a node also stores what is beyond the day
    Time(i64),
    /// `uuid` or `timeuuid`
    Uuid(Uuid),
    /// `inet`
    Inet(IpAddr),
    /// `duration`
    Duration(Duration),
    /// `counter`: the sum over its shards
    Counter(i64),
    /// `list`, `set` or `vector`
    Sequence(Vec<Option<Value<'a>>>),
    /// `map`, in stored order
    Map(Vec<(Value<'a>, Option<Value<'a>>)>),
    /// `tuple`; missing parts are null
    Tuple(Vec<Option<Value<'a>>>),
    /// A user-defined type; missing fields are null
    User(&'a UserType, Vec<Option<Value<'a>>>),
    /// A custom class, left as it is
    Custom(&'a [u8]),
}

/// An arbitrary-precision decimal: `unscaled × 10^-scale`. The scale is part of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    /// The digits.
    pub unscaled: BigInt,
    /// How many of them are behind the point; may be negative.
    pub scale: i32,
}

/// A duration in Cassandra's three parts, which have no fixed ratio to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

/// Why bytes are not a value of a type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The bytes end inside a part.
    #[error("the value is cut short: {0}")]
    Short(#[from] Short),
    /// A length the type does not have.
    #[error("{length} bytes are no {ty}")]
    Length {
        /// The type.
        ty: Box<CqlType>,
        /// The length.
        length: usize,
    },
    /// Bytes behind the value.
    #[error("{0} bytes are left over behind the value")]
    Leftover(usize),
    /// Text that is not UTF-8, or not ASCII.
    #[error("the text is not {0}")]
    Encoding(&'static str),
    /// A number outside what the type allows.
    #[error("{0} is out of range")]
    Range(&'static str),
    /// A negative count, or more elements than there are bytes for.
    #[error("{0} elements cannot be in so few bytes")]
    Count(i64),
    /// A null where Cassandra allows none.
    #[error("a map key is null")]
    NullKey,
    /// A counter context that contradicts itself.
    #[error("the counter context is malformed")]
    Counter,
}

impl<'a> Value<'a> {
    /// Reads a value.
    ///
    /// ```
    /// use helenus_cql::{datatype::CqlType, value::Value};
    ///
    /// assert_eq!(Value::decode(&CqlType::Int, &[0, 0, 0, 7])?, Value::Int(7));
    /// assert_eq!(Value::decode(&CqlType::Int, &[])?, Value::Empty);
    /// assert!(Value::decode(&CqlType::Int, &[1, 2, 3]).is_err());
    /// # Ok::<(), helenus_cql::value::ValueError>(())
    /// ```
    pub fn decode(ty: &'a CqlType, bytes: &'a [u8]) -> Result<Self, ValueError> {
        decode::value(ty, bytes)
    }
}
