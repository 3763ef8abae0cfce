//! Times, rates, and what a process has used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_testkit::usage::processor_time;
use tokio::task::JoinSet;

use crate::Result;

/// Bytes of every payload.
pub(crate) const PAYLOAD_BYTES: usize = 256;

/// What one run of many operations gave.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) per_second: f64,
    /// Processor time of the node for one operation.
    pub(crate) node_cpu: Duration,
    pub(crate) latencies: Vec<Duration>,
}

/// Runs `operation` `count` times, `workers` at a time; it gets the worker's number and a count.
pub(crate) async fn timed<F, W>(count: usize, workers: usize, pid: u32, operation: F) -> Result<Run>
where
    F: Fn(usize, usize) -> W + Send + Sync + 'static,
    W: Future<Output = Result<()>> + Send,
{
    let operation = Arc::new(operation);
    let cpu = processor_time(pid)?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    let each = count / workers;
    for worker in 0..workers {
        let operation = Arc::clone(&operation);
        tasks.spawn(async move {
            let mut latencies = Vec::with_capacity(each);
            for turn in 0..each {
                let asked = Instant::now();
                operation(worker, turn).await?;
                latencies.push(asked.elapsed());
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latencies)
        });
    }
    let mut latencies = Vec::with_capacity(count);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let elapsed = started.elapsed();
    let done = (each * workers) as u32;
    Ok(Run {
        per_second: f64::from(done) / elapsed.as_secs_f64(),
        node_cpu: (processor_time(pid)? - cpu) / done,
        latencies,
    })
}

/// The median of what several runs gave.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn rate(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| run.per_second))
}

/// Microseconds of the node's processors for one operation.
pub(crate) fn node_micros(runs: &[Run]) -> f64 {
    median(runs.iter().map(|run| run.node_cpu.as_secs_f64() * 1e6))
}

/// The latency below which `part` of all operations were, in milliseconds; the median of the runs.
pub(crate) fn percentile(runs: &[Run], part: f64) -> f64 {
    median(runs.iter().map(|run| millis(of_times(run.latencies.clone(), part))))
}

/// The time below which `part` of them are.
pub(crate) fn of_times(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort();
    let index = (times.len() as f64 * part) as usize;
    times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
