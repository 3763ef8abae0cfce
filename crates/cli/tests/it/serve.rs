//! `helenus serve` as a process: what it runs, what it answers, and how it ends.

mod refused;
#[cfg(feature = "service-tests")]
mod services;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use helenus::interop::rusqlite::Connection;
use serde_json::{Value, json};

use super::relay::stage;
use super::{helenus, run};

/// Looks around often, so that tests see soon what there is to see.
const QUICK: &str = "[serve]\nlook_every = \"100ms\"\nsweep_every = \"100ms\"\n";

const FILE: &str = "sqlite:shop.db";

/// A service that answers; ended when dropped.
pub(crate) struct Service {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Reads along, so that it never waits for somebody to read.
    stderr: Option<JoinHandle<String>>,
    address: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        // Fails if it has ended, which is as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Service {
    /// Starts it in a folder that has its configuration, on a free port.
    fn start(folder: &Path, arguments: &[&str]) -> Service {
        let words = [&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat();
        Service::begin(&mut helenus(folder, &words))
    }

    pub(crate) fn begin(command: &mut Command) -> Service {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut said = String::new();
            pipe.read_to_string(&mut said).unwrap();
            said
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Some((_, told)) = line.split_once("http://") else {
            panic!("it did not start: {line}{}", stderr.join().unwrap())
        };
        let address = told.split(['"', '\n']).next().unwrap().replace("0.0.0.0", "127.0.0.1");
        Service { child, stdout, stderr: Some(stderr), address }
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        get(&self.address, path, None)
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).1).unwrap()
    }

    /// Waits until `/readyz` answers with this code, and gives what it says.
    pub(crate) fn until_ready_is(&self, wanted: u16, holds: impl Fn(&str) -> bool) -> Value {
        let mut last = String::new();
        for _ in 0..6_000 {
            let (code, body) = self.get("/readyz");
            if code == wanted && holds(&body) {
                return serde_json::from_str(&body).unwrap();
            }
            last = format!("{code} {body}");
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("/readyz stays at {last}");
    }

    /// Waits until a metric has this value.
    fn until_metric(&self, line: &str) {
        for _ in 0..6_000 {
            if self.get("/metrics").1.lines().any(|told| told == line) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no {line} in\n{}", self.get("/metrics").1);
    }

    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args([format!("-{name}"), self.child.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Waits for its end: exit code, what it printed since it answered, and stderr.
    fn ended(&mut self) -> (Option<i32>, String, String) {
        let code = self.child.wait().unwrap().code();
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).unwrap();
        (code, out, self.stderr.take().unwrap().join().unwrap())
    }
}

/// Status and body of an answer.
fn get(address: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{shown}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// A folder with this configuration.
fn folder(config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("helenus.toml"), config).unwrap();
    dir
}

/// How many messages a topic has, each once.
fn published(folder: &Path, store: &str, broker: &str, topic: &str) -> usize {
    let words = ["topics", "--store", store, "--broker", broker, "read", topic];
    let words = [&words[..], &["--from-beginning", "--until-end"]].concat();
    let (code, out, err) = run(folder, &words);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let mut numbers: Vec<u64> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|message| message["payload"]["number"].as_u64().unwrap())
        .collect();
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all, "a message was published twice");
    all
}

