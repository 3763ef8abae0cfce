//! `helenus events project`: SQL in, tables out, and what becomes of events that do not fit.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use helenus::interop::rusqlite::Connection;
use serde_json::{Value, json};

use super::events::refused;
use super::{ended, fed, helenus, run};

const BALANCES: &str = "\
-- create
CREATE TABLE {balances} (account TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0));
-- on booked
INSERT INTO {balances} VALUES (:stream_id, json_extract(:payload, '$.cents'))
ON CONFLICT DO UPDATE SET cents = cents + excluded.cents;
";

fn append(folder: &Path, stream: &str, cents: i64) {
    let line = format!("{{\"type\": \"booked\", \"data\": {{\"cents\": {cents}}}}}");
    let arguments = ["events", "--store", "sqlite:s.db", "append", stream, "--expect", "any"];
    let (code, _, err) = fed(folder, &arguments, &line);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

fn project(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let fixed = ["--json", "events", "--store", "sqlite:s.db", "project"];
    run(folder, &[fixed.as_slice(), arguments].concat())
}

/// What a command that succeeds prints.
fn printed(folder: &Path, arguments: &[&str]) -> Value {
    let (code, out, err) = project(folder, arguments);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    serde_json::from_str(&out).unwrap()
}

fn balances(folder: &Path) -> Vec<(String, i64)> {
    let file = Connection::open(folder.join("s.db")).unwrap();
    let mut query = file.prepare("SELECT account, cents FROM balances ORDER BY account").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("balances.sql"), BALANCES).unwrap();
    dir
}

#[test]
fn sql_fills_a_table_and_another_text_needs_a_rebuild() {
    let dir = folder();
    let folder = dir.path();
    append(folder, "a", 5);
    append(folder, "b", 7);
    let run = ["run", "balances", "--sql", "balances.sql"];
    let done = json!({ "applied": 2, "parked": 0, "interrupted": false });
    assert_eq!(printed(folder, &run), done);
    append(folder, "a", 1);
    assert_eq!(printed(folder, &run)["applied"], 1);
    assert_eq!(balances(folder), [("a".to_owned(), 6), ("b".to_owned(), 7)]);

    let doubled = BALANCES.replace("cents + excluded.cents", "cents + 2 * excluded.cents");
    fs::write(folder.join("balances.sql"), doubled).unwrap();
    let error = refused(project(folder, &run));
    assert_eq!(
        (&error["kind"], &error["class"]),
        (&json!("projection_differs"), &json!("conflict"))
    );
    assert!(error["remedy"].as_str().unwrap().contains("--rebuild"), "{error}");
    assert_eq!(printed(folder, &[run.as_slice(), &["--rebuild"]].concat())["applied"], 3);
    assert_eq!(balances(folder)[0], ("a".to_owned(), 7));

    let all = printed(folder, &["list"]);
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert_eq!((&all[0]["name"], &all[0]["kind"]), (&json!("balances"), &json!("projection")));
    assert_eq!((&all[0]["lag_events"], &all[0]["lanes"][0]["owner"]), (&json!(0), &Value::Null));
    assert_eq!(printed(folder, &["status", "balances"]), all[0]);
    let plain = ["events", "--store", "sqlite:s.db", "project", "status", "balances"];
    let (code, out, _) = super::run(folder, &plain);
    assert_eq!(code, Some(0));
    assert!(out.contains("tables   balances"), "{out}");

    assert_eq!(printed(folder, &["drop", "balances"]), json!({ "dropped": "balances" }));
    assert_eq!(refused(project(folder, &["drop", "balances"]))["kind"], "unknown_subscription");
    assert_eq!(printed(folder, &["list"]), json!([]));
}

