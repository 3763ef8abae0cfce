//! `helenus versions`, on both backends: what it prints, and how it ends.

use std::path::Path;

use serde_json::{Value, json};

use crate::{fed, helenus, run};

const SCHEMA: &str = "CREATE TABLE features (id int PRIMARY KEY, name text)";

struct Shop<'a> {
    folder: &'a Path,
    store: &'a str,
    table: &'a str,
}

impl Shop<'_> {
    fn run(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let fixed = ["--json", "versions", "--store", self.store];
        let (code, out, err) = run(self.folder, &[&fixed, arguments].concat());
        let text = if code == Some(0) || err.is_empty() { out } else { err };
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn publish(
        &self,
        run: &str,
        data_ts: &str,
        rows: &[(i32, &str)],
        more: &[&str],
    ) -> (Option<i32>, Value) {
        let mut text = String::from("id,name\n");
        rows.iter().for_each(|(id, name)| text.push_str(&format!("{id},{name}\n")));
        std::fs::write(self.folder.join(format!("{run}.csv")), text).unwrap();
        std::fs::write(self.folder.join("schema.cql"), SCHEMA).unwrap();
        let file = format!("{run}.csv");
        let fixed = ["publish", "--table", self.table, "--data-ts", data_ts, "--run-id", run];
        self.run(&[&fixed, more, &["--schema", "schema.cql", &file]].concat())
    }

    fn names(&self) -> String {
        let query = format!("SELECT name FROM {} WHERE id = 1", self.table);
        let (code, row) = self.run(&["query", &query]);
        assert_eq!(code, Some(0), "{row}");
        row["name"].as_str().unwrap_or_default().to_owned()
    }
}

/// Three days, a late job, a bad file, a rollback.
fn a_day_of_features(store: &str, table: &str) {
    let dir = tempfile::tempdir().unwrap();
    let shop = Shop { folder: dir.path(), store, table };
    let (code, first) = shop.publish("run_1", "1000", &[(1, "one"), (2, "one")], &[]);
    assert_eq!(code, Some(0), "{first}");
    for (field, expected) in [
        ("run_id", "run_1".into()),
        ("version_name", "features_v1".into()),
        ("status", "COMPLETED".into()),
        ("routed", true.into()),
        ("rows", 2.into()),
        ("bad_rows", Value::from(0)),
    ] {
        assert_eq!(first[field], expected, "{first}");
    }
    assert!(first["seconds"].is_number() && first["checks"][0]["ok"] == true, "{first}");
    shop.publish("run_2", "2000", &[(1, "two"), (2, "two")], &[]);
    assert_eq!(shop.names(), "two");
    let (code, late) = shop.publish("run_0", "500", &[(1, "late")], &["--keep", "0"]);
    assert_eq!((code, &late["routed"]), (Some(0), &Value::from(false)));
    let (code, vetoed) = shop.publish("run_3", "3000", &[(1, "bad")], &["--max-drop", "20%"]);
    assert_eq!((code, &vetoed["status"]), (Some(1), &"PENDING".into()), "{vetoed}");
    assert_eq!(shop.names(), "two", "readers notice nothing");
    let (code, _) = shop.publish("run_4", "4000", &[(1, "four"), (2, "four")], &["--keep", "0"]);
    assert_eq!((code, shop.names().as_str()), (Some(0), "four"));
    let (code, back) = shop.run(&["rollback", "--table", table]);
    assert_eq!((code, &back["routed"]), (Some(0), &"features_v2".into()), "{back}");
    assert_eq!(shop.names(), "two");
    let (code, included) = shop.run(&["include", "--table", table, "features_v5"]);
    assert_eq!((code, &included["routed"]), (Some(0), &"features_v5".into()), "{included}");
    let (code, pinned) = shop.run(&["pin", "--table", table, "features_v2"]);
    assert_eq!((code, &pinned["pinned"]), (Some(0), &true.into()), "{pinned}");
    let (_, list) = shop.run(&["list", "--table", table]);
    let rows: Vec<&Value> = list.as_array().unwrap().iter().collect();
    assert_eq!(rows.len(), 5, "{list}");
    let second = rows.iter().find(|row| row["run_id"] == "run_2").unwrap();
    assert_eq!((&second["pinned"], &second["routed"]), (&true.into(), &true.into()), "{list}");
    assert_eq!(second["data_ts"], "1970-01-01T00:00:02Z");
    assert_eq!(shop.run(&["unpin", "--table", table]).0, Some(0));
    assert_eq!(shop.names(), "four");
    let recycle = ["recycle", "--table", table, "--keep", "1", "--drain", "0s"];
    let (code, would) = shop.run(&[&recycle[..], &["--dry-run"]].concat());
    assert_eq!(code, Some(0), "{would}");
    let (code, gone) = shop.run(&recycle);
    assert_eq!(code, Some(0), "{gone}");
    let names = |list: &Value| -> Vec<String> {
        let mut names: Vec<String> =
            list.as_array().unwrap().iter().map(|row| row["version_name"].to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&gone), names(&would));
    assert_eq!(names(&gone).len(), 4, "three old ones and the vetoed one: {gone}");
    assert_eq!(shop.names(), "four");
    let (_, shown) = shop.run(&["show", "--table", table]);
    assert_eq!((&shown["run_id"], &shown["rows"]), (&"run_4".into(), &2.into()), "{shown}");
    let (code, error) = shop.run(&["pin", "--table", table, "features_v1"]);
    assert_eq!((code, &error["error"]["kind"]), (Some(1), &"wrong_status".into()), "{error}");
}

