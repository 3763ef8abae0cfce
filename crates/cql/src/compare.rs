//! Cassandra's orders: which of two values of a type comes first.
//!
//! Clustering columns, set elements and map keys are told apart and sorted by these, not by
//! their bytes: the decimals 1.0 and 1.00 are one clustering value. The order is total over valid
//! values; bytes that are no value of the type sort behind all that are, by their bytes, and
//! whoever keeps an ordered structure should refuse them before (as [`crate::reconcile`] does).

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use crate::datatype::CqlType;
use crate::value::{Decimal, Value};
use crate::wire::Reader;

/// Compares two values of one type.
///
/// ```
/// use std::cmp::Ordering;
/// use helenus_cql::{compare::compare, datatype::CqlType};
///
/// assert_eq!(compare(&CqlType::Int, &[0xff; 4], &[0, 0, 0, 1]), Ordering::Less);
/// assert_eq!(compare(&CqlType::Blob, &[0xff; 4], &[0, 0, 0, 1]), Ordering::Greater);
/// let (one, one_exact) = ([0, 0, 0, 1, 10], [0, 0, 0, 2, 100]);
/// assert_eq!(compare(&CqlType::Decimal, &one, &one_exact), Ordering::Equal);
/// ```
#[must_use]
pub fn compare(ty: &CqlType, left: &[u8], right: &[u8]) -> Ordering {
    if let Some(order) = valid(ty, left, right) {
        return order;
    }
    let is_valid = |bytes| Value::decode(ty, bytes).is_ok();
    is_valid(right).cmp(&is_valid(left)).then_with(|| left.cmp(right))
}

/// The order of two valid values; `None` where one was found not to be.
fn valid(ty: &CqlType, left: &[u8], right: &[u8]) -> Option<Ordering> {
    match ty {
        CqlType::Frozen(inner) => return valid(inner, left, right),
        CqlType::Tuple(parts) => return components(parts.iter(), left, right),
        CqlType::User(user) => {
            return components(user.fields.iter().map(|(_, ty)| ty), left, right);
        }
        CqlType::List(element) | CqlType::Set(element) => {
            return elements(&[element], left, right);
        }
        CqlType::Map(key, value) => return elements(&[key, value], left, right),
        CqlType::Vector(element, dimension) => return vector(element, *dimension, left, right),
        _ => {}
    }
    if left.is_empty() || right.is_empty() {
        return Some(left.len().cmp(&right.len()));
    }
    match ty {
        CqlType::TinyInt => integers(left, right, i8::from_be_bytes),
        CqlType::SmallInt => integers(left, right, i16::from_be_bytes),
        CqlType::Int => integers(left, right, i32::from_be_bytes),
        CqlType::BigInt | CqlType::Timestamp => integers(left, right, i64::from_be_bytes),
        CqlType::VarInt => {
            let number = BigInt::from_signed_bytes_be;
            Some(number(left).cmp(&number(right)))
        }
        CqlType::Float => {
            let number = |bytes: &[u8]| bytes.as_array().map(|raw| f32::from_be_bytes(*raw).into());
            Some(floats(number(left)?, number(right)?))
        }
        CqlType::Double => {
            let number = |bytes: &[u8]| bytes.as_array().map(|raw| f64::from_be_bytes(*raw));
            Some(floats(number(left)?, number(right)?))
        }
        CqlType::Decimal => decimals(ty, left, right),
        CqlType::Uuid => Some(uuids(left.as_array()?, right.as_array()?)),
        CqlType::TimeUuid => Some(time_uuids(left.as_array()?, right.as_array()?)),
        CqlType::Boolean => Some((left != [0]).cmp(&(right != [0]))),
        _ => Some(left.cmp(right)),
    }
}

fn integers<T: Ord, const N: usize>(
    left: &[u8],
    right: &[u8],
    read: impl Fn([u8; N]) -> T,
) -> Option<Ordering> {
    Some(read(*left.as_array()?).cmp(&read(*right.as_array()?)))
}

/// Java's order: −0.0 before 0.0, every NaN last and equal.
fn floats(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(&right),
        (left, right) => left.cmp(&right),
    }
}

fn decimals(ty: &CqlType, left: &[u8], right: &[u8]) -> Option<Ordering> {
    match (Value::decode(ty, left).ok()?, Value::decode(ty, right).ok()?) {
        (Value::Decimal(left), Value::Decimal(right)) => Some(compare_decimals(&left, &right)),
        _ => None,
    }
}