fn status(folder: &Path, store: &str) -> Value {
    let (code, out, err) = run(folder, &["--json", "relay", "status", "--store", store]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_file_is_served_until_told_to_end() {
    let dir = folder(&format!("{QUICK}[store]\nurl = \"{FILE}\"\n"));
    let mut service = Service::start(dir.path(), &[]);
    let ready = service.until_ready_is(200, |_| true);
    assert_eq!((&ready["ready"], &ready["reasons"]), (&json!(true), &json!([])));
    assert_eq!(ready["health"], json!({"status": "up", "lag_ms": 0, "unpublished": 0}));
    let names = ready["tasks"].as_array().unwrap().iter().map(|task| task["name"].clone());
    let expected = ["relay", "reconciler", "sweeper", "topic-retention", "observer"];
    assert_eq!(names.collect::<Vec<_>>(), expected);

    stage(dir.path(), FILE, "orders", 0..30);
    service.until_metric("helenus_relay_published_total 30");
    service.until_metric("helenus_outbox_unpublished_messages 0");
    assert_eq!(service.json("/healthz"), json!({"healthy": true, "given_up": []}));
    let shown = status(dir.path(), FILE);
    assert_eq!((&shown["health"], &shown["unpublished"]), (&json!("up"), &json!(0)));
    assert!(shown["shards"][15]["owner"].is_string());
    assert_eq!(service.get("/nothing").0, 404);
    assert_eq!(service.get("/").0, 404);

    service.signal("TERM");
    let (code, out, err) = service.ended();
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "{\"ended\":true}\n", ""));
    let shards = status(dir.path(), FILE)["shards"].as_array().unwrap().clone();
    assert!(shards.iter().all(|shard| shard["owner"].is_null()), "{shards:?}");
    assert_eq!(published(dir.path(), FILE, "embedded:", "orders"), 30);
}

#[test]
fn the_manifest_says_what_runs_and_keeps_secrets() {
    let config =
        "[broker]\nsettings = { \"sasl.password\" = \"hush-1\" }\n[serve]\nrelay = false\n";
    let dir = folder(config);
    let mut command = helenus(dir.path(), &["serve", "--json", "--listen", "127.0.0.1:0"]);
    command.env("HELENUS_STORE__URL", FILE).env("HELENUS_STORE__PASSWORD", "hush-2");
    command.env("HELENUS_TARGET__URL", "postgres://ann:hush-3@host/db");
    command.env("HELENUS_AUTH__TOKENS", "viewer hush-4-0123456789");
    let service = Service::begin(&mut command);
    let (code, text) = get(&service.address, "/engine/snapshot", Some("hush-4-0123456789"));
    assert!(code == 200 && !text.contains("hush"), "{text}");
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = manifest.as_object().unwrap().keys().collect();
    let expected = ["capabilities", "config", "engine", "guarantees", "technologies", "version"];
    assert_eq!(keys, expected);
    assert_eq!(manifest["capabilities"][0], "data.sqlite");
    let integration = &manifest["technologies"]["event-driven-integration"];
    assert_eq!(integration["inbox-stores"], json!([{"id": "sqlite-inbox", "provider": "sqlite"}]));
    let config = &manifest["config"];
    assert_eq!(config["store"]["url"], FILE);
    assert_eq!(config["serve"]["listen"], service.address.as_str());
    assert_eq!((&config["serve"]["relay"], &config["relay"]["lanes"]), (&json!(false), &json!(4)));
    assert_eq!(config["broker"]["settings"], json!({"sasl.password": "***"}));
    assert_eq!(config["target"]["url"], "postgres://ann:***@host:5432/db");
    for guarantee in manifest["guarantees"].as_array().unwrap() {
        for key in ["id", "text", "test"] {
            assert!(guarantee[key].is_string(), "{guarantee}");
        }
    }
    let ready = get(&service.address, "/readyz", Some("hush-4-0123456789")).1;
    assert!(!ready.contains("\"relay\"") && ready.contains("\"observer\""), "{ready}");
}

/// Metrics that the alert rules of some groups ask for are exported, and explained.
pub(crate) fn has_what_rules_ask_for(exported: &str, group: impl Fn(&str) -> bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/prometheus-alerts.yml");
    let rules = std::fs::read_to_string(path).unwrap();
    let groups = rules.split("\n  - name: ").skip(1);
    let wanted: String = groups.filter(|rules| group(rules.lines().next().unwrap())).collect();
    let words = wanted.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with("helenus_")).collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let is_sample =
            |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        assert!(exported.lines().any(is_sample), "{name} is not exported:\n{exported}");
        assert!(exported.contains(&format!("# HELP {name} ")), "{name} is not explained");
    }
}

