//! Real processes, killed and paused: a consumer that reads committed records sees every message once,
//! and those of a key in order.
//!
//! The test runs itself as a child that is nothing but a relay; the parent stages from four producers,
//! kills the child at random moments or pauses it, lets the next one take over, and wakes the paused
//! one up while its successor works.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use helenus_broker::contract::{Bounds, Broker, Position};
use helenus_broker::kafka::KafkaBroker;
use helenus_model::backend::StoreUrl;
use helenus_model::{
    ChannelId, Failure, Message, MessageId, Payload, Random, SeededRandom, SystemRandom,
};
use helenus_relay::{Options, Relay};
use helenus_sqlite::Engine;
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options as CassandraOptions};
use helenus_store::contract::{Dispatch, Leases, Outbox};
use helenus_store::sqlite::{self, SqliteStore};
use helenus_testkit::isolated::Keyspace;
use helenus_testkit::services::Registry;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::task::JoinSet;

use crate::kafka::shared;
use crate::shop::{self, quick};

const CHILD: &str = "HELENUS_RELAY_CHILD";
const PRODUCERS: usize = 4;
const KEYS: usize = 10;
/// Messages that may wait: producers stage no faster than relays publish.
const AHEAD_MAX: usize = 1_000;

fn is_full_size() -> bool {
    std::env::var_os("HELENUS_PROOF").is_some()
}

fn options(lease_ttl: Duration) -> Options {
    Options { batch: 50, lease_ttl, ..quick() }
}

/// What a proof is about: where the outbox is, and how long a relay that is gone keeps its lanes.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    test: &'static str,
    lease_ttl: Duration,
}

const SQLITE: Case = Case {
    name: "SQLite",
    test: "proof::killed_and_paused_relays_publish_each_message_once_and_in_order",
    lease_ttl: Duration::from_millis(1_000),
};
/// A conditional write of a busy node takes its time.
const CASSANDRA: Case = Case {
    name: "Cassandra",
    test: "proof::relays_of_a_cluster_that_are_killed_and_paused_publish_each_message_once",
    lease_ttl: Duration::from_secs(3),
};

async fn open(path: &str) -> SqliteStore {
    let components = [&sqlite::COMPONENT];
    let engine = Engine::open(path, helenus_sqlite::Options::default(), &components).await;
    SqliteStore::on(engine.unwrap(), Ports::system())
}

fn open_cluster(url: &str) -> CassandraStore {
    let StoreUrl::Cassandra(endpoint) = url.parse().unwrap() else { panic!("{url}") };
    CassandraStore::new(endpoint, CassandraOptions::default(), Ports::system()).unwrap()
}

/// Where the store is, if this process is a child.
fn told_to_relay() -> Option<String> {
    std::env::var_os(CHILD).map(|place| place.into_string().unwrap())
}

/// What a child is: a relay until it is killed.
async fn relay(store: impl Dispatch + Leases + Clone + 'static, case: Case) {
    let relay = Relay::new(store, shared(), options(case.lease_ttl), Ports::system());
    relay.run(Default::default()).await.unwrap();
}

#[test]
fn killed_and_paused_relays_publish_each_message_once_and_in_order() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(path) = told_to_relay() {
        return runtime.block_on(async { relay(open(&path).await, SQLITE).await });
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db").to_str().unwrap().to_owned();
    runtime.block_on(async {
        let store = open(&path).await;
        prove(SQLITE, &store, &path, if is_full_size() { (50, 6) } else { (5, 4) }).await;
        store.engine().close().await;
    });
}

#[test]
fn relays_of_a_cluster_that_are_killed_and_paused_publish_each_message_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(url) = told_to_relay() {
        return runtime.block_on(relay(open_cluster(&url), CASSANDRA));
    }
    runtime.block_on(async {
        let keyspace = Keyspace::create().await;
        let store = open_cluster(&keyspace.url());
        store.identity().await.unwrap();
        let size = if is_full_size() { (50, 6) } else { (3, 2) };
        prove(CASSANDRA, &store, &keyspace.url(), size).await;
    });
}

/// Disturbs relays of `store`, of which `every` how-manieth is paused instead of killed, and prints
/// what was found.
#[expect(clippy::print_stdout, reason = "a proof says what it found")]
async fn prove<S>(case: Case, store: &S, place: &str, (kills, every): (usize, usize))
where
    S: Outbox + Dispatch + Leases + Clone + 'static,
{
    let seed = SystemRandom.next_u64();
    println!("seed {seed}");
    let found = disturb(case, store, place, kills, every, &SeededRandom::new(seed)).await;
    println!(
        "proof: relay from {} into Kafka, {kills} relays ended by SIGKILL, {} of them paused in the \
         middle of a transaction and woken after their successor had taken over, {PRODUCERS} \
         producers: {} messages, each seen once by a read_committed consumer, each key in order; \
         transactions committed by woken relays under their old leases: {}",
        case.name, found.paused, found.messages, found.of_zombies
    );
}

struct Found {
    paused: usize,
    messages: usize,
    /// Transactions that a relay committed after it was woken.
    of_zombies: usize,
}

