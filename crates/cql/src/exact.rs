//! Values as JSON that gives the bytes back: what change events carry.
//!
//! Readable where it can be, and never at the price of the value: `SELECT JSON` ([`crate::json`])
//! prints NaN as `null`, zero bytes as `""` and keys of maps as text; this does not. Decimals and
//! varints are strings, times have all their digits, maps whose keys are not text are lists of
//! pairs. Bytes that the plain form would not give back (no bytes at all where the type has no such
//! value, a varint with needless zeros, a calendar year of five digits, a time beyond the day) are
//! written as `{"$bytes": "0x…"}`, in any place and for any type.

mod read;

use core::net::IpAddr;
use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::datatype::CqlType;
use crate::hex;
use crate::json::{self, calendar, quoted};
use crate::value::{CounterContext, Duration, ShardKind, Value};
use crate::wire::{Reader, push_signed_vint};

pub use read::{ReadError, read};

/// The one key of an object that holds bytes as they are.
const BYTES: &str = "$bytes";

/// The years that RFC 3339 can write, in days since 1970.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;
const MILLISECONDS_PER_DAY: i64 = 86_400_000;
/// The times that a clock can show, in nanoseconds since midnight.
const TIMES: std::ops::Range<i64> = 0..86_400_000_000_000;

/// Appends the value that `bytes` are.
///
/// ```
/// use helenus_cql::{datatype::CqlType, exact};
///
/// let mut out = String::new();
/// exact::write(&CqlType::Int, &[0, 0, 0, 7], &mut out);
/// out.push(' ');
/// exact::write(&CqlType::Int, &[], &mut out);
/// assert_eq!(out, r#"7 {"$bytes":"0x"}"#);
/// let value = serde_json::json!({"$bytes": "0x"});
/// assert!(exact::read(&CqlType::Int, &value)?.is_empty());
/// # Ok::<(), exact::ReadError>(())
/// ```
pub fn write(ty: &CqlType, bytes: &[u8], out: &mut String) {
    let start = out.len();
    let ty = ty.thawed();
    if matches!(ty, CqlType::Decimal) && small_decimal(bytes, out) {
        return;
    }
    let written = match Value::decode(ty, bytes) {
        Ok(_) if is_nested(ty) => {
            nested(ty, bytes, out).is_some() && gives_back(ty, bytes, out.get(start..))
        }
        Ok(value) => scalar(ty, bytes, &value, out).is_some(),
        Err(_) => false,
    };
    if !written {
        out.truncate(start);
        out.push_str("{\"$bytes\":\"0x");
        hex::encode_into(bytes, out);
        out.push_str("\"}");
    }
}

const fn is_nested(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::List(_)
            | CqlType::Set(_)
            | CqlType::Map(..)
            | CqlType::Tuple(_)
            | CqlType::User(_)
            | CqlType::Vector(..)
    )
}

/// Whether what was written of a nested value reads as the same bytes. Looking is simpler than
/// knowing every way in which the parts of a value can be odd, and such values are not many.
fn gives_back(ty: &CqlType, bytes: &[u8], text: Option<&str>) -> bool {
    let json = text.and_then(|text| serde_json::from_str::<Json>(text).ok());
    json.and_then(|json| read(ty, &json).ok()).is_some_and(|read| read == bytes)
}

