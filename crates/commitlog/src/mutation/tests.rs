//! Mutations byte by byte: records of real nodes taken apart, and forms that are rare in the wild.

use helenus_cql::schema::Catalog;
use helenus_cql::update::{
    Cell, ColumnUpdate, Content, Deletion, Expiry, Item, Marker, RowUpdate, Seconds, Side,
    Timestamp, Ttl,
};

use super::*;

const TABLE: &str = "00000000000000000000000000000001";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A table from lines of `name kind type`.
fn catalog(columns: &str) -> Catalog {
    let mut rows = Vec::new();
    for (position, line) in
        columns.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate()
    {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let (name, kind, ty) = (word(), word(), word());
        rows.push(format!(
            r#"{{"keyspace_name": "ks", "table_name": "t", "column_name": "{name}",
                "kind": "{kind}", "position": {position}, "type": "{ty}"}}"#
        ));
    }
    let text = format!(
        r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
            "id": "{TABLE}"}}], "columns": [{}]}}"#,
        rows.join(",")
    );
    Catalog::from_document(&text).unwrap()
}

fn simple<'a>(update: &ColumnUpdate<'a>) -> (&'a str, Cell<&'a [u8]>) {
    match update {
        ColumnUpdate::Simple(column, cell) => (&column.name, *cell),
        ColumnUpdate::Complex(column, ..) => panic!("{} is complex", column.name),
    }
}

fn row<'a, 'u>(item: &'u Item<'a>) -> &'u RowUpdate<'a> {
    match item {
        Item::Row(row) => row,
        Item::Marker(_) => panic!("a marker"),
    }
}

fn live(timestamp: i64, value: &[u8]) -> Cell<&[u8]> {
    Cell { timestamp: Timestamp(timestamp), content: Content::Live(value) }
}

#[test]
fn an_insert_without_clustering() {
    let catalog =
        catalog("id partition_key int\n f regular decimal\n j regular inet\n t regular varint");
    let payload = bytes(&format!(
        "01 {TABLE} 04 00000002 10 fd400ac1cafe28 00 00 03 01 66 01 6a 01 74 01 24 00 \
         08 05 fffffffd 01 08 10 20010db8000000000000000000000001 08 01 00 01"
    ));
    let mutation = decode(&payload, Version::V7, &catalog).unwrap();
    let update = &mutation.updates[0];
    assert_eq!(update.key, [0, 0, 0, 2]);
    let row = row(&update.items[0]);
    let at = 1_794_769_921_867_304;
    assert_eq!(row.liveness.unwrap().timestamp, Timestamp(at));
    assert_eq!(simple(&row.columns[0]), ("f", live(at, &[0xff, 0xff, 0xff, 0xfd, 1])));
    assert_eq!(simple(&row.columns[2]), ("t", live(at, &[0])));
}

/// The second column carries the placeholder for "no deletion", whose second field differs
/// between 5.0 and 4.x.
#[test]
fn collections_replaced_and_added_to() {
    let catalog = catalog("id partition_key int\n m regular map<text, int>\n s regular set<text>");
    for placeholder in ["ffffffffff9505fbfc", "f01505fad6"] {
        let payload = bytes(&format!(
            "01 {TABLE} 04 00000001 10 fd400ac1e1f3d3 f014f96a03 00 02 01 6d 01 73 01 60 \
             00 00 01 00 01 03 6e6577 04 00000001 \
             ff7ff99faa90438c2d {placeholder} 01 04 01 05 6d69786564 01"
        ));
        for version in [Version::V6, Version::V7, Version::V8] {
            let mutation = decode(&payload, version, &catalog).unwrap();
            let row = row(&mutation.updates[0].items[0]);
            assert!(row.liveness.is_none());
            let at = 1_794_769_923_371_987;
            let deletion = Deletion { timestamp: Timestamp(at), at: Seconds(1_794_769_923) };
            let ColumnUpdate::Complex(_, deleted, cells) = &row.columns[0] else { panic!() };
            assert_eq!(*deleted, Some(deletion));
            assert_eq!(cells[..], [(&b"new"[..], live(at + 1, &[0, 0, 0, 1]))]);
            let ColumnUpdate::Complex(_, deleted, cells) = &row.columns[1] else { panic!() };
            assert_eq!(*deleted, None);
            assert_eq!(cells[..], [(&b"mixed"[..], live(at + 1, &[]))]);
        }
    }
}

