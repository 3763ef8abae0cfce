//! Promises of consumers: they share the work, keep each stream's order and lose nothing.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helenus_model::{Backoff, Expected, SystemRandom};
use helenus_store::Ports;
use helenus_store::contract::{
    EventStore, Feed, Hold, NewSubscription, OnPoison, SubscriptionName, SubscriptionStatus,
    Subscriptions, Which,
};
use helenus_store::subscription::{BoxError, Consumer, ConsumerOptions, Delivery, Each};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Fixture;
use super::events::append;
use super::subscriptions::subscription;

const PATIENCE: Duration = Duration::from_secs(60);

fn mail() -> SubscriptionName {
    "mail".parse().unwrap()
}

/// What handlers were given, in the order they were.
#[derive(Clone)]
struct Given(watch::Sender<Vec<(String, i64)>>);

impl Given {
    fn new() -> Self {
        Given(watch::Sender::new(Vec::new()))
    }

    fn note(&self, delivery: &Delivery) {
        let event = &delivery.event;
        let one = (event.stream_id.to_string(), event.version.as_i64());
        self.0.send_modify(|given| given.push(one));
    }

    fn all(&self) -> Vec<(String, i64)> {
        self.0.borrow().clone()
    }

    fn of(&self, stream: &str) -> Vec<i64> {
        self.all().into_iter().filter(|(id, _)| id == stream).map(|(_, version)| version).collect()
    }

    /// Waits until so many different events were given.
    async fn reaches(&self, count: usize) {
        let distinct = |given: &Vec<(String, i64)>| given.iter().collect::<HashSet<_>>().len();
        let mut changes = self.0.subscribe();
        let reached = changes.wait_for(|given| distinct(given) >= count);
        timeout(PATIENCE, reached).await.unwrap().unwrap();
    }

    /// Each stream begins at 1 and misses nothing; what is repeated came in order before.
    fn is_in_order(&self) {
        let mut next: BTreeMap<String, i64> = BTreeMap::new();
        for (stream, version) in self.all() {
            let next = next.entry(stream.clone()).or_insert(1);
            assert!(version <= *next, "{stream}: {version} before {next}");
            *next = (*next).max(version + 1);
        }
    }
}

fn ports<S>(fixture: &Fixture<S>) -> Ports {
    Ports { clock: Arc::clone(&fixture.clock) as _, random: Arc::new(SystemRandom) }
}

fn options() -> ConsumerOptions {
    ConsumerOptions {
        lease_ttl: Duration::from_millis(300),
        batch: 10,
        attempts_max: 3,
        backoff: Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(4) },
    }
}

async fn fill<S: EventStore>(store: &S, streams: usize, events: usize) {
    for turn in 0..events {
        for stream in 0..streams {
            let stream = format!("s{}", (stream + turn) % streams);
            store.append(append(&stream, Expected::Any, 1)).await.unwrap();
        }
    }
}

