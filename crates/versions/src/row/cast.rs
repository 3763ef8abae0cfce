//! Casting a field to a column's type, into the bytes that Cassandra binds.

use std::borrow::Cow;

use helenus_cql::compare::compare;
use helenus_cql::datatype::CqlType;
use serde_json::Value as Json;

use super::{Cells, Field, push, scalar};

/// Why a field is not a value of a column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", column.as_deref().map(|name| format!("column {name}: ")).unwrap_or_default())]
pub struct CastError {
    /// The column.
    pub column: Option<Box<str>>,
    /// What is wrong.
    pub reason: Box<str>,
}

/// Characters of a value that an error quotes.
const QUOTED_MAX: usize = 60;

impl CastError {
    pub(super) fn new(reason: impl Into<Box<str>>) -> Self {
        CastError { column: None, reason: reason.into() }
    }

    pub(super) fn not_a(text: &str, ty: &CqlType) -> Self {
        let short: String = text.chars().take(QUOTED_MAX).collect();
        let more = if short.len() < text.len() { "…" } else { "" };
        let name = ty.to_string();
        let article = if name.starts_with(['a', 'i']) { "an" } else { "a" };
        Self::new(format!("'{short}{more}' is not {article} {name}"))
    }

    pub(super) fn in_column(self, name: &str) -> Self {
        CastError { column: Some(name.into()), ..self }
    }

    pub(super) fn null_key(name: &str) -> Self {
        Self::new("the key is null or empty").in_column(name)
    }
}

/// Whether values of a type can be loaded. Not counters, which cannot be inserted, nor durations,
/// user-defined and custom types.
pub fn is_loadable(ty: &CqlType) -> bool {
    match ty {
        CqlType::Counter
        | CqlType::Duration
        | CqlType::Empty
        | CqlType::User(_)
        | CqlType::Custom(_) => false,
        CqlType::List(inner) | CqlType::Set(inner) | CqlType::Frozen(inner) => is_loadable(inner),
        CqlType::Map(key, value) => is_loadable(key) && is_loadable(value),
        CqlType::Tuple(parts) => parts.iter().all(is_loadable),
        CqlType::Vector(element, _) => element.fixed_length().is_some() && is_loadable(element),
        _ => true,
    }
}

/// Appends `field` as a value of type `ty`, its length before it.
///
/// ```
/// use helenus_cql::datatype::CqlType;
/// use helenus_versions::row::{Field, cast};
///
/// let mut cells = Vec::new();
/// cast(&Field::Text("7".into()), &CqlType::Int, &mut cells)?;
/// assert_eq!(cells, [0, 0, 0, 4, 0, 0, 0, 7]);
/// assert!(cast(&Field::Text("seven".into()), &CqlType::Int, &mut cells).is_err());
/// # Ok::<(), helenus_versions::row::CastError>(())
/// ```
pub fn cast(field: &Field<'_>, ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    if let CqlType::Frozen(inner) = ty {
        return cast(field, inner, cells);
    }
    let start = cells.len();
    // The length is put in afterwards: most types know theirs only when they are written.
    cells.extend([0; 4]);
    let written = match field {
        Field::Null | Field::Json(Cow::Borrowed(Json::Null) | Cow::Owned(Json::Null)) => {
            cells.truncate(start);
            push(None, cells);
            return Ok(());
        }
        Field::Text(text) => text_as(text, ty, cells),
        Field::Bool(truth) => match ty {
            CqlType::Boolean => {
                cells.push(u8::from(*truth));
                Ok(())
            }
            _ => text_as(if *truth { "true" } else { "false" }, ty, cells),
        },
        Field::Int(number) => int_as(*number, ty, cells),
        Field::Float(number) => float_as(*number, ty, cells),
        Field::Bytes(bytes) => bytes_as(bytes, ty, cells),
        Field::Json(json) => json_as(json, ty, cells),
    };
    if let Err(error) = written {
        cells.truncate(start);
        return Err(error);
    }
    let length = cells.len() - start - 4;
    let length = i32::try_from(length).map_err(|_| CastError::new("the value is over 2 GiB"))?;
    if let Some(place) = cells.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

fn text_as(text: &str, ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    match ty {
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Vector(..) => {
            let json: Json = serde_json::from_str(text).map_err(|_| CastError::not_a(text, ty))?;
            json_as(&json, ty, cells)
        }
        _ => scalar::write(text, ty, cells),
    }
}

