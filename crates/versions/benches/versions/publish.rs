//! Publishing, dsbulk and `cqlsh COPY`: the same file into the same node, each a process of its own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use helenus_testkit::services::{Instance, cqlsh, dsbulk, versions};
use helenus_testkit::usage::{children_time, peak_bytes, processor_time, settle};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Runtime;

use crate::load::{CHILD, COLUMNS, create, write};
use crate::{KEYSPACE, Result, Size};

/// How often the memory of a loader is looked at; what the kernel keeps is its peak.
const LOOK: Duration = Duration::from_millis(20);

/// Ranges of tokens that are counted one by one.
const RANGES: i64 = 64;

/// Loads of each loader, of which the median counts.
const ROUNDS: usize = 3;

#[derive(Clone, Copy)]
enum Loader {
    Publish,
    Dsbulk,
    Copy,
}

const LOADERS: [Loader; 3] = [Loader::Publish, Loader::Dsbulk, Loader::Copy];

/// What one loader did.
struct Loaded {
    name: String,
    seconds: f64,
    loader_cpu: f64,
    node_cpu: f64,
    peak_mib: f64,
    told: String,
}

pub(crate) fn run(runtime: &Runtime, node: &Instance, size: Size) -> Result<()> {
    let session = runtime.block_on(open(node))?;
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (file, warm_up) = (path("features.csv"), path("warm-up.csv"));
    write(file.as_ref(), size.rows, 0)?;
    write(warm_up.as_ref(), size.rows / 10, 0)?;
    let bytes = std::fs::metadata(&file)?.len() as f64 / 1e6;
    let (rows, columns) = (size.rows, COLUMNS.len());
    println!("publish: {rows} rows of {columns} columns, {bytes:.0} MB of CSV, node and loader");
    println!(
        "on the same cores; the node was warmed up by each loader with a tenth; medians of {ROUNDS}"
    );
    let bench = Bench { runtime, node, session: &session };
    let name = format!("dsbulk {}", versions::DSBULK);
    let load = |loader: Loader, file: &str, rows: u64| match loader {
        Loader::Publish => {
            let published = bench.load("publish", "published_v1", rows, own(node, file)?)?;
            runtime.block_on(forget(&session))?;
            Ok(published)
        }
        Loader::Dsbulk => {
            let command = dsbulk_of(dsbulk()?, node, file, &path("logs"));
            bench.load(&name, "by_dsbulk", rows, command)
        }
        Loader::Copy => bench.load("cqlsh COPY", "by_copy", rows, copy_of(cqlsh()?, node, file)),
    };
    for loader in LOADERS {
        load(loader, &warm_up, rows / 10)?;
    }
    let mut loads: [Vec<Loaded>; LOADERS.len()] = Default::default();
    for round in 0..ROUNDS {
        // A node gets faster while it works: each loader comes first, second and last.
        for place in 0..LOADERS.len() {
            let next = (round + place) % LOADERS.len();
            loads[next].push(load(LOADERS[next], &file, rows)?);
        }
    }
    let [published, by_dsbulk, copied] = loads.map(middle);
    let rate = |loaded: &Loaded| rows as f64 / loaded.seconds;
    println!("  {:<14} rows/s  seconds  loader CPU s  node CPU s  loader peak MiB", "");
    for loaded in [&published, &by_dsbulk, &copied] {
        let Loaded { name, seconds, loader_cpu, node_cpu, peak_mib, .. } = loaded;
        let rate = rate(loaded);
        println!(
            "  {name:<14} {rate:>6.0} {seconds:>8.1} {loader_cpu:>13.1} {node_cpu:>11.1} {peak_mib:>16.0}"
        );
    }
    println!("  publish, in its own words: {}", published.told.trim());
    let told: serde_json::Value = serde_json::from_str(&published.told)?;
    let loading = rows as f64 / told["loading_seconds"].as_f64().unwrap_or(f64::NAN);
    for (what, ours) in
        [("until it is switched to", rate(&published)), ("until all rows are written", loading)]
    {
        println!(
            "  rows/s, {what}: {:.2} × dsbulk (goal 1.25), {:.2} × COPY (goal 2)",
            ours / rate(&by_dsbulk),
            ours / rate(&copied)
        );
    }
    println!(
        "  loader CPU: {:.2} of dsbulk's (goal 0.25); peak memory {:.0} MiB (goal 256)",
        published.loader_cpu / by_dsbulk.loader_cpu,
        published.peak_mib
    );
    Ok(())
}

