//! Values as CQL spells them, few of each type.

use std::sync::Arc;

use helenus_cql::datatype::{CqlType, UserType};
use helenus_model::{Random, SeededRandom};

/// `addr`, as the runs create it.
pub(crate) fn user_type() -> Arc<UserType> {
    let list = CqlType::Frozen(Arc::new(CqlType::List(Arc::new(CqlType::Text))));
    Arc::new(UserType {
        keyspace: "ks".into(),
        name: "addr".into(),
        fields: vec![
            ("street".into(), CqlType::Text),
            ("No".into(), CqlType::Int),
            ("tags".into(), list),
        ],
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
        CqlType::Double => &["0.0", "-0.0", "1.5", "1e100", "NaN", "Infinity", "-Infinity", "0.1"],
        CqlType::Duration => &["1mo2d3h", "36h", "1y", "-2d", "1ns"],
        CqlType::Float => &["0.0", "-0.0", "1.5", "1e30", "NaN", "-Infinity", "0.1"],
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
            // Neither NaN nor anything without end may be in a vector.
            match &**element {
                CqlType::Float => "[0.5, -1.0, 2.25]".to_owned(),
                element => format!("[{}]", several(element, u64::from(*dimension))),
            }
        }
        CqlType::Map(key, mapped) => {
            let entries = (0..random.below(3))
                .map(|_| format!("{}: {}", value(key, random), value(mapped, random)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        CqlType::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| value(part, random)).collect();
            format!("({})", parts.join(", "))
        }
        CqlType::User(_) => format!(
            "{{street: {}, \"No\": {}}}",
            value(&CqlType::Text, random),
            value(&CqlType::Int, random)
        ),
        scalar => {
            let pool = pool(scalar);
            pool[usize::try_from(random.below(pool.len() as u64)).expect("an index")].to_owned()
        }
    }
}
