//! Values as `SELECT JSON` prints them, to the character.
//!
//! This is Cassandra's own spelling and not a lossless encoding: NaN becomes `null`, zero bytes
//! become `""`, a duration of nothing becomes `""`. Floating-point numbers have the digits of the JDKs
//! that nodes run on, which are not always the fewest (see the module `float`). Custom classes are
//! printed like blobs, where a node prints something of the JVM's.

pub(crate) mod calendar;
pub(crate) mod float;
pub(crate) mod number;

use core::net::IpAddr;

use crate::hex;
use crate::value::{Duration, Value};

pub use calendar::parse_timestamp;

/// Appends a value, or `null`.
///
/// ```
/// use helenus_cql::{datatype::CqlType, json, value::Value};
///
/// let ty: CqlType = "frozen<map<int, text>>".parse()?;
/// let bytes = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 1, b'x'];
/// let mut out = String::new();
/// json::write(Some(&Value::decode(&ty, &bytes)?), &mut out);
/// assert_eq!(out, r#"{"7": "x"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(value: Option<&Value<'_>>, out: &mut String) {
    let Some(value) = value else {
        out.push_str("null");
        return;
    };
    match value {
        Value::Empty => out.push_str("\"\""),
        Value::Text(text) => write_string(text, out),
        Value::Blob(bytes) | Value::Custom(bytes) => {
            out.push_str("\"0x");
            hex::encode_into(bytes, out);
            out.push('"');
        }
        Value::Boolean(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::TinyInt(number) => whole(*number, out),
        Value::SmallInt(number) => whole(*number, out),
        Value::Int(number) => whole(*number, out),
        Value::BigInt(number) | Value::Counter(number) => whole(*number, out),
        Value::VarInt(number) => out.push_str(&number.to_string()),
        Value::Decimal(decimal) => number::decimal(decimal, out),
        Value::Float(number) => float::single(*number, out),
        Value::Double(number) => float::double(*number, out),
        Value::Timestamp(at) => quoted(out, |out| calendar::timestamp(*at, out)),
        Value::Date(days) => quoted(out, |out| calendar::date(*days, out)),
        Value::Time(at) => quoted(out, |out| calendar::time(*at, out)),
        Value::Uuid(uuid) => quoted(out, |out| write_uuid(*uuid, out)),
        Value::Inet(address) => quoted(out, |out| out.push_str(&inet(*address))),
        Value::Duration(span) => quoted(out, |out| out.push_str(&duration(*span))),
        Value::Sequence(elements) | Value::Tuple(elements) => {
            write_list(elements.iter().map(Option::as_ref), out);
        }
        Value::Map(entries) => {
            write_map(entries.iter().map(|(key, value)| (key, value.as_ref())), out);
        }
        Value::User(user, fields) => {
            let names = user.fields.iter().map(|(name, _)| &**name);
            write_object(names.zip(fields.iter().map(Option::as_ref)), out);
        }
    }
}

/// Appends a string with JSON's escapes.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    escape(text, out);
    out.push('"');
}

/// Appends the name of a column or field: one that CQL would have to quote keeps its quotes.
pub fn write_name(name: &str, out: &mut String) {
    if name.to_lowercase() == name {
        write_string(name, out);
    } else {
        out.push_str("\"\\\"");
        escape(name, out);
        out.push_str("\\\"\"");
    }
}

/// Appends `[a, b]`.
pub(crate) fn write_list<'v, 'b: 'v>(
    elements: impl Iterator<Item = Option<&'v Value<'b>>>,
    out: &mut String,
) {
    out.push('[');
    for (index, element) in elements.enumerate() {
        separate(index, out);
        write(element, out);
    }
    out.push(']');
}

