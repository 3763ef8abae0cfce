//! From JSON back to bytes.

use core::net::IpAddr;

use num_bigint::BigInt;
use serde_json::Value as Json;
use thiserror::Error;
use uuid::Uuid;

use super::{BYTES, counter_bytes, duration_bytes, is_text};
use crate::datatype::{CqlType, UserType};
use crate::hex;
use crate::json::calendar;
use crate::value::{CounterContext, Duration, Shard, ShardKind};
use crate::wire::push_unsigned_vint;

/// JSON that is no value of a type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{found} is no {ty}")]
pub struct ReadError {
    ty: Box<str>,
    found: Box<str>,
}

/// The bytes of a value as [`super::write`] wrote it.
pub fn read(ty: &CqlType, value: &Json) -> Result<Vec<u8>, ReadError> {
    let ty = ty.thawed();
    if let Json::Object(object) = value
        && let (1, Some(bytes)) = (object.len(), object.get(BYTES))
    {
        return bytes.as_str().and_then(blob).ok_or_else(|| wrong(ty, value));
    }
    match ty {
        CqlType::List(element) | CqlType::Set(element) => {
            let elements = array(ty, value)?;
            let mut bytes = count(elements.len(), ty, value)?;
            for element_value in elements {
                nullable(element, element_value, &mut bytes)?;
            }
            Ok(bytes)
        }
        CqlType::Map(key, mapped) => map(ty, key, mapped, value),
        CqlType::Vector(element, _) => {
            let mut bytes = Vec::new();
            for element_value in array(ty, value)? {
                let part = read(element, element_value)?;
                if element.fixed_length().is_none() {
                    push_unsigned_vint(part.len() as u64, &mut bytes);
                }
                bytes.extend(part);
            }
            Ok(bytes)
        }
        CqlType::Tuple(types) => {
            let mut bytes = Vec::new();
            let parts = array(ty, value)?;
            if parts.len() > types.len() {
                return Err(wrong(ty, value));
            }
            for (ty, part) in types.iter().zip(parts) {
                nullable(ty, part, &mut bytes)?;
            }
            Ok(bytes)
        }
        CqlType::User(user) => fields(user, value),
        _ => scalar(ty, value).ok_or_else(|| wrong(ty, value)),
    }
}

fn scalar(ty: &CqlType, value: &Json) -> Option<Vec<u8>> {
    Some(match ty {
        CqlType::Text | CqlType::Ascii => value.as_str()?.as_bytes().to_vec(),
        CqlType::Blob | CqlType::Custom(_) => blob(value.as_str()?)?,
        CqlType::Boolean => vec![u8::from(value.as_bool()?)],
        CqlType::TinyInt => i8::try_from(value.as_i64()?).ok()?.to_be_bytes().to_vec(),
        CqlType::SmallInt => i16::try_from(value.as_i64()?).ok()?.to_be_bytes().to_vec(),
        CqlType::Int => i32::try_from(value.as_i64()?).ok()?.to_be_bytes().to_vec(),
        CqlType::BigInt => value.as_i64()?.to_be_bytes().to_vec(),
        CqlType::VarInt => value.as_str()?.parse::<BigInt>().ok()?.to_signed_bytes_be(),
        CqlType::Decimal => decimal(value.as_str()?)?,
        CqlType::Float => single(float(value)?)?.to_be_bytes().to_vec(),
        CqlType::Double => float(value)?.to_be_bytes().to_vec(),
        CqlType::Timestamp => timestamp(value.as_str()?)?.to_be_bytes().to_vec(),
        CqlType::Date => {
            let days = calendar::parse_date(value.as_str()?)?.checked_add(1 << 31)?;
            u32::try_from(days).ok()?.to_be_bytes().to_vec()
        }
        CqlType::Time => calendar::parse_time(value.as_str()?)?.to_be_bytes().to_vec(),
        CqlType::Uuid | CqlType::TimeUuid => {
            value.as_str()?.parse::<Uuid>().ok()?.as_bytes().to_vec()
        }
        CqlType::Inet => match value.as_str()?.parse::<IpAddr>().ok()? {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        },
        CqlType::Duration => duration_bytes(Duration {
            months: i32::try_from(value.get("months")?.as_i64()?).ok()?,
            days: i32::try_from(value.get("days")?.as_i64()?).ok()?,
            nanoseconds: value.get("nanoseconds")?.as_i64()?,
        }),
        CqlType::Counter => counter(value)?,
        _ => return None,
    })
}

fn float(value: &Json) -> Option<f64> {
    match value.as_str() {
        None => value.as_f64(),
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
    }
}

