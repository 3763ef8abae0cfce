//! `helenus events`: JSON lines in and out, and how each failure reads.

use std::path::Path;

use serde_json::{Value, json};

use super::{Ended, fed, run};

fn append(folder: &Path, store: &str, arguments: &[&str], input: &str) -> Ended {
    let fixed = ["--json", "events", "--store", store, "append", "order-1", "--expect"];
    fed(folder, &[fixed.as_slice(), arguments].concat(), input)
}

/// The `error` object of a command that failed.
pub(super) fn refused((code, out, err): Ended) -> Value {
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let document: Value = serde_json::from_str(&err).unwrap();
    document["error"].clone()
}

fn outcome((code, out, err): Ended) -> (String, i64, i64) {
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let line: Value = serde_json::from_str(&out).unwrap();
    let version = |name: &str| line[name].as_i64().unwrap();
    let outcome = line["outcome"].as_str().unwrap().to_owned();
    (outcome, version("first_version"), version("last_version"))
}

fn read(folder: &Path, store: &str, arguments: &[&str]) -> Vec<Value> {
    let fixed = ["events", "--store", store, "read", "order-1"];
    let (code, out, err) = run(folder, &[fixed.as_slice(), arguments].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const PLACED: &str = r#"{"type": "order.placed", "data": {"total": 12}, "metadata": {"by": "ü"}}"#;
const OPERATION: &str = "2c1c1d6e-6a39-4d8e-9c53-0c8c3f3f9f1d";
const OTHER: &str = "7b0cf6a4-4b3a-4f3c-8a3e-2f5f3c1d9b11";

/// What a user sees, on any store.
fn tells_its_story(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let version = || run(folder, &["events", "--store", store, "version", "order-1"]).1;
    assert_eq!(version(), "-1\n");
    let two = format!("{PLACED}\n\n{}\n", r#"{"type": "order.paid", "text": "ok"}"#);
    let first = ["-1", "--operation-id", OPERATION];
    assert_eq!(outcome(append(folder, store, &first, &two)), ("applied".to_owned(), 1, 2));
    let again = outcome(append(folder, store, &["any", "--operation-id", OPERATION], &two));
    assert_eq!(again, ("already_applied".to_owned(), 1, 2));
    let bytes = r#"{"type": "order.signed", "data_base64": "AP8=", "version": 3}"#;
    assert_eq!(outcome(append(folder, store, &["2"], bytes)), ("applied".to_owned(), 3, 3));
    assert_eq!(version(), "3\n");

    let events = read(folder, store, &[]);
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["stream_id"], "order-1");
    assert_eq!(events[0]["stream_version"], 1);
    assert_eq!(events[0]["event_type"], "order.placed");
    assert_eq!(events[0]["payload"], json!({"total": 12}));
    assert_eq!(events[0]["metadata"], json!({"by": "ü"}));
    assert_eq!(events[0]["operation_id"], OPERATION);
    assert!(events[0]["occurred_at_utc"].is_string() && events[0]["appended_at_utc"].is_string());
    assert_eq!(events[1]["payload"], "ok");
    assert_eq!(
        (&events[2]["payload"], &events[2]["payload_base64"]),
        (&Value::Null, &json!("AP8="))
    );
    let last = read(folder, store, &["--backward", "--limit", "1"]);
    assert_eq!(last, [events[2].clone()]);
    assert_eq!(read(folder, store, &["--from", "2", "--limit", "1"]), [events[1].clone()]);

    let error = refused(append(folder, store, &["none"], PLACED));
    assert_eq!((&error["kind"], &error["applied"]), (&json!("conflict"), &json!(false)));
    assert_eq!((&error["expected"], &error["actual"]), (&json!("none"), &json!(3)));
    let error = refused(append(folder, store, &["7"], PLACED));
    assert_eq!((&error["expected"], &error["actual"]), (&json!(7), &json!(3)));
    let error = refused(append(folder, store, &["any", "--operation-id", OPERATION], PLACED));
    assert_eq!(error["kind"], "operation_mismatch");

    let resolve =
        |operation| run(folder, &["events", "--store", store, "resolve", "order-1", operation]);
    assert_eq!(outcome(resolve(OPERATION)), ("applied".to_owned(), 1, 2));
    for _ in 0..2 {
        let (code, out, _) = resolve(OTHER);
        assert_eq!((code, out.as_str()), (Some(0), "{\"outcome\":\"cancelled\"}\n"));
    }
    let error = refused(append(folder, store, &["any", "--operation-id", OTHER], PLACED));
    assert_eq!((&error["kind"], &error["operation_id"]), (&json!("cancelled"), &json!(OTHER)));
    let (_, out, _) = run(folder, &["events", "--store", store, "streams"]);
    assert_eq!(out, "{\"stream_id\":\"order-1\",\"stream_version\":3}\n");
    retires(folder, store, &events);
}

/// The line a command prints.
fn line((code, out, err): Ended) -> Value {
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    serde_json::from_str(&out).unwrap()
}

/// Snapshots and archive, on a stream of three events.
fn retires(folder: &Path, store: &str, events: &[Value]) {
    let fixed = ["--json", "events", "--store", store];
    let snapshot = |arguments: &[&str], input: &str| {
        fed(folder, &[&fixed, ["snapshot", "order-1"].as_slice(), arguments].concat(), input)
    };
    let archive = |arguments: &[&str]| {
        run(folder, &[&fixed, ["archive", "order-1"].as_slice(), arguments].concat())
    };
    assert_eq!(refused(snapshot(&[], ""))["kind"], "not_found");
    let error = refused(archive(&["--before", "3"]));
    assert_eq!((&error["kind"], &error["needed"]), (&json!("no_snapshot"), &json!(2)));
    let save = ["--save", "--version", "2", "--type", "order", "--schema-version", "4"];
    let state = "{ \"total\": 123456789012345678901234567890 }";
    assert_eq!(line(snapshot(&save, state))["outcome"], "saved");
    assert_eq!(line(snapshot(&save, state))["outcome"], "already_saved");
    assert_eq!(refused(snapshot(&save, "{}"))["kind"], "content_mismatch");
    let beyond = ["--save", "--version", "4", "--type", "order"];
    let error = refused(snapshot(&beyond, "{}"));
    assert_eq!((&error["kind"], &error["head"]), (&json!("beyond_head"), &json!(3)));
    let (_, out, _) = snapshot(&[], "");
    assert!(out.contains(r#""payload":{"total":123456789012345678901234567890}"#), "{out}");
    let shown = line(snapshot(&["--list"], ""));
    assert_eq!((&shown["stream_version"], &shown["schema_version"]), (&json!(2), &json!(4)));
    assert_eq!(line(snapshot(&["--keep", "1"], ""))["deleted"], 0);

    let planned = line(archive(&["--before", "3", "--dry-run"]));
    assert_eq!((&planned["outcome"], &planned["events"]), (&json!("planned"), &json!(2)));
    assert_eq!(line(archive(&["--before", "3"]))["outcome"], "archived");
    assert_eq!(line(archive(&["--before", "3"]))["outcome"], "nothing");
    assert_eq!(read(folder, store, &[]), events);
    assert_eq!(refused(archive(&["--before", "9"]))["kind"], "beyond_head");
    let dropped = line(archive(&["--keep-last", "1", "--drop"]));
    assert_eq!((&dropped["outcome"], &dropped["before_version"]), (&json!("dropped"), &json!(3)));
    let whole = run(folder, &[&fixed, ["read", "order-1"].as_slice()].concat());
    let error = refused(whole);
    assert_eq!((&error["kind"], &error["first"]), (&json!("truncated"), &json!(3)));
    assert_eq!(read(folder, store, &["--from", "3"]), events[2..]);
    // Every stream at once; one without a snapshot is named and left alone.
    outcome(fed(
        folder,
        &[&fixed, ["append", "bare", "--expect", "none"].as_slice()].concat(),
        PLACED,
    ));
    let all = ["archive", "--all", "--keep-last", "0"];
    let (code, out, _) = run(folder, &[&fixed, all.as_slice()].concat());
    assert_eq!(code, Some(1), "{out}");
    assert_eq!(out.matches("\"refused\"").count(), 2, "{out}");
    let old = ["archive", "--all", "--older-than", "1d"];
    let (code, out, _) = run(folder, &[&fixed, old.as_slice()].concat());
    assert_eq!((code, out.matches("\"nothing\"").count()), (Some(0), 2), "{out}");
}

#[test]
fn a_file_tells_its_story() {
    let dir = tempfile::tempdir().unwrap();
    tells_its_story(&format!("sqlite:{}", dir.path().join("store.db").display()));
}

#[cfg(feature = "service-tests")]
#[test]
fn a_cluster_tells_its_story() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let keyspace = runtime.block_on(helenus_testkit::isolated::Keyspace::create());
    tells_its_story(&keyspace.url());
    runtime.block_on(async {
        let drop = format!("DROP KEYSPACE {}", keyspace.name);
        keyspace.session.query_unpaged(drop, ()).await.unwrap();
    });
}

#[test]
fn the_feed_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let feed = |arguments: &[&str]| {
        let fixed = ["events", "--store", "sqlite:s.db", "feed"];
        let (code, out, err) = run(dir.path(), &[fixed.as_slice(), arguments].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    assert_eq!(feed(&[]), [Value::Null; 0]);
    let three = format!("{PLACED}\n{PLACED}\n{PLACED}");
    outcome(append(dir.path(), "sqlite:s.db", &["none"], &three));
    let first = feed(&["--limit", "1", "--follow"]);
    assert_eq!(first[0]["stream_version"], 1);
    let rest = feed(&["--from", first[0]["position"].as_str().unwrap()]);
    assert_eq!(rest.len(), 2);
    assert_eq!(rest[0]["stream_version"], 2);
    let wrong = ["--json", "events", "--store", "sqlite:s.db", "feed", "--from", "x"];
    assert_eq!(refused(run(dir.path(), &wrong))["kind"], "invalid");
}

#[cfg(feature = "service-tests")]
#[test]
fn a_cluster_has_no_feed_yet() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--json", "events", "--store", "cassandra://127.0.0.1:1/shop", "feed"];
    let error = refused(run(dir.path(), &arguments));
    assert_eq!((&error["kind"], &error["applied"]), (&json!("not_yet"), &json!(false)));
    let words = "this release has no feed of all events on Cassandra yet";
    assert!(error["causes"].to_string().contains(words), "{error}");
}

#[test]
fn numbers_of_any_length_come_back_as_they_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let data = r#"{"n":123456789012345678901234567890,"x":1.10,"y":1e400}"#;
    let event = format!(r#"{{"type": "a", "data": {data}}}"#);
    outcome(append(dir.path(), "sqlite:s.db", &["none"], &event));
    let (_, out, _) = run(dir.path(), &["events", "--store", "sqlite:s.db", "read", "order-1"]);
    assert!(out.contains(&format!(r#""payload":{data}"#)), "{out}");
}

#[test]
fn the_configured_store_is_used_where_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = fed(dir.path(), &["events", "append", "s", "--expect", "none"], PLACED);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(dir.path().join("helenus.db").try_exists().unwrap());
}

#[test]
fn wrong_input_is_named_by_its_line_and_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = "sqlite:store.db";
    for (input, words) in [
        ("{", "line 1 of the input is not an event"),
        ("{\"type\": \"a\", \"data\": 1}\nnonsense", "line 2 of the input is not an event"),
        (r#"{"type": "a", "dta": 1}"#, "unknown field `dta`"),
        (r#"{"type": "a"}"#, "needs one of data, text and data_base64"),
        (r#"{"type": "a", "data_base64": "?"}"#, "has wrong base64"),
        (r#"{"type": "a", "data": 1, "version": 0}"#, "declares version 0"),
    ] {
        let error = refused(append(dir.path(), store, &["any"], input));
        assert_eq!((&error["kind"], &error["applied"]), (&json!("invalid"), &json!(false)));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    assert!(!dir.path().join("store.db").try_exists().unwrap());
    for (input, kind) in [
        ("", "invalid"),
        (r#"{"type": "", "data": 1}"#, "invalid"),
        (r#"{"type": "a", "data": 1, "stream": "order-2"}"#, "stream_mismatch"),
        (r#"{"type": "a", "data": 1, "version": 5}"#, "version_mismatch"),
    ] {
        let error = refused(append(dir.path(), store, &["none"], input));
        assert_eq!((&error["kind"], &error["applied"]), (&json!(kind), &json!(false)), "{error}");
    }
}

#[test]
fn wrong_arguments_end_with_2() {
    let dir = tempfile::tempdir().unwrap();
    for (expect, words) in [("0", "which is 1 or more"), ("-2", "neither"), ("some", "neither")] {
        let (code, _, err) = append(dir.path(), "sqlite:s.db", &[expect], PLACED);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(words), "{err}");
    }
    let (code, _, err) = run(dir.path(), &["events", "version", ""]);
    assert_eq!(code, Some(2));
    assert!(err.contains("must not be empty"), "{err}");
}

#[test]
fn a_node_that_is_not_there_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(append(dir.path(), "cassandra://127.0.0.1:1/shop", &["any"], PLACED));
    assert_eq!((&error["kind"], &error["applied"]), (&json!("unavailable"), &json!(false)));
}

#[cfg(feature = "service-tests")]
#[test]
fn a_cluster_is_used_as_the_configuration_says() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let keyspace = runtime.block_on(helenus_testkit::isolated::Keyspace::create());
    let url = keyspace.url();
    let text = format!(
        "[store]\nurl = \"{url}\"\nevents_table = \"domain_events\"\n\
         append_bytes_max = \"2KiB\"\n[store.cassandra]\nprefix = \"shop_\"\n\
         replication = {{ datacenter1 = 1 }}\nserial_consistency = \"local_serial\"\n"
    );
    std::fs::write(dir.path().join("helenus.toml"), text).unwrap();
    let arguments = ["--json", "events", "append", "order-1", "--expect", "any"];
    assert_eq!(outcome(fed(dir.path(), &arguments, PLACED)).2, 1);
    let large = format!("{{\"type\": \"e\", \"data\": \"{}\"}}", "x".repeat(2_048));
    assert_eq!(refused(fed(dir.path(), &arguments, &large))["kind"], "too_large");

    let version = |name: &str, value: &str| {
        let mut command = super::helenus(dir.path(), &["--json", "events", "version", "order-1"]);
        super::ended(&command.env(name, value).output().unwrap())
    };
    assert_eq!(version("HELENUS_LOG__LEVEL", "warn").1, "1\n");
    // Another table has no such stream; another serial level is refused.
    assert_eq!(version("HELENUS_STORE__EVENTS_TABLE", "other_events").1, "-1\n");
    let error = refused(version("HELENUS_STORE__CASSANDRA__SERIAL_CONSISTENCY", "serial"));
    assert_eq!((&error["kind"], &error["applied"]), (&json!("invalid"), &json!(false)));
    let words = "is used with serial consistency LOCAL_SERIAL, not SERIAL";
    assert!(error["message"].to_string().contains(words), "{error}");
    runtime.block_on(async {
        let drop = format!("DROP KEYSPACE {}", keyspace.name);
        keyspace.session.query_unpaged(drop, ()).await.unwrap();
    });
}
