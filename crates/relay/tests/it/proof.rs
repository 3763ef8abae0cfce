//! Real processes, killed and paused: a consumer that reads committed records sees every message once,
//! and those of a key in order.
//!
//! The test runs itself as a child that is nothing but a relay; the parent stages from four producers,
//! kills the child at random moments or pauses it, lets the next one take over, and wakes the paused
//! one up while its successor works.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use helenus_broker::contract::Broker;
use helenus_broker::kafka::KafkaBroker;
use helenus_model::{
    ChannelId, Failure, Message, MessageId, Payload, Random, SeededRandom, SystemRandom,
};
use helenus_relay::{Options, Relay};
use helenus_sqlite::Engine;
use helenus_store::Ports;
use helenus_store::contract::{Leases, Outbox};
use helenus_store::sqlite::{self, SqliteStore};
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

fn options() -> Options {
    Options { batch: 50, lease_ttl: Duration::from_millis(1_000), ..quick() }
}

async fn open(path: &Path) -> SqliteStore {
    let components = [&sqlite::COMPONENT];
    let engine = Engine::open(path, helenus_sqlite::Options::default(), &components).await;
    SqliteStore::on(engine.unwrap(), Ports::system())
}

#[test]
fn killed_and_paused_relays_publish_each_message_once_and_in_order() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        runtime.block_on(async {
            let store = open(Path::new(&path)).await;
            let relay = Relay::new(store, shared(), options(), Ports::system());
            relay.run(Default::default()).await.unwrap();
        });
        return;
    }
    let (kills, every) = if is_full_size() { (50, 6) } else { (5, 4) };
    let seed = SystemRandom.next_u64();
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let found = runtime.block_on(disturb(&path, kills, every, &SeededRandom::new(seed)));
    println!(
        "proof: relay from SQLite into Kafka, {kills} relays ended by SIGKILL, {} of them paused and \
         woken after their successor had taken over, {PRODUCERS} producers: {} messages, each seen \
         once by a read_committed consumer, each key in order",
        found.paused, found.messages
    );
}

struct Found {
    paused: usize,
    messages: usize,
}

async fn disturb(path: &Path, kills: usize, every: usize, random: &SeededRandom) -> Found {
    let broker = shared();
    let topic = format!("relay.proof.{}", SystemRandom.uuid().simple());
    broker.create_topic(&topic, 3).await.unwrap();
    let store = open(path).await;
    let progress = Progress { broker: broker.clone(), topic: topic.clone() };
    let staging = Staging::begin(&store, &progress);
    let mut zombie: Option<Child> = None;
    let mut paused = 0;
    for round in 1..=kills {
        let mut child = spawn(path);
        progress.beyond(progress.seen().await).await;
        if let Some(mut zombie) = zombie.take() {
            // Its successor works; now it goes on as if nothing had been.
            signal(&zombie, "CONT");
            progress.beyond(progress.seen().await).await;
            end(&mut zombie);
        }
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        if round % every == 0 && round < kills {
            pause(&child, &store).await;
            zombie = Some(child);
            paused += 1;
        } else {
            end(&mut child);
        }
    }
    let messages = staging.finish().await;
    // The leases of the last one have to expire first.
    let relay = Relay::new(store.clone(), broker, options(), Ports::system());
    relay.run_until_empty(Default::default()).await.unwrap();
    progress.check(&messages).await;
    store.engine().close().await;
    Found { paused, messages: messages.iter().sum() }
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["proof::killed_and_paused_relays_publish_each_message_once_and_in_order", "--exact"])
        .env(CHILD, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Stops the child at a moment when it does not hold the file's lock: nobody could take over from it
/// then, and nothing would be proved.
async fn pause(child: &Child, store: &SqliteStore) {
    loop {
        signal(child, "STOP");
        if store.acquire("proof", "parent", Duration::from_millis(1)).await.is_ok() {
            return;
        }
        signal(child, "CONT");
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
    fn begin(store: &SqliteStore, progress: &Progress) -> Self {
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