/// Waits until a subscription is as it should be.
async fn until<S: Subscriptions>(store: &S, is_so: impl Fn(&SubscriptionStatus) -> bool) {
    let waiting = async {
        loop {
            let status = store.subscription(&mail()).await.unwrap();
            if is_so(&status) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

fn owned_by(status: &SubscriptionStatus, owner: &str) -> usize {
    status.lanes.iter().filter(|lane| lane.owner.as_deref() == Some(owner)).count()
}

/// A consumer whose handler notes what it is given.
fn noting<S>(
    fixture: &Fixture<S>,
    given: &Given,
) -> Consumer<S, impl helenus_store::subscription::Effect + use<S>>
where
    S: Feed + Subscriptions + Clone + 'static,
{
    let given = given.clone();
    let handler = move |delivery: Delivery| {
        given.note(&delivery);
        std::future::ready(Ok(()))
    };
    let each = Each::new(fixture.store.clone(), handler);
    Consumer::new(fixture.store.clone(), mail(), each, ports(fixture)).with(options())
}

pub(super) async fn every_event_is_handled_in_its_streams_order<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    fill(&fixture.store, 7, 6).await;
    fixture.store.subscribe(subscription("mail", 3)).await.unwrap();
    let given = Given::new();
    let consumer = noting(fixture, &given);
    let stop = CancellationToken::new();
    let caught_up = consumer.catch_up(&stop).await.unwrap();
    assert_eq!((caught_up.handled, caught_up.parked, caught_up.lanes_elsewhere), (42, 0, 0));
    given.is_in_order();
    assert_eq!(given.all().len(), 42);
    assert_eq!(fixture.store.subscription(&mail()).await.unwrap().lag_events, 0);
    assert_eq!(consumer.catch_up(&stop).await.unwrap().handled, 0, "each once");

    // It goes on with what is appended later.
    let (ended, ()) = tokio::join!(consumer.run(&stop), async {
        fixture.store.append(append("s0", Expected::Any, 2)).await.unwrap();
        given.reaches(44).await;
        stop.cancel();
    });
    ended.unwrap();
    given.is_in_order();
    assert_eq!(given.all().len(), 44);
}

pub(super) async fn consumers_share_the_lanes_and_take_over_from_one_that_is_gone<S>(
    fixture: &Fixture<S>,
) where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    store.subscribe(subscription("mail", 4)).await.unwrap();
    let given = Given::new();
    let (mut gone, mut stays) = (JoinSet::new(), JoinSet::new());
    let stop = CancellationToken::new();
    let first = noting(fixture, &given);
    let first_name = first.owner().to_owned();
    gone.spawn(async move { first.run(&CancellationToken::new()).await });
    until(store, |status| owned_by(status, &first_name) == 4).await;
    let second = noting(fixture, &given);
    let second_name = second.owner().to_owned();
    let stopping = stop.clone();
    stays.spawn(async move { second.run(&stopping).await });
    until(store, |status| {
        (owned_by(status, &first_name), owned_by(status, &second_name)) == (2, 2)
    })
    .await;
    fill(store, 9, 10).await;
    given.reaches(40).await;
    // Dropped as it stands, without a word to anybody.
    gone.shutdown().await;
    fixture.later(options().lease_ttl);
    until(store, |status| owned_by(status, &second_name) == 4).await;
    fill(store, 9, 2).await;
    given.reaches(9 * 12).await;
    until(store, |status| status.lag_events == 0).await;
    stop.cancel();
    stays.join_next().await.unwrap().unwrap().unwrap();
    given.is_in_order();
}

pub(super) async fn a_lane_is_held_while_its_handler_runs<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 1, 2).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let (given, gate) = (Given::new(), Arc::new(Semaphore::new(0)));
    let consumer = gated(fixture, &given, &gate).with(options());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { consumer.catch_up(&CancellationToken::new()).await });
    given.reaches(1).await;
    let (ttl, lease) = (options().lease_ttl, Hold::lease_name(&mail(), 0));
    // More than the lease lasts, in steps that are less.
    for _ in 0..4 {
        let until = fixture.later(ttl / 2).plus(ttl);
        let renewed = async {
            while store.holder(&lease).await.unwrap().unwrap().expires_at != until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, renewed).await.unwrap();
    }
    let other = noting(fixture, &Given::new());
    let refused = other.catch_up(&CancellationToken::new()).await.unwrap();
    assert_eq!((refused.handled, refused.lanes_elsewhere), (0, 1));
    gate.add_permits(2);
    assert_eq!(tasks.join_next().await.unwrap().unwrap().unwrap().handled, 2);
    assert_eq!(given.all().len(), 2);
}

/// A consumer whose handler notes what it is given, then waits for a permit.
fn gated<S>(
    fixture: &Fixture<S>,
    given: &Given,
    gate: &Arc<Semaphore>,
) -> Consumer<S, impl helenus_store::subscription::Effect + use<S>>
where
    S: Feed + Subscriptions + Clone + 'static,
{
    let (note, gate) = (given.clone(), Arc::clone(gate));
    let handler = move |delivery: Delivery| {
        note.note(&delivery);
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await?.forget();
            Ok::<(), BoxError>(())
        }
    };
    let each = Each::new(fixture.store.clone(), handler);
    Consumer::new(fixture.store.clone(), mail(), each, ports(fixture))
}

