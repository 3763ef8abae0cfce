//! `helenus segments` over recorded segments: what it prints, and how it ends on bad input.

mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::run;

type Ended = (Option<i32>, String, String);

fn fixture(name: &str) -> String {
    format!("{}/../commitlog/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn recorded() -> Value {
    recorded_in("")
}

/// What the nodes of a release answered.
fn recorded_in(release: &str) -> Value {
    let file = fixture(&format!("{release}rows.json"));
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn segments(folder: &Path, arguments: &[&str]) -> Ended {
    run(folder, &[&["segments"], arguments].concat())
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn error((code, out, err): Ended) -> Value {
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    serde_json::from_str::<Value>(&err).unwrap()["error"].clone()
}

/// The plain segment under the name a node gives it, changed by `change`.
fn copied(folder: &Path, change: impl Fn(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(fixture("plain.log")).unwrap();
    let id = i64::from_be_bytes(bytes[4..12].try_into().unwrap());
    change(&mut bytes);
    let path = folder.join(format!("CommitLog-7-{id}.log"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn rows_are_what_the_node_answered() {
    let dir = tempfile::tempdir().unwrap();
    let newer = ["plain", "lz4", "snappy", "deflate", "zstd", "v8"].map(|variant| ("", variant));
    let older = ["plain", "lz4"].map(|variant| ("4.1/", variant));
    for (release, variant) in newer.into_iter().chain(older) {
        let recorded = recorded_in(release);
        let tables: BTreeMap<String, Vec<String>> =
            serde_json::from_value(recorded["rows"].clone()).unwrap();
        let seconds = recorded["at"][variant].as_i64().unwrap();
        let at = helenus::Timestamp::from_micros(seconds * 1_000_000).to_string();
        let log = fixture(&format!("{release}{variant}.log"));
        for (table, expected) in &tables {
            let schema = fixture(&format!("{release}schema.json"));
            let arguments = ["rows", &log, "--schema", &schema, "--table", table, "--at", &at];
            let (code, out, err) = segments(dir.path(), &arguments);
            assert_eq!((code, err.as_str()), (Some(0), ""), "{variant} {table}");
            assert_eq!(out.lines().collect::<Vec<_>>(), *expected, "{variant} {table}");
        }
    }
}

#[test]
fn stat_counts_and_cat_prints_as_many_changes() {
    let dir = tempfile::tempdir().unwrap();
    copied(dir.path(), |_| {});
    let schema = fixture("schema.json");
    let (code, out, err) = segments(dir.path(), &["stat", ".", "--schema", &schema, "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let stat: Value = serde_json::from_str(&out).unwrap();
    let segment = &stat["segments"][0];
    assert_eq!((&segment["version"], &segment["compression"]), (&json!(7), &json!("none")));
    assert_eq!(segment["damage"], json!([]));
    assert_eq!(segment["bytes"], segment["end"], "it is not compressed");
    let table = &stat["tables"]["fx.rows"];
    assert!(table["first_write_us"].as_i64() < table["last_write_us"].as_i64());

    let cat = ["cat", ".", "--schema", &schema, "--table", "fx.rows", "--json"];
    let (code, out, err) = segments(dir.path(), &cat);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let changes = lines(&out);
    assert_eq!(json!(changes.len()), table["changes"]);
    let scopes: std::collections::BTreeSet<_> =
        changes.iter().map(|change| change["scope"].as_str().unwrap()).collect();
    for scope in ["row", "partition", "range", "static"] {
        assert!(scopes.contains(scope), "{scopes:?}");
    }
    // All tables but Cassandra's own; the same number of lines for people.
    let own = stat["tables"].as_object().unwrap().iter();
    let own = own.filter(|(name, _)| name.starts_with("fx."));
    let own: u64 = own.map(|(_, table)| table["changes"].as_u64().unwrap()).sum();
    let (_, out, _) = segments(dir.path(), &["cat", ".", "--schema", &schema]);
    assert_eq!(out.lines().count() as u64, own);
    assert!(out.lines().any(|line| line.contains(" INSERT row fx.scalars ")), "{out}");
}

/// Writes the recorded schema without the tables of the node itself.
fn own_schema(folder: &Path) -> String {
    let whole = std::fs::read(fixture("schema.json")).unwrap();
    let mut schema: Value = serde_json::from_slice(&whole).unwrap();
    for rows in schema.as_object_mut().unwrap().values_mut().filter_map(Value::as_array_mut) {
        rows.retain(|row| row["keyspace_name"] == "fx");
    }
    let path = folder.join("own.json");
    std::fs::write(&path, schema.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn a_schema_may_leave_out_the_tables_of_the_node_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (own, whole) = (own_schema(dir.path()), fixture("schema.json"));
    let log = fixture("plain.log");
    let with = |schema: &str, arguments: &[&str]| {
        let arguments = [arguments, &[&log, "--schema", schema]].concat();
        let (code, out, err) = segments(dir.path(), &arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
        out
    };
    for arguments in [
        &["rows", "--table", "fx.rows", "--at", "2026-11-16T00:00:00Z"][..],
        &["cat", "--table", "fx.rows"],
        &["cat"],
        &["cat", "--raw", "--table", "fx.rows"],
    ] {
        assert_eq!(with(&own, arguments), with(&whole, arguments), "{arguments:?}");
    }
    let stat: Value = serde_json::from_str(&with(&own, &["stat", "--json"])).unwrap();
    assert_eq!(stat["segments"][0]["damage"], json!([]));
}

#[test]
fn records_are_counted_and_shown_without_a_schema() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = segments(dir.path(), &["stat", &fixture("lz4.log"), "--json"]);
    assert_eq!(code, Some(0));
    let stat: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(stat["segments"][0]["compression"], "lz4");
    let records = stat["segments"][0]["records"].as_u64().unwrap();
    let counted: u64 =
        stat["tables"].as_object().unwrap().values().filter_map(|of| of["changes"].as_u64()).sum();
    assert_eq!(counted, records);
    let (code, out, err) = segments(dir.path(), &["stat", &fixture("lz4.log")]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("under the id of its first table") && out.contains("--schema"), "{out}");
    let (code, out, _) = segments(dir.path(), &["cat", "--raw", &fixture("lz4.log"), "--json"]);
    assert_eq!((code, out.lines().count() as u64), (Some(0), records));
    let first = &lines(&out)[0];
    assert!(first["bytes"].as_str().unwrap().starts_with("0x0"), "{first}");
    assert!(first["table_id"].is_string() && first["table"].is_null());
}

#[test]
fn a_damaged_record_costs_itself_and_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let schema = fixture("schema.json");
    let raw = ["cat", "--raw", &fixture("plain.log"), "--json", "--schema", &schema];
    let (_, out, _) = segments(dir.path(), &raw);
    let mut wide = lines(&out).into_iter().filter(|record| record["table"] == "fx.wide");
    let victim = wide.next_back().unwrap();
    let at = usize::try_from(victim["offset"].as_u64().unwrap()).unwrap();
    let path = copied(dir.path(), |bytes| bytes[at + 30] ^= 1);
    let path = path.to_str().unwrap();

    let rows = |table: &str| {
        let arguments = ["--json", "rows", path, "--schema", &schema, "--table", table];
        segments(dir.path(), &arguments)
    };
    let expected = recorded()["rows"]["fx.nested"].as_array().unwrap().len();
    let (code, out, err) = rows("fx.nested");
    assert_eq!((code, out.lines().count()), (Some(1), expected));
    let damage: Value = serde_json::from_str(&err).unwrap();
    assert_eq!(damage["damage"]["offset"], victim["offset"]);
    assert_eq!(damage["damage"]["reason"], "the record's checksum does not match");
    assert_eq!(damage["damage"]["file"], path);

    let (code, out, _) = segments(dir.path(), &["stat", path, "--json"]);
    let stat: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &stat["segments"][0]["damage"][0]["offset"]), (Some(1), &victim["offset"]));
    let (code, _, err) = segments(dir.path(), &["stat", path]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with(&format!("damaged: {path} at {at}: ")), "{err}");
}

#[test]
fn files_cut_short_twice_over_and_in_any_order_give_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let schema = fixture("schema.json");
    let recorded = recorded();
    let at = recorded["at"].as_object().unwrap().values().filter_map(Value::as_i64).max().unwrap();
    let at = helenus::Timestamp::from_micros(at * 1_000_000).to_string();
    let half = dir.path().join("half.log");
    let bytes = std::fs::read(fixture("lz4.log")).unwrap();
    std::fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    let lz4 = fixture("lz4.log");
    for (name, expected) in recorded["rows"].as_object().unwrap() {
        let tail = ["--schema", &schema, "--table", name, "--at", &at];
        for files in [vec![lz4.as_str(), &lz4], vec![half.to_str().unwrap(), &lz4]] {
            let (_, out, _) = segments(dir.path(), &[&["rows"], &files[..], &tail].concat());
            assert_eq!(json!(out.lines().collect::<Vec<_>>()), *expected, "{name}");
        }
    }
}

#[test]
fn bad_input_is_named_with_a_remedy_and_nothing_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let schema = fixture("schema.json");
    let plain = fixture("plain.log");
    let rows = |log: &str, schema: &str, table: &str| {
        let arguments = ["--json", "rows", log, "--schema", schema, "--table", table];
        error(segments(dir.path(), &arguments))
    };
    let check = |error: Value, kind: &str, words: &str| {
        assert_eq!((&error["kind"], &error["applied"]), (&json!(kind), &json!(false)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error["remedy"].is_string(), "{error}");
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = write("notes.log", b"these are my notes, not a segment");
    check(rows(&text, &schema, "fx.rows"), "not_a_segment", "notes.log");
    let newer = write("newer.log", &[0, 0, 0, 9, 1, 2, 3, 4]);
    check(rows(&newer, &schema, "fx.rows"), "unsupported_version", "version 9");
    let torn = copied(dir.path(), |bytes| bytes[6] ^= 1);
    check(rows(torn.to_str().unwrap(), &schema, "fx.rows"), "header_checksum", "CommitLog-7-");
    assert!(torn.try_exists().unwrap());
    let renamed = write("CommitLog-7-1.log", &std::fs::read(&plain).unwrap());
    check(rows(&renamed, &schema, "fx.rows"), "id_mismatch", "that of segment 1\"");
    let sealed = write("sealed.log", &encrypted());
    check(rows(&sealed, &schema, "fx.rows"), "encrypted", "AES/CBC/PKCS5Padding");
    check(rows("none.log", &schema, "fx.rows"), "unreadable", "none.log");
    check(rows(&plain, "none.json", "fx.rows"), "schema_missing", "none.json");
    check(rows(&plain, &text, "fx.rows"), "schema_malformed", "notes.log");
    check(rows(&plain, &schema, "fx.none"), "unknown_table", "fx.none");
    let unnamed = ["--json", "rows", &plain, "--table", "fx.rows"];
    check(error(segments(dir.path(), &unnamed)), "schema_missing", "--schema");
    check(error(segments(dir.path(), &["--json", "stat"])), "no_segments", "capture.cdc_raw");
    let (code, _, err) = segments(dir.path(), &["rows", &plain, "--table", "rows"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("keyspace.table"), "{err}");
}

#[test]
fn a_schema_that_is_wrong_somewhere_is_refused_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let recorded: Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("schema.json")).unwrap()).unwrap();
    let column = |document: &mut Value, field: &str, value: Value| {
        let columns = document["columns"].as_array_mut().unwrap();
        let own = columns.iter_mut().find(|row| row["table_name"] == "scalars").unwrap();
        own[field] = value;
    };
    let check = |change: &dyn Fn(&mut Value), words: &str| {
        let mut document = recorded.clone();
        change(&mut document);
        let schema = dir.path().join("schema.json");
        std::fs::write(&schema, document.to_string()).unwrap();
        let schema = schema.to_str().unwrap();
        let plain = fixture("plain.log");
        let rows = ["--json", "rows", &plain, "--schema", schema, "--table", "fx.rows"];
        let error = error(segments(dir.path(), &rows));
        assert_eq!(error["kind"], "schema_malformed", "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    check(&|document| *document = json!([]), "schema.json");
    check(&|document| *document = json!({"tables": []}), "columns");
    check(&|document| document["tables"] = json!("none"), "expected a sequence");
    check(&|document| document["tables"][0]["id"] = json!("no id"), "UUID");
    check(&|document| column(document, "type", json!("list<no such type>")), "fx.scalars");
    check(&|document| column(document, "kind", json!("crooked")), "crooked");
    check(&|document| document["types"][0]["field_types"] = json!(["text", "int"]), "addr");
}

/// The header of an encrypted segment.
fn encrypted() -> Vec<u8> {
    written::header(5, br#"{"encCipher":"AES/CBC/PKCS5Padding","encKeyAlias":"k1","encIV":"00"}"#)
}

#[test]
fn a_table_that_is_not_in_the_schema_is_named_by_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture("schema.json")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    for rows in ["tables", "columns", "dropped_columns"] {
        let rows = document[rows].as_array_mut().unwrap();
        rows.retain(|row| row["table_name"] != "hits");
    }
    let schema = dir.path().join("schema.json");
    std::fs::write(&schema, document.to_string()).unwrap();
    let cat = ["cat", &fixture("plain.log"), "--schema", schema.to_str().unwrap()];
    let (code, out, err) = segments(dir.path(), &cat);
    assert_eq!(code, Some(1));
    assert!(out.lines().count() > 50, "what is known is printed");
    assert!(err.contains("the table is not in the schema"), "{err}");
    assert!(err.contains("helenus capture schema"), "{err}");
}

#[test]
fn a_schema_of_another_cluster_is_suspected_when_nothing_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (log, schema) = (fixture("4.1/plain.log"), fixture("schema.json"));
    for command in ["rows", "cat"] {
        let words = [command, &log, "--schema", &schema, "--table"];
        let (code, out, err) = segments(dir.path(), &[&words[..], &["fx.rows"]].concat());
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(err.contains("tables that the schema does not have"), "{err}");
        assert!(err.contains("helenus capture schema"), "{err}");
        let (code, _, err) = segments(dir.path(), &[&words[..], &["fx.nosuch"]].concat());
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("fx.nosuch"), "{err}");
    }
}
