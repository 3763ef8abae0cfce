//! Every type, ordinary and odd, there and back.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::read::single;
use super::{read, write};
use crate::datatype::CqlType;
use crate::json;
use crate::value::Value;

fn written(ty: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    write(ty, bytes, &mut out);
    let json: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(read(ty, &json).unwrap(), bytes, "{ty}: {out}");
    out
}

fn check(ty: &str, bytes: &[u8], expected: &str) {
    let ty: CqlType = ty.parse().unwrap();
    assert_eq!(written(&ty, bytes), expected, "{ty}");
}

#[test]
fn ordinary_values_are_readable() {
    check("text", "ü\n".as_bytes(), "\"ü\\n\"");
    check("text", b"", "\"\"");
    check("blob", b"", "\"0x\"");
    check("blob", &[0, 0xff], "\"0x00ff\"");
    check("boolean", &[1], "true");
    check("bigint", &i64::MIN.to_be_bytes(), "-9223372036854775808");
    check("varint", &[0xff, 0x7f], "\"-129\"");
    check("decimal", &[0, 0, 0, 2, 0x0f], "\"0.15\"");
    check("decimal", &[0, 0, 0, 1, 0x64], "\"10.0\"");
    check("decimal", &[0xff, 0xff, 0xff, 0xfd, 1], "\"1E+3\"");
    check("double", &0.1f64.to_be_bytes(), "0.1");
    check("double", &(-0.0f64).to_be_bytes(), "-0.0");
    check("double", &f64::NAN.to_be_bytes(), "\"NaN\"");
    check("float", &f32::NEG_INFINITY.to_be_bytes(), "\"-Infinity\"");
    check("float", &0.1f32.to_be_bytes(), "0.1");
    check("timestamp", &(-1i64).to_be_bytes(), "\"1969-12-31T23:59:59.999Z\"");
    check("date", &0x8000_0000u32.to_be_bytes(), "\"1970-01-01\"");
    check("time", &86_399_999_999_999i64.to_be_bytes(), "\"23:59:59.999999999\"");
    check("inet", &[127, 0, 0, 1], "\"127.0.0.1\"");
    check("inet", &[&[0; 10][..], &[0xff, 0xff, 1, 2, 3, 4]].concat(), "\"::ffff:1.2.3.4\"");
    check("duration", &[2, 4, 6], "{\"months\":1,\"days\":2,\"nanoseconds\":3}");
    check(
        "duration",
        &[0xf0, 0xff, 0xff, 0xff, 0xff, 1, 0],
        "{\"months\":-2147483648,\"days\":-1,\"nanoseconds\":0}",
    );
    check("list<int>", &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7], "[7]");
    check("tuple<int, text>", &[0, 0, 0, 4, 0, 0, 0, 7], "[7]");
    check("tuple<int, text>", &[0xff; 8], "[null,null]");
    let map = [0, 0, 0, 1, 0, 0, 0, 1, b'k', 0, 0, 0, 1, 5];
    check("map<text, tinyint>", &map, "{\"k\":5}");
    check("map<blob, tinyint>", &map, "[[\"0x6b\",5]]");
    check("vector<text, 2>", &[1, b'a', 0], "[\"a\",\"\"]");
}

