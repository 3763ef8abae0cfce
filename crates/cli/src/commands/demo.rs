//! `helenus demo`: the pipeline on the embedded backends, watched while it runs and checked when
//! it has ended.
//!
//! Orders are staged in the outbox, a relay publishes them into a topic, a consumer takes each once
//! with its inbox. Some are staged twice and some records are handed to the consumer twice, because
//! that is what retries do. Beside it writers contend for streams of events, and a projection
//! follows them. Then the file is closed, opened again and examined, a table is published into it day by
//! day, and the changes in a recorded segment of a Cassandra node go into its topics.

mod capture;
mod checks;
mod features;
mod ledger;
mod pipeline;
mod shown;

use std::path::Path;
use std::sync::Arc;

use helenus::backend::{BrokerUrl, StoreUrl};
use helenus::broker::Broker as _;
use helenus::{Broker, Failure, Kind, Ports, Store};
use helenus_server::{Board, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Demo;
use crate::exit::{Failed, Outcome};
use crate::output::Output;
use crate::signals::Interruption;

use pipeline::{Counters, PARTITIONS, Part, Run};

pub(crate) async fn run(demo: &Demo, output: &Output) -> Result<Outcome, Failed> {
    // Before there is anything to be left behind.
    let interruption = Interruption::listen()?;
    // Held until the end: dropping it removes the folder.
    let folder = tempfile::Builder::new()
        .prefix("helenus-demo-")
        .tempdir()
        .map_err(Failed::system("make a temporary folder", "name a file with --keep"))?;
    let path = demo.keep.clone().unwrap_or_else(|| folder.path().join("demo.db"));
    let ports = Ports::system();
    let store = open(&path, &ports).await?;
    let listening = TcpListener::bind(("127.0.0.1", demo.port)).await;
    let listener = listening.map_err(Failed::system(
        format!("listen on 127.0.0.1:{}", demo.port),
        "name another port, or leave --port out",
    ))?;

    let (board, shown) = watch::channel(shown::starting(&path));
    let stop = CancellationToken::new();
    let mut page = JoinSet::new();
    if let Ok(address) = listener.local_addr() {
        output.line(format!("live page   http://{address}/"));
    }
    output.line(format!("store file  {}", path.display()));
    page.spawn(serve(listener, shown, stop.clone()));
    // Whoever interrupts the demo still gets the folder removed.
    let outcome = tokio::select! {
        outcome = Box::pin(watched(demo, store, ports, &path, &board, output)) => outcome,
        signal = interruption.heard() => Err(Interrupted { signal }.into()),
    };
    stop.cancel();
    while let Some(served) = page.join_next().await {
        if let Ok(Err(error)) = served {
            tracing::warn!(%error, "the page ended early");
        }
    }
    outcome
}

/// Runs the pipeline, examines what it left, and shows both.
async fn watched(
    demo: &Demo,
    store: Store,
    ports: Ports,
    path: &Path,
    board: &watch::Sender<Board>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let run = Run::new(&ports);
    let counters = Arc::new(Counters::default());
    let broker = Broker::open(&BrokerUrl::Embedded, &store)?;
    broker.create_topic(&run.topic, PARTITIONS).await?;
    let counted = Arc::clone(&counters);
    let part = Part { store, broker, ports, counters: counted, run: run.clone() };
    let watcher = shown::Watcher::new(demo.seconds, board, output);
    let staged = pipeline::run(&part, demo.seconds, |elapsed| watcher.tick(elapsed, &counters));
    let staged = staged.await?;
    part.store.close().await;
    drop(watcher);

    let mut checks = checks::examine(path, &counters, &run, staged).await?;
    checks.extend(Box::pin(features::run(path, &run)).await?);
    checks.extend(Box::pin(capture::run(path, &run)).await?);
    shown::finish(board, &counters, checks);
    let board = board.borrow();
    report(&board, output);
    Ok(if board.passed() { Outcome::Done } else { Outcome::ChecksFailed })
}

#[derive(Debug, thiserror::Error)]
#[error("the demo was ended by {signal} before it could check anything")]
struct Interrupted {
    signal: &'static str,
}

impl Failure for Interrupted {
    fn kind(&self) -> Kind {
        Kind::Unavailable
    }

    fn code(&self) -> &'static str {
        "interrupted"
    }

    /// Messages were staged and published; without `--keep` they are gone with their file.
    fn applied(&self) -> Option<bool> {
        Some(true)
    }
}

async fn open(path: &Path, ports: &Ports) -> Result<Store, Failed> {
    let url = StoreUrl::Sqlite(path.to_owned());
    Ok(Store::open(&url, ports.clone()).await?)
}

fn report(board: &Board, output: &Output) {
    let mut document = serde_json::json!(board);
    if let Some(object) = document.as_object_mut() {
        object.insert("passed".to_owned(), board.passed().into());
    }
    output.document(&document);
    for figure in &board.figures {
        output.line(format!("{:>9}  {}", figure.value, figure.name));
    }
    let rows = board.checks.iter().map(|check| {
        let holds = if check.ok { "ok" } else { "FAILED" };
        [holds.to_owned(), check.name.to_owned(), check.detail.clone()]
    });
    output.table(["", "check", "seen"], rows.collect());
    let failed = board.checks.iter().filter(|check| !check.ok).count();
    output.line(format!("checks: {} ok, {failed} failed", board.checks.len() - failed));
}
