//! `helenus segments` over the recorded segment and others put together beside it: what comes later
//! in a log, and what is wrong with it.

use std::collections::BTreeSet;

use super::*;

/// `system.local`, whose id is the same on every node.
const LOCAL: &str = "7ad54392bcdd35a684174e047860b377";

/// A header of version 7.
pub(super) fn header(id: i64, parameters: &[u8]) -> Vec<u8> {
    let length = u16::try_from(parameters.len()).unwrap();
    let (version, wide) = (7_u32.to_be_bytes(), u32::from(length).to_be_bytes());
    let crc = checksum(&[&version, &halves(id), &wide, parameters]);
    [&version[..], &id.to_be_bytes(), &length.to_be_bytes(), parameters, &crc].concat()
}

/// An id as checksums take it: its low half first.
fn halves(id: i64) -> [u8; 8] {
    let mut halves = id.to_be_bytes();
    halves.rotate_left(4);
    halves
}

fn checksum(parts: &[&[u8]]) -> [u8; 4] {
    crc32fast::hash(&parts.concat()).to_be_bytes()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap().to_be_bytes()
}

/// A log: the recorded segment, and one behind it.
struct Log {
    dir: tempfile::TempDir,
    /// The recorded records.
    records: Vec<Value>,
    /// The recorded segment.
    id: i64,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        copied(dir.path(), |_| {});
        let raw = ["cat", "--raw", ".", "--json", "--schema", &fixture("schema.json")];
        let records = lines(&segments(dir.path(), &raw).1);
        let id = records[0]["segment"].as_i64().unwrap();
        Log { dir, records, id }
    }

    /// Writes the next segment, of these records.
    fn then(&self, payloads: &[Vec<u8>]) {
        let id = self.id + 1;
        let mut records = Vec::new();
        for payload in payloads {
            let size = length(payload);
            let (head, tail) = (checksum(&[&size]), checksum(&[&size, payload]));
            records.extend([&size[..], &head, payload, &tail].concat());
        }
        let mut bytes = header(id, b"{}");
        let (at, next) = (length(&bytes), length(&[&bytes[..], &[0; 8], &records].concat()));
        bytes.extend([&next[..], &checksum(&[&halves(id), &at]), &records, &[0; 8]].concat());
        self.write(&format!("CommitLog-7-{id}.log"), &bytes);
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.dir.path().join(name), bytes).unwrap();
        name.to_owned()
    }

    /// The recorded schema, as it was before the log, changed by `change`.
    fn schema(&self, change: impl Fn(&mut Value)) -> String {
        let text = std::fs::read_to_string(fixture("schema.json")).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["taken_at_us"] = json!(1);
        change(&mut document);
        self.write("schema.json", document.to_string().as_bytes())
    }

    /// The recorded records of a table.
    fn of(&self, table: &str) -> Vec<&Value> {
        self.records.iter().filter(|record| record["table"] == table).collect()
    }

    /// The first recorded record of a table, as bytes.
    fn payload(&self, table: &str) -> Vec<u8> {
        bytes(self.of(table)[0]["bytes"].as_str().unwrap().trim_start_matches("0x"))
    }

    /// Runs a command on the folder, with `--json`.
    fn run(&self, arguments: &[&str]) -> Ended {
        segments(self.dir.path(), &[arguments, &["--json", "."]].concat())
    }

    /// `cat --raw --table`: exit code, where the records are, stderr.
    fn raw(&self, table: &str, schema: &str) -> (Option<i32>, Vec<Value>, String) {
        let arguments = ["cat", "--raw", "--schema", schema, "--table", table];
        let (code, out, err) = self.run(&arguments);
        (code, lines(&out), err)
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn retain(document: &mut Value, rows: &str, keep: impl Fn(&Value) -> bool) {
    document[rows].as_array_mut().unwrap().retain(keep);
}

/// A mutation of both, whose tables are of one keyspace.
fn both(first: &[u8], second: &[u8]) -> Vec<u8> {
    assert_eq!((first[0], second[0]), (1, 1), "one update each");
    [&[2], &first[1..], &second[1..]].concat()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// What a node writes when a table is emptied: up to which record.
fn truncation(record: &Value) -> Vec<u8> {
    let number = |field: &str| record[field].as_i64().unwrap();
    let table = record["table_id"].as_str().unwrap().replace('-', "");
    let (segment, offset) = (number("segment"), number("end"));
    let (key, column) = ("056c6f63616c", "0c7472756e63617465645f6174");
    // One row without a marker, of one column, with one element.
    let value = format!("{segment:016x} {offset:08x} {:016x}", 1_794_782_852_000_i64);
    bytes(&format!("01 {LOCAL} {key} 10 000000 01 {column} 01 20 01 0000 10 {table} 14 {value} 01"))
}

#[test]
fn truncated_rows_stay_gone_whatever_else_is_in_the_folder() {
    let log = Log::new();
    let recorded = recorded();
    let rows = recorded["rows"]["fx.readded"].as_array().unwrap();
    let id = |row: &Value| {
        serde_json::from_str::<Value>(row.as_str().unwrap()).unwrap()["id"].as_i64().unwrap()
    };
    let own = own_schema(log.dir.path());
    let ask = |table: &str| {
        let with = |schema: &str| log.run(&["rows", "--schema", schema, "--table", table]);
        let (code, out, err) = with(&fixture("schema.json"));
        assert_eq!(with(&own), (code, out.clone(), err.clone()), "without the node's own tables");
        (code, json!(out.lines().collect::<Vec<_>>()), err)
    };
    let check = |expected_code: i32| {
        // Each record of the table writes the row with the next id.
        for (emptied, record) in (1..).zip(log.of("fx.readded")) {
            log.then(&[truncation(record)]);
            let left: Vec<&Value> = rows.iter().filter(|row| id(row) > emptied).collect();
            let (code, found, err) = ask("fx.readded");
            assert_eq!((code, found), (Some(expected_code), json!(left)), "{err}");
            let (_, found, _) = ask("fx.hits");
            assert_eq!(found, recorded["rows"]["fx.hits"], "another table");
        }
    };
    check(0);
    // Before the segment that tells of it, and behind.
    log.write("CommitLog-7-1.log", b"these are my notes, not a segment");
    std::fs::create_dir(log.dir.path().join("CommitLog-7-9999999999999.log")).unwrap();
    check(1);
    let (_, _, err) = ask("fx.readded");
    assert_eq!(err.lines().count(), 2, "{err}");
    assert!(err.contains("not_a_segment") && err.contains("unreadable"), "{err}");
}

#[test]
fn raw_records_of_a_table_need_a_schema_that_has_it() {
    let log = Log::new();
    let table = ["cat", "--raw", "--table", "fx.rows"];
    assert_eq!(error(log.run(&table))["kind"], "schema_missing");
    let none = ["cat", "--raw", "--table", "fx.none", "--schema", &fixture("schema.json")];
    assert_eq!(error(log.run(&none))["kind"], "unknown_table");
    let other = fixture("4.1/schema.json");
    let (code, found, err) = log.raw("fx.rows", &other);
    assert_eq!((code, found.len()), (Some(0), 0));
    assert!(err.contains("unknown_tables"), "{err}");
    let (code, found, err) = log.raw("fx.rows", &fixture("schema.json"));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(found.iter().collect::<Vec<_>>(), log.of("fx.rows"));
}

#[test]
fn records_under_ids_that_the_schema_does_not_have_are_told_of_beside_rows() {
    let log = Log::new();
    // As if taken before the other table was dropped and created again.
    let schema = log.schema(|document| {
        retain(document, "tables", |row| row["table_name"] != "hits");
    });
    for arguments in [["rows", "--table", "fx.rows"], ["cat", "--table", "fx.rows"]] {
        let (code, out, err) = log.run(&[&arguments[..], &["--schema", &schema]].concat());
        assert!(code == Some(0) && !out.is_empty(), "{err}");
        let told: Value = serde_json::from_str(&err).unwrap();
        assert_eq!(told["warning"]["unknown_tables"], 1);
    }
}

#[test]
fn raw_records_are_found_by_each_of_their_updates() {
    let log = Log::new();
    let schema = fixture("schema.json");
    // The recorded ALTER TABLE; it is printed under the first of its tables.
    for table in ["columns", "dropped_columns", "keyspaces", "tables"] {
        let (code, found, err) = log.raw(&format!("system_schema.{table}"), &schema);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{table}");
        assert_eq!(found.iter().collect::<Vec<_>>(), log.of("system_schema.columns"), "{table}");
    }
    let schema = log.schema(|document| {
        for rows in ["tables", "columns", "dropped_columns"] {
            retain(document, rows, |row| row["table_name"] != "hits");
        }
    });
    let (nested, wide) = (log.payload("fx.nested"), log.payload("fx.wide"));
    let unknown = log.payload("fx.hits");
    log.then(&[both(&nested, &wide), both(&wide, &unknown)]);
    let later = |found: &[Value]| -> Vec<Value> {
        let later = found.iter().filter(|record| record["segment"] == log.id + 1);
        later.map(|record| record["table"].clone()).collect()
    };
    let (code, found, err) = log.raw("fx.wide", &schema);
    assert_eq!(later(&found), ["fx.nested", "fx.wide"]);
    // Both are printed: there is nothing to decode, only to be told of.
    let told: Value = serde_json::from_str(&err).unwrap();
    assert_eq!((code, told), (Some(0), json!({ "warning": { "unknown_tables": 1 } })));
    // Of what else the second is about nothing can be said.
    let (code, found, err) = log.raw("fx.nested", &schema);
    assert_eq!((code, later(&found)), (Some(1), vec![json!("fx.nested")]));
    assert!(err.contains("the table is not in the schema"), "{err}");
    log.then(&[both(&unknown, &wide)]);
    let (code, found, _) = log.raw("fx.wide", &schema);
    assert_eq!((code, later(&found).len()), (Some(1), 0));
}

#[test]
fn raw_records_of_a_table_that_the_log_creates_are_found() {
    let log = Log::new();
    // The recorded ALTER TABLE writes the whole row of the table.
    let schema =
        log.schema(|document| retain(document, "tables", |row| row["table_name"] != "readded"));
    let written = log.payload("fx.readded");
    log.then(&[written]);
    let (code, found, err) = log.raw("fx.readded", &schema);
    assert_eq!((code, err.as_str(), found.len()), (Some(0), "", 1));
    assert_eq!(
        (&found[0]["segment"], &found[0]["table"]),
        (&json!(log.id + 1), &json!("fx.readded"))
    );
    // All of them: named as soon as it is known.
    let (code, out, _) = log.run(&["cat", "--raw", "--schema", &schema]);
    let all = lines(&out);
    assert_eq!((code, all.len()), (Some(0), log.records.len() + 1));
    let is_it = |record: &&Value| record["table_id"] == found[0]["table_id"];
    let names: Vec<_> = all.iter().filter(is_it).map(|record| &record["table"]).collect();
    assert_eq!(names, [&json!(null), &json!(null), &json!(null), &json!("fx.readded")]);
}

#[test]
fn changes_behind_ddl_have_the_new_schema_version() {
    let log = Log::new();
    let schema = log.schema(|document| {
        retain(document, "dropped_columns", |row| row["column_name"] != "c");
        document["columns"].as_array_mut().unwrap().push(json!({
            "keyspace_name": "fx", "table_name": "readded", "column_name": "c",
            "column_name_bytes": "0x63", "clustering_order": "none", "kind": "regular",
            "position": -1, "type": "int",
        }));
    });
    log.then(&[log.payload("fx.readded")]);
    let versions = |table: &str| -> Vec<Value> {
        let (code, out, err) = log.run(&["cat", "--schema", &schema, "--table", table]);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        lines(&out).into_iter().map(|change| change["schema_version"].clone()).collect()
    };
    let readded = versions("fx.readded");
    assert_eq!(readded.len(), 4);
    assert!(readded[..3].iter().all(|version| *version == readded[0]), "{readded:?}");
    assert_ne!(readded[3], readded[0], "a column was dropped between them");
    // What a schema from after the log gives.
    let (_, out, _) =
        log.run(&["cat", "--schema", &fixture("schema.json"), "--table", "fx.readded"]);
    assert_eq!(lines(&out)[0]["schema_version"], readded[3]);
}

#[test]
fn stat_has_the_fields_it_promises_and_what_was_refused() {
    let log = Log::new();
    log.write(&format!("CommitLog-7-{}_cdc.idx", log.id), b"\xff\xfe is no index");
    let at = usize::try_from(log.of("fx.wide")[0]["offset"].as_u64().unwrap()).unwrap();
    copied(log.dir.path(), |bytes| bytes[at + 30] ^= 1);
    let notes = log.write("CommitLog-7-1.log", b"these are my notes, not a segment");
    let (code, out, err) = log.run(&["stat", "--schema", &fixture("schema.json")]);
    assert_eq!(code, Some(1), "{err}");
    let stat: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(keys(&stat), BTreeSet::from(["segments", "tables", "refused"]));
    assert_eq!(stat["segments"].as_array().unwrap().len(), 1);
    let segment = &stat["segments"][0];
    let expected = ["id", "file", "version", "compression", "records", "bytes", "end", "damage"];
    assert_eq!(keys(segment), BTreeSet::from(expected));
    assert_eq!(keys(&segment["damage"][0]), BTreeSet::from(["offset", "reason"]));
    let expected = BTreeSet::from(["changes", "first_write_us", "last_write_us"]);
    for (name, table) in stat["tables"].as_object().unwrap() {
        assert_eq!(keys(table), expected, "{name}");
    }
    let refused = stat["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 1);
    assert_eq!(keys(&refused[0]), BTreeSet::from(["file", "reason"]));
    assert_eq!(refused[0]["file"], "./CommitLog-7-1.log");
    assert!(refused[0]["reason"].as_str().unwrap().contains("not a segment"), "{refused:?}");

    // Also if there is nothing else; the error is on stderr as ever.
    let (code, out, err) = segments(log.dir.path(), &["stat", &notes, "--json"]);
    let stat: Value = serde_json::from_str(&out).unwrap();
    let counts = ["segments", "refused"].map(|field| stat[field].as_array().unwrap().len());
    assert_eq!((code, counts), (Some(1), [0, 1]));
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!(error["error"]["kind"], "not_a_segment");
}