#[test]
fn odd_bytes_stay_what_they_are() {
    for (ty, bytes, expected) in [
        ("int", &[][..], r#"{"$bytes":"0x"}"#),
        ("boolean", &[2], r#"{"$bytes":"0x02"}"#),
        ("varint", &[0, 0, 1], r#"{"$bytes":"0x000001"}"#),
        ("decimal", &[0, 0, 0, 0, 0, 1], r#"{"$bytes":"0x000000000001"}"#),
        ("double", &[0x7f, 0xf8, 0, 0, 0, 0, 0, 1], r#"{"$bytes":"0x7ff8000000000001"}"#),
        ("timestamp", &[0x7f; 8], r#"{"$bytes":"0x7f7f7f7f7f7f7f7f"}"#),
        ("date", &[0; 4], r#"{"$bytes":"0x00000000"}"#),
        ("time", &[0, 0, 0x4e, 0x94, 0x91, 0x4f, 0, 0], r#"{"$bytes":"0x00004e94914f0000"}"#),
        ("time", &[0xff; 8], r#"{"$bytes":"0xffffffffffffffff"}"#),
        ("empty", &[], r#"{"$bytes":"0x"}"#),
        ("text", &[0xff], r#"{"$bytes":"0xff"}"#),
        ("duration", &[0x80, 2, 4, 6], r#"{"$bytes":"0x80020406"}"#),
        ("duration", &[2, 4, 6, 0], r#"{"$bytes":"0x02040600"}"#),
        (
            "tuple<duration, tinyint>",
            &[0, 0, 0, 4, 2, 4, 6, 0, 0, 0, 0, 1, 5],
            r#"[{"$bytes":"0x02040600"},5]"#,
        ),
        // A key that would make the object look like bytes.
        (
            "map<text, tinyint>",
            &[0, 0, 0, 1, 0, 0, 0, 6, b'$', b'b', b'y', b't', b'e', b's', 0, 0, 0, 1, 5],
            r#"{"$bytes":"0x00000001000000062462797465730000000105"}"#,
        ),
        // One odd element does not hide the others.
        ("list<int>", &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 7], r#"[{"$bytes":"0x"},7]"#),
    ] {
        check(ty, bytes, expected);
    }
}

#[test]
fn floats_have_the_fewest_digits() {
    check("float", &123_456_789_f32.to_be_bytes(), "1.2345679E8");
    check("double", &2e23_f64.to_be_bytes(), "2.0E23");
    check("double", &(-0.0_f64).to_be_bytes(), "-0.0");
}

/// Read as a double and rounded once more, this one becomes 0x15ae43fe.
#[test]
fn floats_are_rounded_once() {
    check("float", &0x15ae_43fd_u32.to_be_bytes(), "7.038531E-26");
    check("float", &0x95ae_43fd_u32.to_be_bytes(), "-7.038531E-26");
    check("vector<float, 1>", &0x15ae_43fd_u32.to_be_bytes(), "[7.038531E-26]");
}

/// Two million floats all over the range, and all that are near a power of two or hardly more than
/// zero. The text is read as JSON is; that takes too long for all of them, so most go a shorter way.
#[test]
fn floats_of_every_size_come_back() {
    let mut checked = 0;
    let mut check = |bits: u32| {
        let float = f32::from_bits(bits);
        if float.is_finite() {
            let number: f64 = format!("{float:e}").parse().unwrap();
            assert_eq!(single(number).map(f32::to_bits), Some(bits), "{bits:#x}");
            checked += 1;
        }
    };
    (0..=u32::MAX).step_by(2129).for_each(&mut check);
    let near = (0..512_u32).flat_map(|power| (0..64).map(move |near| (power << 23) + near));
    near.flat_map(|bits| [bits, bits.wrapping_sub(64)]).for_each(&mut check);
    (0..20_000).for_each(&mut check);
    assert!(checked > 2_000_000, "{checked}");
    for bits in (0..=u32::MAX).step_by(300_007) {
        let float = f32::from_bits(bits);
        let mut text = String::new();
        json::write(Some(&Value::Float(float)), &mut text);
        if float.is_finite() {
            let number = serde_json::from_str(&text).unwrap();
            assert_eq!(single(number).map(f32::to_bits), Some(bits), "{text}");
        }
    }
}

const TYPES: [&str; 30] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "empty",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
    "list<double>",
    "set<decimal>",
    "map<text, varint>",
    "map<inet, float>",
    "tuple<int, text, duration>",
    "vector<float, 3>",
    "vector<text, 2>",
    "frozen<map<frozen<list<int>>, frozen<set<text>>>>",
    "frozen<list<frozen<tuple<date, time>>>>",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_of_any_type_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        for ty in TYPES {
            written(&ty.parse().unwrap(), &bytes);
        }
    }

    #[test]
    fn any_float_comes_back(single in any::<u32>(), double in any::<u64>()) {
        written(&CqlType::Float, &single.to_be_bytes());
        written(&CqlType::Double, &double.to_be_bytes());
    }

    #[test]
    fn any_number_and_time_comes_back(
        unscaled in any::<i128>(), scale in any::<i32>(), small in -40i32..40,
        milliseconds in -70_000_000_000_000i64..260_000_000_000_000,
        nanoseconds in 0..86_400_000_000_000i64,
        days in any::<u32>(),
    ) {
        let unscaled = num_bigint::BigInt::from(unscaled).to_signed_bytes_be();
        written(&CqlType::VarInt, &unscaled);
        for scale in [scale, small] {
            let bytes = [&scale.to_be_bytes()[..], &unscaled].concat();
            let text = written(&CqlType::Decimal, &bytes);
            prop_assert!(text.starts_with('"'), "{}", text);
        }
        written(&CqlType::Timestamp, &milliseconds.to_be_bytes());
        written(&CqlType::Time, &nanoseconds.to_be_bytes());
        written(&CqlType::Time, &milliseconds.to_be_bytes());
        written(&CqlType::Date, &days.to_be_bytes());
    }

    #[test]
    fn any_json_is_read_or_refused(text in "[\\[\\]{}\":,0-9a-z$.]{0,30}") {
        if let Ok(json) = serde_json::from_str::<Json>(&text) {
            for ty in TYPES {
                let ty: CqlType = ty.parse().unwrap();
                if let Ok(bytes) = read(&ty, &json) {
                    // What was read need not be sound, but decoding it must not panic.
                    drop(Value::decode(&ty, &bytes));
                }
            }
        }
    }
}
