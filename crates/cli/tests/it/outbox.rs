//! `helenus outbox` and `helenus inbox`: JSON lines in and out, and how wrong input reads.

use std::path::Path;

use serde_json::{Value, json};

use super::{fed, run};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn outbox(folder: &Path, store: &str, arguments: &[&str], input: &str) -> Vec<Value> {
    let arguments = [["outbox", "--store", store].as_slice(), arguments].concat();
    let (code, out, err) = fed(folder, &arguments, input);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
    lines(&out)
}

/// What a user sees, on any store.
fn tells_its_story(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let input = concat!(
        r#"{"message_id": "m-1", "channel_id": "orders", "message_type": "order.placed", "#,
        r#""payload": {"total": 1.50}, "ordering_key": "order-1", "headers": {"a": "ü"}, "#,
        r#""correlation_id": "c", "tenant_id": "t"}"#,
        "\n\n",
        r#"{"channel_id": "orders", "message_type": "x", "payload_base64": "AP8="}"#,
    );
    let staged = outbox(folder, store, &["enqueue"], input);
    assert_eq!(staged[0], json!({"message_id": "m-1", "outcome": "enqueued"}));
    assert!(staged[1]["message_id"].is_string());
    let first = input.lines().next().unwrap();
    let again = outbox(folder, store, &["enqueue"], first);
    assert_eq!(again, [json!({"message_id": "m-1", "outcome": "duplicate"})]);

    let (_, printed, _) = run(folder, &["outbox", "--store", store, "list", "--state", "pending"]);
    assert!(printed.contains(r#""payload":{"total":1.50}"#), "digits are kept: {printed}");
    let listed = lines(&printed);
    assert_eq!(listed.len(), 2);
    let message = listed.iter().find(|message| message["message_id"] == "m-1").unwrap();
    assert_eq!((&message["headers"], &message["state"]), (&json!({"a": "ü"}), &json!("pending")));
    assert_eq!(message["dispatch_attempt_count"], 0);
    for state in ["dispatched", "parked", "cancelled"] {
        assert_eq!(outbox(folder, store, &["list", "--state", state], ""), [""; 0]);
    }
    let none = json!({"examined": 0, "completed": 0, "dropped": 0, "cancelled": 0, "open": 0});
    for options in [&["--dry-run"][..], &["--scan", "--dry-run"], &["--scan"], &[]] {
        let words = [&["reconcile"], options].concat();
        let told = outbox(folder, store, &words, "");
        assert_eq!(told, std::slice::from_ref(&none), "{words:?}");
    }
    let swept = outbox(folder, store, &["sweep", "--dry-run"], "");
    assert_eq!(swept, [json!({"messages": 0, "receipts": 0, "holds": 0, "buckets": 0})]);
    let extended = outbox(folder, store, &["extend-ttl", "--by", "24h"], "");
    assert_eq!(extended, [json!({"extended": 0})]);
    assert_eq!(outbox(folder, store, &["reshard", "--shards", "3"], "")[0]["shards"], 3);
    assert_eq!(outbox(folder, store, &["list"], "").len(), 2);
    let (code, out, err) = run(folder, &["inbox", "--store", store, "list"]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    let (code, _, err) = run(folder, &["--json", "inbox", "--store", store, "show", "m-1"]);
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!((code, &error["error"]["kind"]), (Some(1), &json!("not_found")));
}

#[test]
fn a_file_tells_its_story() {
    tells_its_story("sqlite:shop.db");
}

#[cfg(feature = "service-tests")]
#[test]
fn a_cluster_tells_its_story() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let keyspace = runtime.block_on(helenus_testkit::isolated::Keyspace::create());
    tells_its_story(&keyspace.url());
}

/// A store refuses another number of shards than it was made with, and says what to do.
fn keeps_its_shards(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let input = r#"{"message_id": "m-1", "channel_id": "c", "message_type": "t", "payload": 1}"#;
    std::fs::write(folder.join("helenus.toml"), "[outbox]\nshards = 8\n").unwrap();
    outbox(folder, store, &["enqueue"], input);
    let status = || {
        let (_, out, err) = run(folder, &["--json", "relay", "status", "--store", store]);
        let status: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
        status["shards"].as_array().unwrap().len()
    };
    assert_eq!(status(), 8, "whoever comes first decides");

    std::fs::write(folder.join("helenus.toml"), "[outbox]\nshards = 5\n").unwrap();
    for command in [&["outbox", "list"][..], &["relay", "status"]] {
        let words = [&["--json"], command, &["--store", store]].concat();
        let (code, out, err) = run(folder, &words);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        let error = serde_json::from_str::<Value>(&err).unwrap()["error"].clone();
        assert_eq!(error["message"], "the outbox has 8 shards, not 5");
        assert_eq!((&error["class"], &error["applied"]), (&json!("invalid"), &json!(false)));
        assert!(error["remedy"].as_str().unwrap().contains("helenus outbox reshard"), "{error}");
    }
    outbox(folder, store, &["reshard", "--shards", "5"], "");
    assert_eq!(outbox(folder, store, &["list"], "").len(), 1);
    assert_eq!(status(), 5);
    std::fs::remove_file(folder.join("helenus.toml")).unwrap();
    assert_eq!(status(), 5, "no number fits every store");
}

#[test]
fn a_file_keeps_its_shards() {
    keeps_its_shards("sqlite:shop.db");
}

#[cfg(feature = "service-tests")]
#[test]
fn a_cluster_keeps_its_shards() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let keyspace = runtime.block_on(helenus_testkit::isolated::Keyspace::create());
    keeps_its_shards(&keyspace.url());
}

#[test]
fn a_wrong_first_line_claims_nothing_and_a_later_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let error_of = |input: &str| {
        let (code, _, err) = fed(dir.path(), &["--json", "outbox", "enqueue"], input);
        assert_eq!(code, Some(1));
        serde_json::from_str::<Value>(&err).unwrap()["error"].clone()
    };
    let good = |id| {
        format!(
            "{{\"message_id\": \"{id}\", \"channel_id\": \"c\", \"message_type\": \"t\", \"payload\": 1}}\n"
        )
    };
    let error = error_of("nonsense\n");
    assert!(!error["message"].as_str().unwrap().contains("staged"), "{error}");
    assert!(!error["remedy"].as_str().unwrap().contains("staged"), "{error}");
    assert_eq!((&error["line"], &error["applied"]), (&json!(1), &json!(false)));
    let error = error_of(&format!("{}\n{}nonsense\n", good("a"), good("b")));
    assert_eq!((&error["line"], &error["staged"]), (&json!(4), &json!(2)));
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("the 2 messages before it are staged"), "{message}");
}