fn int_as(number: i64, ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    match ty {
        CqlType::BigInt => cells.extend(number.to_be_bytes()),
        CqlType::Timestamp => cells.extend(number.to_be_bytes()),
        CqlType::Double => cells.extend((number as f64).to_be_bytes()),
        _ => return scalar::write(&number.to_string(), ty, cells),
    }
    Ok(())
}

fn float_as(number: f64, ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    match ty {
        CqlType::Double => cells.extend(number.to_be_bytes()),
        // Beyond the range it is infinite, as Cassandra itself would make it.
        #[expect(clippy::cast_possible_truncation, reason = "a float column asks for it")]
        CqlType::Float => cells.extend((number as f32).to_be_bytes()),
        _ => return scalar::write(&number.to_string(), ty, cells),
    }
    Ok(())
}

fn bytes_as(bytes: &[u8], ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    match ty {
        CqlType::Blob => cells.extend(bytes),
        CqlType::Uuid if bytes.len() == 16 => cells.extend(bytes),
        _ => {
            let text = std::str::from_utf8(bytes);
            let text = text.map_err(|_| CastError::new("the bytes are not UTF-8"))?;
            return text_as(text, ty, cells);
        }
    }
    Ok(())
}

fn json_as(json: &Json, ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    let wrong = || CastError::not_a(&json.to_string(), ty);
    let nested = |json: &Json, ty: &CqlType, cells: &mut Vec<u8>| {
        cast(&Field::Json(Cow::Borrowed(json)), ty, cells)
    };
    match (ty, json) {
        (CqlType::List(element), Json::Array(values)) => {
            cells.extend(count(values.len()));
            values.iter().try_for_each(|value| nested(value, element, cells))
        }
        (CqlType::Set(element), Json::Array(values)) => {
            let mut own = Vec::new();
            values.iter().try_for_each(|value| nested(value, element, &mut own))?;
            let mut elements: Vec<&[u8]> = Cells(&own).flatten().collect();
            elements.sort_by(|left, right| compare(element, left, right));
            elements.dedup();
            cells.extend(count(elements.len()));
            elements.iter().for_each(|value| push(Some(value), cells));
            Ok(())
        }
        (CqlType::Map(key_type, value_type), Json::Object(object)) => {
            let mut entries = Vec::new();
            for (key, value) in object {
                let (mut key_cell, mut value_cell) = (Vec::new(), Vec::new());
                cast(&Field::Text(Cow::Borrowed(key)), key_type, &mut key_cell)?;
                nested(value, value_type, &mut value_cell)?;
                entries.push((key_cell, value_cell));
            }
            let bytes = |cell: &Vec<u8>| cell.get(4..).unwrap_or_default().to_vec();
            entries.sort_by(|(left, _), (right, _)| compare(key_type, &bytes(left), &bytes(right)));
            cells.extend(count(entries.len()));
            for (key, value) in entries {
                cells.extend(key);
                cells.extend(value);
            }
            Ok(())
        }
        (CqlType::Tuple(parts), Json::Array(values)) if parts.len() == values.len() => {
            let mut pairs = values.iter().zip(parts.iter());
            pairs.try_for_each(|(value, part)| nested(value, part, cells))
        }
        (CqlType::Vector(element, dimension), Json::Array(values)) => {
            if u32::try_from(values.len()).ok() != Some(*dimension) {
                return Err(wrong());
            }
            let mut own = Vec::new();
            values.iter().try_for_each(|value| nested(value, element, &mut own))?;
            for value in Cells(&own) {
                cells.extend(value.ok_or_else(wrong)?);
            }
            Ok(())
        }
        (CqlType::Text | CqlType::Ascii, Json::Array(_) | Json::Object(_)) => {
            scalar::write(&json.to_string(), ty, cells)
        }
        (_, Json::String(text)) => text_as(text, ty, cells),
        (CqlType::Boolean, Json::Bool(truth)) => {
            cells.push(u8::from(*truth));
            Ok(())
        }
        (CqlType::Text, Json::Bool(_)) => scalar::write(&json.to_string(), ty, cells),
        // As it was written: a decimal keeps its digits.
        (_, Json::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => int_as(number, ty, cells),
            (None, Some(number)) if matches!(ty, CqlType::Double | CqlType::Float) => {
                float_as(number, ty, cells)
            }
            _ => scalar::write(&number.to_string(), ty, cells),
        },
        _ => Err(wrong()),
    }
}

