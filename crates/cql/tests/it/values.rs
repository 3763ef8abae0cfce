//! Values of every type from arbitrary bytes: what decodes prints as JSON and has its place in a
//! total order; what does not is an error.

use std::cmp::Ordering;

use helenus_cql::compare::compare;
use helenus_cql::datatype::CqlType;
use helenus_cql::json;
use helenus_cql::value::Value;
use proptest::collection::vec;
use proptest::prelude::*;

const TYPES: [&str; 33] = [
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
    "frozen<list<tinyint>>",
    "frozen<set<text>>",
    "frozen<map<tinyint, boolean>>",
    "frozen<map<frozen<tuple<tinyint, text>>, int>>",
    "tuple<tinyint, text, boolean>",
    "tuple<frozen<list<tinyint>>, decimal>",
    "vector<tinyint, 3>",
    "vector<float, 2>",
    "vector<varint, 2>",
    "vector<vector<boolean, 2>, 2>",
    "'com.example.Odd'",
    "'org.apache.cassandra.db.marshal.UserType(ks,61,62:Int32Type,63:UTF8Type)'",
];

/// Bytes that are often near a value: small numbers, and lengths that fit.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = vec(prop_oneof![0u8..4, any::<u8>()], 0..6);
    let prefixed = vec(part.clone(), 0..4).prop_map(|parts| {
        let count = i32::try_from(parts.len()).expect("few parts").to_be_bytes().to_vec();
        parts.into_iter().fold(count, |mut bytes, part| {
            bytes.extend(i32::try_from(part.len()).expect("a short part").to_be_bytes());
            bytes.extend(part);
            bytes
        })
    });
    let components = prefixed.clone().prop_map(|bytes| bytes.into_iter().skip(4).collect());
    let exact = prop_oneof![Just(1usize), Just(2), Just(4), Just(8), Just(16)]
        .prop_flat_map(|length| vec(prop_oneof![0u8..3, any::<u8>()], length));
    prop_oneof![vec(any::<u8>(), 0..40), part, prefixed, components, exact]
}

fn index() -> impl Strategy<Value = CqlType> {
    prop::sample::select(&TYPES[..]).prop_map(|text| text.parse().expect("a type of the list"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, ..ProptestConfig::default() })]

    #[test]
    fn what_decodes_prints_as_json(ty in index(), bytes in bytes()) {
        if let Ok(value) = Value::decode(&ty, &bytes) {
            let mut text = String::new();
            json::write(Some(&value), &mut text);
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(&text);
            // Numbers beyond a double's range are JSON, but not every parser's.
            let huge = matches!(&parsed, Err(error) if error.to_string().contains("out of range"));
            prop_assert!(huge || parsed.is_ok(), "{ty}: {text}");
        }
    }

    #[test]
    fn the_order_is_total(ty in index(), a in bytes(), b in bytes(), c in bytes()) {
        let order = |left: &[u8], right: &[u8]| compare(&ty, left, right);
        prop_assert_eq!(order(&a, &a), Ordering::Equal);
        prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
        let valid = |bytes: &[u8]| Value::decode(&ty, bytes).is_ok();
        if valid(&a) && valid(&b) && valid(&c) && order(&a, &b).is_le() && order(&b, &c).is_le() {
            prop_assert!(order(&a, &c).is_le());
        }
    }
}