pub(super) async fn an_owner_that_was_paused_changes_nothing_when_it_comes_back<S>(
    fixture: &Fixture<S>,
) where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 1, 5).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let (given, again) = (Given::new(), Given::new());
    let gate = Arc::new(Semaphore::new(1));
    // So long that it does not renew while this test runs: as good as paused.
    let ttl = Duration::from_secs(3_600);
    let paused =
        gated(fixture, &given, &gate).with(ConsumerOptions { lease_ttl: ttl, ..options() });
    let stop = CancellationToken::new();
    let (stopping, paused_name) = (stop.clone(), paused.owner().to_owned());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { paused.run(&stopping).await });
    given.reaches(2).await;
    fixture.later(ttl);
    let next = noting(fixture, &again);
    assert_eq!(next.catch_up(&CancellationToken::new()).await.unwrap().handled, 5);
    let done = store.subscription(&mail()).await.unwrap();
    assert_eq!((done.lag_events, owned_by(&done, &paused_name)), (0, 0));
    gate.add_permits(100);
    // It finishes its batch, finds that the lane has passed on, and writes nothing.
    given.reaches(5).await;
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    let after = store.subscription(&mail()).await.unwrap();
    assert_eq!(after.lanes[0].position, done.lanes[0].position);
    again.is_in_order();
}

/// A consumer that cannot handle version 2 of stream s0 while `is_ill`.
fn failing<S>(
    fixture: &Fixture<S>,
    given: &Given,
    is_ill: &Arc<AtomicBool>,
) -> Consumer<S, impl helenus_store::subscription::Effect + use<S>>
where
    S: Feed + Subscriptions + Clone + 'static,
{
    let (given, is_ill) = (given.clone(), Arc::clone(is_ill));
    let handler = move |delivery: Delivery| {
        given.note(&delivery);
        let event = &delivery.event;
        let is_poison = event.stream_id.as_str() == "s0" && event.version.as_i64() == 2;
        let fails = is_poison && is_ill.load(Ordering::SeqCst);
        std::future::ready(if fails { Err("no ink".into()) } else { Ok(()) })
    };
    let each = Each::new(fixture.store.clone(), handler);
    Consumer::new(fixture.store.clone(), mail(), each, ports(fixture)).with(options())
}

pub(super) async fn an_event_that_fails_is_retried_then_parked_with_its_stream<S>(
    fixture: &Fixture<S>,
) where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 3, 4).await;
    store.subscribe(subscription("mail", 2)).await.unwrap();
    let (given, is_ill) = (Given::new(), Arc::new(AtomicBool::new(true)));
    let consumer = failing(fixture, &given, &is_ill);
    let stop = CancellationToken::new();
    let caught_up = consumer.catch_up(&stop).await.unwrap();
    assert_eq!((caught_up.handled, caught_up.parked), (9, 3));
    assert_eq!(given.of("s0"), [1, 2, 2, 2], "tried three times, then nothing of its stream");
    assert_eq!((given.of("s1"), given.of("s2")), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    let parked = store.parked(&mail(), 10).await.unwrap();
    let told: Vec<_> = parked.iter().map(|one| (one.error.as_deref(), one.attempts)).collect();
    assert_eq!(told, [(Some("no ink"), 3), (None, 0), (None, 0)]);

    // A consumer that starts later knows that the stream is stopped.
    store.append(append("s0", Expected::Any, 1)).await.unwrap();
    let later = failing(fixture, &given, &is_ill);
    assert_eq!(later.catch_up(&stop).await.unwrap().parked, 1);
    assert_eq!(given.of("s0").len(), 4);

    is_ill.store(false, Ordering::SeqCst);
    assert_eq!(store.replay(&mail(), Which::All).await.unwrap(), 4);
    store.append(append("s0", Expected::Any, 1)).await.unwrap();
    assert_eq!(later.catch_up(&stop).await.unwrap().handled, 5);
    assert_eq!(given.of("s0")[4..], [2, 3, 4, 5, 6]);
    let status = store.subscription(&mail()).await.unwrap();
    assert_eq!((status.lag_events, status.parked), (0, 0));
}