/// Writes a value without parts; `None` if the plain form would not give the bytes back.
fn scalar(ty: &CqlType, bytes: &[u8], value: &Value<'_>, out: &mut String) -> Option<()> {
    match value {
        Value::Text(text) => json::write_string(text, out),
        Value::Boolean(truth) if bytes == [u8::from(*truth)] => {
            out.push_str(if *truth { "true" } else { "false" });
        }
        Value::VarInt(number) if is_shortest(bytes) => {
            let _infallible = write!(out, "\"{number}\"");
        }
        Value::Decimal(_) if is_shortest(bytes.get(4..)?) => {
            quoted(out, |out| json::write(Some(value), out));
        }
        Value::Float(number) => {
            let usual_nan = number.to_bits() == f32::NAN.to_bits();
            float(f64::from(*number), usual_nan, &format!("{number:e}"), out)?;
        }
        Value::Double(number) => {
            let usual_nan = number.to_bits() == f64::NAN.to_bits();
            float(*number, usual_nan, &format!("{number:e}"), out)?;
        }
        Value::Timestamp(at) if DAYS.contains(&at.div_euclid(MILLISECONDS_PER_DAY)) => {
            quoted(out, |out| timestamp(*at, out));
        }
        Value::Time(at) if TIMES.contains(at) => json::write(Some(value), out),
        Value::Date(days) if DAYS.contains(days) => quoted(out, |out| calendar::date(*days, out)),
        Value::Inet(_) => {
            let address = address(bytes)?;
            let _infallible = write!(out, "\"{address}\"");
        }
        Value::Duration(span) if duration_bytes(*span) == bytes => {
            let Duration { months, days, nanoseconds } = span;
            let _infallible = write!(
                out,
                "{{\"months\":{months},\"days\":{days},\"nanoseconds\":{nanoseconds}}}"
            );
        }
        Value::Counter(_) => counter(bytes, out)?,
        Value::Blob(_)
        | Value::Custom(_)
        | Value::TinyInt(_)
        | Value::SmallInt(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Uuid(_) => json::write(Some(value), out),
        _ => return None,
    }
    // A type of no width has one value, and that is no value of any other type.
    (!matches!(ty, CqlType::Empty)).then_some(())
}

/// Writes a decimal whose digits fit into 64 bits, as most do; false if it is none. The others need
/// numbers that have memory of their own.
fn small_decimal(bytes: &[u8], out: &mut String) -> bool {
    let Some((scale, digits)) = bytes.split_first_chunk::<4>() else { return false };
    if digits.len() > 8 || !is_shortest(digits) {
        return false;
    }
    let sign = if digits.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
    let unscaled = digits.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte));
    let scale = i32::from_be_bytes(*scale);
    quoted(out, |out| json::number::small_decimal(unscaled, scale, out));
    true
}

/// A number, or one of three words; `None` for a NaN that is not the usual one. Other than in
/// `SELECT JSON` the digits are the fewest, whatever JDK the node has.
fn float(number: f64, usual_nan: bool, shortest: &str, out: &mut String) -> Option<()> {
    match number {
        _ if usual_nan => out.push_str("\"NaN\""),
        _ if number.is_nan() => return None,
        f64::INFINITY => out.push_str("\"Infinity\""),
        f64::NEG_INFINITY => out.push_str("\"-Infinity\""),
        _ => json::float::shortest(shortest, out),
    }
    Some(())
}

/// `2026-11-15T21:00:00.000Z`
fn timestamp(milliseconds: i64, out: &mut String) {
    calendar::date(milliseconds.div_euclid(MILLISECONDS_PER_DAY), out);
    out.push('T');
    calendar::clock(milliseconds.rem_euclid(MILLISECONDS_PER_DAY), 1000, 3, out);
    out.push('Z');
}

/// Whether a whole number has no byte that only repeats its sign.
fn is_shortest(bytes: &[u8]) -> bool {
    match bytes {
        [] => false,
        [0, second, ..] => *second >= 0x80,
        [0xff, second, ..] => *second < 0x80,
        _ => true,
    }
}

/// The address as it was written: IPv4 in IPv6 clothes stays what it is.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = bytes.as_array::<4>().map(|raw| IpAddr::from(*raw));
    v4.or_else(|| bytes.as_array::<16>().map(|raw| IpAddr::from(*raw)))
}

fn duration_bytes(span: Duration) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [i64::from(span.months), i64::from(span.days), span.nanoseconds] {
        push_signed_vint(part, &mut bytes);
    }
    bytes
}

/// The shards of a counter. Only those of modern nodes: all of them global.
fn counter(bytes: &[u8], out: &mut String) -> Option<()> {
    let context = CounterContext::parse(bytes).ok()?;
    if context.shards.iter().any(|shard| shard.kind != ShardKind::Global)
        || counter_bytes(&context)? != bytes
    {
        return None;
    }
    out.push_str("{\"shards\":[");
    for (index, shard) in context.shards.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let id = uuid::Uuid::from_bytes(shard.id);
        let (clock, count) = (shard.clock, shard.count);
        let _infallible =
            write!(out, "{comma}{{\"id\":\"{id}\",\"clock\":{clock},\"count\":{count}}}");
    }
    out.push_str("]}");
    Some(())
}