/// The load that took neither long nor short.
fn middle(mut loads: Vec<Loaded>) -> Loaded {
    loads.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    loads.swap_remove(loads.len() / 2)
}

struct Bench<'a> {
    runtime: &'a Runtime,
    node: &'a Instance,
    session: &'a Session,
}

impl Bench<'_> {
    /// Runs a loader to its end, makes sure that its rows are there, and drops them.
    fn load(&self, name: &str, table: &str, rows: u64, mut command: Command) -> Result<Loaded> {
        let pid = self.node.pid().ok_or("the node has no process")?;
        self.runtime.block_on(async {
            if !table.starts_with("published") {
                let create = create(&format!("{KEYSPACE}.{table}"));
                self.session.query_unpaged(create, ()).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        })?;
        settle(pid)?;
        let (cpu, own) = (processor_time(pid)?, children_time()?);
        let began = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut peak = 0;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            peak = peak.max(peak_bytes(child.id()).unwrap_or(0));
            std::thread::sleep(LOOK);
        };
        let seconds = began.elapsed().as_secs_f64();
        let loader_cpu = (children_time()? - own).as_secs_f64();
        let node_cpu = (processor_time(pid)? - cpu).as_secs_f64();
        let output = child.wait_with_output()?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = self.runtime.block_on(count(self.session, table))?;
        if !status.success() || found != rows {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{name}: {status}, {found} of {rows} rows\n{told}\n{why}").into());
        }
        let drop = format!("DROP TABLE {KEYSPACE}.{table}");
        self.runtime.block_on(self.session.query_unpaged(drop, ()))?;
        let peak_mib = peak as f64 / f64::from(1 << 20);
        Ok(Loaded { name: name.to_owned(), seconds, loader_cpu, node_cpu, peak_mib, told })
    }
}

fn own(node: &Instance, file: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD, &node.endpoint().to_string(), file]);
    Ok(command)
}

fn dsbulk_of(mut command: Command, node: &Instance, file: &str, logs: &str) -> Command {
    let endpoint = node.endpoint();
    command.args(["load", "-url", file, "-k", KEYSPACE, "-t", "by_dsbulk", "-header", "true"]);
    command.args(["-h", &endpoint.host, "-port", &endpoint.port.to_string()]);
    command.args(["--driver.basic.load-balancing-policy.local-datacenter", "datacenter1"]);
    command.args(["-logDir", logs]);
    command
}

fn copy_of(mut command: Command, node: &Instance, file: &str) -> Command {
    let endpoint = node.endpoint();
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    // Its own format for times would be tried, and fail, for every row.
    let options = "HEADER = TRUE AND DATETIMEFORMAT = '%Y-%m-%dT%H:%M:%S%z'";
    let names = names.join(", ");
    let copy = format!("COPY {KEYSPACE}.by_copy ({names}) FROM '{file}' WITH {options}");
    command.args([&endpoint.host, &endpoint.port.to_string(), "-e", &copy]);
    command
}

async fn open(node: &Instance) -> Result<Session> {
    let session = SessionBuilder::new().known_node(node.endpoint().to_string()).build().await?;
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let keyspace =
        format!("CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {replication}");
    session.query_unpaged(keyspace, ()).await?;
    Ok(session)
}

/// Forgets what was published, so that it can be published again.
async fn forget(session: &Session) -> Result<()> {
    let truncate = format!("TRUNCATE {KEYSPACE}.helenus_table_versions");
    session.query_unpaged(truncate, ()).await?;
    Ok(())
}

async fn count(session: &Session, table: &str) -> Result<u64> {
    let cql =
        format!("SELECT count(*) FROM {KEYSPACE}.{table} WHERE token(id) > ? AND token(id) <= ?");
    let mut prepared = session.prepare(cql).await?;
    prepared.set_request_timeout(Some(Duration::from_secs(60)));
    let width = i64::MAX / (RANGES / 2);
    let mut sum = 0;
    for range in 0..RANGES {
        let start = i64::MIN + range * width;
        let end = if range == RANGES - 1 { i64::MAX } else { start + width };
        let rows = session.execute_unpaged(&prepared, (start, end)).await?.into_rows_result()?;
        sum += rows.single_row::<(i64,)>()?.0;
    }
    Ok(u64::try_from(sum)?)
}
