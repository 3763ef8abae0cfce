//! The relay: holds its part of the lanes and runs them.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helenus_broker::contract::Broker;
use helenus_model::{MessageId, Timestamp};
use helenus_store::Ports;
use helenus_store::contract::{Acquired, Dispatch, Identity, Leases};
use helenus_store::lanes::lease_name;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::lane::Lane;
use crate::share::{Membership, Part};
use crate::totals::{Counters, add_time};
use crate::{Mode, Options, Profile, RelayError, Totals, hints, marker};

/// Publishes what is due in a store. See the crate's documentation for an example.
#[derive(Debug)]
pub struct Relay<S, B> {
    store: S,
    broker: B,
    options: Options,
    ports: Ports,
    owner: String,
    counters: Arc<Counters>,
}

/// How lanes were held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// As they were asked for.
    ToTheEnd,
    /// Until the store had another number of shards.
    Resharded,
}

/// What the lanes of a running relay share.
pub(crate) struct Core<S, B> {
    pub(crate) store: S,
    pub(crate) broker: B,
    pub(crate) options: Options,
    pub(crate) ports: Ports,
    pub(crate) counters: Arc<Counters>,
    identity: Identity,
    pub(crate) lanes: u16,
    pub(crate) markers: String,
    /// By lane: told when a hint names one of its messages, heard by the lane if it is held.
    hinted: Vec<Notify>,
    /// Told whenever a lane finds nothing to do.
    pub(crate) idle: Notify,
    /// When messages that this relay put off are due again.
    retries: Mutex<HashMap<MessageId, Timestamp>>,
    /// Why the relay should not go on, if it is to end by itself.
    trouble: Mutex<Option<RelayError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S, B> Core<S, B> {
    pub(crate) fn store_id(&self) -> impl std::fmt::Display + use<S, B> {
        self.identity.store_id
    }

    pub(crate) fn publisher_name(&self, lane: u16) -> String {
        format!("helenus.{}.{lane}", self.identity.store_id)
    }

    pub(crate) fn shards_of(&self, lane: u16) -> impl Iterator<Item = u16> + use<S, B> {
        (lane..self.identity.shards).step_by(usize::from(self.lanes.max(1)))
    }

    /// The lane that a shard is in.
    pub(crate) fn lane_of(&self, shard: u16) -> u16 {
        shard % self.lanes.max(1)
    }

    pub(crate) fn shards(&self) -> u16 {
        self.identity.shards
    }

    /// Wakes a lane, now or when it next has nothing to do.
    pub(crate) fn wake(&self, lane: u16) {
        if let Some(hinted) = self.hinted.get(usize::from(lane)) {
            hinted.notify_one();
        }
    }

    /// Waits until the lane is woken.
    pub(crate) async fn woken(&self, lane: u16) {
        match self.hinted.get(usize::from(lane)) {
            Some(hinted) => hinted.notified().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn retry_at(&self, id: MessageId, at: Timestamp) {
        lock(&self.retries).insert(id, at);
    }

    pub(crate) fn settled(&self, ids: impl Iterator<Item = MessageId>) {
        let mut retries = lock(&self.retries);
        if !retries.is_empty() {
            for id in ids {
                retries.remove(&id);
            }
        }
    }

    pub(crate) fn until_next_retry(&self, now: Timestamp) -> Option<Duration> {
        let retries = lock(&self.retries);
        retries.values().filter(|at| **at > now).min().map(|at| at.since(now))
    }

    /// Adds the time since `begun` to a step's.
    pub(crate) fn took(&self, begun: Duration, step: impl Fn(&Counters) -> &AtomicU64) {
        let spent = self.ports.clock.elapsed().saturating_sub(begun);
        add_time(step(&self.counters), spent);
    }

    pub(crate) fn give_up(&self, error: RelayError) {
        *lock(&self.trouble) = Some(error);
        self.idle.notify_one();
    }
}

impl<S, B> Relay<S, B>
where
    S: Dispatch + Leases + Clone + 'static,
    B: Broker<Publisher: 'static> + Clone + 'static,
{
    /// A relay that does not run yet.
    pub fn new(store: S, broker: B, options: Options, ports: Ports) -> Self {
        // One name for one running relay, never two.
        let owner = format!("relay-{}-{}", std::process::id(), ports.random.uuid().simple());
        let counters = Arc::default();
        Relay { store, broker, options, ports, owner, counters }
    }

    /// The name its leases are held under.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What it has done so far; also while it runs.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// Where the time of its lanes went; also while it runs.
    pub fn profile(&self) -> Profile {
        self.counters.profile()
    }

    /// Publishes until `shutdown`, then finishes the transactions under way and gives its lanes back.
    ///
    /// Fails if the store or the broker cannot be used at the start; once it runs, it waits for them.
    pub async fn run(&self, shutdown: CancellationToken) -> Result<Totals, RelayError> {
        loop {
            let core = tokio::select! {
                core = self.prepare() => core?,
                () = shutdown.cancelled() => return Ok(self.totals()),
            };
            if self.hold_lanes(&core, &shutdown, false).await? != Held::Resharded {
                return Ok(self.totals());
            }
        }
    }

    /// The same until nothing is due that could be published, or something stays away.
    pub async fn run_until_empty(&self, shutdown: CancellationToken) -> Result<Totals, RelayError> {
        let mut core = self.prepare().await?;
        while self.hold_lanes(&core, &shutdown, true).await? == Held::Resharded {
            core = self.prepare().await?;
        }
        let trouble = lock(&core.trouble).take();
        trouble.map_or_else(|| Ok(self.totals()), Err)
    }

    async fn prepare(&self) -> Result<Arc<Core<S, B>>, RelayError> {
        let identity = self.store.identity().await?;
        let lanes = self.options.lanes_of(identity.shards);
        let markers = marker::topic(identity.store_id);
        match self.options.mode {
            Mode::ExactlyOnce => {
                self.broker.create_compacted_topic(&markers, u32::from(lanes)).await?;
            }
            // Whether it is there shows now, not with the first message.
            Mode::AtLeastOnce => drop(self.broker.topics().await?),
        }
        Ok(Arc::new(Core {
            store: self.store.clone(),
            broker: self.broker.clone(),
            options: self.options.clone(),
            ports: self.ports.clone(),
            counters: Arc::clone(&self.counters),
            identity,
            lanes,
            markers,
            hinted: (0..lanes).map(|_| Notify::new()).collect(),
            idle: Notify::new(),
            retries: Mutex::default(),
            trouble: Mutex::default(),
        }))
    }

    async fn hold_lanes(
        &self,
        core: &Arc<Core<S, B>>,
        shutdown: &CancellationToken,
        until_empty: bool,
    ) -> Result<Held, RelayError> {
        let mut membership = Membership::new(self.owner.clone(), core.lanes);
        let mut running = JoinSet::new();
        // Ends with this function: nothing waits for a hint.
        let mut beside = JoinSet::new();
        if self.options.hints {
            let from = hints::end(&core.broker, core.store_id()).await?;
            beside.spawn(hints::follow(Arc::clone(core), from));
        }
        let mut held: HashMap<u16, CancellationToken> = HashMap::new();
        let mut balance = tokio::time::interval(self.options.lease_ttl / 3);
        let ended = loop {
            tokio::select! {
                () = shutdown.cancelled() => break Held::ToTheEnd,
                _ = balance.tick() => {
                    match self.balance(core, &mut membership, &mut held, &mut running).await {
                        Ok(Held::ToTheEnd) => {}
                        Ok(Held::Resharded) => break Held::Resharded,
                        Err(error) => {
                            tracing::warn!(%error, "lanes cannot be shared out");
                            if until_empty {
                                core.give_up(error);
                            }
                        }
                    }
                }
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    let lane = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                    held.remove(&lane);
                }
                () = core.idle.notified(), if until_empty => {
                    if lock(&core.trouble).is_some() || self.is_empty(core).await? {
                        break Held::ToTheEnd;
                    }
                }
            }
        };
        held.values().for_each(CancellationToken::cancel);
        while running.join_next().await.is_some() {}
        membership.leave(&self.store).await?;
        Ok(ended)
    }

    /// Whether nothing is due in any lane, and nothing waits for this relay to try again.
    async fn is_empty(&self, core: &Core<S, B>) -> Result<bool, RelayError> {
        let now = self.ports.clock.now();
        let waits = core.until_next_retry(now).is_some();
        Ok(!waits && self.store.read_pending(now, 1).await?.is_empty())
    }

    /// Takes lanes up to this relay's part, or gives back what is over it.
    async fn balance(
        &self,
        core: &Arc<Core<S, B>>,
        membership: &mut Membership,
        held: &mut HashMap<u16, CancellationToken>,
        running: &mut JoinSet<u16>,
    ) -> Result<Held, RelayError> {
        let (ttl, clock) = (self.options.lease_ttl, &self.ports.clock);
        let Part { lanes, begin } = membership.part(&self.store, ttl, clock.now()).await?;
        let surplus = held.len().saturating_sub(usize::from(lanes));
        for stop in held.values().filter(|stop| !stop.is_cancelled()).take(surplus) {
            stop.cancel();
        }
        for number in (0..core.lanes).map(|lane| (begin + lane) % core.lanes) {
            if held.len() >= usize::from(lanes) {
                break;
            }
            if held.contains_key(&number) {
                continue;
            }
            let asked_at = clock.elapsed();
            let acquired = self.store.acquire(&lease_name(number), &self.owner, ttl).await?;
            if let Acquired::Held(lease) = acquired {
                // Whoever changes the shards holds all lanes meanwhile: what is recorded now stands.
                if self.store.identity().await? != core.identity {
                    self.store.release(&lease).await?;
                    return Ok(Held::Resharded);
                }
                let stop = CancellationToken::new();
                let lane = Lane::new(Arc::clone(core), number, lease, asked_at);
                running.spawn(lane.run(stop.clone()));
                held.insert(number, stop);
            }
        }
        Ok(Held::ToTheEnd)
    }
}
