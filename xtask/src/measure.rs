//! `cargo xtask bench` and `cargo xtask proof`: the long runs, by name.
//!
//! A bench prints numbers. A proof is a test that CI runs small, run here at its full size; what
//! it prints after `proof:` is appended to `docs/reliability.md`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use helenus_testkit::services::{
    self, DIRECTORY_VARIABLE, Service, Spec, StartedBy, Up, workspace,
};

use crate::arguments::{Arguments, unknown};

pub(crate) const BENCH_HELP: &str = "\
Usage: cargo xtask bench [SCENARIO [ARGUMENTS]]

Runs one scenario, with the services it needs; what follows its name is for the bench itself.
Without a name, lists them.
";

pub(crate) const PROOF_HELP: &str = "\
Usage: cargo xtask proof [--only NAME…]

Runs the reliability proofs at full size (HELENUS_PROOF=full) and appends their results, with date
and revision, to docs/reliability.md. `cargo xtask test` runs the same proofs at CI size.
";

/// A bench or proof: its name, where its code is, and what it talks to.
struct Run {
    name: &'static str,
    package: &'static str,
    /// The bench target, or the part of their names that the proof's tests share.
    target: &'static str,
    services: &'static [Service],
}

const BENCHES: &[Run] = &[
    Run { name: "sqlite", package: "helenus-sqlite", target: "engine", services: &[] },
    // Its node is its own, so that the processor time it prints is of this bench alone.
    Run { name: "events", package: "helenus-store", target: "events", services: &[] },
    Run { name: "commitlog", package: "helenus-commitlog", target: "decode", services: &[] },
    Run { name: "capture", package: "helenus-capture", target: "capture", services: KAFKA },
    Run { name: "messaging", package: "helenus-relay", target: "messaging", services: BOTH },
    // Its node is its own, as that of the events.
    Run { name: "versions", package: "helenus-versions", target: "versions", services: &[] },
];

const PROOFS: &[Run] = &[
    Run { name: "sqlite-crash", package: "helenus-sqlite", target: "crash", services: &[] },
    Run {
        name: "projection-crash",
        package: "helenus-store",
        target: "projections::crash",
        services: &[],
    },
    Run {
        name: "archive",
        package: "helenus-store",
        target: "retiring_beside_readers_and_writers",
        services: CASSANDRA,
    },
    Run { name: "events-model", package: "helenus-store", target: "model::", services: CASSANDRA },
    Run { name: "events-race", package: "helenus-store", target: "racing::", services: CASSANDRA },
    Run { name: "relay", package: "helenus-relay", target: "proof::", services: BOTH },
    Run {
        name: "versions-readers",
        package: "helenus-versions",
        target: "proof_readers",
        services: CASSANDRA,
    },
    Run {
        name: "versions-kills",
        package: "helenus-cli",
        target: "proof_killed_publishers",
        services: CASSANDRA,
    },
    Run {
        name: "versions-node-lost",
        package: "helenus-versions",
        target: "proof_a_lost_node",
        services: &[],
    },
    Run {
        name: "segments-rows-5.0",
        package: "helenus-capture",
        target: "oracle_rows_of_segments_are_the_rows_of_a_5_0_node",
        services: &[],
    },
    Run {
        name: "segments-rows-5.0-lz4",
        package: "helenus-capture",
        target: "oracle_rows_of_compressed_segments_are_the_rows_of_a_5_0_node",
        services: &[],
    },
    Run {
        name: "segments-rows-4.1",
        package: "helenus-capture",
        target: "oracle_rows_of_segments_are_the_rows_of_a_4_1_node",
        services: &[],
    },
    Run {
        name: "segments-rows-4.1-zstd",
        package: "helenus-capture",
        target: "oracle_rows_of_compressed_segments_are_the_rows_of_a_4_1_node",
        services: &[],
    },
    Run {
        name: "segments-rows-v8",
        package: "helenus-capture",
        target: "oracle_rows_of_segments_of_version_8",
        services: &[],
    },
    Run {
        name: "capture-replicas",
        package: "helenus-cli",
        target: "replicas_tell_of_each_change",
        services: &[Service::Kafka],
    },
    Run {
        name: "capture-outage",
        package: "helenus-cli",
        target: "capture_waits_for_kafka",
        services: &[],
    },
    Run {
        name: "capture-kill",
        package: "helenus-cli",
        target: "capture_kills",
        services: &[Service::Kafka],
    },
];
const CASSANDRA: &[Service] = &[Service::Cassandra];
const KAFKA: &[Service] = &[Service::Kafka];
const BOTH: &[Service] = &[Service::Cassandra, Service::Kafka];

