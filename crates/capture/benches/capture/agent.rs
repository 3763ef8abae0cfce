//! The whole agent in a process of its own: saved segments into Kafka.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_broker::contract::Broker;
use helenus_broker::kafka::{KafkaBroker, Options as KafkaOptions};
use helenus_capture::agent::Agent;
use helenus_capture::options::Options;
use helenus_model::SystemClock;
use helenus_model::backend::BrokerUrl;
use helenus_testkit::services::Registry;
use helenus_testkit::usage::{peak_bytes, processor_time};
use tokio_util::sync::CancellationToken;

use crate::load::{Saved, TABLE, copy};
use crate::{RUNS, Result, median};

/// The argument that makes this program the agent.
pub(crate) const CHILD: &str = "--agent";
/// How long nothing may come before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs an agent until it is ended: `CDC_RAW STATE PREFIX KAFKA SCHEMA`.
pub(crate) async fn run(words: &[String]) -> Result<()> {
    let [cdc_raw, state, prefix, kafka, schema] = words else {
        return Err("an agent needs five words".into());
    };
    let options = Options {
        node: "n1".into(),
        topic_prefix: prefix.clone(),
        ..Options::new(PathBuf::from(cdc_raw), PathBuf::from(state))
    };
    let schema = std::fs::read_to_string(schema)?;
    let clock = Arc::new(SystemClock::new());
    let agent = Agent::start(options, broker(kafka)?, schema, clock).await?;
    Ok(agent.run(CancellationToken::new()).await?)
}

pub(crate) fn broker(kafka: &str) -> Result<KafkaBroker> {
    match format!("kafka://{kafka}").parse()? {
        BrokerUrl::Kafka(endpoint) => Ok(KafkaBroker::new(&endpoint, KafkaOptions::default())?),
        BrokerUrl::Embedded => Err("not Kafka".into()),
    }
}

/// Starts an agent of this folder.
pub(crate) fn start(
    cdc_raw: &std::path::Path,
    state: &std::path::Path,
    prefix: &str,
    kafka: &str,
    schema: &std::path::Path,
) -> Result<Running> {
    let child = Command::new(std::env::current_exe()?)
        .arg(CHILD)
        .args([cdc_raw, state])
        .args([prefix, kafka])
        .arg(schema)
        .stdin(Stdio::null())
        .spawn()?;
    Ok(Running(child))
}

/// A process that ends with its owner.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

/// What a process used.
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// The most it had at any time.
    pub(crate) peak_mib: f64,
}

/// What a process that still runs has used so far.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let peak = peak_bytes(pid).ok_or("the process is gone")?;
    let cpu_seconds = processor_time(pid)?.as_secs_f64();
    Ok(Usage { cpu_seconds, peak_mib: peak as f64 / f64::from(1 << 20) })
}

/// What it took to publish all rows.
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_mib: f64,
}

impl Cost {
    pub(crate) fn since(started: Instant, used: &Usage) -> Self {
        let Usage { cpu_seconds, peak_mib } = *used;
        Cost { seconds: started.elapsed().as_secs_f64(), cpu_seconds, peak_mib }
    }

    /// Of each part the middle of some runs.
    pub(crate) fn median(costs: &[Cost]) -> Self {
        let of = |part: fn(&Cost) -> f64| median(costs.iter().map(part).collect());
        Cost {
            seconds: of(|cost| cost.seconds),
            cpu_seconds: of(|cost| cost.cpu_seconds),
            peak_mib: of(|cost| cost.peak_mib),
        }
    }
}

/// Waits until a topic holds so many records; says what the process had used by then.
pub(crate) async fn until(
    kafka: &str,
    topic: &str,
    count: usize,
    process: &mut Child,
) -> Result<Usage> {
    let broker = broker(kafka)?;
    let wanted = i64::try_from(count)?;
    let (mut most, mut moved) = (0, Instant::now());
    loop {
        let bounds = broker.bounds(topic).await.unwrap_or_default();
        let found: i64 = bounds.iter().map(|bounds| bounds.end.0).sum();
        if found >= wanted {
            return usage(process.id());
        }
        if found > most {
            (most, moved) = (found, Instant::now());
        }
        if let Some(status) = process.try_wait()? {
            return Err(format!("it ended with {status} after {found} of {count}").into());
        }
        if moved.elapsed() > PATIENCE {
            return Err(format!("nothing comes after {found} of {count}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs of the agent alone.
pub(crate) async fn measure(saved: &Saved) -> Result<()> {
    let mut costs = Vec::new();
    for run in 0..RUNS {
        costs.push(once(saved, run).await?);
    }
    tell(saved, &costs);
    Ok(())
}

/// What one run takes.
pub(crate) async fn once(saved: &Saved, run: usize) -> Result<Cost> {
    let kafka = Registry::new().kafka()?.to_string();
    let folder = saved.dir.path().join(format!("agent-{run}"));
    let cdc_raw = folder.join("cdc_raw");
    copy(&saved.folder, &cdc_raw)?;
    let prefix = format!("{}.ours{run}", saved.prefix);
    let started = Instant::now();
    let mut agent = start(&cdc_raw, &folder.join("state"), &prefix, &kafka, &saved.schema)?;
    let topic = format!("{prefix}.{TABLE}");
    let used = until(&kafka, &topic, saved.rows, &mut agent.0).await?;
    Ok(Cost::since(started, &used))
}

/// Prints the middle of some runs.
pub(crate) fn tell(saved: &Saved, costs: &[Cost]) {
    let cost = Cost::median(costs);
    println!(
        "agent into Kafka, its start included: {:.0} thousand events/s, {:.0} thousand per CPU second; \
         {:.0} MiB at most, over {} segments (goal: 100 MiB)",
        saved.rows as f64 / cost.seconds / 1e3,
        saved.rows as f64 / cost.cpu_seconds / 1e3,
        cost.peak_mib,
        saved.segments,
    );
}
