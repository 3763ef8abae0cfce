//! One of those who share a subscription.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_model::Backoff;
use helenus_model::limits::{CONSUMER_BATCH_MAX, LEASE_TTL};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::effect::Effect;
use super::error::ConsumeError;
use super::lane::{Done, Lane};
use super::meters::Meters;
use crate::Ports;
use crate::contract::{Acquired, Feed, Hold, SubscriptionName, Subscriptions};

/// How a consumer works.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// How long a lane stays with a consumer that says nothing more.
    pub lease_ttl: Duration,
    /// Events handled before the checkpoint moves.
    pub batch: usize,
    /// Times an event is tried before it is parked.
    pub attempts_max: u32,
    /// Waits between them.
    pub backoff: Backoff,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        ConsumerOptions {
            lease_ttl: LEASE_TTL,
            batch: CONSUMER_BATCH_MAX,
            attempts_max: 5,
            backoff: Backoff::default(),
        }
    }
}

/// Competes for the lanes of a subscription and works on those it gets.
///
/// ```
/// use helenus_model::{Expected, NewEvent, Payload, StreamId};
/// use helenus_store::Ports;
/// use helenus_store::contract::{Append, EventStore, NewSubscription, Subscriptions};
/// use helenus_store::subscription::{Consumer, Delivery, Each};
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = Ports::system();
/// # let path = dir.path().join("shop.db");
/// # let store = helenus_store::sqlite::SqliteStore::open(path, ports.clone()).await?;
/// let placed = NewEvent::new("order.placed", Payload::json(&serde_json::json!({})));
/// store.append(Append::new(StreamId::new("order-1")?, Expected::NoStream, vec![placed])).await?;
///
/// let mail = NewSubscription::new("mail".parse()?);
/// store.subscribe(mail.clone()).await?;
/// let send = Each::new(store.clone(), |delivery: Delivery| async move {
///     println!("a mail about {}", delivery.event.stream_id);
///     Ok(())
/// });
/// let consumer = Consumer::new(store, mail.name, send, ports);
/// assert_eq!(consumer.catch_up(&Default::default()).await?.handled, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Consumer<S, E> {
    store: S,
    name: SubscriptionName,
    effect: Arc<E>,
    ports: Ports,
    /// One running consumer, never two.
    owner: String,
    options: ConsumerOptions,
    meters: Meters,
}

/// What a consumer did until it had caught up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CaughtUp {
    /// Events handled.
    pub handled: u64,
    /// Events set aside.
    pub parked: u64,
    /// Lanes that others hold, and that may not have caught up.
    pub lanes_elsewhere: u32,
}

type Ended = (u32, Result<Done, ConsumeError>);

/// The lanes a consumer works on.
#[derive(Default)]
struct Holdings {
    tasks: JoinSet<Ended>,
    held: BTreeMap<u32, CancellationToken>,
}

