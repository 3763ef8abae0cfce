//! Tokens that begin with a letter or a digit: words, numbers, blobs, UUIDs, durations.
//!
//! They are together because their beginnings overlap: `abcdef01-…` is a UUID and `abcdef01` a
//! name, `P1Y` is a duration and `p1y` a name, `1e5` is a float, `1m` a duration and `1..2` a range
//! of integers. Values are not computed and ranges are not checked here.

use super::{TokenKind, run};

/// The lengths of a UUID's five groups of hexadecimal digits.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Bytes of a written UUID.
const UUID_LENGTH: usize = 36;

/// The token at a letter.
#[inline]
pub(super) fn word(bytes: &[u8]) -> (TokenKind, usize) {
    if is_uuid(bytes) {
        return (TokenKind::Uuid, UUID_LENGTH);
    }
    let length = run(bytes, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Only the capital letter opens a duration: `p1y` is a name to Cassandra.
    if bytes.first() == Some(&b'P')
        && bytes.get(1).is_some_and(|b| b.is_ascii_digit() || *b == b'T')
    {
        if let Some(length) = alternative_duration(bytes) {
            return (TokenKind::Duration, length);
        }
        if is_iso_duration(bytes.get(1..length).unwrap_or_default()) {
            return (TokenKind::Duration, length);
        }
    }
    (TokenKind::Word, length)
}

/// The token at a digit.
#[inline]
pub(super) fn number(bytes: &[u8]) -> (TokenKind, usize) {
    if is_uuid(bytes) {
        return (TokenKind::Uuid, UUID_LENGTH);
    }
    if let [b'0', b'x' | b'X', hex @ ..] = bytes {
        return (TokenKind::Blob, 2 + run(hex, |byte| byte.is_ascii_hexdigit()));
    }
    if let Some(length) = duration(bytes) {
        return (TokenKind::Duration, length);
    }
    let digits = run_digits(bytes);
    let mut length = digits;
    // `1..2` is a range; `1...2` is the range of `1.` and `2`.
    let after = bytes.get(digits..).unwrap_or_default();
    let range = after.starts_with(b"..") && !after.starts_with(b"...");
    if after.starts_with(b".") && !range {
        length += 1 + run_digits(after.get(1..).unwrap_or_default());
    }
    length += exponent(bytes.get(length..).unwrap_or_default());
    let kind = if length == digits { TokenKind::Integer } else { TokenKind::Float };
    (kind, length)
}

fn run_digits(bytes: &[u8]) -> usize {
    run(bytes, |byte| byte.is_ascii_digit())
}

fn exponent(bytes: &[u8]) -> usize {
    let ([b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..]) = bytes else {
        return 0;
    };
    match run_digits(digits) {
        0 => 0,
        length => bytes.len() - digits.len() + length,
    }
}

#[inline]
fn is_uuid(bytes: &[u8]) -> bool {
    // One byte decides for nearly every word.
    if bytes.get(8) != Some(&b'-') {
        return false;
    }
    let Some(mut rest) = bytes.get(..UUID_LENGTH) else { return false };
    for (index, &length) in UUID_GROUPS.iter().enumerate() {
        if index > 0 {
            let [b'-', tail @ ..] = rest else { return false };
            rest = tail;
        }
        let Some((group, tail)) = rest.split_at_checked(length) else { return false };
        if !group.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = tail;
    }
    true
}

/// `1h30m`: digits and a unit, repeated.
fn duration(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        let part = bytes.get(length..).unwrap_or_default();
        let digits = run_digits(part);
        let unit = unit(part.get(digits..).unwrap_or_default());
        if digits == 0 || unit == 0 {
            return (length > 0).then_some(length);
        }
        length += digits + unit;
    }
}

fn unit(bytes: &[u8]) -> usize {
    match bytes {
        // The micro sign is two bytes of UTF-8.
        [0xC2, 0xB5, b's' | b'S', ..] => 3,
        [b'm' | b'M', b'o' | b'O' | b's' | b'S', ..]
        | [b'u' | b'U' | b'n' | b'N', b's' | b'S', ..] => 2,
        [byte, ..] if b"ywdhmsYWDHMS".contains(byte) => 1,
        _ => 0,
    }
}

/// What follows the `P` of `P1Y2M3DT4H5M6S` or `P3W`; at least one number is needed.
fn is_iso_duration(rest: &[u8]) -> bool {
    if let [weeks @ .., b'W'] = rest {
        return !weeks.is_empty() && weeks.iter().all(u8::is_ascii_digit);
    }
    let (date, time) = match rest.iter().position(|&byte| byte == b'T') {
        Some(at) => (rest.get(..at), rest.get(at + 1..)),
        None => (Some(rest), None),
    };
    let date = designated(date.unwrap_or_default(), b"YMD");
    let time = designated(time.unwrap_or_default(), b"HMS");
    matches!((date, time), (Some(date), Some(time)) if date + time > 0)
}

/// How many numbers stand in `part`, each with one of `designators`, in their order.
fn designated(mut part: &[u8], mut designators: &[u8]) -> Option<usize> {
    let mut numbers = 0;
    while !part.is_empty() {
        let (digits, rest) = part.split_at_checked(run_digits(part))?;
        let (designator, rest) = rest.split_first()?;
        let at = designators.iter().position(|known| known == designator)?;
        if digits.is_empty() {
            return None;
        }
        designators = designators.get(at + 1..)?;
        (part, numbers) = (rest, numbers + 1);
    }
    Some(numbers)
}

/// `P0001-02-03T04:05:06`.
fn alternative_duration(bytes: &[u8]) -> Option<usize> {
    const PATTERN: &[u8] = b"P0000-00-00T00:00:00";
    let text = bytes.get(..PATTERN.len())?;
    let fits = text.iter().zip(PATTERN).all(|(byte, pattern)| match pattern {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    fits.then_some(PATTERN.len())
}
