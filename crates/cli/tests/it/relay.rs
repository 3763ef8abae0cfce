//! `helenus relay` and `helenus topics` as a user meets them, on the embedded broker and on Kafka.

use std::path::Path;

use serde_json::{Value, json};

use super::{fed, helenus, run};

const FILE: &str = "sqlite:shop.db";

/// Stages messages from the command line.
pub(super) fn stage(folder: &Path, store: &str, channel: &str, numbers: std::ops::Range<usize>) {
    let lines = numbers.map(|number| {
        let line = json!({
            "message_id": format!("{channel}-{number}"),
            "channel_id": channel,
            "message_type": "order.placed",
            "ordering_key": format!("order-{}", number % 3),
            "payload": { "number": number },
        });
        format!("{line}\n")
    });
    let input: String = lines.collect();
    let (code, _, err) = fed(folder, &["outbox", "enqueue", "--store", store], &input);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    let (code, out, err) = run(folder, &[&["--json"], arguments].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
    serde_json::from_str(&out).unwrap()
}

fn lines_of(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let (code, out, err) = run(folder, arguments);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn error_of(folder: &Path, arguments: &[&str]) -> Value {
    let (code, out, err) = run(folder, &[&["--json"], arguments].concat());
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let document: Value = serde_json::from_str(&err).unwrap();
    document["error"].clone()
}

/// What a user sees, on any store and broker; topics begin with `prefix`.
fn tells_its_story(store: &str, broker: &str, prefix: &str) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let orders = format!("{prefix}orders");
    stage(folder, store, &orders, 0..30);
    let status = json_of(folder, &["relay", "status", "--store", store]);
    assert_eq!((&status["unpublished"], &status["shards"][3]["owner"]), (&json!(30), &Value::Null));

    for (mode, published) in [("exactly-once", 30), ("at-least-once", 0)] {
        let words =
            ["relay", "run", "--store", store, "--broker", broker, "--until-empty", "--mode"];
        assert_eq!(json_of(folder, &[&words[..], &[mode]].concat())["published"], published);
    }
    let status = json_of(folder, &["relay", "status", "--store", store]);
    assert_eq!((&status["unpublished"], &status["lag_ms"]), (&json!(0), &json!(0)));
    assert_eq!(status["shards"].as_array().unwrap().len(), 16);

    let topics = json_of(folder, &["topics", "--store", store, "--broker", broker, "list"]);
    assert!(topics.as_array().unwrap().iter().any(|topic| topic["name"] == orders.as_str()));
    let read = |more: &[&str]| {
        let fixed = ["topics", "--store", store, "--broker", broker, "read", &orders];
        lines_of(folder, &[&fixed, more].concat())
    };
    let all = read(&["--from-beginning", "--until-end"]);
    assert_eq!(all.len(), 30);
    for key in ["order-0", "order-1", "order-2"] {
        let own = all.iter().filter(|message| message["key"] == key);
        let numbers: Vec<u64> =
            own.map(|message| message["payload"]["number"].as_u64().unwrap()).collect();
        assert!(numbers.len() == 10 && numbers.is_sorted(), "{numbers:?}");
    }
    assert_eq!(all[0]["headers"]["ce_type"], "order.placed");
    assert!(all[0]["partition"].is_u64() && all[0]["offset"].is_u64());
    assert_eq!(read(&["--from-beginning", "--limit", "7"]).len(), 7);
    assert_eq!(read(&["--until-end"]).len(), 0);
    let group = format!("{prefix}billing");
    let grouped = ["--group", group.as_str(), "--until-end"];
    assert_eq!(read(&[&grouped[..], &["--limit", "12"]].concat()).len(), 12);
    assert_eq!(read(&grouped).len(), 18);
    assert_eq!(read(&grouped).len(), 0);

    let fixed = ["topics", "--store", store, "--broker", broker, "read"];
    let missing = format!("{prefix}missing");
    let mut quiet = vec!["-c", "quiet.toml"];
    std::fs::write(folder.join("quiet.toml"), "[broker]\ncreate_topics = false\n").unwrap();
    quiet.extend([&fixed[..], &[missing.as_str(), "--until-end"]].concat());
    let error = error_of(folder, &quiet);
    assert_eq!((&error["kind"], &error["applied"]), (&json!("unknown_topic"), &json!(false)));
}

#[test]
fn messages_go_from_the_outbox_into_embedded_topics() {
    tells_its_story(FILE, "embedded:", "");
}

#[cfg(feature = "service-tests")]
fn into_kafka(store: &str) {
    let kafka = helenus_testkit::services::Registry::new().kafka().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    tells_its_story(store, &format!("kafka://{kafka}"), &format!("cli.{now:x}."));
}

#[cfg(feature = "service-tests")]
#[test]
fn messages_go_from_a_file_into_kafka() {
    into_kafka(FILE);
}

#[cfg(feature = "service-tests")]
#[test]
fn messages_go_from_a_cluster_into_kafka() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let keyspace = runtime.block_on(helenus_testkit::isolated::Keyspace::create());
    into_kafka(&keyspace.url());
}

#[test]
fn a_broker_that_is_not_there_is_told_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    stage(folder, FILE, "orders", 0..3);
    std::fs::write(folder.join("helenus.toml"), "[broker]\nrequest_timeout = \"2s\"\n").unwrap();
    let (store, broker) = (FILE, "kafka://127.0.0.1:1");
    let words = ["relay", "run", "--store", store, "--broker", broker, "--until-empty"];
    let error = error_of(folder, &words);
    assert_eq!((&error["kind"], &error["applied"]), (&json!("unavailable"), &json!(false)));
    let cause = error["causes"][0].as_str().unwrap();
    assert!(cause.contains("Kafka at 127.0.0.1:1 did not answer"), "{cause}");
    let status = json_of(folder, &["relay", "status", "--store", store]);
    assert_eq!((&status["unpublished"], &status["health"]), (&json!(3), &json!("up")));
    std::fs::write(folder.join("strict.toml"), "[relay]\ndown_after = \"1ms\"\n").unwrap();
    let strict = json_of(folder, &["-c", "strict.toml", "relay", "status", "--store", store]);
    assert_eq!(strict["health"], "down");
    std::fs::remove_file(folder.join("helenus.toml")).unwrap();
    let error = error_of(folder, &["topics", "list", "--store", store, "--broker", broker]);
    assert_eq!(error["kind"], "unavailable");
}

#[test]
fn a_relay_that_is_asked_to_end_finishes_and_leaves_its_lanes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    stage(folder, FILE, "orders", 0..30);
    let words = ["--json", "relay", "run", "--store", FILE];
    let mut command = helenus(folder, &words);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let status = || json_of(folder, &["relay", "status", "--store", FILE]);
    while status()["unpublished"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(status()["shards"][0]["owner"].is_string());
    let killed = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let (code, out, _) = super::ended(&output);
    assert_eq!(code, Some(0));
    let totals: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(totals["published"], 30);
    let shards = status()["shards"].as_array().unwrap().clone();
    assert!(shards.iter().all(|shard| shard["owner"].is_null()), "{shards:?}");
}