async fn disturb<S>(
    case: Case,
    store: &S,
    place: &str,
    kills: usize,
    every: usize,
    random: &SeededRandom,
) -> Found
where
    S: Outbox + Dispatch + Leases + Clone + 'static,
{
    let broker = shared();
    let topic = format!("relay.proof.{}", SystemRandom.uuid().simple());
    broker.create_topic(&topic, 3).await.unwrap();
    let markers = format!("helenus.{}.markers", store.identity().await.unwrap().store_id);
    let progress = Progress { broker: broker.clone(), topic: topic.clone() };
    let staging = Staging::begin(store, &progress);
    let mut zombie: Option<Zombie> = None;
    let (mut paused, mut of_zombies) = (0, 0);
    for round in 1..=kills {
        let mut child = spawn(case, place);
        progress.beyond(progress.seen().await).await;
        if let Some(mut zombie) = zombie.take() {
            zombie.is_succeeded(&broker, &markers).await;
            // Its successor works in every lane; now it goes on as if nothing had been.
            let woken_at = broker.bounds(&markers).await.unwrap();
            signal(&zombie.child, "CONT");
            progress.beyond(progress.seen().await).await;
            end(&mut zombie.child);
            let own = zombie.transactions(&broker, &markers, &woken_at).await;
            assert_eq!(own, 0, "a relay published under a lease that had passed on");
            of_zombies += own;
        }
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        if round % every == 0 && round < kills {
            pause(&child, store, &progress, random).await;
            zombie = Some(Zombie::of(child, store).await);
            paused += 1;
        } else {
            end(&mut child);
        }
    }
    let messages = staging.finish().await;
    // The leases of the last one have to expire first.
    let relay = Relay::new(store.clone(), broker, options(case.lease_ttl), Ports::system());
    relay.run_until_empty(Default::default()).await.unwrap();
    progress.check(&messages).await;
    Found { paused, messages: messages.iter().sum(), of_zombies }
}

/// A relay that was paused, and the epochs of the lanes at that moment: none of its own is higher.
struct Zombie {
    child: Child,
    epochs: Vec<i64>,
}

impl Zombie {
    async fn of(child: Child, store: &impl Leases) -> Zombie {
        let mut epochs = Vec::new();
        for lane in 0..Options::default().lanes {
            let lease = store.holder(&format!("relay/{lane}")).await.unwrap();
            epochs.push(lease.map_or(0, |lease| lease.epoch));
        }
        Zombie { child, epochs }
    }

