//! What the engine costs over bare SQLite, and what a durable write costs over one disk sync.
//!
//! `cargo xtask bench sqlite`. Figures are printed, never asserted: compare the ratios, which come
//! from one run on one machine.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures and prints"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use helenus_sqlite::rusqlite::Connection;
use helenus_sqlite::{Component, Engine, Error, Options};
use tokio::task::JoinSet;

static EVENTS: Component = Component { name: "events", migrations: &[TABLE] };
const TABLE: &str = "CREATE TABLE events (id INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT";
const INSERT: &str = "INSERT INTO events (payload) VALUES (?1)";
const PAYLOAD: [u8; 256] = [7; 256];
const ROWS: usize = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir_in(".")?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("256 B payloads, synchronous=FULL, one file on {}", dir.path().display());

    let sync = median((0..200).map(|_| sync_once(dir.path())).collect::<Result<Vec<_>, _>>()?);
    println!("one append and fsync of 4 KiB          p50 {:>8.1} µs", micros(sync));

    let mut bare = Vec::new();
    let mut engine = Vec::new();
    for round in 0..3 {
        bare.push(bare_inserts(&dir.path().join(format!("bare-{round}.db")))?);
        let path = dir.path().join(format!("engine-{round}.db"));
        engine.push(runtime.block_on(engine_inserts(&path, 1_024))?);
    }
    let (bare, in_flight) = (median_rate(bare), median_rate(engine));
    println!("bare loop, 1,000 rows a transaction        {bare:>10.0} rows/s");
    println!(
        "engine, 1,024 writes in flight             {in_flight:>10.0} writes/s   {:.0} % of the bare loop",
        100.0 * in_flight / bare
    );
    for writers in [1, 32, 256] {
        let path = dir.path().join(format!("writers-{writers}.db"));
        let rate = runtime.block_on(engine_inserts(&path, writers))?;
        println!("engine, {writers:>5} writes in flight             {rate:>10.0} writes/s");
    }
    let path = dir.path().join("single.db");
    let single = runtime.block_on(single_writer(&path))?;
    println!(
        "engine, one writer                     p50 {:>8.1} µs   {:.2} fsyncs",
        micros(single),
        single.as_secs_f64() / sync.as_secs_f64()
    );
    Ok(())
}

fn sync_once(dir: &Path) -> std::io::Result<Duration> {
    let mut file = File::options().append(true).create(true).open(dir.join("sync"))?;
    let started = Instant::now();
    file.write_all(&[1; 4096])?;
    file.sync_data()?;
    Ok(started.elapsed())
}

fn bare_inserts(path: &Path) -> Result<f64, Box<dyn std::error::Error>> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(TABLE)?;
    let started = Instant::now();
    for _ in 0..ROWS / 1_000 {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for _ in 0..1_000 {
                insert.execute([PAYLOAD])?;
            }
        }
        transaction.commit()?;
    }
    Ok(ROWS as f64 / started.elapsed().as_secs_f64())
}

async fn engine_inserts(path: &Path, in_flight: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let engine = Engine::open(path, Options::default(), &[&EVENTS]).await?;
    let each = if in_flight == 1 { 2_000 } else { ROWS / in_flight };
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        let engine = engine.clone();
        tasks.spawn(async move {
            for _ in 0..each {
                insert(&engine).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let rate = (each * in_flight) as f64 / started.elapsed().as_secs_f64();
    engine.close().await;
    Ok(rate)
}

async fn single_writer(path: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let engine = Engine::open(path, Options::default(), &[&EVENTS]).await?;
    let mut times = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        insert(&engine).await?;
        times.push(started.elapsed());
    }
    engine.close().await;
    Ok(median(times))
}

async fn insert(engine: &Engine) -> Result<(), Error> {
    engine
        .write(|db| -> Result<(), Error> {
            db.prepare_cached(INSERT)?.execute([PAYLOAD])?;
            Ok(())
        })
        .await
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn median_rate(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