/// The `float` whose text was read as this number.
///
/// Rounding the number itself rounds twice, and can miss by one bit. Its text is as good as the one
/// that was written: of all texts of up to fifteen digits no two read as the same `f64` in this
/// range, and nine are the most that a `float` takes, so the shortest text of the number is the
/// written one.
pub(super) fn single(number: f64) -> Option<f32> {
    if number.is_nan() {
        return Some(f32::NAN);
    }
    format!("{number:e}").parse().ok()
}

/// `2026-11-15T21:00:00.000Z`
fn timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let days = calendar::parse_date(date)?;
    let nanoseconds = calendar::parse_time(time)?;
    days.checked_mul(86_400_000)?.checked_add(nanoseconds / 1_000_000)
}

/// Digits with an optional point and an optional exponent; every digit written is kept.
fn decimal(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once('E') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unscaled: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut bytes = i32::try_from(scale).ok()?.to_be_bytes().to_vec();
    bytes.extend(unscaled.to_signed_bytes_be());
    Some(bytes)
}

fn counter(value: &Json) -> Option<Vec<u8>> {
    let shards = value.get("shards")?.as_array()?.iter().map(|shard| {
        Some(Shard {
            id: *shard.get("id")?.as_str()?.parse::<Uuid>().ok()?.as_bytes(),
            kind: ShardKind::Global,
            clock: shard.get("clock")?.as_i64()?,
            count: shard.get("count")?.as_i64()?,
        })
    });
    counter_bytes(&CounterContext { shards: shards.collect::<Option<_>>()? })
}

/// A map: an object where the keys are text, pairs otherwise.
fn map(ty: &CqlType, key: &CqlType, mapped: &CqlType, value: &Json) -> Result<Vec<u8>, ReadError> {
    match value {
        Json::Object(object) if is_text(key) => {
            let mut bytes = count(object.len(), ty, value)?;
            for (name, mapped_value) in object {
                nullable(key, &Json::from(name.as_str()), &mut bytes)?;
                nullable(mapped, mapped_value, &mut bytes)?;
            }
            Ok(bytes)
        }
        _ if is_text(key) => Err(wrong(ty, value)),
        _ => {
            let entries = array(ty, value)?;
            let mut bytes = count(entries.len(), ty, value)?;
            for entry in entries {
                let Some([entry_key, entry_value]) = entry.as_array().map(Vec::as_slice) else {
                    return Err(wrong(ty, entry));
                };
                nullable(key, entry_key, &mut bytes)?;
                nullable(mapped, entry_value, &mut bytes)?;
            }
            Ok(bytes)
        }
    }
}

/// The fields up to the last one that is named.
fn fields(user: &UserType, value: &Json) -> Result<Vec<u8>, ReadError> {
    let ty = || CqlType::User(std::sync::Arc::new(user.clone()));
    let Json::Object(object) = value else { return Err(wrong(&ty(), value)) };
    let named = |(name, _): &&(std::sync::Arc<str>, CqlType)| object.contains_key(&**name);
    let known = user.fields.iter().filter(named).count();
    if known != object.len() {
        return Err(wrong(&ty(), value));
    }
    let mut bytes = Vec::new();
    for (name, ty) in user.fields.iter().take(known) {
        nullable(ty, object.get(&**name).unwrap_or(&Json::Null), &mut bytes)?;
    }
    Ok(bytes)
}

/// Appends a part behind its length; a null has none.
fn nullable(ty: &CqlType, value: &Json, out: &mut Vec<u8>) -> Result<(), ReadError> {
    if value.is_null() {
        out.extend((-1_i32).to_be_bytes());
        return Ok(());
    }
    let part = read(ty, value)?;
    out.extend(count(part.len(), ty, value)?);
    out.extend(part);
    Ok(())
}

fn count(count: usize, ty: &CqlType, value: &Json) -> Result<Vec<u8>, ReadError> {
    let count = i32::try_from(count).map_err(|_| wrong(ty, value))?;
    Ok(count.to_be_bytes().to_vec())
}

fn array<'a>(ty: &CqlType, value: &'a Json) -> Result<&'a Vec<Json>, ReadError> {
    value.as_array().ok_or_else(|| wrong(ty, value))
}

fn blob(text: &str) -> Option<Vec<u8>> {
    text.strip_prefix("0x").and_then(hex::decode)
}

fn wrong(ty: &CqlType, value: &Json) -> ReadError {
    let mut found = value.to_string();
    if found.len() > 60 {
        let end = found.floor_char_boundary(60);
        found.truncate(end);
        found.push('…');
    }
    ReadError { ty: ty.to_string().into(), found: found.into() }
}
