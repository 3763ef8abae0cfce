//! `helenus serve`: what the configuration enables, kept running, with health and metrics over HTTP.

mod guarantees;
mod manifest;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use helenus::{Failure, Kind, Ports};
use helenus_server::supervisor::{Policy, Supervisor};
use helenus_server::{Expectations, Meters, Overview};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::answering::Door;
use crate::args::Serve;
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;
use crate::signals::Interruption;

use tasks::Parts;

/// How long store and broker may take to answer a look at them. The broker's own limit is a little
/// shorter, so that it is the one to say why.
const PATIENCE: Duration = Duration::from_secs(5);
const BROKER_PATIENCE: Duration = Duration::from_secs(4);

/// Looks that may be missed before what was last seen counts as old.
const LOOKS_MISSED: u32 = 3;

pub(crate) async fn run(
    serve: &Serve,
    mut config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    // Before there is anything to be left behind.
    let interruption = Interruption::listen()?;
    let door = Door::open(serve.listen.unwrap_or(config.serve.listen), &config).await?;
    let address = door.address;
    let store = open::store(serve.store.as_ref(), &config).await?;
    let named = serve.broker.as_ref();
    let parts = Parts {
        broker: open::broker(named, &config, Some(&store))?,
        watched: open::broker_within(BROKER_PATIENCE, named, &config, Some(&store))?,
        store,
        ports: Ports::system(),
    };
    // What arguments say is in effect.
    config.store.url = serve.store.clone().unwrap_or(config.store.url);
    config.broker.url = serve.broker.clone().unwrap_or(config.broker.url);
    config.serve.listen = address;

    let meters = Meters::install()?;
    let ports = parts.ports.clone();
    let (clock, random) = (Arc::clone(&ports.clock), Arc::clone(&ports.random));
    let mut supervisor = Supervisor::new(Policy::default(), Arc::clone(&clock), random);
    let expectations = Expectations {
        down_after: config.relay.down_after,
        stale_after: config.serve.look_every * LOOKS_MISSED + PATIENCE,
        patience: PATIENCE,
        relay: tasks::relays(&config),
    };
    let overview = Overview::new(supervisor.register(), clock, expectations);
    tasks::add(&mut supervisor, &parts, &config, &overview, &meters);

    let drain = config.serve.drain;
    let condition = Arc::new(overview.clone());
    let answering = door.answer(condition, meters, Some(manifest::of(&config)));
    output.say(
        &json!({ "listening": format!("http://{address}") }),
        &format!("listening on http://{address}"),
    );

    let ended = Box::pin(until_told(supervisor, &overview, interruption, drain)).await;
    answering.end().await;
    ended?;
    parts.store.close().await;
    output.say(&json!({ "ended": true }), "ended; everything begun was finished");
    Ok(Outcome::Done)
}

/// Runs the tasks until a signal comes, then lets them finish; a second signal does not wait for that.
async fn until_told(
    supervisor: Supervisor,
    overview: &Overview,
    mut interruption: Interruption,
    drain: Duration,
) -> Result<(), Failed> {
    let stop = CancellationToken::new();
    let mut running = Box::pin(supervisor.run(stop.clone(), drain));
    let signal = tokio::select! {
        // Not before it is told to.
        _ = &mut running => return Ok(()),
        signal = interruption.next() => signal,
    };
    tracing::info!(signal, "finishing what was begun");
    overview.drains();
    stop.cancel();
    tokio::select! {
        left = running => match left.as_slice() {
            [] => Ok(()),
            _ => Err(NotDrained { left: left.join(", "), why: format!("within {drain:?}") }.into()),
        },
        signal = interruption.next() => {
            let why = format!("before a second signal ({signal})");
            Err(NotDrained { left: "some tasks".to_owned(), why }.into())
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{left} did not finish {why}")]
struct NotDrained {
    left: String,
    why: String,
}

impl Failure for NotDrained {
    fn kind(&self) -> Kind {
        Kind::OutcomeUnknown
    }

    fn code(&self) -> &'static str {
        "not_drained"
    }

    fn remedy(&self) -> Option<std::borrow::Cow<'static, str>> {
        Some("start it again: it settles what was under way; serve.drain allows more time".into())
    }
}