#[test]
fn a_range_deletion() {
    let catalog =
        catalog("p1 partition_key text\n p2 partition_key int\n c1 clustering int\n v regular int");
    let payload = bytes(&format!(
        "01 {TABLE} 0b 0001 61 00 0004 00000001 00 10 fd400ac1d52703 f014f96a02 00 00 00 \
         02 01 0001 00 00000014 00 00 02 00 0001 00 00000005 00 00 01"
    ));
    let mutation = decode(&payload, Version::V7, &catalog).unwrap();
    let items = &mutation.updates[0].items;
    let markers: Vec<&Marker<'_>> = items
        .iter()
        .map(|item| match item {
            Item::Marker(marker) => marker,
            Item::Row(_) => panic!("a row"),
        })
        .collect();
    assert_eq!(markers[0].bound.values, [Some(&[0, 0, 0, 0x14][..])]);
    assert_eq!((markers[0].bound.side, markers[1].bound.side), (Side::Before, Side::Before));
    assert!(markers[0].start.is_some() && markers[0].end.is_none());
    assert_eq!(markers[1].end, markers[0].start);
}

#[test]
fn boundaries_close_one_range_and_open_the_next() {
    let catalog = catalog("p partition_key int\n c clustering int");
    for (kind, side) in [("02", Side::Before), ("05", Side::After)] {
        let payload = bytes(&format!(
            "01 {TABLE} 04 00000001 10 00 00 00 00 00 02 01 0000 01 02 \
             02 {kind} 0001 00 00000007 01 02 05 06 02 06 0000 05 06 01"
        ));
        let mutation = decode(&payload, Version::V7, &catalog).unwrap();
        let Item::Marker(boundary) = &mutation.updates[0].items[1] else { panic!() };
        assert_eq!(boundary.bound.side, side);
        let epoch = 1_442_880_000;
        let deletion = |timestamp: i64, at: i64| {
            let timestamp = Timestamp(epoch * 1_000_000 + timestamp);
            Some(Deletion { timestamp, at: Seconds(epoch + at) })
        };
        assert_eq!((boundary.end, boundary.start), (deletion(1, 2), deletion(5, 6)));
    }
}

#[test]
fn static_and_regular_rows() {
    let catalog = catalog(
        "p partition_key int
         c1 clustering int
         c2 clustering text
         c3 clustering timestamp
         st static text
         st2 static int
         v regular int",
    );
    let payload = bytes(&format!(
        "01 {TABLE} 04 00000001 18 fd400ac1d3dbbb 00 00 02 02 7374 03 737432 01 01 76 \
         a0 01 00 00 01 53 00 00 00000009 01 \
         24 00 0000000b 01 79 0000018cc7785000 00 08 00000005 01"
    ));
    let mutation = decode(&payload, Version::V7, &catalog).unwrap();
    let update = &mutation.updates[0];
    let statics = update.static_row.as_ref().unwrap();
    assert_eq!(simple(&statics.columns[1]).0, "st2");
    let row = row(&update.items[0]);
    assert_eq!(row.clustering[1], Some(&b"y"[..]));
    assert_eq!(simple(&row.columns[0]).1.content, Content::Live(&[0, 0, 0, 5][..]));
}

#[test]
fn expiries_are_read_in_their_two_orders_and_by_version() {
    let catalog = catalog("p partition_key int\n v regular int\n w regular int");
    // The row marker has the TTL first, the cell of v the expiry; that of w takes the row's.
    let payload = bytes(&format!(
        "01 {TABLE} 04 00000001 10 00 00 00 02 01 76 01 77 01 2c 07 0a ffffffffff90000000 \
         02 08 0b 0c 00000005 1a 00000006 01"
    ));
    for (version, at) in [(Version::V7, -436_168_192), (Version::V8, 3_858_799_104)] {
        let mutation = decode(&payload, version, &catalog).unwrap();
        let row = row(&mutation.updates[0].items[0]);
        let expiry = Expiry { at: Seconds(at), ttl: Ttl(10) };
        assert_eq!(row.liveness.unwrap().expiry, Some(expiry));
        let own = Expiry { at: Seconds(1_442_880_011), ttl: Ttl(12) };
        let content = |index: usize| simple(&row.columns[index]).1.content;
        assert_eq!(content(0), Content::Expiring(&[0, 0, 0, 5][..], own));
        assert_eq!(content(1), Content::Expiring(&[0, 0, 0, 6][..], expiry));
    }
}

