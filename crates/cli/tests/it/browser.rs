//! The live page in a real browser.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use helenus_testkit::services::chromium;

use super::helenus;

#[test]
fn the_live_page_shows_the_demo_as_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo =
        helenus(dir.path(), &["demo", "--seconds", "20"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let url = first.strip_prefix("live page").unwrap().trim();

    let dumped = Command::new(chromium().unwrap())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", dir.path().join("browser").display()))
        // Long enough for some events to arrive and redraw the page.
        .args(["--timeout=3000", "--dump-dom", url])
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&dumped.stdout).into_owned();
    demo.kill().unwrap();
    demo.wait().unwrap();
    assert!(page.contains("messages staged"), "{page}");
    assert!(page.contains("<polyline"), "the chart was drawn by an event: {page}");
    assert!(page.contains("running"), "{page}");
}