#[test]
fn a_file_has_a_day_of_features() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("store.db").display());
    a_day_of_features(&store, "shop.features");
}

#[cfg(feature = "service-tests")]
#[test]
fn a_cluster_has_a_day_of_features() {
    let node = helenus_testkit::services::Registry::new().cassandra().unwrap();
    // Dropped by whoever takes the services down; the command line cannot drop it.
    let keyspace = format!("cli_versions_{}", std::process::id());
    a_day_of_features(&format!("cassandra://{node}/{keyspace}"), &format!("{keyspace}.features"));
}

#[test]
fn standard_input_and_a_dry_run() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "--json",
        "versions",
        "--store",
        "sqlite:s.db",
        "publish",
        "--table",
        "shop.t",
        "--data-ts",
        "2026-11-15",
        "--format",
        "jsonl",
        "--schema",
        "schema.cql",
        "-",
    ];
    std::fs::write(dir.path().join("schema.cql"), "CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    std::fs::write(dir.path().join("rows.jsonl"), "{\"id\": 1}\n{\"id\": 2}\n").unwrap();
    let input = std::fs::File::open(dir.path().join("rows.jsonl")).unwrap();
    let output = helenus(dir.path(), &arguments).stdin(input).output().unwrap();
    let published: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &published["rows"]), (Some(0), &2.into()));
    let dry = [
        "--json",
        "versions",
        "--store",
        "sqlite:s.db",
        "publish",
        "--table",
        "shop.u",
        "--data-ts",
        "2026-11-15",
        "--infer",
        "--dry-run",
        "rows.jsonl",
    ];
    let (code, out, _) = run(dir.path(), &dry);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["rows"]), (Some(0), &2.into()));
    assert!(told["schema"].as_str().unwrap().contains("id bigint"), "{told}");
}

#[test]
fn a_schema_is_inferred_from_the_first_lines_of_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let fixed = ["versions", "--store", "sqlite:s.db", "publish", "--table", "shop.t"];
    let own = ["--data-ts", "2026-11-15", "--infer", "--key", "id"];
    let publish =
        |more: &[&str], input: &str| fed(dir.path(), &[&fixed[..], &own, more].concat(), input);
    // More than is looked at before the rows are read: none is lost between the two.
    let mut text = String::from("id,name\n");
    for id in 0..4_000 {
        text.push_str(&format!("{id},{}\n", "n".repeat(500)));
    }
    let (code, out, err) = publish(&["--dry-run", "-"], &text);
    assert_eq!((code, out.contains("4000 rows, 0 bad")), (Some(0), true), "{out}{err}");
    let (code, out, err) = publish(&["-"], &text);
    assert_eq!(code, Some(0), "{err}");
    let create = "CREATE TABLE shop.t (id bigint, name text, PRIMARY KEY ((id)));";
    assert!(out.contains(create) && out.contains("4000"), "{out}");
    let (code, _, err) = publish(&["-", "-"], &text);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("standard input can be read once, and is named twice"), "{err}");
    let (code, _, err) = publish(&["-"], "");
    assert_eq!(code, Some(1), "{err}");
}