#[test]
fn sets_of_columns_in_all_their_forms() {
    let names: Vec<String> = (0..70).map(|index| format!("v{index:02}")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{name} regular blob")).collect();
    let catalog = catalog(&format!("p partition_key int\n{}", columns.join("\n")));
    let check = |count: usize, subset: &str, expected: &[usize]| {
        let listed = names.iter().take(count).map(|name| {
            let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("03 {hex} ")
        });
        let listed: String = listed.collect();
        let cells = "0c".repeat(expected.len());
        let payload = bytes(&format!(
            "01 {TABLE} 04 00000001 10 00 00 00 {count:02x} {listed} 01 04 00 {subset} {cells} 01"
        ));
        let mutation = decode(&payload, Version::V7, &catalog).unwrap();
        let row = row(&mutation.updates[0].items[0]);
        let found: Vec<&str> = row.columns.iter().map(|column| simple(column).0).collect();
        let expected: Vec<&str> = expected.iter().map(|index| names[*index].as_str()).collect();
        assert_eq!(found, expected, "{count} columns, {subset}");
    };
    check(3, "00", &[0, 1, 2]);
    check(3, "05", &[1]);
    check(3, "07", &[]);
    check(63, "ff 7ffffffffffffffe", &[0]);
    // 68 missing of 70: the present ones are listed; 2 missing: those are.
    check(70, "44 01 45", &[1, 69]);
    let all_but: Vec<usize> = (0..70).filter(|index| *index != 3 && *index != 69).collect();
    check(70, "02 03 45", &all_but);
}

#[test]
fn an_update_of_nothing() {
    let catalog = catalog("p partition_key int");
    let payload = bytes(&format!("01 {TABLE} 04 00000001 01"));
    let mutation = decode(&payload, Version::V7, &catalog).unwrap();
    assert!(mutation.updates[0].items.is_empty());
}

#[test]
fn what_is_wrong_is_named() {
    let catalog = catalog("p partition_key int\n v regular int\n st static int");
    let head = format!("01 {TABLE} 04 00000001");
    for (payload, expected) in [
        ("00", "the mutation has no updates"),
        (&format!("{head} 01 00"), "1 bytes are left over"),
        (&format!("{head} 12 00"), "partition flags 0x12 make no sense"),
        (&format!("{head} 10 00 00 00 01 01 78"), "column \"x\" is not in the schema"),
        (&format!("{head} 10 00 00 00 7f 01 78"), "column \"x\" is not in the schema"),
        (&format!("{head} 10 00 00 00 03 01 76 01 76 01 76"), "the set of columns is malformed"),
        (&format!("{head} 10 00 00 00 00 01 08"), "row flags 0x08 make no sense"),
        (&format!("{head} 10 00 00 00 00 01 06"), "marker flags 0x06 make no sense"),
        (&format!("{head} 10 00 00 00 00 01 02 03"), "3 is no kind of range marker"),
        (&format!("{head} 10 00 00 00 00 01 02 01 0001"), "1 clustering values in a table with 0"),
        (&format!("{head} 10 00 00 00 01 01 76 01 20 0c"), "cell flags 0x0c make no sense"),
        (&format!("{head} 10 00 00 00 01 01 76 01 20 03"), "cell flags 0x03 make no sense"),
        (&format!("{head} 10 00 00 00 01 01 76 01 00 02"), "the set of columns is malformed"),
        (&format!("{head} 10 00 00 00 00 02 20 20 01"), "a second row in a table without"),
        (&format!("{head} 18 00 00 00 00 00 20"), "static row flags 0x20 make no sense"),
        (&format!("{head} 10 00 00 00 00 01 a0 01"), "extended row flags 0x01 make no sense"),
    ] {
        let error = decode(&bytes(payload), Version::V7, &catalog).unwrap_err();
        assert!(error.kind.to_string().starts_with(expected), "{payload}: {error}");
    }
}

#[test]
fn errors_stay_small() {
    assert!(size_of::<Error>() <= 64 && size_of::<crate::Damage>() <= 64);
}

#[test]
fn rows_that_are_claimed_and_do_not_come_take_no_room() {
    let catalog = catalog("id partition_key int\n c clustering int");
    let update = |estimate: &str, rows: &str| {
        format!("{TABLE} 04 00000007 10 05 00 00 00 {estimate} {rows} 01")
    };
    let capacities = |update: &str, count: usize| -> Vec<usize> {
        let payload = bytes(&format!("{count:02x} {}", update.repeat(count)));
        let mutation = decode(&payload, Version::V7, &catalog).unwrap();
        mutation.updates.iter().map(|update| update.items.capacity()).collect()
    };
    let row = "24 00 00000001 00";
    assert_eq!(capacities(&update("80 ff", ""), 100), [0; 100]);
    assert_eq!(capacities(&update("80 ff", row), 100), [1; 100]);
    // What is as many as it says was put where it stays.
    assert_eq!(capacities(&update("03", &row.repeat(3)), 2), [3; 2]);
}
