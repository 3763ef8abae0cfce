//! Bytes to values, one function a family of types.

use core::net::IpAddr;

use num_bigint::BigInt;
use uuid::Uuid;

use super::{CounterContext, Decimal, Duration, Value, ValueError};
use crate::datatype::CqlType;
use crate::wire::Reader;

/// `date` counts days from here, so that unsigned order is time order.
const DATE_EPOCH: i64 = 1 << 31;

type Outcome<'a> = Result<Value<'a>, ValueError>;

pub(super) fn value<'a>(ty: &'a CqlType, bytes: &'a [u8]) -> Outcome<'a> {
    match ty {
        CqlType::Frozen(inner) => value(inner, bytes),
        CqlType::Text => text(bytes),
        CqlType::Ascii if bytes.is_ascii() => text(bytes),
        CqlType::Ascii => Err(ValueError::Encoding("ascii")),
        CqlType::Blob => Ok(Value::Blob(bytes)),
        CqlType::Custom(_) => Ok(Value::Custom(bytes)),
        CqlType::Tuple(parts) => components(parts.iter(), bytes).map(Value::Tuple),
        CqlType::User(user) => components(user.fields.iter().map(|(_, ty)| ty), bytes)
            .map(|parts| Value::User(user, parts)),
        CqlType::List(element) | CqlType::Set(element) => sequence(element, bytes),
        CqlType::Map(key, mapped) => map(key, mapped, bytes),
        CqlType::Vector(element, dimension) => vector(element, *dimension, bytes),
        CqlType::Counter => {
            CounterContext::parse(bytes).map(|context| Value::Counter(context.total()))
        }
        _ if bytes.is_empty() => Ok(Value::Empty),
        CqlType::VarInt => Ok(Value::VarInt(BigInt::from_signed_bytes_be(bytes))),
        CqlType::Decimal => decimal(bytes),
        CqlType::Inet => inet(bytes),
        CqlType::Duration => duration(bytes),
        _ => scalar(ty, bytes),
    }
}

fn scalar<'a>(ty: &'a CqlType, bytes: &'a [u8]) -> Outcome<'a> {
    let decoded = match ty {
        CqlType::Boolean => bytes.as_array().map(|[byte]| Value::Boolean(*byte != 0)),
        CqlType::TinyInt => bytes.as_array().map(|raw| Value::TinyInt(i8::from_be_bytes(*raw))),
        CqlType::SmallInt => bytes.as_array().map(|raw| Value::SmallInt(i16::from_be_bytes(*raw))),
        CqlType::Int => bytes.as_array().map(|raw| Value::Int(i32::from_be_bytes(*raw))),
        CqlType::BigInt => bytes.as_array().map(|raw| Value::BigInt(i64::from_be_bytes(*raw))),
        CqlType::Float => bytes.as_array().map(|raw| Value::Float(f32::from_be_bytes(*raw))),
        CqlType::Double => bytes.as_array().map(|raw| Value::Double(f64::from_be_bytes(*raw))),
        CqlType::Timestamp => {
            bytes.as_array().map(|raw| Value::Timestamp(i64::from_be_bytes(*raw)))
        }
        CqlType::Date => bytes
            .as_array()
            .map(|raw| Value::Date(i64::from(u32::from_be_bytes(*raw)) - DATE_EPOCH)),
        CqlType::Uuid | CqlType::TimeUuid => {
            bytes.as_array().map(|raw| Value::Uuid(Uuid::from_bytes(*raw)))
        }
        // Also beyond a day: TimeSerializer.validate counts the bytes and looks no further.
        CqlType::Time => bytes.as_array().map(|raw| Value::Time(i64::from_be_bytes(*raw))),
        _ => None,
    };
    decoded.ok_or_else(|| length(ty, bytes))
}

fn text(bytes: &[u8]) -> Outcome<'_> {
    std::str::from_utf8(bytes).map(Value::Text).map_err(|_| ValueError::Encoding("utf-8"))
}

fn decimal(bytes: &[u8]) -> Outcome<'_> {
    let mut reader = Reader::new(bytes);
    let scale = reader.i32()?;
    if reader.is_empty() {
        return Err(length(&CqlType::Decimal, bytes));
    }
    let unscaled = BigInt::from_signed_bytes_be(reader.rest());
    Ok(Value::Decimal(Decimal { unscaled, scale }))
}