#[test]
fn bad_rows_are_where_it_says_and_readable() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.cql"), SCHEMA).unwrap();
    std::fs::write(dir.path().join("f.csv"), "id,name\n1,one\nx,two\n").unwrap();
    let words = ["versions", "--store", "sqlite:s.db", "publish", "--table", "shop.t"];
    let own = ["--data-ts", "1", "--run-id", "r", "--schema", "s.cql", "f.csv"];
    let (code, out, err) = run(dir.path(), &[&words[..], &own].concat());
    assert_eq!((code, err.as_str()), (Some(1), ""), "{out}");
    assert!(out.ends_with("bad rows, each with its place and reason: r.bad.jsonl\n"), "{out}");
    let report = std::fs::read_to_string(dir.path().join("r.bad.jsonl")).unwrap();
    let report: Value = serde_json::from_str(report.trim()).unwrap();
    assert_eq!((&report["line"], &report["record"]), (&json!(3), &json!("x, two")), "{report}");
}

#[test]
fn a_run_that_is_done_takes_no_other_source() {
    let dir = tempfile::tempdir().unwrap();
    let shop = Shop { folder: dir.path(), store: "sqlite:s.db", table: "shop.t" };
    assert_eq!(shop.publish("a", "1000", &[(1, "one")], &[]).0, Some(0));
    let words = ["publish", "--table", "shop.t", "--data-ts", "1000", "--run-id", "a"];
    let (code, again) = shop.run(&[&words[..], &["a.csv"]].concat());
    assert_eq!((code, &again["rows"]), (Some(0), &json!(1)), "{again}");
    assert!(again["note"].as_str().unwrap().contains("published before"), "{again}");
    std::fs::write(dir.path().join("b.csv"), "id,name\n1,one\n2,two\n").unwrap();
    let (code, other) = shop.run(&[&words[..], &["b.csv"]].concat());
    assert_eq!((code, &other["error"]["kind"]), (Some(1), &json!("source_changed")), "{other}");
    std::fs::remove_file(dir.path().join("a.csv")).unwrap();
    assert_eq!(shop.run(&[&words[..], &["a.csv"]].concat()).0, Some(0), "its source may be gone");
}

#[test]
fn only_a_run_that_began_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let fixed = ["versions", "--store", "sqlite:s.db", "publish", "--table", "shop.t"];
    let own = ["--data-ts", "1", "--infer"];
    let (code, out, err) = run(dir.path(), &[&fixed[..], &own, &["absent.csv"]].concat());
    assert_eq!((code, out.as_str()), (Some(1), ""), "there is nothing to resume");
    assert!(err.contains("cannot read absent.csv"), "{err}");
    std::fs::write(dir.path().join("bad.csv"), "id,n\n1,2\n").unwrap();
    std::fs::write(dir.path().join("schema.cql"), "CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    let begun = ["--data-ts", "1", "--schema", "schema.cql", "--run-id", "begun", "bad.csv"];
    let (code, out, err) = run(dir.path(), &[&fixed[..], &begun].concat());
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(out, "to resume, run the same with --resume begun\n", "{err}");
}

#[test]
fn who_overrides_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let shop = Shop { folder: dir.path(), store: "sqlite:s.db", table: "shop.features" };
    let twice = [(1, "one"), (1, "two")];
    let (code, vetoed) = shop.publish("a", "1000", &twice, &[]);
    assert_eq!(code, Some(1), "{vetoed}");
    let (code, forced) = shop.publish("b", "1000", &twice, &["--force"]);
    assert_eq!((code, &forced["status"]), (Some(0), &"COMPLETED".into()), "{forced}");
    let (_, shown) = shop.run(&["show", "--table", "shop.features", "b"]);
    assert_eq!(shown["forced"]["by"], shown["who"], "{shown}");
    assert!(!shown["who"].as_str().unwrap().is_empty(), "{shown}");
    let overridden = shown["forced"]["checks"].as_array().unwrap();
    assert!(overridden.contains(&"unique_keys".into()), "{shown}");
}