impl<S, E> Consumer<S, E>
where
    S: Feed + Subscriptions + Clone + 'static,
    E: Effect,
{
    /// A consumer of a registered subscription.
    pub fn new(store: S, name: SubscriptionName, effect: E, ports: Ports) -> Self {
        let owner = format!("consumer-{}", ports.random.uuid().simple());
        let meters = Meters::new(name.as_str());
        let effect = Arc::new(effect);
        let options = ConsumerOptions::default();
        Consumer { store, name, effect, ports, owner, options, meters }
    }

    /// Works in this way.
    #[must_use]
    pub fn with(mut self, options: ConsumerOptions) -> Self {
        self.options = options;
        self
    }

    /// Measures it under this name instead of its subscription's.
    #[must_use]
    pub fn measured_as(mut self, name: &str) -> Self {
        self.meters = Meters::new(name);
        self
    }

    /// The name under which it holds leases.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Works until `stop`: shares the lanes with other consumers, takes over those whose owner has
    /// gone, and gives its own back at the end. Failures that pass are waited out.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ConsumeError> {
        let mut holdings = Holdings::default();
        let shared = self.share(&mut holdings, stop).await;
        let ended = holdings.end().await;
        let left = self.store.leave(&self.name, &self.owner).await;
        shared.and(ended)?;
        Ok(left?)
    }

    /// Works on every lane it can get until there is nothing more, or until `stop`.
    pub async fn catch_up(&self, stop: &CancellationToken) -> Result<CaughtUp, ConsumeError> {
        let lanes = self.store.subscription(&self.name).await?.lanes.len();
        let mut caught_up = CaughtUp::default();
        let mut holdings = Holdings::default();
        let mut ended = Ok(());
        for lane in 0..u32::try_from(lanes).unwrap_or(u32::MAX) {
            match self.take(lane, false, stop, &mut holdings).await {
                Ok(true) => {}
                Ok(false) => caught_up.lanes_elsewhere += 1,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        // Every lane ends by itself and is given back, whatever becomes of the others.
        while let Some(lane) = holdings.tasks.join_next().await {
            match flatten(lane).1 {
                Ok(done) => {
                    caught_up.handled += done.handled;
                    caught_up.parked += done.parked;
                }
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        self.measure().await;
        ended.map(|()| caught_up)
    }

    async fn share(
        &self,
        holdings: &mut Holdings,
        stop: &CancellationToken,
    ) -> Result<(), ConsumeError> {
        while !stop.is_cancelled() {
            match self.balance(holdings).await {
                Err(error) if !error.is_passing() => return Err(error),
                Err(error) => tracing::warn!(%error, "lanes could not be shared; trying again"),
                Ok(()) => {}
            }
            self.measure().await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.options.lease_ttl / 3) => {}
                Some(ended) = holdings.tasks.join_next() => {
                    let (lane, ended) = flatten(ended);
                    holdings.held.remove(&lane);
                    match ended {
                        Err(error) if !error.is_passing() => return Err(error),
                        Err(error) => tracing::warn!(lane, %error, "a lane was lost"),
                        Ok(_) => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes lanes up to this consumer's share, and gives back what it has beyond that.
    async fn balance(&self, holdings: &mut Holdings) -> Result<(), ConsumeError> {
        let consumers = self.store.join(&self.name, &self.owner, self.options.lease_ttl).await?;
        let status = self.store.subscription(&self.name).await?;
        let lanes = u32::try_from(status.lanes.len()).unwrap_or(u32::MAX).max(1);
        let share = usize::try_from(lanes.div_ceil(consumers.max(1))).unwrap_or(usize::MAX);
        for stop in holdings.held.values().skip(share) {
            stop.cancel();
        }
        // Everybody begins elsewhere, or all would want the first.
        let begin = u32::try_from(self.ports.random.below(u64::from(lanes))).unwrap_or(0);
        for lane in (begin..lanes).chain(0..begin) {
            if holdings.held.len() >= share {
                break;
            }
            if !holdings.held.contains_key(&lane) {
                self.take(lane, true, &CancellationToken::new(), holdings).await?;
            }
        }
        Ok(())
    }

    /// Takes a lane and begins to work on it; `false` if somebody else has it.
    async fn take(
        &self,
        lane: u32,
        follow: bool,
        stop: &CancellationToken,
        holdings: &mut Holdings,
    ) -> Result<bool, ConsumeError> {
        let name = Hold::lease_name(&self.name, lane);
        let ttl = self.options.lease_ttl;
        let Acquired::Held(lease) = self.store.acquire(&name, &self.owner, ttl).await? else {
            return Ok(false);
        };
        let stop = stop.child_token();
        holdings.held.insert(lane, stop.clone());
        let work = Lane {
            store: self.store.clone(),
            effect: Arc::clone(&self.effect),
            ports: self.ports.clone(),
            options: self.options.clone(),
            meters: self.meters.clone(),
            hold: Hold { subscription: self.name.clone(), lane, lease },
            stop,
            follow,
        };
        holdings.tasks.spawn(async move { (lane, Box::pin(work.run()).await) });
        Ok(true)
    }

    async fn measure(&self) {
        match self.store.subscription(&self.name).await {
            Ok(status) => self.meters.status(&status),
            Err(error) => tracing::debug!(%error, "a subscription could not be measured"),
        }
    }
}

impl Holdings {
    /// Lets every lane finish the event at hand and give its lease back.
    async fn end(&mut self) -> Result<(), ConsumeError> {
        for stop in self.held.values() {
            stop.cancel();
        }
        let mut first = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            if let (_, Err(error)) = flatten(ended)
                && !error.is_passing()
                && first.is_ok()
            {
                first = Err(error);
            }
        }
        first
    }
}

fn flatten(ended: Result<Ended, JoinError>) -> Ended {
    match ended {
        Ok(ended) => ended,
        // Nothing aborts these tasks: it panicked, which is a bug of ours.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
