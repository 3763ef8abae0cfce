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
fn what_json_does_not_take_is_escaped_wherever_it_stands() {
    for special in (0..=0x7f).map(char::from).chain(['é', '\u{80}', '\u{2028}']) {
        for place in 0..20 {
            let mut text = "x".repeat(19);
            text.insert(place, special);
            let mut out = String::new();
            super::write_string(&text, &mut out);
            let read: String = serde_json::from_str(&out).unwrap();
            assert_eq!(read, text, "{special:?} at {place}");
        }
    }
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

/// Bits of doubles and what `Double.toString` of JDK 17 says to them.
const DOUBLES: [(u64, &str); 35] = [
    // Whole numbers, of which those beyond the precision lose digits: 2^62 has one too many.
    (0x4163_12d0_0000_0000, "1.0E7"),
    (0x4340_0000_0000_0000, "9.007199254740992E15"),
    (0x4390_0000_0000_0002, "2.8823037615171187E17"),
    (0x4390_1925_daa3_7400, "2.9E17"),
    (0x43d0_0000_0000_0000, "4.6116860184273879E18"),
    // Calculated in 64 bits: rounded down, up and, in the middle between two digits, to even.
    (0x3ff0_0000_0000_0001, "1.0000000000000002"),
    (0x3fd3_3333_3333_3333, "0.3"),
    (0x4011_6666_6666_6666, "4.35"),
    (0x4023_cccc_cccc_cccd, "9.9"),
    (0x4080_c855_a000_0000, "537.0418090820312"),
    (0x408c_f364_6000_0000, "926.4240112304688"),
    (0x4163_12d0_1000_0000, "1.00000005E7"),
    (0x43e0_0000_0000_0000, "9.223372036854776E18"),
    (0xc3e0_0000_0000_0000, "-9.223372036854776E18"),
    (0x4420_0000_0000_0000, "1.4757395258967641E20"),
    // The shortest digits of these three are as far off as a neighbour's.
    (0x447c_7e83_209e_90b2, "8.409999999999999E21"),
    (0x44b5_2d02_c7e1_4af6, "9.999999999999999E22"),
    (0x44c5_2d02_c7e1_4af6, "1.9999999999999998E23"),
    (0x44b3_0ee8_e717_9044, "9.0E22"),
    (0x44ea_7843_79d9_9db4, "1.0E24"),
    // The margin overflows.
    (0x3f60_0000_0000_0011, "0.0019531250000000074"),
    // Calculated in 128 bits.
    (0x3f60_624d_d2f1_a9fc, "0.002"),
    (0x3f50_624d_d2f1_a9fc, "0.001"),
    (0x3ea4_0000_0000_0000, "5.960464477539062E-7"),
    (0x3eac_0000_0000_0000, "8.344650268554688E-7"),
    (0x3e7a_d7f2_9abc_af48, "1.0E-7"),
    // Larger still; a second digit for `E`, and one that carries into the first.
    (0x0000_0000_0000_0001, "4.9E-324"),
    (0x0000_0000_0000_0002, "1.0E-323"),
    (0x0000_0000_0000_000d, "6.4E-323"),
    (0x0000_0000_0000_0014, "1.0E-322"),
    (0x0000_0000_0000_0028, "2.0E-322"),
    (0x0000_0000_0000_00ca, "1.0E-321"),
    (0x0010_0000_0000_0000, "2.2250738585072014E-308"),
    (0x1a90_0000_0000_0000, "9.639679460411536E-181"),
    (0x7fef_ffff_ffff_ffff, "1.7976931348623157E308"),
];

/// Bits of floats and what `Float.toString` of JDK 17 says to them.
const FLOATS: [(u32, &str); 31] = [
    // Whole numbers.
    (0x4b18_9680, "1.0E7"),
    (0x4c00_0000, "3.3554432E7"),
    (0x4cbe_bc20, "1.0E8"),
    (0x4ceb_79a3, "1.23456792E8"),
    (0x4e00_befc, "5.4E8"),
    (0x4f83_2156, "4.4E9"),
    (0x5e80_0000, "4.611686E18"),
    // Calculated in 32 bits: rounded down, up, and to even.
    (0x3dcc_cccd, "0.1"),
    (0x3f33_3333, "0.7"),
    (0x457f_fe80, "4095.9062"),
    (0x457f_ff80, "4095.9688"),
    // The margin overflows: below zero, and to something above it.
    (0x3d00_0009, "0.031250034"),
    (0x3dcc_cccc, "0.099999994"),
    (0x3de7_6c8c, "0.113000005"),
    // In 64 bits.
    (0x3c23_d70a, "0.01"),
    (0x3980_0000, "2.4414062E-4"),
    (0x3bf0_0000, "0.0073242188"),
    (0x3109_705f, "2.0E-9"),
    (0x3089_705f, "1.0E-9"),
    (0x3100_0000, "1.8626451E-9"),
    (0xb080_0000, "-9.313226E-10"),
    (0x5f00_0000, "9.223372E18"),
    (0x6400_0000, "9.444733E21"),
    // In 128 bits.
    (0x0000_0001, "1.4E-45"),
    (0x0000_0002, "2.8E-45"),
    (0x0000_000b, "1.5E-44"),
    (0x0000_0040, "9.0E-44"),
    (0x0000_0047, "1.0E-43"),
    (0x0080_0000, "1.17549435E-38"),
    (0x6e00_0000, "9.9035203E27"),
    (0x7f7f_ffff, "3.4028235E38"),
];

#[test]
fn floating_point_digits_are_those_of_the_jdk() {
    let print = |value: Value<'_>| {
        let mut out = String::new();
        super::write(Some(&value), &mut out);
        out
    };
    for (bits, printed) in DOUBLES {
        assert_eq!(print(Value::Double(f64::from_bits(bits))), printed, "{bits:#x}");
    }
    for (bits, printed) in FLOATS {
        assert_eq!(print(Value::Float(f32::from_bits(bits))), printed, "{bits:#x}");
    }
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