#[test]
fn wrong_arguments_end_with_2() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [
        ["versions", "list", "--table", "features"].as_slice(),
        &["versions", "publish", "--table", "a.b", "--data-ts", "yesterday", "x.csv"],
        &["versions", "publish", "--table", "a.b", "--data-ts", "1", "--max-drop", "x", "x.csv"],
        &["versions", "recycle", "--table", "a.b", "--drain", "soon"],
        &["versions", "recycle", "--table", "a.b", "--drain", "0 readers"],
    ] {
        assert_eq!(run(dir.path(), arguments).0, Some(2), "{arguments:?}");
    }
}

/// A publisher killed at some point of its run; readers, and whoever goes on with it.
fn survives_kills(store: &str, table: &str, kills: u64) {
    let dir = tempfile::tempdir().unwrap();
    let shop = Shop { folder: dir.path(), store, table };
    let rows = |day: u64| -> Vec<(i32, String)> {
        (1..=1_500).map(|id| (id, format!("day {day}"))).collect()
    };
    let base: Vec<(i32, &str)> = vec![(1, "day 0")];
    assert_eq!(shop.publish("base", "1", &base, &[]).0, Some(0));
    for kill in 1..=kills {
        let (run_id, data_ts) = (format!("run_{kill}"), (kill * 1_000).to_string());
        let mut text = String::from("id,name\n");
        rows(kill).iter().for_each(|(id, name)| text.push_str(&format!("{id},{name}\n")));
        let file = format!("{run_id}.csv");
        std::fs::write(dir.path().join(&file), text).unwrap();
        let publish = |way: &str, more: &[&str]| {
            let fixed = ["--json", "versions", "--store", store, "publish", "--table", table];
            let own = ["--data-ts", &data_ts, way, &run_id, "--schema", "schema.cql", &file];
            helenus(dir.path(), &[&fixed[..], more, &own].concat())
        };
        let mut child = publish("--run-id", &["--rate", "1000"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Anywhere from before it is connected to after it is done: that is what is tried.
        std::thread::sleep(std::time::Duration::from_millis(kill * 7_919 % 2_300));
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = shop.names();
        let before = format!("day {}", kill - 1);
        assert!(seen == before || seen == format!("day {kill}"), "{seen} after {before}");
        let output = publish("--resume", &[]).output().unwrap();
        let resumed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&resumed["status"], &resumed["rows"]), (&"COMPLETED".into(), &1_500.into()));
        let query = format!("SELECT id, name FROM {table}");
        let (_, out, _) = run(dir.path(), &["versions", "--store", store, "query", &query]);
        let mut found: Vec<(i64, String)> = out
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|row| (row["id"].as_i64().unwrap(), row["name"].as_str().unwrap().to_owned()))
            .collect();
        found.sort();
        let expected: Vec<(i64, String)> =
            rows(kill).into_iter().map(|(id, name)| (i64::from(id), name)).collect();
        assert_eq!(found, expected, "as an undisturbed run gives it");
    }
    let recycle = ["recycle", "--table", table, "--keep", "1", "--drain", "0s"];
    let (code, gone) = shop.run(&recycle);
    assert_eq!(code, Some(0), "{gone}");
    let (_, list) = shop.run(&["list", "--table", table]);
    let left = list.as_array().unwrap().iter().filter(|row| row["status"] != "DELETED").count();
    assert_eq!(left, 1, "{list}");
    println!("proof: {kills} publishers killed, readers unaffected, each run resumed and complete");
}

#[test]
fn proof_killed_publishers_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("store.db").display());
    survives_kills(&store, "shop.features", kills());
}

#[cfg(feature = "service-tests")]
#[test]
fn proof_killed_publishers_of_a_cluster() {
    let node = helenus_testkit::services::Registry::new().cassandra().unwrap();
    let keyspace = format!("cli_kills_{}", std::process::id());
    let store = format!("cassandra://{node}/{keyspace}");
    survives_kills(&store, &format!("{keyspace}.features"), kills());
}

fn kills() -> u64 {
    if std::env::var_os("HELENUS_PROOF").is_some_and(|size| size == "full") { 30 } else { 2 }
}
