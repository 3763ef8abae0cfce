//! `cargo xtask services up|down|status`.

use std::process::ExitCode;

use helenus_testkit::services::{self, Node, Service, Spec, StartedBy, Status, Up, sweep_private};
use serde_json::json;

use crate::arguments::{Arguments, unknown, usage};

pub(crate) const HELP: &str = "\
Usage: cargo xtask services up [--only NAME…] [--nodes 1|3] [--keep]
       cargo xtask services down [--only NAME…]
       cargo xtask services status [--json]

Real services as plain processes under target/services/, each with its pid, ports and log on
record in target/services/NAME/service.json. What is already up is reused. Run `services down`
before `cargo clean`, which would take the records away from under them.

  --only NAME…   these services: cassandra, cassandra41, cassandra40, cluster3, kafka, registry,
                 postgres, redis. Without it, up starts cassandra, kafka, registry, postgres and
                 redis, and down stops everything.
  --nodes 3      a three-node cluster (cluster3) in place of the single Cassandra
  --keep         keep the data of the last run; without it a service starts empty
  --json         records as JSON
";

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let word = arguments.next().ok_or_else(|| usage("services what? one of: up, down, status"))?;
    match word.as_str() {
        "up" => up(arguments),
        "down" => down(arguments),
        "status" => status(arguments),
        _ => Err(unknown("action", &word, ["up", "down", "status"])),
    }
}

fn up(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut chosen = Vec::new();
    let mut cluster = false;
    let mut keep_data = false;
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--only" => chosen.extend(named(&arguments.values("--only")?)?),
            "--keep" => keep_data = true,
            "--nodes" => match arguments.value("--nodes")?.as_str() {
                "1" => cluster = false,
                "3" => cluster = true,
                other => return Err(unknown("number of nodes", other, ["1", "3"])),
            },
            _ => return Err(unknown("option", &word, ["--only", "--nodes", "--keep"])),
        }
    }
    if chosen.is_empty() {
        chosen.extend(Service::SINGLE_NODE);
    }
    if cluster {
        for service in &mut chosen {
            if *service == Service::Cassandra {
                *service = Service::Cluster3;
            }
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    let specs: Vec<Spec> = chosen.into_iter().map(Spec::of).collect();
    services::up(&specs, Up { started_by: StartedBy::Up, keep_data })?;
    Ok(ExitCode::SUCCESS)
}

fn down(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut chosen = Vec::new();
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--only" => chosen.extend(named(&arguments.values("--only")?)?),
            _ => return Err(unknown("option", &word, ["--only"])),
        }
    }
    if chosen.is_empty() {
        chosen.extend(Service::ALL);
        let left_behind = sweep_private()?;
        if left_behind > 0 {
            eprintln!("{left_behind} private instances of killed tests stopped");
        }
    }
    let stopped = services::down(&chosen, None)?;
    for service in &stopped {
        let seconds = service.took.as_secs_f64();
        eprintln!("{:<24} stopped in {seconds:.1} s", service.service.name());
    }
    if stopped.is_empty() {
        eprintln!("nothing was running");
    }
    Ok(ExitCode::SUCCESS)
}

fn status(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut as_json = false;
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--json" => as_json = true,
            _ => return Err(unknown("option", &word, ["--json"])),
        }
    }
    let statuses = services::status();
    if as_json {
        let list: Vec<_> = statuses
            .iter()
            .map(|status| {
                json!({
                    "name": status.service.name(),
                    "state": state(status),
                    "record": status.record,
                })
            })
            .collect();
        crate::show(&(serde_json::to_string_pretty(&list)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["service", "state", "version", "pid", "by", "address and log"].map(str::to_owned);
    let rows = [head].into_iter().chain(statuses.iter().flat_map(rows));
    let lines: String = rows
        .map(|[name, state, version, pid, by, place]| {
            let line = format!("{name:<12} {state:<8} {version:<14} {pid:>8} {by:<6} {place}");
            format!("{}\n", line.trim_end())
        })
        .collect();
    crate::show(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// `up`; `broken` when it died without being stopped, or runs without answering; `down`.
fn state(status: &Status) -> &'static str {
    match &status.record {
        _ if status.is_up => "up",
        Some(record) if record.ready => "broken",
        _ if status.is_running => "broken",
        _ => "down",
    }
}

/// A row for each node; one without details for a service that is down.
fn rows(status: &Status) -> Vec<[String; 6]> {
    let (name, state) = (status.service.name().to_owned(), state(status).to_owned());
    let Some(record) = status.record.as_ref().filter(|_| state != "down") else {
        return vec![[name, state, String::new(), String::new(), String::new(), String::new()]];
    };
    let by = match record.started_by {
        StartedBy::Up => "up",
        StartedBy::Test => "test",
    };
    let row = |node: &Node| {
        let pid = node.process.map(|process| process.pid.to_string()).unwrap_or_default();
        let place = format!("{}:{}  {}", node.host, node.port, node.log.display());
        [name.clone(), state.clone(), record.version.clone(), pid, by.to_owned(), place]
    };
    record.nodes.iter().map(row).collect()
}

/// The services of these names.
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<Service>> {
    names
        .iter()
        .flat_map(|word| word.split(','))
        .map(|name| {
            Service::from_name(name)
                .ok_or_else(|| unknown("service", name, Service::ALL.map(Service::name)))
        })
        .collect()
}
