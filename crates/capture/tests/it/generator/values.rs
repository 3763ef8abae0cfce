//! Values as CQL spells them, few of each type.

use std::sync::Arc;

use helenus_cql::datatype::{CqlType, UserType};
use helenus_model::{Random, SeededRandom};

use super::pick;

/// `addr`, as the runs create it.
pub(crate) fn user_type() -> Arc<UserType> {
    let list = CqlType::Frozen(Arc::new(CqlType::List(Arc::new(CqlType::Text))));
    addr(vec![("street", CqlType::Text), ("No", CqlType::Int), ("tags", list)])
}

/// `addr`, as the runs alter it on their way: a field with another name and one more.
pub(crate) fn altered_user_type() -> Arc<UserType> {
    let list = CqlType::Frozen(Arc::new(CqlType::List(Arc::new(CqlType::Text))));
    addr(vec![
        ("street", CqlType::Text),
        ("No", CqlType::Int),
        ("Étiquettes", list),
        ("land", CqlType::Ascii),
    ])
}

fn addr(fields: Vec<(&str, CqlType)>) -> Arc<UserType> {
    let fields = fields.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
    Arc::new(UserType { keyspace: "ks".into(), name: "addr".into(), fields })
}

/// Zero bytes, where a type takes them; `SELECT JSON` fails over those of a boolean.
fn empty(ty: &CqlType) -> Option<&'static str> {
    Some(match ty {
        CqlType::BigInt => "blobAsBigint(0x)",
        CqlType::Decimal => "blobAsDecimal(0x)",
        CqlType::Double => "blobAsDouble(0x)",
        CqlType::Float => "blobAsFloat(0x)",
        CqlType::Inet => "blobAsInet(0x)",
        CqlType::Int => "blobAsInt(0x)",
        CqlType::Timestamp => "blobAsTimestamp(0x)",
        CqlType::TimeUuid => "blobAsTimeuuid(0x)",
        CqlType::Uuid => "blobAsUuid(0x)",
        CqlType::VarInt => "blobAsVarint(0x)",
        _ => return None,
    })
}

fn pool(ty: &CqlType) -> &'static [&'static str] {
    match ty {
        CqlType::Ascii => &["'a'", "'b'", "'B'", "''", "'it''s'"],
        CqlType::Text => &["'a'", "'b'", "'ä\"\\'", "''", "'Z'", "'\u{1}'"],
        CqlType::BigInt => &["0", "1", "-1", "-9223372036854775808", "9223372036854775807"],
        CqlType::Blob => &["0x", "0x00", "0xff", "0x00ff"],
        CqlType::Boolean => &["true", "false"],
        CqlType::Date => &["'1970-01-01'", "'2026-11-15'", "'1969-12-31'", "'0001-01-01'"],
        CqlType::Decimal => &["1", "1.0", "1.00", "-1.5", "0", "0.0", "1e3", "1000", "1.2e-9"],
        CqlType::Double => &[
            "0.0",
            "-0.0",
            "1.5",
            "1e100",
            "NaN",
            "Infinity",
            "-Infinity",
            "0.1",
            "2e23",
            "8.41e21",
            "4.9e-324",
        ],
        CqlType::Duration => &["1mo2d3h", "36h", "1y", "-2d", "1ns"],
        CqlType::Float => &[
            "0.0",
            "-0.0",
            "1.5",
            "1e30",
            "NaN",
            "-Infinity",
            "0.1",
            "123456789.0",
            "1e11",
            "1.4e-45",
        ],
        CqlType::Inet => &["'127.0.0.1'", "'::1'", "'2001:db8::1'", "'10.0.0.1'"],
        CqlType::Int => &["0", "1", "2", "3", "-1", "-2147483648", "2147483647"],
        CqlType::SmallInt => &["0", "1", "-1", "-32768", "32767"],
        CqlType::TinyInt => &["0", "1", "-1", "-128", "127"],
        CqlType::Time => &["'00:00:00'", "'23:59:59.999999999'", "'12:30:00.5'"],
        CqlType::Timestamp => &["0", "-1", "1700000000000", "253402300800000"],
        CqlType::TimeUuid => &[
            "50554d6e-29bb-11e5-b345-feff819cdc9f",
            "50554d6e-29bb-11e5-8345-7eff819cdc9f",
            "c3a1e5b0-e12a-11f1-8855-3b04128900bb",
        ],
        CqlType::Uuid => &[
            "50554d6e-29bb-11e5-b345-feff819cdc9f",
            "7b0cf6a4-4b3a-4f3c-8a3e-2f5f3c1d9b11",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ],
        CqlType::VarInt => &["0", "1", "-129", "128", "99999999999999999999"],
        _ => &["null"],
    }
}

/// A value of a type.
pub(crate) fn value(ty: &CqlType, random: &SeededRandom) -> String {
    let several = |ty: &CqlType, count: u64| {
        let values = (0..count).map(|_| value(ty, random));
        values.collect::<Vec<_>>().join(", ")
    };
    match ty {
        CqlType::Frozen(inner) => value(inner, random),
        CqlType::List(element) => format!("[{}]", several(element, random.below(3))),
        CqlType::Set(element) => format!("{{{}}}", several(element, random.below(3))),
        CqlType::Vector(element, dimension) => {
            // Neither NaN nor anything without end may be in a vector, nor zero bytes for a number.
            let elements = (0..*dimension).map(|_| match &**element {
                CqlType::Float => pick(random, &["0.5", "-1.0", "2.25"]).to_owned(),
                CqlType::Int | CqlType::BigInt => pick(random, pool(element)).to_owned(),
                element => value(element, random),
            });
            format!("[{}]", elements.collect::<Vec<_>>().join(", "))
        }
        CqlType::Map(key, mapped) => {
            let entries = (0..random.below(3))
                .map(|_| format!("{}: {}", value(key, random), value(mapped, random)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        CqlType::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| value_or_null(part, random)).collect();
            format!("({})", parts.join(", "))
        }
        CqlType::User(user) => {
            // One without any field is taken for a set.
            let fields = user.fields.iter().enumerate();
            let fields = fields.filter(|(index, _)| *index == 0 || random.below(4) > 0);
            let fields =
                fields.map(|(_, (name, ty))| format!("\"{name}\": {}", value_or_null(ty, random)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        scalar => match empty(scalar) {
            Some(empty) if random.below(12) == 0 => empty.to_owned(),
            _ => pick(random, pool(scalar)).to_owned(),
        },
    }
}

/// A part of a tuple or a field of a user type: it may be missing.
fn value_or_null(ty: &CqlType, random: &SeededRandom) -> String {
    if random.below(6) == 0 { "null".to_owned() } else { value(ty, random) }
}
