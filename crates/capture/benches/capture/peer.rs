//! The same segments through the Debezium connector.

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use helenus_testkit::services::{Debezium, Registry};

use crate::agent::{self, Cost, Running, until, usage};
use crate::load::{Saved, TABLE, copy};
use crate::{Result, median};

/// Runs whose median is printed: each takes half a minute.
const RUNS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(120);

/// Each run of the connector between two of ours: what a processor does in a second changes within
/// minutes on a shared host.
pub(crate) async fn compare(saved: &Saved) -> Result<()> {
    let kafka = Registry::new().kafka()?.to_string();
    let idle = start_alone(saved, &kafka).await?;
    let mut ours = vec![agent::once(saved, 0).await?];
    let mut costs = Vec::new();
    for run in 0..RUNS {
        costs.push(once(saved, &kafka, run).await?);
        ours.push(agent::once(saved, run + 1).await?);
    }
    agent::tell(saved, &ours);
    let beside = |less: f64| -> Vec<f64> {
        let around = ours.windows(2).map(|two| (two[0].cpu_seconds + two[1].cpu_seconds) / 2.0);
        costs.iter().zip(around).map(|(cost, ours)| (cost.cpu_seconds - less) / ours).collect()
    };
    let Cost { seconds, cpu_seconds, peak_mib } = Cost::median(&costs);
    let rows = saved.rows as f64;
    println!(
        "Debezium {}, the same segments, its start included: {:.1} thousand events/s, {:.1} thousand per \
         CPU second ({cpu_seconds:.1} s, of which an empty start takes {idle:.1} s); {peak_mib:.0} MiB at most",
        helenus_testkit::services::versions::DEBEZIUM,
        rows / seconds / 1e3,
        rows / cpu_seconds / 1e3,
    );
    let each: Vec<String> = beside(0.0).iter().map(|times| format!("{times:.1}")).collect();
    println!(
        "events per CPU second, ours over Debezium's: {:.1} times (goal: 20; {}); {:.1} times if only ours \
         has to start",
        median(beside(0.0)),
        each.join(", "),
        median(beside(idle)),
    );
    Ok(())
}

async fn once(saved: &Saved, kafka: &str, run: usize) -> Result<Cost> {
    let directory = saved.dir.path().join(format!("debezium-{run}"));
    let cdc_raw = directory.join("cdc_raw");
    copy(&saved.folder, &cdc_raw)?;
    let prefix = format!("{}.dbz{run}", saved.prefix);
    let started = Instant::now();
    let (mut connector, _) = start(saved, &directory, &cdc_raw, kafka, &prefix)?;
    let topic = format!("{prefix}.{TABLE}");
    let used = until(kafka, &topic, saved.rows, &mut connector.0).await?;
    Ok(Cost::since(started, &used))
}

fn start(
    saved: &Saved,
    directory: &Path,
    cdc_raw: &Path,
    kafka: &str,
    prefix: &str,
) -> Result<(Running, u16)> {
    std::fs::create_dir_all(cdc_raw)?;
    let (directory, cdc_raw) = (std::path::absolute(directory)?, std::path::absolute(cdc_raw)?);
    let connector = Debezium {
        directory: &directory,
        node: saved.node.dir(),
        cql: saved.node.endpoint(),
        cdc_raw: &cdc_raw,
        kafka,
        prefix,
    };
    let (child, port) = connector.start()?;
    Ok((Running(child), port))
}

/// Processor seconds until a connector without segments is ready.
async fn start_alone(saved: &Saved, kafka: &str) -> Result<f64> {
    let directory = saved.dir.path().join("debezium-idle");
    let cdc_raw = directory.join("cdc_raw");
    let prefix = format!("{}.idle", saved.prefix);
    let (mut connector, port) = start(saved, &directory, &cdc_raw, kafka, &prefix)?;
    let begun = Instant::now();
    loop {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(usage(connector.0.id())?.cpu_seconds);
        }
        let ended = connector.0.try_wait()?;
        if ended.is_some() || begun.elapsed() > PATIENCE {
            let log = std::fs::read_to_string(directory.join("log"))?;
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            return Err(format!("the connector does not start: {tail:#?}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
