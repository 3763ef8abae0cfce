//! `helenus versions`: publish data sets, switch between them, drop the old ones.

mod progress;
mod publish;
mod shown;

use helenus::Versions as Store;
use helenus::versions::{RecycleOptions, Recycled, TableName};

use crate::args::{RecycleArguments, Versions, VersionsCommand};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;

pub(crate) async fn run(
    versions: &Versions,
    config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    let store = Box::pin(open::versions(versions.store.as_ref(), &config)).await?;
    let done = Box::pin(command(&store, &versions.command, output)).await;
    store.close().await;
    done
}

async fn command(
    store: &Store,
    command: &VersionsCommand,
    output: &Output,
) -> Result<Outcome, Failed> {
    match command {
        VersionsCommand::Publish(arguments) => {
            return Box::pin(publish::run(store, arguments, output)).await;
        }
        VersionsCommand::List(of) => {
            let snapshot = store.snapshot(&of.table).await?;
            shown::list(&of.table, &snapshot, output);
        }
        VersionsCommand::Show { of, version } => {
            let snapshot = store.snapshot(&of.table).await?;
            shown::one(&of.table, &snapshot, version.as_deref(), output)?;
        }
        VersionsCommand::Rollback { of, to } => {
            let row = store.rollback(&of.table, to.as_deref()).await?;
            changed(store, &of.table, &format!("readers get {}", row.version_name), output).await?;
        }
        VersionsCommand::Include { of, version } => {
            let row = store.include(&of.table, version).await?;
            changed(store, &of.table, &format!("{} may be read", row.version_name), output).await?;
        }
        VersionsCommand::Pin { of, version } => {
            let row = store.pin(&of.table, version).await?;
            changed(store, &of.table, &format!("readers stay at {}", row.version_name), output)
                .await?;
        }
        VersionsCommand::Unpin(of) => {
            store.unpin(&of.table).await?;
            let snapshot = store.snapshot(&of.table).await?;
            let words = match snapshot.routed() {
                Some(row) => format!("readers get {}", row.version_name),
                None => format!("{} has no version to read", of.table),
            };
            changed(store, &of.table, &words, output).await?;
        }
        VersionsCommand::Recycle(arguments) => recycle(store, arguments, output).await?,
        VersionsCommand::Query { cql } => {
            for row in store.query(cql).await? {
                output.text(&format!("{row}\n"));
            }
        }
    }
    Ok(Outcome::Done)
}

/// Says what a change came to: the version readers get.
async fn changed(
    store: &Store,
    table: &TableName,
    words: &str,
    output: &Output,
) -> Result<(), Failed> {
    let snapshot = store.snapshot(table).await?;
    let routed = snapshot.routed().map(|row| row.version_name.as_str());
    output.document(&serde_json::json!({
        "key_space": table.keyspace(),
        "table": table.table(),
        "routed": routed,
        "pinned": snapshot.pinned.is_some(),
    }));
    output.line(words);
    Ok(())
}

async fn recycle(
    store: &Store,
    arguments: &RecycleArguments,
    output: &Output,
) -> Result<(), Failed> {
    let tables = match &arguments.table {
        Some(table) => vec![table.clone()],
        None => store.tables().await?,
    };
    let options = RecycleOptions {
        keep: arguments.keep,
        drain: arguments.drain,
        dry_run: arguments.dry_run,
        ..RecycleOptions::default()
    };
    let mut all = Vec::new();
    for table in tables {
        // Told as it is done: dropping takes its time.
        let told = &mut |gone: &Recycled| {
            output.line(format!("{}: {} ({})", gone.version_name, gone.outcome, gone.reason));
        };
        all.extend(store.recycle(&table, options, told).await?);
    }
    output.document(&all);
    if all.is_empty() {
        output.line("nothing to recycle");
    }
    Ok(())
}
