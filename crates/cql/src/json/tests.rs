//! What real nodes print, type by type.

use crate::datatype::CqlType;
use crate::hex;
use crate::value::Value;

fn check(ty: &str, bytes: &str, printed: &str) {
    let ty: CqlType = ty.parse().unwrap();
    let bytes = hex::decode(&bytes.replace(' ', "")).unwrap();
    let mut out = String::new();
    match Value::decode(&ty, &bytes) {
        Ok(value) => super::write(Some(&value), &mut out),
        Err(error) => out = format!("{error}"),
    }
    assert_eq!(out, printed, "{ty} {bytes:?}");
}

#[test]
fn strings() {
    check("text", "", r#""""#);
    check("text", "61 22 5c 08 09 0a 0c 0d", r#""a\"\\\b\t\n\f\r""#);
    check("text", "1f 2f 7f c3a9", "\"\\u001F/\u{7f}é\"");
    check("text", "ff", "the text is not utf-8");
    check("ascii", "c3a9", "the text is not ascii");
    check("blob", "", r#""0x""#);
    check("blob", "00ABff", r#""0x00abff""#);
}

#[test]
fn integers_and_booleans() {
    check("tinyint", "ff", "-1");
    check("smallint", "8000", "-32768");
    check("int", "7fffffff", "2147483647");
    check("int", "", r#""""#);
    check("int", "00", "1 bytes are no int");
    check("bigint", "8000000000000000", "-9223372036854775808");
    check("varint", "00ffffffffffffffffff", "4722366482869645213695");
    check("varint", "ff", "-1");
    check("boolean", "00", "false");
    check("boolean", "02", "true");
}

#[test]
fn floats() {
    for (number, printed) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.000_99, "9.9E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.5e300, "-1.5E300"),
        (123.456, "123.456"),
        (0.012, "0.012"),
        (f64::NAN, "null"),
        (f64::INFINITY, "null"),
        (f64::NEG_INFINITY, "null"),
    ] {
        let mut out = String::new();
        super::write(Some(&Value::Double(number)), &mut out);
        assert_eq!(out, printed);
    }
    check("float", "3dcccccd", "0.1");
    check("float", "", r#""""#);
}

#[test]
fn decimals() {
    for (bytes, printed) in [
        ("00000002 0096", "1.50"),
        ("fffffffd 01", "1E+3"),
        ("00000006 01", "0.000001"),
        ("00000007 01", "1E-7"),
        ("fffffffb 00", "0E+5"),
        ("00000002 00", "0.00"),
        ("00000007 00", "0E-7"),
        ("fffffff6 3039", "1.2345E+14"),
        ("00000000 ff", "-1"),
        ("00000001 f6", "-1.0"),
        ("00000003 0c", "0.012"),
        ("00000002 0c", "0.12"),
        ("7fffffff 01", "1E-2147483647"),
        ("80000000 01", "1E+2147483648"),
    ] {
        check("decimal", bytes, printed);
    }
    check("decimal", "", r#""""#);
    check("decimal", "00000001", "4 bytes are no decimal");
}

#[test]
fn calendar() {
    check("timestamp", "ffffffffffffffff", r#""1969-12-31 23:59:59.999Z""#);
    check("timestamp", "0000e677d21fdc00", r#""+10000-01-01 00:00:00.000Z""#);
    check("date", "80000000", r#""1970-01-01""#);
    check("date", "00000000", r#""-5877641-06-23""#);
    check("date", "ffffffff", r#""+5881580-07-11""#);
    check("time", "00004e94914effff", r#""23:59:59.999999999""#);
    check("time", "0000000000000000", r#""00:00:00.000000000""#);
    check("time", "00004e94914f0000", r#""00:00:00.000000000""#);
    check("time", "7fffffffffffffff", r#""23:47:16.854775807""#);
    check("time", "ffffffffffffffff", r#""00:00:00.00000000-1""#);
    check("time", "8000000000000000", r#""0-23:0-47:0-16.00-85400-77500-808""#);
}

#[test]
fn durations() {
    check("duration", "1a 00 00", r#""1y1mo""#);
    check("duration", "00 0e 00", r#""7d""#);
    check("duration", "00 00 00", r#""""#);
    check("duration", "01 03 01", r#""-1mo2d1ns""#);
    check("duration", "02 03 00", "the duration is out of range");
    check("duration", "02 04 06 00", r#""1mo2d3ns""#);
    check("duration", "02 04 06 ff", r#""1mo2d3ns""#);
    // Java's Math.abs leaves the least numbers below zero, and those are not printed.
    check("duration", "f0ffffffff 03 01", r#""-2d1ns""#);
    check("duration", "01 f0ffffffff 01", r#""-1mo1ns""#);
    check("duration", "01 03 ffffffffffffffffff", r#""-1mo2d""#);
    check("duration", "f0ffffffff f0ffffffff ffffffffffffffffff", r#""-""#);
    check("duration", "f0fffffffd 00 00", r#""-178956970y7mo""#);
}

#[test]
fn addresses_and_uuids() {
    check("inet", "7f000001", r#""127.0.0.1""#);
    check("inet", "20010db8000000000000000000000001", r#""2001:db8:0:0:0:0:0:1""#);
    check("inet", "00000000000000000000ffff01020304", r#""1.2.3.4""#);
    check("inet", "7f", "1 bytes are no inet");
    check("uuid", "CF8238D0E12A11F188553B04128900BB", r#""cf8238d0-e12a-11f1-8855-3b04128900bb""#);
}

#[test]
fn nested() {
    check("frozen<list<int>>", "00000000", "[]");
    check("frozen<list<int>>", "00000002 00000004 00000001 ffffffff", "[1, null]");
    check("frozen<map<int, text>>", "00000001 00000004 ffffffec 00000000", r#"{"-20": ""}"#);
    check("frozen<map<boolean, int>>", "00000001 00000001 01 00000004 00000001", r#"{"true": 1}"#);
    check(
        "frozen<map<frozen<tuple<int, text>>, int>>",
        "00000001 0000000d 00000004 00000001 00000001 61 00000004 00000001",
        r#"{"[1, \"a\"]": 1}"#,
    );
    check("tuple<int, text>", "00000004 00000001", "[1, null]");
    check("tuple<int, text>", "", "[null, null]");
    check("vector<float, 2>", "3f800000 c0000000", "[1.0, -2.0]");
    check("vector<text, 2>", "01 61 00", r#"["a", ""]"#);
    check("vector<text, 2>", "01 61", "the value is cut short: 1 bytes wanted, 0 left");
    check("frozen<list<int>>", "7fffffff", "2147483647 elements cannot be in so few bytes");
    check("frozen<list<int>>", "00000000 00", "1 bytes are left over behind the value");
    check(
        "vector<'org.apache.cassandra.db.marshal.EmptyType', 4000000000>",
        "",
        "4000000000 elements cannot be in so few bytes",
    );
}

#[test]
fn names() {
    for (name, printed) in
        [("abc", r#""abc""#), ("Key", r#""\"Key\"""#), ("a b", r#""a b""#), ("é", "\"é\"")]
    {
        let mut out = String::new();
        super::write_name(name, &mut out);
        assert_eq!(out, printed);
    }
}
