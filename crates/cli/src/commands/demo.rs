//! `helenus demo`: the pipeline on the embedded backends, watched while it runs and checked when
//! it has ended.
//!
//! Orders are staged in the outbox, a relay publishes them into a topic, a consumer takes each once
//! with its inbox. Some are staged twice and some records are handed to the consumer twice, because
//! that is what retries do. Beside it writers contend for streams of events. Then the file is
//! closed, opened again and examined.

mod checks;
mod ledger;
mod pipeline;
mod shown;

use std::path::Path;
use std::sync::Arc;

use helenus::backend::{BrokerUrl, StoreUrl};
use helenus::broker::Broker as _;
use helenus::{Broker, Ports, Store};
use helenus_server::serve;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Demo;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

use pipeline::{Counters, PARTITIONS, Part, Run};

pub(crate) async fn run(demo: &Demo, output: &Output) -> Result<Outcome, Failed> {
    // Held until the end: dropping it removes the folder.
    let folder = tempfile::tempdir().map_err(Failed::system("make a temporary folder"))?;
    let path = demo.keep.clone().unwrap_or_else(|| folder.path().join("demo.db"));
    let listener = TcpListener::bind(("127.0.0.1", demo.port))
        .await
        .map_err(Failed::system(format!("listen on 127.0.0.1:{}", demo.port)))?;
    let address = listener.local_addr().map_err(Failed::system("find the page's port"))?;
    output.line(format!("live page   http://{address}/"));
    output.line(format!("store file  {}", path.display()));

    let (board, shown) = watch::channel(shown::starting(&path));
    let stop = CancellationToken::new();
    let mut page = JoinSet::new();
    page.spawn(serve(listener, shown, stop.clone()));

    let ports = Ports::system();
    let run = Run::new(&ports);
    let counters = Arc::new(Counters::default());
    let watcher = shown::Watcher::new(demo.seconds, &board, output);
    let store = open(&path, &ports).await?;
    let broker = Broker::open(&BrokerUrl::Embedded, &store)?;
    broker.create_topic(&run.topic, PARTITIONS).await?;
    let counted = Arc::clone(&counters);
    let part = Part { store, broker, ports, counters: counted, run: run.clone() };
    let staged = pipeline::run(&part, demo.seconds, |elapsed| watcher.tick(elapsed, &counters));
    let staged = staged.await?;
    part.store.close().await;
    drop(watcher);

    let checks = checks::examine(&path, &counters, &run, staged).await?;
    shown::finish(&board, &counters, checks);
    report(&board.borrow(), output);
    stop.cancel();
    while let Some(served) = page.join_next().await {
        if let Ok(Err(error)) = served {
            tracing::warn!(%error, "the page ended early");
        }
    }
    Ok(if board.borrow().passed() { Outcome::Done } else { Outcome::ChecksFailed })
}

async fn open(path: &Path, ports: &Ports) -> Result<Store, Failed> {
    let url = StoreUrl::Sqlite(path.to_owned());
    Ok(Store::open(&url, ports.clone()).await?)
}

fn report(board: &helenus_server::Board, output: &Output) {
    output.document(board);
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
