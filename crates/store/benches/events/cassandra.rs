//! The event store on a node of its own beside bare lightweight transactions on the same node.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use helenus_model::{Expected, NewEvent, StreamId, Version};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{Append, EventStore};
use helenus_testkit::services::{Instance, Spec};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::measure::{PAYLOAD_BYTES, Run, node_micros, percentile, rate, timed};
use crate::memory::{long_stream, replays};
use crate::node::{Bare, KEYSPACE};
use crate::sqlite::payload;
use crate::{Result, Size};

/// Requests under way at once.
const IN_FLIGHT: usize = 64;

pub(crate) fn run(runtime: &Runtime, size: Size, v1: bool, v2: bool) -> Result<()> {
    let spec = || Spec::cassandra().name("bench");
    let paxos_v2 = || spec().paxos_v2();
    let mut node = Instance::start(if v1 { spec() } else { paxos_v2() })?;
    if v1 {
        println!("Cassandra, {PAYLOAD_BYTES} B payloads, {IN_FLIGHT} in flight, Paxos v1");
        runtime.block_on(measure(&node, size))?;
        runtime.block_on(long(&node, size))?;
    }
    if v2 {
        if v1 {
            node.restart_as(paxos_v2())?;
        }
        println!("Cassandra, {PAYLOAD_BYTES} B payloads, {IN_FLIGHT} in flight, Paxos v2");
        runtime.block_on(measure(&node, size))?;
    }
    Ok(())
}

/// What runs use.
#[derive(Clone)]
struct Subject {
    store: CassandraStore,
    bare: Arc<Bare>,
    pid: u32,
    count: usize,
    payload: Arc<String>,
    next_stream: Arc<AtomicUsize>,
}

async fn open(node: &Instance, size: Size) -> Result<Subject> {
    let bare = Arc::new(Bare::open(&node.endpoint().to_string()).await?);
    let options = Options { keyspace: Some(KEYSPACE.to_owned()), ..Options::default() };
    let session = Arc::clone(&bare.session);
    let store = CassandraStore::with_session(session, options, Ports::system())?;
    let text = String::from_utf8(payload().bytes)?;
    Ok(Subject {
        store,
        bare,
        pid: node.pid().ok_or("the node has no process")?,
        count: size.appends,
        payload: Arc::new(text),
        next_stream: Arc::default(),
    })
}

async fn measure(node: &Instance, size: Size) -> Result<()> {
    let subject = open(node, size).await?;
    // The node compiles what it runs often.
    for _ in 0..2 {
        subject.inserts().await?;
        subject.to_new().await?;
        subject.to_existing(10).await?;
    }
    let (mut bare, mut new, mut one, mut ten) = (vec![], vec![], vec![], vec![]);
    for _ in 0..size.rounds {
        bare.push(subject.inserts().await?);
        new.push(subject.to_new().await?);
        bare.push(subject.inserts().await?);
        one.push(subject.to_existing(1).await?);
        ten.push(subject.to_existing(10).await?);
    }
    line("bare INSERT … IF NOT EXISTS of one row", &bare, "");
    let share = |runs: &[Run], target| {
        format!("{:.0} % of the bare insert (target {target})", 100.0 * rate(runs) / rate(&bare))
    };
    line("1-event appends to new streams", &new, &share(&new, 80));
    line("1-event appends to existing streams", &one, &share(&one, 60));
    let times = 10.0 * rate(&ten) / rate(&one);
    line(
        "10-event appends to existing streams",
        &ten,
        &format!("{times:.1}× the events/s (target 4)"),
    );

    let (mut looped, mut hot) = (vec![], vec![]);
    for round in 0..size.rounds {
        looped.push(subject.looped(round).await?);
        hot.push(subject.hot(round).await?);
    }
    line("one stream, 64 writers, CAS loop", &looped, &latencies(&looped));
    let times = rate(&hot) / rate(&looped);
    let told = format!("{times:.1}× the loop (target 10), {}", latencies(&hot));
    line("one stream, 64 writers, appends", &hot, &told);
    Ok(())
}

