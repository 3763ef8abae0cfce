//! The event store in a file beside bare SQLite: the same rows, the same durability, nobody to
//! answer.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_model::{Expected, NewEvent, Payload, StreamId};
use helenus_store::Ports;
use helenus_store::contract::{Append, EventStore};
use helenus_store::sqlite::SqliteStore;
use rusqlite::{Connection, params};
use tokio::runtime::Runtime;

use crate::measure::{PAYLOAD_BYTES, median, micros, of_times, timed};
use crate::memory::{fill, long_stream, replay, replays};
use crate::{Result, Size};

const IN_FLIGHT: usize = 1_024;

/// A payload as applications have it: JSON.
pub(crate) fn payload() -> Payload {
    let text = format!("{{\"note\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 11));
    Payload { content_type: "application/json".to_owned(), bytes: text.into_bytes() }
}

pub(crate) fn run(runtime: &Runtime, size: Size) -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    println!(
        "SQLite, {PAYLOAD_BYTES} B payloads, synchronous=FULL, durable before acknowledgement"
    );
    appends(runtime, size, dir.path())?;
    single_writer(runtime, dir.path())?;
    reads(runtime, size, dir.path())?;
    let path = dir.path().join("long.db");
    let url = format!("sqlite:{}", path.display());
    runtime.block_on(async {
        let store = SqliteStore::open(&path, Ports::system()).await?;
        long_stream(&store, &url, size.long.0, 1_000).await
    })
}