/// Appends `{"k": v}`; a key that does not print as a string is quoted once more.
pub(crate) fn write_map<'v, 'b: 'v>(
    entries: impl Iterator<Item = (&'v Value<'b>, Option<&'v Value<'b>>)>,
    out: &mut String,
) {
    out.push('{');
    let mut key_text = String::new();
    for (index, (key, value)) in entries.enumerate() {
        separate(index, out);
        key_text.clear();
        write(Some(key), &mut key_text);
        if key_text.starts_with('"') {
            out.push_str(&key_text)
        } else {
            write_string(&key_text, out)
        }
        out.push_str(": ");
        write(value, out);
    }
    out.push('}');
}

/// Appends `{"field": v}` with names spelt as [`write_name`] does.
pub(crate) fn write_object<'v, 'b: 'v>(
    fields: impl Iterator<Item = (&'v str, Option<&'v Value<'b>>)>,
    out: &mut String,
) {
    out.push('{');
    for (index, (name, value)) in fields.enumerate() {
        separate(index, out);
        write_name(name, out);
        out.push_str(": ");
        write(value, out);
    }
    out.push('}');
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push_str(", ");
    }
}

pub(crate) fn quoted(out: &mut String, write: impl FnOnce(&mut String)) {
    out.push('"');
    write(out);
    out.push('"');
}

/// Appends a whole number. Events are full of them, and formatting is slow.
pub(crate) fn whole(number: impl itoa::Integer, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Appends a UUID in its usual form.
pub(crate) fn write_uuid(uuid: uuid::Uuid, out: &mut String) {
    out.push_str(uuid.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
}

/// Appends a text with what JSON does not take as it is spelt out.
pub(crate) fn escape(text: &str, out: &mut String) {
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    // Most texts have nothing to escape; to look at all of a text is faster than to look for the first, and
    // at eight bytes at once than at each.
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let in_words = words.iter().fold(false, |found, word| found | has_special(*word));
    if !(in_words | rest.iter().fold(false, |found, byte| found | is_special(*byte))) {
        return out.push_str(text);
    }
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_special) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut special = special.chars();
        match special.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            control => {
                let code = control.map_or(0, u32::from);
                out.push_str(&format!("\\u{code:04X}"));
            }
        }
        rest = special.as_str();
    }
    out.push_str(rest);
}

/// Whether one of eight bytes is to be escaped: below a space, a quote or a backslash. A byte becomes zero
/// where it is the one that is looked for, and taking one from it borrows into its highest bit.
const fn has_special(bytes: [u8; 8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(bytes);
    let quote = word ^ (EACH * b'"' as u64);
    let backslash = word ^ (EACH * b'\\' as u64);
    let found = (word.wrapping_sub(EACH * b' ' as u64) & !word)
        | (quote.wrapping_sub(EACH) & !quote)
        | (backslash.wrapping_sub(EACH) & !backslash);
    found & HIGH != 0
}

fn inet(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

/// `1y2mo3d4h5m6s7ms8us9ns`, zero parts left out, one sign before all of it. The least numbers, which
/// have no positive counterpart, a node leaves out as well.
fn duration(span: Duration) -> String {
    const UNITS: [(&str, u64); 6] = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let negative = span.months < 0 || span.days < 0 || span.nanoseconds < 0;
    let mut text = String::from(if negative { "-" } else { "" });
    let mut push = |number: u64, unit: &str| {
        if number > 0 {
            text.push_str(&number.to_string());
            text.push_str(unit);
        }
    };
    let months = span.months.checked_abs().map_or(0, |months| u64::from(months.unsigned_abs()));
    push(months / 12, "y");
    push(months % 12, "mo");
    push(span.days.checked_abs().map_or(0, |days| u64::from(days.unsigned_abs())), "d");
    let mut rest = span.nanoseconds.checked_abs().map_or(0, i64::unsigned_abs);
    for (unit, nanoseconds) in UNITS {
        push(rest / nanoseconds, unit);
        rest %= nanoseconds;
    }
    text
}

#[cfg(test)]
mod tests;