#[test]
fn an_event_that_does_not_fit_is_parked_replayed_and_discarded() {
    let dir = folder();
    let folder = dir.path();
    for (stream, cents) in [("a", -5), ("b", 7), ("a", 9)] {
        append(folder, stream, cents);
    }
    let run = ["run", "balances", "--sql", "balances.sql"];
    let (code, out, err) = project(folder, &run);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("an event is parked") && err.lines().count() == 1, "{err}");
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&done["applied"], &done["parked"]), (&json!(1), &json!(2)));
    let parked = printed(folder, &["parked", "balances"]);
    assert_eq!((&parked[0]["position"], &parked[0]["stream_id"]), (&json!("1"), &json!("a")));
    assert!(parked[0]["error"].as_str().unwrap().contains("CHECK constraint failed"), "{parked}");
    assert_eq!((&parked[1]["error"], &parked[1]["attempts"]), (&Value::Null, &json!(0)));

    let error = refused(project(folder, &["replay", "balances", "--position", "3"]));
    assert_eq!(error["kind"], "not_first");
    let error = refused(project(folder, &["discard", "balances", "--position", "2"]));
    assert_eq!(error["kind"], "not_parked");
    let discarded = printed(folder, &["discard", "balances", "--position", "1"]);
    assert_eq!(discarded, json!({ "discarded": 1 }));
    let replayed = printed(folder, &["replay", "balances", "--stream", "a"]);
    assert_eq!(replayed, json!({ "replayed": 1 }));
    assert_eq!(printed(folder, &run)["applied"], 1);
    assert_eq!(balances(folder), [("a".to_owned(), 9), ("b".to_owned(), 7)]);
    assert_eq!(printed(folder, &["parked", "balances"]), json!([]));
    let (code, _, err) = project(folder, &["replay", "balances"]);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn wrong_sql_is_refused_and_opens_nothing() {
    let dir = folder();
    let folder = dir.path();
    let touching = format!("{BALANCES}-- on *\nDELETE FROM helenus_leases;\n");
    for (text, words) in [
        (touching.as_str(), "'-- on *' on line 6: no such table: helenus_leases"),
        ("SELECT 1", "must begin with a '-- create' part"),
    ] {
        fs::write(folder.join("wrong.sql"), text).unwrap();
        let error = refused(project(folder, &["run", "x", "--sql", "wrong.sql"]));
        assert_eq!((&error["kind"], &error["applied"]), (&json!("invalid"), &json!(false)));
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    let error = refused(project(folder, &["run", "x", "--sql", "absent.sql"]));
    assert!(error["message"].as_str().unwrap().contains("absent.sql"), "{error}");
    assert!(!folder.join("s.db").try_exists().unwrap());
    assert_eq!(refused(project(folder, &["parked", "x"]))["kind"], "unknown_subscription");
}

#[test]
fn a_follower_ends_on_a_signal_with_everything_settled() {
    for signal in ["INT", "TERM"] {
        let dir = folder();
        let folder = dir.path();
        append(folder, "a", 5);
        let arguments = ["events", "--store", "sqlite:s.db", "project", "run", "balances"];
        let arguments = [arguments.as_slice(), &["--sql", "balances.sql", "--follow"]].concat();
        let mut follower = helenus(folder, &arguments);
        follower.stdout(Stdio::piped()).stderr(Stdio::piped());
        let follower = follower.spawn().unwrap();
        // Another process appends while it follows.
        while printed(folder, &["list"]).as_array().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        append(folder, "a", 6);
        while balances(folder) != [("a".to_owned(), 11)] {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut kill = Command::new("kill");
        kill.args([format!("-{signal}"), follower.id().to_string()]);
        assert!(kill.status().unwrap().success());
        let (code, _, err) = ended(&follower.wait_with_output().unwrap());
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let status = printed(folder, &["status", "balances"]);
        assert_eq!(status["lanes"][0]["owner"], Value::Null, "the lane was given back");
        assert_eq!(status["lag_events"], 0);
    }
}

#[test]
fn a_cluster_has_no_projections_yet() {
    let dir = folder();
    let store = ["--json", "events", "--store", "cassandra://127.0.0.1:1/shop", "project"];
    for arguments in [["list"].as_slice(), &["run", "b", "--sql", "balances.sql"]] {
        let error = refused(run(dir.path(), &[store.as_slice(), arguments].concat()));
        assert_eq!((&error["kind"], &error["applied"]), (&json!("not_yet"), &json!(false)));
        let words = "this release has no feed of all events on Cassandra yet";
        assert!(error.to_string().contains(words), "{error}");
    }
}
