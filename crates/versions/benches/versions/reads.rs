//! Reads through versions beside the bare driver: the same session, the same table, alternating.

use std::sync::Arc;
use std::time::Instant;

use helenus_store::Ports;
use helenus_testkit::services::Instance;
use helenus_testkit::usage::processor_time;
use helenus_versions::Progress;
use helenus_versions::cassandra::{REFRESH, RoutedSession, RoutedStatement};
use helenus_versions::publish::publish;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use tokio::task::JoinSet;

use crate::load::{key, write};
use crate::{KEYSPACE, Result, Size, median, run_of, versions};

const ROWS: u64 = 10_000;
const IN_FLIGHT: usize = 32;

/// Either way to read.
#[derive(Clone)]
enum Reader {
    Bare(Arc<Session>, PreparedStatement),
    Routed(RoutedSession, Arc<RoutedStatement>),
}

impl Reader {
    async fn read(&self, row: u64) -> Result<()> {
        let values = (key(row % ROWS),);
        let answer = match self {
            Reader::Bare(session, statement) => session.execute_unpaged(statement, values).await?,
            Reader::Routed(session, statement) => {
                session.execute_unpaged(statement, values).await?
            }
        };
        let rows = answer.into_rows_result()?.rows_num();
        if rows == 1 { Ok(()) } else { Err(format!("{rows} rows of one key").into()) }
    }
}

/// What one run gave.
struct Run {
    per_second: f64,
    /// Processor time of this process for one read, in microseconds.
    micros: f64,
}

pub(crate) async fn run(node: &Instance, size: Size) -> Result<()> {
    let versions = versions(&node.endpoint().to_string()).await?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("read.csv");
    write(&file, ROWS, 0)?;
    let run = run_of("read", &file.display().to_string(), 1)?;
    publish(&versions, &Ports::system(), run, &Progress::default()).await?;
    let session = Arc::clone(versions.session());
    let routed = RoutedSession::new(versions, Some(KEYSPACE.to_owned()), REFRESH).await?;
    let select = |table: &str| format!("SELECT score, note FROM {KEYSPACE}.{table} WHERE id = ?");
    let bare = session.prepare(select("read_v1")).await?;
    let statement = Arc::new(routed.prepare(&select("read")).await?);
    let bare = Reader::Bare(session, bare);
    let routed = Reader::Routed(routed, statement);
    for reader in [&bare, &routed] {
        many(reader, size.reads).await?;
    }
    let (mut many_bare, mut many_routed) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        many_bare.push(many(&bare, size.reads).await?);
        many_routed.push(many(&routed, size.reads).await?);
    }
    let one_by_one = size.reads / 10 * size.rounds;
    let [first, second, through] = in_turn([&bare, &bare, &routed], one_by_one).await?;
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.per_second).collect());
    let micros = |runs: &[Run]| median(runs.iter().map(|run| run.micros).collect());
    let (rounds, reads) = (size.rounds, size.reads);
    println!(
        "reads: medians of {rounds} alternating runs of {reads} reads of one row, one session"
    );
    println!(
        "  {IN_FLIGHT} in flight: bare driver {:.0}/s, routed {:.0}/s, {:.1} % (goal 95)",
        rate(&many_bare),
        rate(&many_routed),
        rate(&many_routed) / rate(&many_bare) * 100.0
    );
    println!(
        "  client CPU each: bare driver {:.1} µs, routed {:.1} µs, {:+.1} µs (goal 5)",
        micros(&many_bare),
        micros(&many_routed),
        micros(&many_routed) - micros(&many_bare)
    );
    println!(
        "  one at a time, {one_by_one} of each in turn, p50: bare driver {first:.1} and {second:.1} µs, \
         routed {through:.1} µs, {:+.1} µs (goal 5)",
        through - f64::midpoint(first, second)
    );
    Ok(())
}

async fn many(reader: &Reader, reads: usize) -> Result<Run> {
    let cpu = processor_time(std::process::id())?;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let each = reads / IN_FLIGHT;
    for worker in 0..IN_FLIGHT {
        let reader = reader.clone();
        tasks.spawn(async move {
            for turn in 0..each {
                reader.read((worker * each + turn) as u64).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let (seconds, done) = (began.elapsed().as_secs_f64(), (each * IN_FLIGHT) as f64);
    let cpu = processor_time(std::process::id())? - cpu;
    Ok(Run { per_second: done / seconds, micros: cpu.as_secs_f64() * 1e6 / done })
}

/// The median latencies of readers that read one row after another, in microseconds. They take turns at
/// every row, each first as often as second and third: a node is faster or slower from second to second
/// by more than what they differ in. One that takes part twice shows how much is left of that.
async fn in_turn<const N: usize>(readers: [&Reader; N], reads: usize) -> Result<[f64; N]> {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(reads));
    for row in 0..reads {
        for turn in 0..N {
            let reader = (row + turn) % N;
            let asked = Instant::now();
            readers[reader].read(row as u64).await?;
            times[reader].push(asked.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(times.map(median))
}
