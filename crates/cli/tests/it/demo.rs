//! The demo: it ends by itself and says what it proved.

use std::net::TcpListener;

use serde_json::Value;

use super::run;

#[test]
fn the_demo_passes_and_says_what_it_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(dir.path(), &["demo", "--seconds", "1"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("checks: 9 ok, 0 failed\n"), "{out}");
    assert!(out.starts_with("live page   http://127.0.0.1:"), "{out}");
}

#[test]
fn the_demo_reports_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = run(dir.path(), &["demo", "--seconds", "1", "--json"]);
    let board: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &board["ended"]), (Some(0), &Value::Bool(true)));
    let checks = board["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["ok"] == true), "{checks:?}");
}

#[test]
fn the_demo_says_so_when_its_port_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, _, err) = run(dir.path(), &["demo", "--port", &port]);
    assert_eq!(code, Some(1));
    assert!(err.contains(&format!("could not listen on 127.0.0.1:{port}")), "{err}");
}

#[test]
fn a_kept_file_takes_a_second_demo() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (code, out, err) = run(dir.path(), &["demo", "--seconds", "1", "--keep", "store.db"]);
        assert_eq!(code, Some(0), "{out}{err}");
    }
}
