//! Long streams: how fast they are replayed, and how much memory reading one takes.
//!
//! Memory is measured in a process of its own, which has done nothing else.

use std::process::Command;
use std::time::Instant;

use futures_util::TryStreamExt;
use helenus_model::backend::StoreUrl;
use helenus_model::{Expected, NewEvent, StreamId, Version};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{Append, EventStore, NewSnapshot, ReadEvents, Snapshots};
use helenus_store::sqlite::SqliteStore;
use helenus_testkit::usage::resident_bytes;

use crate::Result;
use crate::measure::{median, millis};
use crate::sqlite::payload;

/// The argument that makes this program the reading process.
pub(crate) const CHILD: &str = "--read-the-long-stream";
const LONG: &str = "long";

/// Appends `count` events to the stream `name`.
pub(crate) async fn fill(
    store: &impl EventStore,
    name: &str,
    count: usize,
    each: usize,
) -> Result<()> {
    let stream = StreamId::new(name)?;
    for _ in 0..count / each {
        let events = vec![NewEvent::new("order.placed", payload()); each];
        store.append(Append::new(stream.clone(), Expected::Any, events)).await?;
    }
    Ok(())
}

/// Events of the stream `name` read in a second.
pub(crate) async fn replay(store: &impl EventStore, name: &str) -> Result<f64> {
    let started = Instant::now();
    let count = read_all(store, ReadEvents::forward(StreamId::new(name)?)).await?;
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

async fn read_all(store: &impl EventStore, read: ReadEvents) -> Result<u32> {
    let mut events = std::pin::pin!(store.read(read));
    let mut count = 0_u32;
    while let Some(event) = events.try_next().await? {
        std::hint::black_box(event);
        count += 1;
    }
    Ok(count)
}

/// Events of a stream that is replayed, and those of them that a snapshot does not cover.
const REPLAYED: usize = 10_000;
const TAIL: usize = 100;

/// Prints what loading an aggregate of many events takes, without a snapshot and with one.
pub(crate) async fn replays(store: &(impl EventStore + Snapshots), rounds: usize) -> Result<()> {
    let stream = StreamId::new("replayed")?;
    fill(store, stream.as_str(), REPLAYED, 500).await?;
    let covered = Version::new((REPLAYED - TAIL) as i64).ok_or("no version")?;
    let snapshot = NewSnapshot::new(stream.clone(), covered, "order", payload());
    store.save_snapshot(snapshot).await?;
    let (mut whole, mut tail) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        read_all(store, ReadEvents::forward(stream.clone())).await?;
        whole.push(millis(started.elapsed()));
        let started = Instant::now();
        let found = store.load_snapshot(&stream, None).await?.ok_or("no snapshot")?;
        let rest = ReadEvents::forward(stream.clone()).starting_at(found.version.next());
        read_all(store, rest).await?;
        tail.push(millis(started.elapsed()));
    }
    let (whole, tail) = (median(whole), median(tail));
    println!(
        "  replay of {REPLAYED} events: {whole:.1} ms; with a snapshot and {TAIL} events after it: {tail:.1} ms"
    );
    Ok(())
}

/// Makes the long stream and prints what reading it takes.
pub(crate) async fn long_stream(
    store: &impl EventStore,
    url: &str,
    count: usize,
    each: usize,
) -> Result<()> {
    fill(store, LONG, count, each).await?;
    let child = Command::new(std::env::current_exe()?).args([CHILD, url]).output()?;
    if !child.status.success() {
        return Err(String::from_utf8_lossy(&child.stderr).into());
    }
    let told = String::from_utf8_lossy(&child.stdout).trim().to_owned();
    println!("  reading {count} events of one stream       {told}");
    Ok(())
}

/// The reading process.
pub(crate) async fn child(url: &str) -> Result<()> {
    match url.parse()? {
        StoreUrl::Sqlite(path) => read(&SqliteStore::open(path, Ports::system()).await?).await,
        StoreUrl::Cassandra(endpoint) => {
            let store = CassandraStore::new(endpoint, Options::default(), Ports::system())?;
            read(&store).await
        }
    }
}

async fn read(store: &impl EventStore) -> Result<()> {
    let stream = StreamId::new(LONG)?;
    // Opens what is opened lazily.
    store.version(&stream).await?;
    let idle = resident_bytes().ok_or("no /proc")?;
    let (mut most, mut count) = (idle, 0_u32);
    let started = Instant::now();
    let mut events = std::pin::pin!(store.read(ReadEvents::forward(stream)));
    while let Some(event) = events.try_next().await? {
        std::hint::black_box(event);
        count += 1;
        if count.is_multiple_of(5_000) {
            most = most.max(resident_bytes().ok_or("no /proc")?);
        }
    }
    let rate = f64::from(count) / started.elapsed().as_secs_f64();
    let above = most.saturating_sub(idle) as f64 / (1024.0 * 1024.0);
    println!("{rate:>10.0} events/s, {above:.1} MiB above idle (target < 64)");
    Ok(())
}