/// Many appends at once against loops that have the file to themselves. All write the same rows in
/// the same order: streams are far apart in every index, as those of concurrent callers are.
fn appends(runtime: &Runtime, size: Size, dir: &Path) -> Result<()> {
    let count = size.embedded_appends;
    let (mut small, mut bare_rows, mut appended) = (vec![], vec![], vec![]);
    for round in 0..size.rounds {
        let path = |name: &str| dir.join(format!("{name}-{round}.db"));
        small.push(bare(&path("small"), count, Bare::OneColumn)?[0]);
        bare_rows.push(bare(&path("rows"), count, Bare::EventRows)?);
        appended.push(runtime.block_on(store_appends(&path("store"), count))?);
    }
    let small = median(small);
    println!("  bare loop, one column, 1,000 a commit       {small:>9.0} rows/s");
    for (pass, what) in ["new streams", "existing streams"].into_iter().enumerate() {
        let of = |runs: &[[f64; 2]]| median(runs.iter().map(|rates| rates[pass]));
        let (bare, rate) = (of(&bare_rows), of(&appended));
        println!("  {what}:");
        println!("    bare loop, an event's rows, 1,000 a commit {bare:>8.0} events/s");
        println!(
            "    appends, {IN_FLIGHT} in flight                   {rate:>8.0} events/s   {:.0} % of the bare loop (target 70)",
            100.0 * rate / bare,
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Bare {
    /// A number and the payload.
    OneColumn,
    /// What an append of one event must leave behind: the event with its indices, and the head.
    EventRows,
}

/// Rows a second, of two passes over the same streams.
fn bare(path: &Path, count: usize, kind: Bare) -> Result<[f64; 2]> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    match kind {
        Bare::OneColumn => connection.execute_batch(
            "CREATE TABLE rows (id INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT",
        )?,
        Bare::EventRows => {
            connection.execute_batch(include_str!("../../src/sqlite/002-events.sql"))?;
        }
    }
    let payload = payload();
    let mut rates = [0.0; 2];
    for (pass, rate) in rates.iter_mut().enumerate() {
        let started = Instant::now();
        for thousand in 0..count / 1_000 {
            let transaction = connection.transaction()?;
            for row in 0..1_000 {
                let number = thousand * 1_000 + row;
                match kind {
                    Bare::OneColumn => one_column(&transaction, &payload)?,
                    Bare::EventRows => event_rows(&transaction, number, pass, &payload)?,
                }
            }
            transaction.commit()?;
        }
        *rate = count as f64 / started.elapsed().as_secs_f64();
    }
    Ok(rates)
}

fn one_column(db: &Connection, payload: &Payload) -> Result<()> {
    db.prepare_cached("INSERT INTO rows (payload) VALUES (?1)")?.execute([&payload.bytes])?;
    Ok(())
}

fn event_rows(db: &Connection, number: usize, pass: usize, payload: &Payload) -> Result<()> {
    let stream = stream_name(number % IN_FLIGHT, number / IN_FLIGHT);
    let id = ((pass << 32 | number) as u128).to_be_bytes();
    let version = i64::try_from(pass)? + 1;
    db.prepare_cached(
        "INSERT INTO helenus_event_heads (stream_id, head_version) VALUES (?1, ?2)
         ON CONFLICT (stream_id) DO UPDATE SET head_version = excluded.head_version",
    )?
    .execute(params![stream, version])?;
    db.prepare_cached(
        "INSERT INTO helenus_event_streams
             (stream_id, stream_version, event_type, payload, occurred_at_utc, appended_at_utc,
              event_id, schema_version, content_type, operation_id, operation_count, content_hash)
         VALUES (?1, ?2, 'order.placed', ?3, 1, 1, ?4, 1, ?5, ?4, 1, ?4)",
    )?
    .execute(params![stream, version, payload.bytes, id, payload.content_type])?;
    Ok(())
}

fn stream_name(worker: usize, turn: usize) -> String {
    format!("order-{worker}-{turn}")
}

/// One event to each of `count` new streams, then a second one to each.
async fn store_appends(path: &Path, count: usize) -> Result<[f64; 2]> {
    let store = SqliteStore::open(path, Ports::system()).await?;
    let own = std::process::id();
    let mut rates = [0.0; 2];
    for (expected, rate) in [Expected::NoStream, Expected::Exists].into_iter().zip(&mut rates) {
        let store = store.clone();
        let payload = Arc::new(payload());
        let run = timed(count, IN_FLIGHT, own, move |worker, turn| {
            let (store, payload) = (store.clone(), Arc::clone(&payload));
            async move {
                let stream = StreamId::new(stream_name(worker, turn))?;
                let event = NewEvent::new("order.placed", (*payload).clone());
                store.append(Append::new(stream, expected, vec![event])).await?;
                Ok(())
            }
        });
        *rate = run.await?.per_second;
    }
    store.engine().close().await;
    Ok(rates)
}

fn single_writer(runtime: &Runtime, dir: &Path) -> Result<()> {
    let (mut syncs, mut appends) = (Vec::new(), Vec::new());
    let mut file = File::options().append(true).create(true).open(dir.join("sync"))?;
    let store = runtime.block_on(SqliteStore::open(dir.join("one.db"), Ports::system()))?;
    for turn in 0..500 {
        let started = Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        syncs.push(started.elapsed());
        let stream = StreamId::new(format!("order-{turn}"))?;
        let event = NewEvent::new("order.placed", payload());
        let started = Instant::now();
        runtime.block_on(store.append(Append::new(stream, Expected::NoStream, vec![event])))?;
        appends.push(started.elapsed());
    }
    let p50 = |times: Vec<Duration>| of_times(times, 0.5);
    let (sync, append) = (p50(syncs), p50(appends));
    println!(
        "  one writer, p50 {:.0} µs; one write and fsync of 4 KiB {:.0} µs: {:.2} fsyncs (target 1.5 from 200 µs on)",
        micros(append),
        micros(sync),
        append.as_secs_f64() / sync.as_secs_f64()
    );
    Ok(())
}

/// Every column of one stream's events, as a loop over bare rows and as a reader gets them.
fn reads(runtime: &Runtime, size: Size, dir: &Path) -> Result<()> {
    const EVENTS: usize = 100_000;
    let path = dir.join("reads.db");
    let store = runtime.block_on(SqliteStore::open(&path, Ports::system()))?;
    runtime.block_on(fill(&store, "order", EVENTS, 1_000))?;
    let connection = Connection::open(&path)?;
    let (mut bare, mut read) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        bare.push(scan(&connection, EVENTS)?);
        read.push(runtime.block_on(replay(&store, "order"))?);
    }
    let (bare, read) = (median(bare), median(read));
    println!("  bare scan of the same columns              {bare:>10.0} events/s");
    println!(
        "  reading a stream                           {read:>10.0} events/s   {:.0} % of the bare scan (target 25)",
        100.0 * read / bare
    );
    runtime.block_on(replays(&store, size.rounds))
}

fn scan(connection: &Connection, count: usize) -> Result<f64> {
    let started = Instant::now();
    let mut query = connection.prepare_cached(
        "SELECT stream_version, event_type, payload, occurred_at_utc, appended_at_utc, event_id,
                schema_version, content_type, correlation_id, causation_id, tenant_id,
                metadata_json, operation_id
         FROM helenus_event_streams WHERE stream_id = 'order' ORDER BY stream_version",
    )?;
    let mut rows = query.query([])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        for column in 0..13 {
            std::hint::black_box(row.get_ref(column)?);
        }
        found += 1;
    }
    assert_eq!(found, count, "the whole stream");
    Ok(count as f64 / started.elapsed().as_secs_f64())
}
