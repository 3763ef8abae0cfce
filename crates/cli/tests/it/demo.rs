//! The demo: it ends by itself and says what it proved.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{helenus, run};

#[test]
fn the_demo_passes_and_says_what_it_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(dir.path(), &["demo", "--seconds", "1"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("checks: 16 ok, 0 failed\n"), "{out}");
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

/// A demo that has begun, its temporary files in `folder`, and what it printed first.
fn begun(folder: &Path, seconds: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut demo = helenus(folder, &["demo", "--seconds", seconds])
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("live page"), "{line}");
    (demo, stdout)
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn an_interrupted_demo_says_so_and_leaves_nothing_behind() {
    for (signal, name) in [("TERM", "SIGTERM"), ("INT", "Ctrl-C"), ("HUP", "SIGHUP")] {
        let dir = tempfile::tempdir().unwrap();
        let (mut demo, _stdout) = begun(dir.path(), "60");
        let mut kill = Command::new("kill");
        kill.args([format!("-{signal}"), demo.id().to_string()]);
        assert!(kill.status().unwrap().success());
        assert_eq!(demo.wait().unwrap().code(), Some(1));
        let mut said = String::new();
        demo.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains(&format!("ended by {name}")), "{said}");
        assert!(is_empty(dir.path()), "{signal} left files behind");
    }
}

#[test]
fn a_demo_whose_reader_has_seen_enough_still_checks_and_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let (mut demo, stdout) = begun(dir.path(), "1");
    drop(stdout);
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(is_empty(dir.path()));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = helenus(dir.path(), &["man"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("could not write the output"), "{said}");
}