/// Compares by sign, then magnitude, and only then by digits: scales may be billions apart, so
/// neither number is ever written out.
fn compare_decimals(left: &Decimal, right: &Decimal) -> Ordering {
    let (sign, other) = (left.unscaled.sign(), right.unscaled.sign());
    if sign != other || sign == Sign::NoSign {
        return sign.cmp(&other);
    }
    let digits = |decimal: &Decimal| decimal.unscaled.magnitude().to_string();
    let (left_digits, right_digits) = (digits(left), digits(right));
    let magnitude = |digits: &str, scale: i32| {
        i64::try_from(digits.len()).unwrap_or(i64::MAX).saturating_sub(i64::from(scale))
    };
    let order = magnitude(&left_digits, left.scale)
        .cmp(&magnitude(&right_digits, right.scale))
        .then_with(|| padded(&left_digits, &right_digits));
    if sign == Sign::Minus { order.reverse() } else { order }
}

/// Compares digits behind a common first place; missing ones are zeros.
fn padded(left: &str, right: &str) -> Ordering {
    let length = left.len().max(right.len());
    let digits = |text: &'_ str| {
        let text = text.as_bytes().to_vec();
        text.into_iter().chain(std::iter::repeat(b'0')).take(length)
    };
    digits(left).cmp(digits(right))
}

fn uuids(left: &[u8; 16], right: &[u8; 16]) -> Ordering {
    let version = |bytes: &[u8; 16]| high(bytes) >> 12 & 0xf;
    let by_version = version(left).cmp(&version(right));
    let by_high =
        if version(left) == 1 { by_time(left, right) } else { high(left).cmp(&high(right)) };
    by_version.then(by_high).then_with(|| low(left).cmp(&low(right)))
}

fn time_uuids(left: &[u8; 16], right: &[u8; 16]) -> Ordering {
    // The low half is compared byte by byte as signed bytes.
    let low = |bytes: &[u8; 16]| low(bytes).map(|byte| i8::from_be_bytes([byte]));
    by_time(left, right).then_with(|| low(left).cmp(&low(right)))
}

fn by_time(left: &[u8; 16], right: &[u8; 16]) -> Ordering {
    let time = |bytes: &[u8; 16]| {
        let high = high(bytes);
        ((high & 0xfff) << 48) | ((high >> 16 & 0xffff) << 32) | high >> 32
    };
    time(left).cmp(&time(right))
}

fn high(bytes: &[u8; 16]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *bytes;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

const fn low(bytes: &[u8; 16]) -> [u8; 8] {
    let [.., a, b, c, d, e, f, g, h] = *bytes;
    [a, b, c, d, e, f, g, h]
}

/// Lists, sets and maps: element by element, then the shorter first. A map's types alternate.
fn elements(types: &[&CqlType], left: &[u8], right: &[u8]) -> Option<Ordering> {
    if left.is_empty() || right.is_empty() {
        return Some(left.len().cmp(&right.len()));
    }
    let (mut left, mut right) = (Reader::new(left), Reader::new(right));
    let (left_count, right_count) = (left.i32().ok()?, right.i32().ok()?);
    for _ in 0..left_count.min(right_count) {
        for ty in types {
            let (left, right) = (left.nullable_bytes().ok()?, right.nullable_bytes().ok()?);
            match nullable(ty, left, right)? {
                Ordering::Equal => {}
                decided => return Some(decided),
            }
        }
    }
    Some(left_count.cmp(&right_count))
}

/// Tuples and user-defined types: null first, a missing part is a null.
fn components<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    left: &[u8],
    right: &[u8],
) -> Option<Ordering> {
    let (mut left, mut right) = (Reader::new(left), Reader::new(right));
    for ty in types {
        match nullable(ty, component(&mut left)?, component(&mut right)?)? {
            Ordering::Equal => {}
            decided => return Some(decided),
        }
    }
    (left.is_empty() && right.is_empty()).then_some(Ordering::Equal)
}

fn component<'a>(reader: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
    if reader.is_empty() { Some(None) } else { reader.nullable_bytes().ok() }
}

fn nullable(ty: &CqlType, left: Option<&[u8]>, right: Option<&[u8]>) -> Option<Ordering> {
    match (left, right) {
        (Some(left), Some(right)) => valid(ty, left, right),
        (left, right) => Some(left.is_some().cmp(&right.is_some())),
    }
}

fn vector(element: &CqlType, dimension: u32, left: &[u8], right: &[u8]) -> Option<Ordering> {
    let fixed = element.fixed_length();
    if fixed == Some(0) {
        return None;
    }
    let (mut left, mut right) = (Reader::new(left), Reader::new(right));
    for _ in 0..dimension {
        let (left_part, right_part) = (part(fixed, &mut left)?, part(fixed, &mut right)?);
        match valid(element, left_part, right_part)? {
            Ordering::Equal if left.is_empty() && right.is_empty() => break,
            Ordering::Equal => {}
            decided => return Some(decided),
        }
    }
    Some(Ordering::Equal)
}