fn line(what: &str, runs: &[Run], told: &str) {
    let (rate, cpu) = (rate(runs), node_micros(runs));
    println!("  {what:<38} {rate:>7.0} /s  {cpu:>6.0} µs node CPU  {told}");
}

fn latencies(runs: &[Run]) -> String {
    format!("p50 {:.1} ms, p99 {:.1} ms", percentile(runs, 0.5), percentile(runs, 0.99))
}

/// Replays, and memory of a long read.
async fn long(node: &Instance, size: Size) -> Result<()> {
    let Subject { store, .. } = open(node, size).await?;
    replays(&store, size.rounds).await?;
    let url = format!("cassandra://{}/{KEYSPACE}", node.endpoint());
    long_stream(&store, &url, size.long.1, 500).await
}

impl Subject {
    async fn inserts(&self) -> Result<Run> {
        let subject = self.clone();
        timed(self.count, IN_FLIGHT, self.pid, move |_, _| {
            let subject = subject.clone();
            async move { subject.bare.insert(&subject.payload).await }
        })
        .await
    }

    async fn to_new(&self) -> Result<Run> {
        let subject = self.clone();
        timed(self.count, IN_FLIGHT, self.pid, move |_, _| {
            let subject = subject.clone();
            async move {
                let stream = subject.fresh_stream()?;
                subject.append(stream, Expected::NoStream, 1).await.map(drop)
            }
        })
        .await
    }

    /// Each worker has a stream of its own, which exists, and knows its head.
    async fn to_existing(&self, events: usize) -> Result<Run> {
        let mut streams = Vec::new();
        for _ in 0..IN_FLIGHT {
            let stream = self.fresh_stream()?;
            let head = self.append(stream.clone(), Expected::NoStream, 1).await?;
            streams.push((stream, AtomicI64::new(head.as_i64())));
        }
        let (subject, streams) = (self.clone(), Arc::new(streams));
        timed(self.count, IN_FLIGHT, self.pid, move |worker, _| {
            let (subject, streams) = (subject.clone(), Arc::clone(&streams));
            async move {
                let (stream, head) = &streams[worker];
                let at = Version::new(head.load(Ordering::Relaxed)).ok_or("no head")?;
                let last = subject.append(stream.clone(), Expected::Exact(at), events).await?;
                head.store(last.as_i64(), Ordering::Relaxed);
                Ok(())
            }
        })
        .await
    }

    async fn looped(&self, round: usize) -> Result<Run> {
        let stream = format!("hot-{round}");
        self.bare.start_loop(&stream).await?;
        let known: Vec<Mutex<i64>> = (0..IN_FLIGHT).map(|_| Mutex::new(0)).collect();
        let (subject, known) = (self.clone(), Arc::new(known));
        // Contenders refuse each other: a few hundred take seconds.
        timed(self.count / 4, IN_FLIGHT, self.pid, move |worker, _| {
            let (subject, known, stream) = (subject.clone(), Arc::clone(&known), stream.clone());
            async move {
                let mut known = known[worker].lock().await;
                subject.bare.append_in_loop(&stream, &subject.payload, &mut known).await
            }
        })
        .await
    }

    async fn hot(&self, round: usize) -> Result<Run> {
        let stream = StreamId::new(format!("hot-{round}-{}", self.pid))?;
        let subject = self.clone();
        timed(self.count * 2, IN_FLIGHT, self.pid, move |_, _| {
            let (subject, stream) = (subject.clone(), stream.clone());
            async move { subject.append(stream, Expected::Any, 1).await.map(drop) }
        })
        .await
    }

    fn fresh_stream(&self) -> Result<StreamId> {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        Ok(StreamId::new(format!("order-{}-{number}", self.pid))?)
    }

    async fn append(&self, stream: StreamId, at: Expected, count: usize) -> Result<Version> {
        let event = NewEvent::new("order.placed", payload());
        let appended = self.store.append(Append::new(stream, at, vec![event; count])).await?;
        Ok(appended.last())
    }
}
