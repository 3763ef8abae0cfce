//! A feature store over some days: one job is late, one file is bad, one data set is wrong; and whoever
//! reads gets a whole data set, every time.
//!
//! `cargo run --example feature_store_day -- sqlite:features.db`, or `cassandra://127.0.0.1:9042/shop`.

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helenus::versions::{
    CheckOptions, Progress, Publish, Published, RecycleOptions, SchemaFrom, TableName, TableSchema,
};
use helenus::{Ports, Timestamp, Versions};
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USERS: u32 = 500;

#[tokio::main]
async fn main() -> Outcome<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:features.db".to_owned());
    let ports = Ports::system();
    let versions = Versions::open(&url.parse()?, ports.clone()).await?;
    // A table of its own, so that the example can be run again.
    let table = TableName::new("shop", &format!("features_{}", ports.clock.now().as_millis()));
    let store = FeatureStore { versions, table, files: tempfile::tempdir()? };

    println!("day 1: {}", told(&store.publish("day-1", 1, USERS).await?));
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for _ in 0..2 {
        readers.spawn(read(store.versions.clone(), store.table.clone(), Arc::clone(&stop)));
    }
    println!("day 2: {}", told(&store.publish("day-2", 2, USERS).await?));
    println!("day 3: {}", told(&store.publish("day-3", 3, USERS).await?));
    // Another job for day 2 comes after that of day 3. No row expires meanwhile: there is no TTL.
    println!("late:  {}", told(&store.publish("day-2-late", 2, USERS).await?));
    // Half of the users are missing: the checks say no, and readers stay where they are.
    println!("bad:   {}", told(&store.publish("day-4-bad", 4, USERS / 2).await?));
    // Nothing is wrong with this one that a check could see. Somebody sees it.
    println!("day 4: {}", told(&store.publish("day-4", 4, USERS).await?));
    let back = store.versions.rollback(&store.table, None).await?;
    println!("rolled back to {}", back.version_name);
    // The version that was rolled back is excluded, so the next one needs no further step.
    println!("day 5: {}", told(&store.publish("day-5", 5, USERS).await?));
    let drain = Duration::from_secs(2);
    let options = RecycleOptions { keep: 2, drain, ..RecycleOptions::default() };
    let recycled = store.versions.recycle(&store.table, options, &mut |_| ()).await?;
    for gone in recycled {
        println!("{} of {}: {} ({})", gone.version_name, gone.run_id, gone.outcome, gone.reason);
    }

    stop.store(true, Ordering::Relaxed);
    for reader in readers.join_all().await {
        let (reads, days) = reader?;
        let days = days.join(", ");
        println!("a reader: {reads} reads, none failed, each of one whole day: {days}");
    }
    store.versions.close().await;
    Ok(())
}

struct FeatureStore {
    versions: Versions,
    table: TableName,
    files: tempfile::TempDir,
}

impl FeatureStore {
    async fn publish(&self, run_id: &str, day: i64, users: u32) -> Outcome<Published> {
        let file = features(self.files.path(), run_id, day, users)?;
        let schema = "CREATE TABLE features (user int PRIMARY KEY, day int, score double)";
        let data_ts = Timestamp::from_millis(day * 24 * 60 * 60 * 1_000);
        let run = Publish {
            schema: SchemaFrom::Given(TableSchema::parse(schema)?),
            checks: CheckOptions { max_drop: Some(0.2), ..CheckOptions::default() },
            who: "the daily job".to_owned(),
            ..Publish::new(self.table.clone(), data_ts, run_id, vec![file])
        };
        Ok(self.versions.publish(run, &Progress::default()).await?)
    }
}

/// The file that the job of a day writes.
fn features(folder: &Path, run_id: &str, day: i64, users: u32) -> Outcome<PathBuf> {
    let mut text = String::from("user,day,score\n");
    for user in 0..users {
        text.push_str(&format!("{user},{day},0.{user}\n"));
    }
    let path = folder.join(format!("{run_id}.csv"));
    std::fs::write(&path, text)?;
    Ok(path)
}

fn told(published: &Published) -> String {
    let Published { version_name, status, rows, routed, note, .. } = published;
    let what = format!("{version_name} is {status} with {rows} rows");
    match note {
        Some(note) => format!("{what}; {note}"),
        None => format!("{what}; readers get it: {routed}"),
    }
}

/// Reads until it is stopped: how often, and which days it met.
async fn read(
    versions: Versions,
    table: TableName,
    stop: Arc<AtomicBool>,
) -> Outcome<(u32, Vec<String>)> {
    let (mut reads, mut days) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let rows = versions.query(&format!("SELECT day FROM {table}")).await?;
        let day = rows.first().ok_or("a reader met an empty table")?.clone();
        if rows.len() != USERS as usize || rows.iter().any(|row| *row != day) {
            return Err(format!("a reader met {} rows, not one whole day", rows.len()).into());
        }
        reads += 1;
        let day = day.trim_matches(|sign: char| !sign.is_ascii_digit());
        if days.last().is_none_or(|last| last != day) {
            days.push(day.to_owned());
        }
    }
    Ok((reads, days))
}