    /// Waits until somebody else has published in every lane, and so has taken its name.
    async fn is_succeeded(&self, broker: &KafkaBroker, markers: &str) {
        for (lane, epoch) in (0..).zip(&self.epochs) {
            let is_there = async || {
                let last = broker.last(markers, lane).await.unwrap()?;
                let marker: serde_json::Value = serde_json::from_slice(&last.payload).unwrap();
                marker["epoch"].as_i64().filter(|found| found > epoch)
            };
            while is_there().await.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Transactions that it has committed, under leases it had when it was paused, since the markers
    /// ended there. Every transaction has a marker, which says whose it is. Lanes that it takes anew
    /// once it is awake are its own by right.
    async fn transactions(&self, broker: &KafkaBroker, markers: &str, since: &[Bounds]) -> usize {
        let owner = format!("relay-{}-", self.child.id());
        let mut count = 0;
        for (partition, (bounds, epoch)) in since.iter().zip(&self.epochs).enumerate() {
            let partition = u32::try_from(partition).unwrap();
            let from = Position { topic: markers.into(), partition, offset: bounds.end };
            for record in broker.read(from, 10_000).await.unwrap() {
                let marker: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
                let is_own = marker["owner"].as_str().unwrap().starts_with(&owner);
                count += usize::from(is_own && marker["epoch"].as_i64().unwrap() <= *epoch);
            }
        }
        count
    }
}

fn spawn(case: Case, place: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([case.test, "--exact"])
        .env(CHILD, place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Stops the child in the middle of a transaction, and at a moment when it does not hold a file's lock:
/// nobody could take over from it then, and nothing would be proved.
async fn pause(child: &Child, store: &impl Leases, progress: &Progress, random: &SeededRandom) {
    loop {
        signal(child, "STOP");
        if store.acquire("proof", "parent", Duration::from_millis(1)).await.is_ok()
            && progress.is_amid().await
        {
            return;
        }
        signal(child, "CONT");
        tokio::time::sleep(Duration::from_millis(random.below(50))).await;
    }
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Producers that stage until they are told to end, each under keys of its own.
struct Staging {
    producers: JoinSet<usize>,
    is_over: Arc<AtomicBool>,
}

impl Staging {
    fn begin<S: Outbox + Clone + 'static>(store: &S, progress: &Progress) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let staged = Arc::new(AtomicUsize::new(0));
        let mut producers = JoinSet::new();
        for producer in 0..PRODUCERS {
            let (store, over) = (store.clone(), Arc::clone(&is_over));
            let (progress, staged) = (progress.clone(), Arc::clone(&staged));
            producers.spawn(async move {
                let mut count = 0;
                while !over.load(Ordering::SeqCst) {
                    for _ in 0..20 {
                        let message = message(&progress.topic, producer, count);
                        // A child that is paused may hold the file's lock for a while.
                        while let Err(error) = store.enqueue(message.clone()).await {
                            assert!(error.is_retryable(), "{error}");
                        }
                        count += 1;
                    }
                    let staged = staged.fetch_add(20, Ordering::SeqCst) + 20;
                    // Room is made by relays, which are being killed.
                    while progress.seen().await + AHEAD_MAX < staged && !over.load(Ordering::SeqCst)
                    {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                count
            });
        }
        Staging { producers, is_over }
    }

    /// Ends them; how many each has staged, in no order.
    async fn finish(self) -> Vec<usize> {
        self.is_over.store(true, Ordering::SeqCst);
        self.producers.join_all().await
    }
}

fn message(topic: &str, producer: usize, number: usize) -> Message {
    Message {
        ordering_key: Some(format!("{producer}-{}", number % KEYS)),
        ..Message::new(
            MessageId::new(format!("{producer}/{number}")).unwrap(),
            ChannelId::new(topic).unwrap(),
            "order.placed",
            Payload::json(&serde_json::json!(number)),
            Ports::system().clock.now(),
        )
    }
}

/// What has been published so far, as a consumer sees it.
#[derive(Clone)]
struct Progress {
    broker: KafkaBroker,
    topic: String,
}

impl Progress {
    /// Committed records, and the marks of their transactions.
    async fn seen(&self) -> usize {
        let bounds = self.broker.bounds(&self.topic).await.unwrap();
        bounds.iter().map(|bounds| usize::try_from(bounds.end.0).unwrap()).sum()
    }

    async fn beyond(&self, seen: usize) {
        while self.seen().await <= seen {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether records were written that are neither committed nor aborted, and stay so: whoever wrote
    /// them has stopped. A commit under way shows within moments.
    async fn is_amid(&self) -> bool {
        for _ in 0..5 {
            let committed = self.broker.bounds(&self.topic).await.unwrap();
            let written = self.written().await;
            if committed.iter().map(|bounds| bounds.end.0).eq(written) {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }

    /// Where each partition ends, committed or not.
    async fn written(&self) -> Vec<i64> {
        let (address, topic) = (Registry::new().kafka().unwrap().to_string(), self.topic.clone());
        let asked = tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = ClientConfig::new()
                .set("bootstrap.servers", address)
                .set("isolation.level", "read_uncommitted")
                .create()
                .unwrap();
            let end = |partition| {
                consumer.fetch_watermarks(&topic, partition, Duration::from_secs(30)).unwrap().1
            };
            (0..3).map(end).collect()
        });
        asked.await.unwrap()
    }

    async fn check(&self, staged: &[usize]) {
        let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
        for record in shop::records(&self.broker, &self.topic).await {
            let key = String::from_utf8(record.key.unwrap()).unwrap();
            by_key.entry(key).or_default().push(serde_json::from_slice(&record.payload).unwrap());
        }
        let mut seen = vec![0; PRODUCERS];
        for (key, numbers) in by_key {
            let (producer, first) = key.split_once('-').unwrap();
            let (producer, first): (usize, usize) =
                (producer.parse().unwrap(), first.parse().unwrap());
            let expected: Vec<_> = (0..numbers.len()).map(|n| first + n * KEYS).collect();
            assert_eq!(numbers, expected, "key {key}: lost, doubled or out of order");
            seen[producer] += numbers.len();
        }
        let (mut seen, mut staged) = (seen, staged.to_vec());
        seen.sort_unstable();
        staged.sort_unstable();
        assert_eq!(seen, staged, "messages of each producer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_poison_messages_only_their_keys_wait() {
    let count = if is_full_size() { 2_000 } else { 100 };
    let shop = shop::kafka().await;
    shop.create("orders", 3).await;
    let missing = ChannelId::new(shop.topic("missing")).unwrap();
    let mut messages = Vec::new();
    for number in 0..count {
        let poisoned = format!("poison-{number}");
        let poison = shop.message("orders", &poisoned, 1_000_000);
        messages.push(Message { channel_id: missing.clone(), ..poison });
        messages.push(shop.message("orders", &poisoned, number));
        messages.push(shop.message("orders", &format!("good-{}", number % 50), number));
    }
    for staged in shop.store.enqueue_all(messages).await {
        staged.unwrap();
    }
    let totals = shop.drain(Options { max_attempts: 2, ..quick() }).await;
    let number = u64::try_from(count).unwrap();
    assert_eq!((totals.published, totals.failed, totals.parked), (number, 2 * number, number));
    let published = shop.published("orders").await;
    assert_eq!(published.len(), 50);
    for (key, numbers) in published {
        let first: usize = key.trim_start_matches("good-").parse().unwrap();
        assert_eq!(numbers, (first..count).step_by(50).collect::<Vec<_>>(), "{key}");
    }
    println!(
        "proof: relay into Kafka, {count} poison messages among {count} good ones: all good ones \
         published once and in order, every poison message parked, only its key waits"
    );
}