#[test]
fn every_line_that_the_store_refused_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let line = |id: &str, payload: u8| {
        json!({"message_id": id, "channel_id": "c", "message_type": "t", "payload": payload})
            .to_string()
    };
    let before = [line("a", 1), line("b", 1)].join("\n");
    assert_eq!(outbox(dir.path(), "sqlite:helenus.db", &["enqueue"], &before).len(), 2);
    let input = [line("c", 1), line("a", 2), line("d", 1), line("b", 2), "nonsense".to_owned()];
    let words = ["--json", "outbox", "--store", "sqlite:helenus.db", "enqueue"];
    let (code, out, err) = fed(dir.path(), &words, &input.join("\n"));
    assert_eq!((code, lines(&out).len()), (Some(1), 2), "c and d: {out}");
    let error = serde_json::from_str::<Value>(&err).unwrap()["error"].clone();
    assert_eq!((&error["kind"], &error["applied"]), (&json!("content_mismatch"), &json!(true)));
    assert_eq!((&error["line"], &error["other_lines"]), (&json!(2), &json!([4])));
    assert_eq!(error["staged"], 2);
    let message = error["message"].as_str().unwrap();
    let end = "of the lines up to 4, 2 are staged, those behind were not read";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn wrong_input_says_which_line_and_stages_what_came_before() {
    let dir = tempfile::tempdir().unwrap();
    let good = r#"{"message_id": "ok", "channel_id": "c", "message_type": "t", "payload": 1}"#;
    for (line, words) in [
        (r#"{"message_type": "t", "payload": 1}"#, "missing field `channel_id`"),
        (r#"{"channel_id": "", "message_type": "t", "payload": 1}"#, "must not be empty"),
        (
            r#"{"message_id": "", "channel_id": "c", "message_type": "t", "payload": 1}"#,
            "message id",
        ),
        (r#"{"channel_id": "c", "message_type": "t"}"#, "needs one of payload and payload_base64"),
        (r#"{"channel_id": "c", "message_type": "t", "payload": 1, "x": 1}"#, "unknown field `x`"),
        ("nonsense", "is not a message"),
    ] {
        let input = format!("{good}\n{line}\n");
        let (code, out, err) = fed(dir.path(), &["outbox", "enqueue"], &input);
        assert_eq!(code, Some(1), "{line}");
        assert!(err.contains("line 2 of the input") && err.contains(words), "{err}");
        assert_eq!(lines(&out)[0]["message_id"], "ok");
    }
    let other = good.replace("\"t\"", "\"other\"");
    let (code, _, err) = fed(dir.path(), &["--json", "outbox", "enqueue"], &other);
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!((code, &error["error"]["kind"]), (Some(1), &json!("content_mismatch")));
    assert_eq!(error["error"]["applied"], false);
}
