//! Text as a value of a type that has no parts.

use std::net::IpAddr;

use helenus_cql::datatype::CqlType;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use num_bigint::BigInt;
use uuid::Uuid;

use super::CastError;

const DATE_CENTRE: i64 = 1 << 31;

/// Digits of a `decimal` or `varint`; those of real data have a few dozen.
const DIGITS_MAX: usize = 1_000;

/// Appends `text` as a value of `ty`. White space around anything but text is of no matter.
pub(super) fn write(text: &str, ty: &CqlType, cells: &mut Vec<u8>) -> Result<(), CastError> {
    let trimmed = text.trim();
    let written = match ty {
        CqlType::Text | CqlType::Ascii => {
            let is_taken = *ty == CqlType::Text || text.is_ascii();
            is_taken.then(|| cells.extend(text.as_bytes()))
        }
        CqlType::TinyInt => number::<i8>(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::SmallInt => number::<i16>(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::Int => number::<i32>(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::BigInt => number::<i64>(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::Float => number::<f32>(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::Double => number::<f64>(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::VarInt => whole(trimmed).map(|n| cells.extend(n.to_signed_bytes_be())),
        CqlType::Decimal => decimal(trimmed).map(|(scale, unscaled)| {
            cells.extend(scale.to_be_bytes());
            cells.extend(unscaled.to_signed_bytes_be());
        }),
        CqlType::Boolean => boolean(trimmed).map(|truth| cells.push(u8::from(truth))),
        CqlType::Timestamp => timestamp(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::Date => date(trimmed).map(|days| cells.extend(days.to_be_bytes())),
        CqlType::Time => time(trimmed).map(|n| cells.extend(n.to_be_bytes())),
        CqlType::Uuid => uuid(trimmed).map(|id| cells.extend(id.as_bytes())),
        CqlType::TimeUuid => uuid(trimmed)
            .filter(|id| id.get_version_num() == 1)
            .map(|id| cells.extend(id.as_bytes())),
        CqlType::Inet => number::<IpAddr>(trimmed).map(|address| match address {
            IpAddr::V4(address) => cells.extend(address.octets()),
            IpAddr::V6(address) => cells.extend(address.octets()),
        }),
        CqlType::Blob => blob(trimmed, cells),
        _ => None,
    };
    written.ok_or_else(|| CastError::not_a(text, ty))
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn whole(text: &str) -> Option<BigInt> {
    let is_long = text.len() > DIGITS_MAX;
    if is_long { None } else { text.parse().ok() }
}

/// Scale and digits of `-12.50` or `1.25e-3`.
fn decimal(text: &str) -> Option<(i32, BigInt)> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    if !after.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = i32::try_from(after.len()).ok()?.checked_sub(exponent)?;
    Some((scale, whole(&format!("{before}{after}"))?))
}

fn boolean(text: &str) -> Option<bool> {
    let any = |words: [&str; 5]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if any(["true", "t", "yes", "y", "1"]) {
        Some(true)
    } else {
        any(["false", "f", "no", "n", "0"]).then_some(false)
    }
}

/// Milliseconds since 1970: a time with its zone, one without (taken as UTC), a day, or the number.
pub(super) fn timestamp(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse() {
        return Some(millis);
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(instant.as_millisecond());
    }
    let local: DateTime = text.parse().ok()?;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

fn date(text: &str) -> Option<u32> {
    let day: Date = (text.len() == 10).then(|| text.parse().ok())??;
    let midnight = day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    u32::try_from(midnight.div_euclid(86_400) + DATE_CENTRE).ok()
}

fn time(text: &str) -> Option<i64> {
    let time: Time = text.parse().ok()?;
    let seconds = i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60;
    let seconds = seconds + i64::from(time.second());
    Some(seconds * 1_000_000_000 + i64::from(time.subsec_nanosecond()))
}

fn uuid(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok())?
}

fn blob(text: &str, cells: &mut Vec<u8>) -> Option<()> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    let bytes = rest.is_empty().then(|| bytes.collect::<Option<Vec<u8>>>())??;
    cells.extend(bytes);
    Some(())
}
