//! `helenus relay`: from the outbox into topics.

use std::time::Duration;

use helenus::relay::{Health, Mode, Options, Totals, UpOrDown, status};
use helenus::{Broker, Ports, Store, relay};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::{Relay, RelayCommand, RelayMode};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;
use crate::signals::Interruption;

pub(crate) async fn run(relay: &Relay, config: Config, output: &Output) -> Result<Outcome, Failed> {
    let store = open::store(relay.store.as_ref(), &config).await?;
    let options = config.relay.options();
    let done = match &relay.command {
        RelayCommand::Status => {
            show_status(&store, &options, config.relay.down_after, output).await
        }
        RelayCommand::Run { until_empty, mode, hints } => {
            let broker = open::broker(relay.broker.as_ref(), &config, Some(&store))?;
            let mode = mode.map_or(options.mode, |mode| match mode {
                RelayMode::ExactlyOnce => Mode::ExactlyOnce,
                RelayMode::AtLeastOnce => Mode::AtLeastOnce,
            });
            let hints = options.hints || *hints;
            let options = Options { mode, hints, ..options };
            publish(&store, broker, options, *until_empty, output).await
        }
    };
    store.close().await;
    done.map(|()| Outcome::Done)
}

/// Publishes until nothing is left or a signal comes; what was begun is finished either way.
async fn publish(
    store: &Store,
    broker: Broker,
    options: Options,
    until_empty: bool,
    output: &Output,
) -> Result<(), Failed> {
    let interruption = Interruption::listen()?;
    let relay = relay::Relay::new(store.clone(), broker, options, Ports::system());
    let shutdown = CancellationToken::new();
    let running = async {
        if until_empty {
            relay.run_until_empty(shutdown.clone()).await
        } else {
            relay.run(shutdown.clone()).await
        }
    };
    let mut running = Box::pin(running);
    let totals = tokio::select! {
        totals = &mut running => totals?,
        signal = interruption.heard() => {
            tracing::info!(signal, "finishing what was begun");
            shutdown.cancel();
            running.await?
        }
    };
    let Totals { published, duplicates_suppressed, failed, parked, take_overs, outages } = totals;
    output.document(&json!({
        "published": published,
        "duplicates_suppressed": duplicates_suppressed,
        "failed": failed,
        "parked": parked,
        "take_overs": take_overs,
        "outages": outages,
    }));
    output.line(format!("published {published}, refused {failed}, parked {parked}"));
    Ok(())
}

async fn show_status(
    store: &Store,
    options: &Options,
    down_after: Duration,
    output: &Output,
) -> Result<(), Failed> {
    let status = status(store, options, Ports::system().clock.now()).await?;
    let Health { status: health, lag_ms, unpublished } = Health::of(&status, down_after);
    let mut document = json!(status);
    if let Some(document) = document.as_object_mut() {
        document.insert("health".to_owned(), json!(health));
    }
    output.document(&document);
    let is = if health == UpOrDown::Up { "up" } else { "DOWN" };
    output.line(format!("{is}: {unpublished} unpublished, the oldest due for {lag_ms} ms"));
    let rows = status.shards.into_iter().map(|shard| {
        let owner = shard.owner.unwrap_or_else(|| "nobody".to_owned());
        let epoch = shard.epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
        [shard.shard.to_string(), owner, epoch, shard.watermark.to_string()]
    });
    output.table(["shard", "owner", "epoch", "done until"], rows.collect());
    Ok(())
}