#[test]
fn every_metric_of_the_alert_rules_is_exported() {
    let dir = folder(&format!("{QUICK}[store]\nurl = \"{FILE}\"\n"));
    let service = Service::start(dir.path(), &[]);
    service.until_ready_is(200, |_| true);
    service.until_metric("helenus_outbox_unknown_outcomes 0");
    let exported = service.get("/metrics").1;
    has_what_rules_ask_for(&exported, |group| group != "helenus-capture");
    let watermark = "helenus_outbox_watermark_timestamp_seconds{shard=\"15\"}";
    assert!(exported.contains(watermark), "{exported}");
    assert!(exported.contains("helenus_task_up{task=\"relay\"} 1"), "{exported}");
}

#[test]
fn old_messages_leave_outbox_and_topics() {
    let config = "[broker]\nretention = \"1ms\"\n[outbox]\nkeep_done = \"1ms\"\n";
    let dir = folder(&format!("{QUICK}[store]\nurl = \"{FILE}\"\n{config}"));
    stage(dir.path(), FILE, "orders", 0..5);
    let service = Service::start(dir.path(), &[]);
    service.until_metric("helenus_topics_expired_records_total 5");
    service.until_metric("helenus_outbox_swept_total{what=\"messages\"} 5");
    let (code, out, _) = run(dir.path(), &["outbox", "list", "--state", "dispatched"]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
}

/// Keeps every other process from writing to the store for as long as it lives.
fn locked(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("shop.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn a_task_that_fails_is_named_and_starts_again() {
    let dir = folder(&format!("{QUICK}[store]\nurl = \"{FILE}\"\n"));
    stage(dir.path(), FILE, "orders", 0..3);
    let lock = locked(dir.path());
    let service = Service::start(dir.path(), &[]);
    let said = service.until_ready_is(503, |body| body.contains("task relay failed"));
    assert!(said["reasons"].to_string().contains("locked by another process"), "{said}");
    assert_eq!(service.json("/healthz")["healthy"], true);
    drop(lock);
    let ready = service.until_ready_is(200, |_| true);
    assert!(ready["tasks"][0]["restarts"].as_u64().unwrap() > 0, "{ready}");
    service.until_metric("helenus_relay_published_total 3");
}

#[test]
fn a_task_that_met_what_does_not_pass_is_given_up_and_others_go_on() {
    let dir = folder(&format!("{QUICK}[store]\nurl = \"{FILE}\"\n"));
    let service = Service::start(dir.path(), &[]);
    service.until_ready_is(200, |_| true);
    let connection = Connection::open(dir.path().join("shop.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    let damage = "ALTER TABLE helenus_inbox_receipts RENAME TO elsewhere";
    connection.execute_batch(damage).unwrap();
    let said = service.until_ready_is(503, |body| body.contains("was given up"));
    assert!(
        said["reasons"][0].as_str().unwrap().starts_with("task sweeper was given up"),
        "{said}"
    );
    let told = json!({"healthy": false, "given_up": ["sweeper"]});
    assert_eq!((service.get("/healthz").0, service.json("/healthz")), (503, told));
    stage(dir.path(), FILE, "orders", 0..3);
    service.until_metric("helenus_relay_published_total 3");
}

#[test]
fn a_second_signal_does_not_wait() {
    let dir = folder(&format!("{QUICK}[store]\nurl = \"{FILE}\"\n"));
    let mut service = Service::start(dir.path(), &[]);
    service.until_ready_is(200, |_| true);
    // Leases cannot be given back meanwhile.
    let lock = locked(dir.path());
    service.signal("TERM");
    service.until_ready_is(503, |body| body.contains("it was told to end"));
    service.signal("INT");
    let (code, _, err) = service.ended();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("before a second signal (Ctrl-C)"), "{err}");
    drop(lock);
}