fn inet(bytes: &[u8]) -> Outcome<'_> {
    let v4 = bytes.as_array::<4>().map(|raw| IpAddr::from(*raw));
    let v6 = bytes.as_array::<16>().map(|raw| IpAddr::from(*raw));
    // A node shows an IPv4 address in IPv6 clothes as IPv4.
    v4.or(v6)
        .map(|address| Value::Inet(address.to_canonical()))
        .ok_or_else(|| length(&CqlType::Inet, bytes))
}

fn duration(bytes: &[u8]) -> Outcome<'_> {
    let mut reader = Reader::new(bytes);
    let mut part = || reader.signed_vint();
    // What may follow is nothing to a node: DurationSerializer reads three numbers and stops.
    let (months, days, nanoseconds) = (part()?, part()?, part()?);
    let narrow = |part: i64| i32::try_from(part).map_err(|_| ValueError::Range("the duration"));
    let duration = Duration { months: narrow(months)?, days: narrow(days)?, nanoseconds };
    let mixed = [months, days, nanoseconds].iter().any(|part| *part < 0)
        && [months, days, nanoseconds].iter().any(|part| *part > 0);
    if mixed { Err(ValueError::Range("the duration")) } else { Ok(Value::Duration(duration)) }
}

fn sequence<'a>(element: &'a CqlType, bytes: &'a [u8]) -> Outcome<'a> {
    let mut reader = Reader::new(bytes);
    let count = count(&mut reader, 4)?;
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        elements.push(nullable(element, reader.nullable_bytes()?)?);
    }
    finished(&reader)?;
    Ok(Value::Sequence(elements))
}

fn map<'a>(key: &'a CqlType, mapped: &'a CqlType, bytes: &'a [u8]) -> Outcome<'a> {
    let mut reader = Reader::new(bytes);
    let count = count(&mut reader, 8)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let key_bytes = reader.nullable_bytes()?.ok_or(ValueError::NullKey)?;
        entries.push((value(key, key_bytes)?, nullable(mapped, reader.nullable_bytes()?)?));
    }
    finished(&reader)?;
    Ok(Value::Map(entries))
}

fn vector<'a>(element: &'a CqlType, dimension: u32, bytes: &'a [u8]) -> Outcome<'a> {
    let mut reader = Reader::new(bytes);
    let fixed = element.fixed_length();
    let mut elements = Vec::new();
    for _ in 0..dimension {
        // Elements of no width would let a short value claim four billion of them.
        if fixed == Some(0) {
            return Err(ValueError::Count(i64::from(dimension)));
        }
        let part = match fixed {
            Some(length) => reader.take(length)?,
            None => reader.vint_bytes()?,
        };
        elements.push(Some(value(element, part)?));
    }
    finished(&reader)?;
    Ok(Value::Sequence(elements))
}

fn components<'a>(
    types: impl Iterator<Item = &'a CqlType>,
    bytes: &'a [u8],
) -> Result<Vec<Option<Value<'a>>>, ValueError> {
    let mut reader = Reader::new(bytes);
    let mut parts = Vec::new();
    for ty in types {
        let part = if reader.is_empty() { None } else { reader.nullable_bytes()? };
        parts.push(nullable(ty, part)?);
    }
    finished(&reader)?;
    Ok(parts)
}

fn nullable<'a>(ty: &'a CqlType, bytes: Option<&'a [u8]>) -> Result<Option<Value<'a>>, ValueError> {
    bytes.map(|bytes| value(ty, bytes)).transpose()
}

/// An element count that the bytes left could hold.
pub(crate) fn count(reader: &mut Reader<'_>, width_min: usize) -> Result<usize, ValueError> {
    let claimed = reader.i32()?;
    let fits = |count: &usize| count.saturating_mul(width_min) <= reader.rest().len();
    let count = usize::try_from(claimed).ok().filter(fits);
    count.ok_or(ValueError::Count(i64::from(claimed)))
}

fn finished(reader: &Reader<'_>) -> Result<(), ValueError> {
    if reader.is_empty() { Ok(()) } else { Err(ValueError::Leftover(reader.rest().len())) }
}

fn length(ty: &CqlType, bytes: &[u8]) -> ValueError {
    ValueError::Length { ty: Box::new(ty.clone()), length: bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_eight_bytes_are_a_time() {
        for nanoseconds in [0, 86_399_999_999_999, 86_400_000_000_000, -1, i64::MIN, i64::MAX] {
            let bytes = nanoseconds.to_be_bytes();
            assert_eq!(value(&CqlType::Time, &bytes), Ok(Value::Time(nanoseconds)));
            assert!(value(&CqlType::Time, &bytes[1..]).is_err());
        }
        assert_eq!(value(&CqlType::Time, &[]), Ok(Value::Empty));
    }
}