/// A context of global shards, as a node writes it.
fn counter_bytes(context: &CounterContext) -> Option<Vec<u8>> {
    let count = i16::try_from(context.shards.len()).ok()?;
    let mut bytes = count.to_be_bytes().to_vec();
    for index in 0..count {
        bytes.extend(index.wrapping_add(i16::MIN).to_be_bytes());
    }
    for shard in &context.shards {
        bytes.extend(shard.id);
        bytes.extend(shard.clock.to_be_bytes());
        bytes.extend(shard.count.to_be_bytes());
    }
    Some(bytes)
}

/// Writes a value with parts, each by the rule for its type; the bytes have been decoded before.
fn nested(ty: &CqlType, bytes: &[u8], out: &mut String) -> Option<()> {
    let mut reader = Reader::new(bytes);
    match ty {
        CqlType::List(element) | CqlType::Set(element) => {
            let count = reader.i32().ok()?;
            list((0..count).map(|_| Some((&**element, reader.nullable_bytes().ok()?))), out)
        }
        CqlType::Vector(element, dimension) => {
            let fixed = element.fixed_length();
            let mut next = || match fixed {
                Some(length) => reader.take(length).ok(),
                None => reader.vint_bytes().ok(),
            };
            list((0..*dimension).map(|_| Some((&**element, Some(next()?)))), out)
        }
        CqlType::Tuple(types) => list(components(types.iter(), &mut reader), out),
        CqlType::User(user) => {
            let mut names = user.fields.iter().map(|(name, _)| &**name);
            let types = user.fields.iter().map(|(_, ty)| ty);
            let fields = components(types, &mut reader).map(|part| Some((names.next()?, part?)));
            object(fields, out)
        }
        CqlType::Map(key, value) => {
            let count = reader.i32().ok()?;
            let mut entry = || {
                let key = reader.nullable_bytes().ok()??;
                Some((key, (&**value, reader.nullable_bytes().ok()?)))
            };
            if is_text(key) {
                let named = (0..count).map(|_| {
                    let (key, value) = entry()?;
                    Some((std::str::from_utf8(key).ok()?, value))
                });
                return object(named, out);
            }
            let separated = &mut true;
            out.push('[');
            for _ in 0..count {
                let (bytes, value) = entry()?;
                separate(separated, out);
                list([Some((&**key, Some(bytes))), Some(value)].into_iter(), out)?;
            }
            out.push(']');
            Some(())
        }
        _ => None,
    }
}

/// A part of a value: its type, and its bytes unless it is null.
type Part<'a> = (&'a CqlType, Option<&'a [u8]>);

/// Keys that are names in an object.
pub(crate) fn is_text(ty: &CqlType) -> bool {
    matches!(ty.thawed(), CqlType::Text | CqlType::Ascii)
}

/// The parts that are there; those missing at the end are left out.
fn components<'a, 'r>(
    mut types: impl Iterator<Item = &'a CqlType> + 'r,
    reader: &'r mut Reader<'a>,
) -> impl Iterator<Item = Option<Part<'a>>> + 'r {
    std::iter::from_fn(move || {
        (!reader.is_empty()).then(|| Some((types.next()?, reader.nullable_bytes().ok()?)))
    })
}

fn list<'a>(parts: impl Iterator<Item = Option<Part<'a>>>, out: &mut String) -> Option<()> {
    let first = &mut true;
    out.push('[');
    for next in parts {
        let next = next?;
        separate(first, out);
        part(next, out);
    }
    out.push(']');
    Some(())
}

fn object<'a>(
    fields: impl Iterator<Item = Option<(&'a str, Part<'a>)>>,
    out: &mut String,
) -> Option<()> {
    let first = &mut true;
    out.push('{');
    for field in fields {
        let (name, value) = field?;
        // An object with this name is taken for bytes.
        if name == BYTES {
            return None;
        }
        separate(first, out);
        json::write_string(name, out);
        out.push(':');
        part(value, out);
    }
    out.push('}');
    Some(())
}

fn part((ty, bytes): Part<'_>, out: &mut String) {
    match bytes {
        Some(bytes) => write(ty, bytes, out),
        None => out.push_str("null"),
    }
}

fn separate(first: &mut bool, out: &mut String) {
    if !std::mem::take(first) {
        out.push(',');
    }
}

#[cfg(test)]
mod tests;
