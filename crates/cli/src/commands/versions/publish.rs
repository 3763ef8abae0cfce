//! `helenus versions publish`.

use std::path::PathBuf;

use helenus::versions::{
    CheckOptions, CheckResult, LoadOptions, MappingOptions, Progress, Publish, Published,
    ReadOptions, RecycleOptions, SchemaFrom, Status, TableName, TableSchema,
};
use helenus::{Ports, Versions as Store};

use crate::args::PublishArguments;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

pub(super) async fn run(
    store: &Store,
    arguments: &PublishArguments,
    output: &Output,
) -> Result<Outcome, Failed> {
    let run = publish(arguments)?;
    if arguments.dry_run {
        let dry = store.dry_run(&run).await?;
        output.document(&dry);
        output.line(format!("{};", dry.schema));
        output.line(format!("{} rows, {} bad", dry.rows, dry.bad_rows));
        checks(&dry.checks, output);
        return Ok(outcome(&dry.checks));
    }
    if let Some(run_id) = &arguments.resume
        && store.snapshot(&run.table).await?.run(run_id).is_none()
    {
        output.line(format!("there is no run {run_id} yet: it begins now"));
    }
    let progress = Progress::default();
    let (run_id, table, keep) = (run.run_id.clone(), run.table.clone(), arguments.keep);
    let report = run.bad_rows.clone();
    let ports = Ports::system();
    let published = tokio::select! {
        published = store.publish(run, &progress) => published,
        never = super::progress::follow(&progress, &ports, output) => match never {},
    };
    let published = match published {
        Ok(published) => published,
        Err(error) => {
            if can_resume(store, &table, &run_id).await {
                output.line(format!("to resume, run the same with --resume {run_id}"));
            }
            return Err(error.into());
        }
    };
    if keep > 0 && published.status == Status::Completed {
        // What was marked before is drained by now; what is marked now goes the next time.
        let options = RecycleOptions { keep, wait: false, ..RecycleOptions::default() };
        if let Err(error) = store.recycle(&table, options, &mut |_| ()).await {
            tracing::warn!(%error, "old versions were not recycled; the next publish tries again");
        }
    }
    output.document(&published);
    told(&published, &progress, arguments, output);
    if let Some(report) = report.filter(|_| published.bad_rows > 0) {
        output.line(format!("bad rows, each with its place and reason: {}", report.display()));
    }
    let vetoed = published.status != Status::Completed;
    Ok(if vetoed { Outcome::ChecksFailed } else { Outcome::Done })
}

/// Whether the run got so far that there is something to go on with.
async fn can_resume(store: &Store, table: &TableName, run_id: &str) -> bool {
    let snapshot = store.snapshot(table).await;
    let row = snapshot.ok().and_then(|snapshot| snapshot.run(run_id).cloned());
    row.is_some_and(|row| row.status == Status::Pending)
}

fn told(published: &Published, progress: &Progress, arguments: &PublishArguments, output: &Output) {
    if arguments.infer {
        output.line(format!("{};", published.schema));
    }
    let millis = |share| format!("{:.1}", progress.latency(share).as_secs_f64() * 1e3);
    let seconds = published.seconds.max(0.001);
    let rate = published.rows as f64 / seconds;
    output.table(
        ["total", "failed", "rows/s", "p50 ms", "p99 ms", "retries", "seconds"],
        vec![[
            published.rows.to_string(),
            published.bad_rows.to_string(),
            format!("{rate:.0}"),
            millis(0.5),
            millis(0.99),
            progress.retries().to_string(),
            format!("{seconds:.1}"),
        ]],
    );
    checks(&published.checks, output);
    let routed = if published.routed { ", readers get it" } else { "" };
    output.line(format!("{} is {}{routed}", published.version_name, published.status));
    if let Some(note) = &published.note {
        output.line(note);
    }
    let vetoes = published.checks.iter().filter(|check| !check.ok);
    let vetoes: Vec<&str> = vetoes.map(|check| check.name.as_str()).collect();
    if published.status == Status::Completed && !vetoes.is_empty() {
        output.line(format!("forced over {}, which is recorded", vetoes.join(", ")));
    }
    if published.status != Status::Completed {
        output.line(
            "publish what is mended as a new run, or the same with --force; this one is recycled",
        );
    }
}

fn checks(checks: &[CheckResult], output: &Output) {
    let row = |check: &CheckResult| {
        let word = if check.ok { "ok" } else { "VETO" };
        [check.name.clone(), word.to_owned(), check.detail.clone()]
    };
    output.table(["check", "", ""], checks.iter().map(row).collect());
}

fn outcome(checks: &[CheckResult]) -> Outcome {
    if checks.iter().all(|check| check.ok) { Outcome::Done } else { Outcome::ChecksFailed }
}

fn publish(arguments: &PublishArguments) -> Result<Publish, Failed> {
    let run_id = arguments.resume.as_ref().or(arguments.run_id.as_ref()).cloned();
    let run_id = run_id.unwrap_or_else(|| format!("run-{}", Ports::system().random.uuid()));
    let schema = match (&arguments.schema, arguments.infer) {
        (Some(path), _) => {
            let read = format!("read {}", path.display());
            let text =
                std::fs::read_to_string(path).map_err(Failed::system(read, "check --schema"))?;
            SchemaFrom::Given(TableSchema::parse(&text)?)
        }
        (None, true) => SchemaFrom::Infer { key: arguments.key.clone() },
        (None, false) => SchemaFrom::Previous,
    };
    let read = ReadOptions {
        delimiter: arguments.delimiter,
        header: arguments.no_header.is_none(),
        names: arguments.no_header.clone().unwrap_or_default(),
        null: arguments.null.clone(),
        format: arguments.format.map(Into::into),
    };
    let checks = CheckOptions {
        min_rows: arguments.min_rows,
        max_drop: arguments.max_drop,
        max_nulls: arguments.max_nulls.iter().cloned().collect(),
        max_bad_rows: arguments.max_bad_rows,
        allow_duplicates: arguments.allow_duplicates,
        sample: arguments.sample,
    };
    let load = LoadOptions {
        rows_per_second: arguments.rate,
        in_flight_max: arguments.in_flight,
        ..LoadOptions::default()
    };
    let bad_rows = arguments.bad_rows.clone();
    let bad_rows = bad_rows.unwrap_or_else(|| PathBuf::from(format!("{run_id}.bad.jsonl")));
    let (table, sources) = (arguments.of.table.clone(), arguments.sources.clone());
    Ok(Publish {
        schema,
        read,
        mapping: MappingOptions {
            renamed: arguments.map.clone(),
            ignore_extra: arguments.ignore_extra,
        },
        checks,
        load,
        bad_rows: Some(bad_rows),
        force: arguments.force,
        resume: arguments.resume.is_some(),
        who: crate::config::who(),
        ..Publish::new(table, arguments.data_ts, &run_id, sources)
    })
}