fn part<'a>(fixed: Option<usize>, reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    match fixed {
        Some(length) => reader.take(length).ok(),
        None => reader.vint_bytes().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(ty: &str, ascending: &[&[u8]]) {
        let ty: CqlType = ty.parse().unwrap();
        for (left_at, left) in ascending.iter().enumerate() {
            for (right_at, right) in ascending.iter().enumerate() {
                let order = compare(&ty, left, right);
                assert_eq!(order, left_at.cmp(&right_at), "{ty}: {left:?} {right:?}");
            }
        }
    }

    #[test]
    fn numbers() {
        sorted("tinyint", &[&[], &[0x80], &[0xff], &[0], &[0x7f]]);
        sorted("int", &[&[], &[0x80, 0, 0, 0], &[0xff; 4], &[0; 4], &[0x7f, 0, 0, 0]]);
        sorted("bigint", &[&[0xff; 8], &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 1]]);
        sorted("varint", &[&[], &[0xff, 0x00], &[0xff], &[0], &[1], &[0, 0xff], &[1, 0]]);
        let float = |number: f32| number.to_be_bytes();
        sorted(
            "float",
            &[
                &[],
                &float(f32::NEG_INFINITY),
                &float(-1.5),
                &float(-0.0),
                &float(0.0),
                &float(f32::INFINITY),
                &float(f32::NAN),
            ],
        );
        assert_eq!(compare(&CqlType::Float, &float(f32::NAN), &float(-f32::NAN)), Ordering::Equal);
    }

    #[test]
    fn decimals_of_any_scale() {
        let decimal = |scale: i32, unscaled: i8| {
            let mut bytes = scale.to_be_bytes().to_vec();
            bytes.extend(unscaled.to_be_bytes());
            bytes
        };
        let ascending = [
            decimal(i32::MIN, -1),
            decimal(0, -12),
            decimal(1, -12),
            decimal(i32::MAX, -1),
            decimal(5, 0),
            decimal(i32::MAX, 1),
            decimal(1, 12),
            decimal(0, 12),
            decimal(-1, 12),
            decimal(i32::MIN, 1),
        ];
        let ascending: Vec<&[u8]> = ascending.iter().map(Vec::as_slice).collect();
        sorted("decimal", &ascending);
        for (left, right) in
            [((0, 0), (-7, 0)), ((1, 10), (2, 100)), ((-1, 1), (0, 10)), ((1, -10), (0, -1))]
        {
            let (left, right) = (decimal(left.0, left.1), decimal(right.0, right.1));
            assert_eq!(compare(&CqlType::Decimal, &left, &right), Ordering::Equal);
        }
    }

    #[test]
    fn uuids_by_version_then_time() {
        let uuid = |text: &str| *uuid::Uuid::parse_str(text).unwrap().as_bytes();
        let early = uuid("ffffffff-0000-1000-8000-000000000000");
        let late = uuid("00000000-0001-1000-8000-000000000000");
        let random = uuid("00000000-0000-4000-8000-000000000000");
        sorted("uuid", &[&[], &early, &late, &random]);
        let negative = uuid("00000000-0001-1000-8000-0000000000ff");
        sorted("timeuuid", &[&early, &negative, &late]);
        sorted("uuid", &[&early, &late, &negative]);
    }

    #[test]
    fn nested_values() {
        let part =
            |bytes: &[u8]| [&i32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
        let null = vec![0xffu8; 4];
        let one = part(&[0, 0, 0, 1]);
        let minus = part(&[0xff; 4]);
        let tuples = [
            Vec::new(),
            [null.clone(), part(b"a")].concat(),
            [minus.clone(), part(b"b")].concat(),
            one.clone(),
            [one.clone(), part(b"")].concat(),
            [one.clone(), part(b"a")].concat(),
        ];
        sorted("tuple<int, text>", &tuples.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let padded = [one.clone(), null].concat();
        let ty = "tuple<int, text>".parse().unwrap();
        assert_eq!(compare(&ty, &one, &padded), Ordering::Equal);
        let list = |parts: &[&Vec<u8>]| {
            let mut bytes = i32::try_from(parts.len()).unwrap().to_be_bytes().to_vec();
            parts.iter().for_each(|part| bytes.extend(*part));
            bytes
        };
        let lists = [list(&[]), list(&[&minus]), list(&[&minus, &one]), list(&[&one])];
        sorted("frozen<list<int>>", &lists.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let maps = [list(&[]), list(&[&minus]), list(&[&one])];
        let maps = maps.map(|map| [map, part(b"")].concat());
        sorted("frozen<map<int, text>>", &maps[1..].iter().map(Vec::as_slice).collect::<Vec<_>>());
        sorted("vector<int, 2>", &[&[0xff; 8], &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 1]]);
    }

    #[test]
    fn what_is_no_value_sorts_last() {
        sorted("int", &[&[], &[0xff; 4], &[0; 4], &[0], &[0, 0]]);
        sorted("frozen<list<int>>", &[&[0, 0, 0, 0], &[0, 0, 0, 9], &[9]]);
    }
}
