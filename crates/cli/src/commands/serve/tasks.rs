//! The tasks of a service, as the configuration enables them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use helenus::backend::BrokerUrl;
use helenus::relay::{Options, Relay};
use helenus::store::{Sweep, Upkeep};
use helenus::{Broker, Failure, Ports, Store, told};
use helenus_server::supervisor::{Fault, Run, Supervisor, Task};
use helenus_server::{Meters, Overview, meters};

use crate::config::Config;

/// Messages and receipts one round of the sweeper removes at most, of each; a full round is followed
/// by the next at once.
const SWEPT_AT_ONCE: usize = 10_000;

/// What the tasks work on. Cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) broker: Broker,
    /// The same broker, asked by whoever does not want to wait for long.
    pub(super) watched: Broker,
    pub(super) ports: Ports,
}

/// Whether a relay runs here.
pub(super) fn relays(config: &Config) -> bool {
    config.outbox.register && config.serve.relay
}

/// Adds what is enabled, and whoever looks at it.
pub(super) fn add(
    supervisor: &mut Supervisor,
    parts: &Parts,
    config: &Config,
    overview: &Overview,
    meters: &Meters,
) {
    let options = config.relay.options();
    // One for all its starts, so that its counts go on.
    let relay = Arc::new(Relay::new(
        parts.store.clone(),
        parts.broker.clone(),
        options.clone(),
        parts.ports.clone(),
    ));
    if relays(config) {
        let relay = Arc::clone(&relay);
        supervisor.add(Task::new("relay", move |run| publish(Arc::clone(&relay), run)));
    }
    if config.outbox.register && config.serve.reconciler {
        supervisor.add(reconciler(parts.clone(), config.serve.reconcile_every));
    }
    if config.serve.sweeper && (config.outbox.register || config.inbox.register) {
        supervisor.add(sweeper(parts.clone(), config));
    }
    if config.serve.topic_retention && matches!(config.broker.url, BrokerUrl::Embedded) {
        supervisor.add(topic_retention(parts.clone(), config));
    }
    let look = Look { parts: parts.clone(), relay, options, overview: overview.clone() };
    supervisor.add(observer(look, meters.clone(), config.serve.look_every));
}

async fn publish(relay: Arc<Relay<Store, Broker>>, run: Run) -> Result<(), Fault> {
    relay.run(run.stop).await.map(drop).map_err(|error| fault(&error))
}

fn reconciler(parts: Parts, every: Duration) -> Task {
    Task::new("reconciler", move |run| {
        let store = parts.store.clone();
        repeat(run, every, move || {
            let store = store.clone();
            async move {
                let round = store.reconcile(false).await.map_err(|error| fault(&error))?;
                meters::reconciled(&round);
                Ok(Again::Later)
            }
        })
    })
}

fn sweeper(parts: Parts, config: &Config) -> Task {
    let (keep_done, receipt_ttl) = (config.outbox.keep_done, config.inbox.receipt_ttl);
    let every = config.serve.sweep_every;
    Task::new("sweeper", move |run| {
        let parts = parts.clone();
        repeat(run, every, move || {
            let (store, now) = (parts.store.clone(), parts.ports.clock.now());
            let sweep = Sweep {
                done_before: now.minus(keep_done),
                processed_before: now.minus(receipt_ttl),
                limit: SWEPT_AT_ONCE,
                dry_run: false,
            };
            async move {
                let round = store.sweep(sweep).await.map_err(|error| fault(&error))?;
                meters::swept(&round);
                let most = usize::try_from(round.messages.max(round.receipts));
                let is_full = most.is_ok_and(|most| most >= SWEPT_AT_ONCE);
                Ok(if is_full { Again::AtOnce } else { Again::Later })
            }
        })
    })
}

fn topic_retention(parts: Parts, config: &Config) -> Task {
    let (keep, every) = (config.broker.retention, config.serve.sweep_every);
    Task::new("topic-retention", move |run| {
        let parts = parts.clone();
        repeat(run, every, move || {
            let (broker, before) = (parts.broker.clone(), parts.ports.clock.now().minus(keep));
            async move {
                let gone = broker.expire(before).await.map_err(|error| fault(&error))?;
                meters::expired(gone);
                Ok(Again::Later)
            }
        })
    })
}

/// What is looked at.
#[derive(Clone)]
struct Look {
    parts: Parts,
    relay: Arc<Relay<Store, Broker>>,
    options: Options,
    overview: Overview,
}

fn observer(look: Look, meters: Meters, every: Duration) -> Task {
    Task::new("observer", move |run| {
        let (look, meters) = (look.clone(), meters.clone());
        repeat(run, every, move || {
            let (look, meters) = (look.clone(), meters.clone());
            async move {
                let Look { parts, relay, options, overview } = &look;
                meters::relayed(&relay.totals());
                overview.look(&parts.store, &parts.watched, options).await;
                meters.tidy_up();
                Ok(Again::Later)
            }
        })
    })
}

/// When a round is followed by the next.
enum Again {
    AtOnce,
    Later,
}

/// Does `round` now and `every` so often, until told to stop or until one fails.
async fn repeat<W>(run: Run, every: Duration, round: impl Fn() -> W + Send) -> Result<(), Fault>
where
    W: Future<Output = Result<Again, Fault>> + Send,
{
    while !run.stop.is_cancelled() {
        let again = Box::pin(round()).await?;
        run.is_well();
        if let Again::Later = again {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = run.stop.cancelled() => {}
            }
        }
    }
    Ok(())
}

fn fault(error: &(impl Failure + 'static)) -> Fault {
    Fault { kind: error.kind(), reason: told(error) }
}