fn count(elements: usize) -> [u8; 4] {
    i32::try_from(elements).unwrap_or(i32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use helenus_cql::{json, value::Value};
    use proptest::prelude::*;

    use super::*;

    /// What Cassandra would print of the value.
    fn printed(field: &Field<'_>, ty: &str) -> Result<String, String> {
        let ty: CqlType = ty.parse().unwrap();
        let mut cells = Vec::new();
        cast(field, &ty, &mut cells).map_err(|error| error.to_string())?;
        let bytes = Cells(&cells).next().unwrap();
        let value = bytes.map(|bytes| Value::decode(&ty, bytes).unwrap());
        let mut out = String::new();
        json::write(value.as_ref(), &mut out);
        Ok(out)
    }

    fn check(text: &str, ty: &str, expected: &str) {
        assert_eq!(printed(&Field::Text(text.into()), ty).as_deref(), Ok(expected), "{text} {ty}");
    }

    #[test]
    fn text_becomes_every_type() {
        check("naïve", "text", "\"naïve\"");
        check("-128", "tinyint", "-128");
        check(" 42 ", "smallint", "42");
        check("9223372036854775807", "bigint", "9223372036854775807");
        check("123456789012345678901234567890", "varint", "123456789012345678901234567890");
        check("-12.50", "decimal", "-12.50");
        check("1e3", "decimal", "1E+3");
        check("1.5", "float", "1.5");
        check("NaN", "double", "null");
        check("Yes", "boolean", "true");
        check("0", "boolean", "false");
        check("2026-11-15T12:00:00.25Z", "timestamp", "\"2026-11-15 12:00:00.250Z\"");
        check("2026-11-15 12:00:00", "timestamp", "\"2026-11-15 12:00:00.000Z\"");
        check("2026-11-15", "timestamp", "\"2026-11-15 00:00:00.000Z\"");
        check("1000", "timestamp", "\"1970-01-01 00:00:01.000Z\"");
        check("1969-12-31", "date", "\"1969-12-31\"");
        check("21:00:00.5", "time", "\"21:00:00.500000000\"");
        check("::1", "inet", "\"0:0:0:0:0:0:0:1\"");
        check("0xCAFE", "blob", "\"0xcafe\"");
        check("[3, 1]", "list<int>", "[3, 1]");
        check("[3, 1, 3]", "set<int>", "[1, 3]");
        check(r#"{"b": [1], "a": []}"#, "map<text, frozen<list<int>>>", r#"{"a": [], "b": [1]}"#);
        check(r#"[1, "x", null]"#, "tuple<int, text, int>", r#"[1, "x", null]"#);
        check("[1, 2.5]", "vector<float, 2>", "[1.0, 2.5]");
    }

    #[test]
    fn what_is_no_value_is_refused_by_name() {
        for (text, ty) in [
            ("128", "tinyint"),
            ("1.5", "int"),
            ("", "int"),
            ("é", "ascii"),
            ("maybe", "boolean"),
            ("2026-13-01", "date"),
            ("yesterday", "timestamp"),
            ("not-a-uuid", "uuid"),
            ("550e8400-e29b-41d4-a716-446655440000", "timeuuid"),
            ("0xabc", "blob"),
            ("1.2.3", "inet"),
            ("[1]", "vector<float, 2>"),
            ("{}", "list<int>"),
            ("[1", "list<int>"),
        ] {
            let error = printed(&Field::Text(text.into()), ty).unwrap_err();
            assert!(error.contains(&format!("'{text}' is not a")), "{text} {ty}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), kind in 0..20_usize) {
            let types = [
                "ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "float", "inet",
                "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid",
                "varint", "list<int>", "map<text, int>",
            ];
            let _outcome = printed(&Field::Text(text.into()), types[kind]);
        }

        #[test]
        fn numbers_print_as_they_came(number in any::<i64>(), real in any::<f64>()) {
            prop_assert_eq!(printed(&Field::Int(number), "bigint"), Ok(number.to_string()));
            prop_assert_eq!(printed(&Field::Int(number), "decimal"), Ok(number.to_string()));
            let text = format!("{real:?}");
            prop_assert_eq!(
                printed(&Field::Text(text.into()), "double"),
                printed(&Field::Float(real), "double")
            );
        }
    }
}
