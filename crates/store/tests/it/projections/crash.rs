//! `kill -9` while a projection follows and is rebuilt: its tables are the fold of the feed.
//!
//! The test runs itself as a child that appends, follows the feed and rebuilds without end; the
//! parent kills it at a random moment, reopens the file and compares every build with the fold of
//! the feed up to that build's checkpoint.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use helenus_model::{Random, SeededRandom, SystemRandom};
use helenus_store::Ports;
use helenus_store::contract::Subscriptions;
use helenus_store::sqlite::{Projector, ProjectorOptions, SqliteStore};
use helenus_store::subscription::ConsumerOptions;
use tokio::task::JoinSet;

use super::{Digests, append, fold, head, is_whole, leftovers, name, never, options, rows};

/// One that takes large steps: rebuilds are to end before the child does.
fn projector(store: &SqliteStore) -> Projector<Digests> {
    let options = options();
    let consumer = ConsumerOptions { batch: 200, ..options.consumer };
    let options = ProjectorOptions { consumer, ..options };
    Projector::new(store.clone(), Digests::default()).with(options)
}

const CHILD: &str = "HELENUS_PROJECTION_CHILD";

#[test]
fn crash_leaves_a_projection_equal_to_the_fold_of_its_feed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        runtime.block_on(work_for_ever(Path::new(&path)));
        return;
    }
    let full_size = std::env::var_os("HELENUS_PROOF").is_some();
    let kills = if full_size { 100 } else { 8 };
    let seed = SystemRandom.next_u64();
    println!("seed {seed}");
    let random = SeededRandom::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let (mut compared, mut rebuilds) = (0, 0);
    for round in 0..kills {
        // Every other child lives until it has swapped, so that kills come around swaps too.
        let swaps = if round % 2 == 0 { 0 } else { 1 + random.below(3) };
        rebuilds += run_and_kill(&path, swaps, 1 + random.below(150));
        compared += runtime.block_on(compare(&path, round));
    }
    let events = runtime.block_on(finish(&path));
    println!(
        "proof: projection, {kills} kills (SIGKILL) while appending, following and rebuilding: \
         {events} events, {rebuilds} rebuilds swapped, {compared} builds compared with the fold of \
         their feed, 0 differed"
    );
}

/// Starts the child on `path`, kills it once it has ended `swaps` rebuilds and has then said `after`
/// lines; how many rebuilds it ended.
fn run_and_kill(path: &Path, swaps: u64, after: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["projections::crash::crash_leaves_a_projection_equal_to_the_fold_of_its_feed"])
        .args(["--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut said, mut rebuilds) = (0, 0);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        let is_rebuilt = line == "rebuilt.";
        said += u64::from(rebuilds >= swaps && (is_rebuilt || line == "appended."));
        rebuilds += u64::from(is_rebuilt);
        if said == after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(said >= after, "the child ended by itself after {said} lines");
    rebuilds
}

async fn work_for_ever(path: &Path) {
    let store = SqliteStore::open(path, Ports::system()).await.unwrap();
    let mut tasks = JoinSet::new();
    let say = |word: &str| writeln!(std::io::stdout().lock(), "{word}").unwrap();
    let following = projector(&store);
    tasks.spawn(async move { following.run(&never()).await.unwrap() });
    let writing = store.clone();
    tasks.spawn(async move {
        for turn in 0_u64.. {
            append(&writing, &format!("s{}", turn % 5), &["plain", "plain", "plain"]).await;
            say("appended.");
        }
    });
    tasks.spawn(async move {
        loop {
            // The killed one's lease has to expire before its rebuild can be taken up.
            match projector(&store).rebuild(&never()).await {
                Ok(_) => say("rebuilt."),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    });
    tasks.join_all().await;
}

/// Compares every build with the fold of the feed up to its checkpoint; how many there were.
async fn compare(path: &Path, round: u64) -> usize {
    let store = SqliteStore::open(path, Ports::system()).await.unwrap();
    let all = store.subscriptions().await.unwrap();
    for status in &all {
        let build = status.projection.as_ref().unwrap();
        let through = status.lanes[0].position.as_str().parse().unwrap();
        let table = format!("digests__g{}", build.generation);
        let (found, fold) = (rows(&store, &table).await, fold(&store, through).await);
        assert_eq!(found, fold, "round {round}, {table} at {through}");
    }
    // A table, an index, and the view of the live one.
    let things = i64::try_from(all.len()).unwrap() * 2 + i64::from(!all.is_empty());
    assert_eq!(leftovers(&store).await, things, "round {round}");
    store.engine().close().await;
    all.len()
}

/// Lets the projection catch up, and compares it with the whole feed.
async fn finish(path: &Path) -> i64 {
    let store = SqliteStore::open(path, Ports::system()).await.unwrap();
    let catching_up = async {
        while projector(&store).catch_up(&never()).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), catching_up).await.unwrap();
    is_whole(&store).await;
    assert!(store.unsubscribe(&name()).await.unwrap());
    assert_eq!(leftovers(&store).await, 0);
    head(&store).await
}
