//! Marshal class names, as Cassandra prints them for custom types and for what thrift tables
//! left behind: `org.apache.cassandra.db.marshal.MapType(…UTF8Type,…Int32Type)`.
//!
//! What has a CQL spelling becomes that type; any other class stays [`CqlType::Custom`].

use std::sync::Arc;

use super::parse::{DEPTH_MAX, ParseError};
use super::{CqlType, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

pub(super) fn parse(class: &str) -> Result<CqlType, ParseError> {
    let mut parser = Parser { text: class, rest: class, depth: 0 };
    let ty = parser.ty()?;
    // Parameters this parser does not know leave something over: the whole stays opaque.
    Ok(if parser.rest.trim().is_empty() { ty } else { CqlType::Custom(class.into()) })
}

/// Width of the opaque classes that have one.
pub(super) fn fixed_length(class: &str) -> Option<usize> {
    (class.rsplit('.').next() == Some("LexicalUUIDType")).then_some(16)
}

fn simple(name: &str) -> Option<CqlType> {
    Some(match name {
        "AsciiType" => CqlType::Ascii,
        "LongType" => CqlType::BigInt,
        "BytesType" => CqlType::Blob,
        "BooleanType" => CqlType::Boolean,
        "CounterColumnType" => CqlType::Counter,
        "SimpleDateType" => CqlType::Date,
        "DecimalType" => CqlType::Decimal,
        "DoubleType" => CqlType::Double,
        "DurationType" => CqlType::Duration,
        "EmptyType" => CqlType::Empty,
        "FloatType" => CqlType::Float,
        "InetAddressType" => CqlType::Inet,
        "Int32Type" => CqlType::Int,
        "ShortType" => CqlType::SmallInt,
        "UTF8Type" => CqlType::Text,
        "TimeType" => CqlType::Time,
        "TimestampType" | "DateType" => CqlType::Timestamp,
        "TimeUUIDType" => CqlType::TimeUuid,
        "ByteType" => CqlType::TinyInt,
        "UUIDType" => CqlType::Uuid,
        "IntegerType" => CqlType::VarInt,
        _ => return None,
    })
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn ty(&mut self) -> Result<CqlType, ParseError> {
        if self.depth == DEPTH_MAX {
            return Err(ParseError::Deep(self.text.into()));
        }
        self.depth += 1;
        let ty = self.ty_at_depth();
        self.depth -= 1;
        ty
    }

    fn ty_at_depth(&mut self) -> Result<CqlType, ParseError> {
        let class = self.word();
        let name = class.strip_prefix(PACKAGE).unwrap_or(class);
        if !self.rest.starts_with('(') {
            return Ok(simple(name).unwrap_or_else(|| CqlType::Custom(class.into())));
        }
        if name == "UserType" {
            return self.user();
        }
        if name == "VectorType" {
            return self.vector();
        }
        if !matches!(
            name,
            "ListType" | "SetType" | "MapType" | "TupleType" | "FrozenType" | "ReversedType"
        ) {
            // CompositeType and the like: leave the parameters where they are, the caller gives up.
            return Ok(CqlType::Custom(class.into()));
        }
        let mut parts = self.parts()?;
        let opaque = || CqlType::Custom(self.text.into());
        Ok(match (name, parts.len()) {
            ("TupleType", 1..) => CqlType::Tuple(parts.into()),
            ("MapType", 2) => match (parts.pop(), parts.pop()) {
                (Some(value), Some(key)) => CqlType::Map(Arc::new(key), Arc::new(value)),
                _ => opaque(),
            },
            ("ListType", 1) => parts.pop().map_or_else(opaque, |part| CqlType::List(part.into())),
            ("SetType", 1) => parts.pop().map_or_else(opaque, |part| CqlType::Set(part.into())),
            ("FrozenType", 1) => {
                parts.pop().map_or_else(opaque, |part| CqlType::Frozen(part.into()))
            }
            ("ReversedType", 1) => parts.pop().unwrap_or_else(opaque),
            _ => opaque(),
        })
    }

    /// `UserType(keyspace,hex(name),hex(field):type,…)`
    fn user(&mut self) -> Result<CqlType, ParseError> {
        self.punctuation('(')?;
        let keyspace = self.word();
        self.punctuation(',')?;
        let name = self.hex_word()?;
        let mut fields = Vec::new();
        while self.rest.starts_with(',') {
            self.punctuation(',')?;
            let field = self.hex_word()?;
            self.punctuation(':')?;
            fields.push((field.into(), self.ty()?));
        }
        self.punctuation(')')?;
        Ok(CqlType::User(Arc::new(UserType {
            keyspace: keyspace.into(),
            name: name.into(),
            fields,
        })))
    }

    /// `VectorType(type , n)`
    fn vector(&mut self) -> Result<CqlType, ParseError> {
        self.punctuation('(')?;
        let element = self.ty()?;
        self.punctuation(',')?;
        let dimension = self.word().parse().map_err(|_| self.expected("a dimension"))?;
        self.punctuation(')')?;
        Ok(CqlType::Vector(Arc::new(element), dimension))
    }

    fn parts(&mut self) -> Result<Vec<CqlType>, ParseError> {
        self.punctuation('(')?;
        let mut parts = vec![self.ty()?];
        while self.rest.trim_start().starts_with(',') {
            self.punctuation(',')?;
            parts.push(self.ty()?);
        }
        self.punctuation(')')?;
        Ok(parts)
    }

    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let length = self.rest.find(['(', ')', ',', ':', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        word
    }

    fn hex_word(&mut self) -> Result<String, ParseError> {
        let expected = self.expected("a name in hexadecimal");
        let bytes = crate::hex::decode(self.word()).ok_or_else(|| expected.clone())?;
        String::from_utf8(bytes).map_err(|_| expected)
    }

    fn punctuation(&mut self, wanted: char) -> Result<(), ParseError> {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.ok_or_else(|| self.expected("'(', ',', ':' or ')'"))?;
        Ok(())
    }

    fn expected(&self, expected: &'static str) -> ParseError {
        let at = self.text.len() - self.rest.len();
        ParseError::Syntax { text: self.text.into(), at, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_become_the_types_they_are() {
        for (class, printed) in [
            ("org.apache.cassandra.db.marshal.EmptyType", "empty"),
            ("org.apache.cassandra.db.marshal.DateType", "timestamp"),
            (
                "org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.Int32Type)",
                "int",
            ),
            ("MapType(UTF8Type,FrozenType(ListType(Int32Type)))", "map<text, frozen<list<int>>>"),
            ("TupleType(UUIDType,VectorType(FloatType , 3))", "tuple<uuid, vector<float, 3>>"),
            ("UserType(ks,61646472,6e6f:Int32Type,73:UTF8Type)", "addr"),
            ("com.example.Odd", "'com.example.Odd'"),
            (
                "DynamicCompositeType(s=>UTF8Type,i=>Int32Type)",
                "'DynamicCompositeType(s=>UTF8Type,i=>Int32Type)'",
            ),
            ("CompositeType(UTF8Type,Int32Type)", "'CompositeType(UTF8Type,Int32Type)'"),
        ] {
            assert_eq!(parse(class).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn broken_parameters_are_errors() {
        for class in
            ["ListType(", "MapType(UTF8Type", "UserType(ks,zz)", "VectorType(FloatType , x)"]
        {
            assert!(matches!(parse(class), Err(ParseError::Syntax { .. })), "{class}");
        }
    }
}
