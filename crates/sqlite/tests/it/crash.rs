//! `kill -9` while writing: what was acknowledged is there afterwards, and nothing is in halves.
//!
//! The test runs itself as a child that writes pairs from several tasks and prints the id of each
//! acknowledged one; the parent kills it at a random moment, reopens the file and looks.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use helenus_model::{Random, SeededRandom, SystemRandom};
use helenus_sqlite::Error;
use tokio::task::JoinSet;

use super::{insert_pair, open};

const CHILD: &str = "HELENUS_CRASH_CHILD";
const WRITERS: i64 = 16;

#[test]
fn crash_keeps_what_was_acknowledged() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        runtime.block_on(write_for_ever(Path::new(&path)));
        return;
    }
    let full_size = std::env::var_os("HELENUS_PROOF").is_some();
    let kills = if full_size { 100 } else { 10 };
    let seed = SystemRandom.next_u64();
    println!("seed {seed}");
    let random = SeededRandom::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");

    let mut acknowledged = HashSet::new();
    for round in 0..kills {
        let after = 1 + random.below(400);
        acknowledged.extend(run_and_kill(&path, after));
        let stored = runtime.block_on(stored_ids(&path));
        let lost: Vec<_> = acknowledged.difference(&stored).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
    }
    let count = acknowledged.len();
    assert!(count >= kills, "the child wrote next to nothing: {count}");
    println!(
        "proof: embedded engine, {kills} kills (SIGKILL) during {WRITERS} concurrent writers: {count} acknowledged writes, 0 lost, 0 torn"
    );
}

/// Starts the child on `path`, kills it once it has acknowledged `after` writes, and returns them
/// with those it still got out.
fn run_and_kill(path: &Path, after: u64) -> Vec<i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::crash_keeps_what_was_acknowledged", "--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ids = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        let Some(id) = line.strip_prefix("acknowledged ") else { continue };
        // A line cut by the kill does not end in its mark.
        let Some(id) = id.strip_suffix('.') else { continue };
        ids.push(id.parse().unwrap());
        if ids.len() as u64 == after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(ids.len() as u64 >= after, "the child ended by itself after {} writes", ids.len());
    ids
}

async fn write_for_ever(path: &Path) {
    let engine = open(path).await;
    let next: i64 = engine
        .read(|db| -> Result<i64, Error> {
            Ok(db.query_row("SELECT coalesce(max(id), 0) + 1 FROM pairs", [], |row| row.get(0))?)
        })
        .await
        .unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let engine = engine.clone();
        writers.spawn(async move {
            for id in (next + writer..).step_by(usize::try_from(WRITERS).unwrap()) {
                insert_pair(&engine, id).await.unwrap();
                let mut out = std::io::stdout().lock();
                writeln!(out, "acknowledged {id}.").unwrap();
            }
        });
    }
    writers.join_all().await;
}

/// Every id in the file, after checking that each has both halves and the file is sound.
async fn stored_ids(path: &Path) -> HashSet<i64> {
    let engine = open(path).await;
    let (ids, torn, sound) = engine
        .read(|db| -> Result<(HashSet<i64>, i64, String), Error> {
            let ids = db
                .prepare("SELECT DISTINCT id FROM pairs")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let torn = db.query_row(
                "SELECT count(*) FROM (SELECT id FROM pairs GROUP BY id HAVING count(*) <> 2)",
                [],
                |row| row.get(0),
            )?;
            let sound = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            Ok((ids, torn, sound))
        })
        .await
        .unwrap();
    assert_eq!((torn, sound.as_str()), (0, "ok"));
    engine.close().await;
    ids
}