const PROOF_SIZE_VARIABLE: &str = "HELENUS_PROOF";
/// A proof prints its result on lines that start so.
const RESULT_MARK: &str = "proof: ";
const REPORT: &str = "docs/reliability.md";
const REPORT_HEAD: &str = "# Reliability\n\nWhat the proofs found, newest last. Each line names \
                           the command that made it.\n\n";

/// Runs `cargo xtask bench`.
pub(crate) fn bench(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Some(name) = arguments.next() else {
        println!("Scenarios:");
        for run in BENCHES {
            println!("  {:<16} {} ({})", run.name, run.target, run.package);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let run = find(BENCHES, "scenario", &name)?;
    println!("`cargo xtask bench {name}` at {} on {}", revision()?, hardware());
    with_services(run, || {
        let mut command = crate::cargo();
        command.args(["bench", "--locked", "-p", run.package, "--bench", run.target]);
        let status =
            command.arg("--").args(arguments.rest()).status().context("cannot run cargo")?;
        if !status.success() {
            bail!("the bench ended with {status}");
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `cargo xtask proof`.
pub(crate) fn proof(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut chosen = Vec::new();
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--only" => {
                for name in arguments.values("--only")? {
                    chosen.push(find(PROOFS, "proof", &name)?);
                }
            }
            _ => return Err(unknown("option", &word, ["--only"])),
        }
    }
    if chosen.is_empty() {
        chosen.extend(PROOFS);
    }
    for run in chosen {
        let results = with_services(run, || prove(run))?;
        report(run, &results)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one proof at full size, in the build that the tests run in, and returns what it found.
fn prove(run: &Run) -> anyhow::Result<Vec<String>> {
    let mut child = crate::cargo()
        .args(["test", "--locked", "--all-features", "-p", run.package])
        .args(["--test", "it", "--", run.target, "--nocapture"])
        .env(PROOF_SIZE_VARIABLE, "full")
        .env(DIRECTORY_VARIABLE, services::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut results = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        // libtest may have printed the test's name before it, on the same line.
        results.extend(line.split_once(RESULT_MARK).map(|(_, result)| result.to_owned()));
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the proof {} failed: {status}", run.name);
    }
    if results.is_empty() {
        bail!("the proof {} printed no line with `{RESULT_MARK}`", run.name);
    }
    Ok(results)
}

fn report(run: &Run, results: &[String]) -> anyhow::Result<()> {
    let path = workspace().join(REPORT);
    let mut text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => REPORT_HEAD.to_owned(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {REPORT}")),
    };
    let (date, revision) = (output_of("date", &["-u", "+%F"])?, revision()?);
    for result in results {
        writeln!(text, "- {date}, {revision}, `cargo xtask proof --only {}`: {result}", run.name)?;
    }
    std::fs::create_dir_all(workspace().join("docs"))?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {REPORT}"))?;
    eprintln!("{}: {} results appended to {REPORT}", run.name, results.len());
    Ok(())
}

/// The commit, marked when the tree differs from it in more than the report of the proofs before.
fn revision() -> anyhow::Result<String> {
    let commit = output_of("git", &["rev-parse", "--short=10", "HEAD"])?;
    let others = format!(":(exclude){REPORT}");
    let changes = output_of("git", &["status", "--porcelain", "-uno", "--", ".", &others])?;
    Ok(if changes.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// Processor and cores: no number means anything without them.
fn hardware() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} ({cores} cores)", model.map_or("an unknown processor", |(_, model)| model))
}

fn output_of(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(workspace())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Brings up what a run needs, and afterwards down what was not up before.
fn with_services<T>(run: &Run, body: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let specs: Vec<Spec> = run.services.iter().copied().map(Spec::of).collect();
    services::up(&specs, Up { started_by: StartedBy::Test, keep_data: false })?;
    let outcome = body();
    services::down(run.services, Some(StartedBy::Test))?;
    outcome
}

fn find(runs: &'static [Run], kind: &str, name: &str) -> anyhow::Result<&'static Run> {
    let found = runs.iter().find(|run| run.name == name);
    found.ok_or_else(|| unknown(kind, name, runs.iter().map(|run| run.name)))
}