pub(super) async fn a_replay_that_fails_again_stays_parked<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 2, 3).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let (given, is_ill) = (Given::new(), Arc::new(AtomicBool::new(true)));
    let consumer = failing(fixture, &given, &is_ill);
    let stop = CancellationToken::new();
    consumer.catch_up(&stop).await.unwrap();
    store.replay(&mail(), Which::Stream("s0".parse().unwrap())).await.unwrap();
    consumer.catch_up(&stop).await.unwrap();
    assert_eq!(given.of("s0"), [1, 2, 2, 2, 2, 2, 2]);
    let parked = store.parked(&mail(), 10).await.unwrap();
    let told: Vec<_> = parked.iter().map(|one| (one.attempts, one.replay)).collect();
    assert_eq!(told, [(6, false), (0, false)]);

    // Given up, it no longer stops its stream once what waited behind it is replayed.
    store.discard(&mail(), Which::One(parked[0].position.clone())).await.unwrap();
    store.replay(&mail(), Which::All).await.unwrap();
    store.append(append("s0", Expected::Any, 1)).await.unwrap();
    assert_eq!(consumer.catch_up(&stop).await.unwrap().handled, 2);
    assert_eq!(given.of("s0")[7..], [3, 4]);
}

pub(super) async fn a_poison_event_may_be_passed_by<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 2, 3).await;
    let new = NewSubscription { on_poison: OnPoison::GoOn, ..subscription("mail", 1) };
    store.subscribe(new).await.unwrap();
    let (given, is_ill) = (Given::new(), Arc::new(AtomicBool::new(true)));
    let caught_up =
        failing(fixture, &given, &is_ill).catch_up(&CancellationToken::new()).await.unwrap();
    assert_eq!((caught_up.handled, caught_up.parked), (5, 1));
    assert_eq!(given.of("s0"), [1, 2, 2, 2, 3]);
}

pub(super) async fn a_handler_that_panics_has_failed<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 2, 1).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let calls = Arc::new(Mutex::new(0));
    let handler = move |delivery: Delivery| {
        *calls.lock().unwrap() += 1;
        async move {
            assert_ne!(delivery.event.stream_id.as_str(), "s0", "a bug of the application");
            Ok::<(), BoxError>(())
        }
    };
    let each = Each::new(store.clone(), handler);
    let consumer = Consumer::new(store.clone(), mail(), each, ports(fixture)).with(options());
    let caught_up = consumer.catch_up(&CancellationToken::new()).await.unwrap();
    assert_eq!((caught_up.handled, caught_up.parked), (1, 1));
    let parked = store.parked(&mail(), 10).await.unwrap();
    assert_eq!(parked[0].error.as_deref(), Some("the handler panicked"));
}

pub(super) async fn a_consumer_that_is_stopped_gives_its_lanes_back<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions + Clone + 'static,
{
    let store = &fixture.store;
    fill(store, 2, 30).await;
    store.subscribe(subscription("mail", 2)).await.unwrap();
    let given = Given::new();
    let consumer = noting(fixture, &given);
    let stop = CancellationToken::new();
    let (ended, ()) = tokio::join!(consumer.run(&stop), async {
        given.reaches(60).await;
        until(store, |status| status.lag_events == 0).await;
        stop.cancel();
    });
    ended.unwrap();
    let status = store.subscription(&mail()).await.unwrap();
    assert!(status.lanes.iter().all(|lane| lane.owner.is_none()), "{status:?}");
    assert_eq!(store.join(&mail(), "other", Duration::from_secs(1)).await.unwrap(), 1);
    assert_eq!(given.all().len(), 60, "what was settled is not handled again");
}
