//! Every step of staging, settling and receiving, cut off before and after it: whoever comes next
//! finds nothing lost and nothing invented.

mod beside;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{
    ChannelId, Clock, Failure, ManualClock, Message, MessageId, Payload, SystemClock, SystemRandom,
    Timestamp,
};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{
    Acquired, AfterParking, Begun, Dispatch, Enqueued, Inbox, Leases, MessageState, Outbox,
    Outcome, Received, Report, Upkeep,
};

use crate::cassandra::Keyspace;
use crate::proxy::{Mode, Proxy};

/// No operation has as many steps.
const STEPS_MAX: u32 = 60;
const PAST_EVERY_GRACE: Duration = Duration::from_secs(15 * 60);

/// A step at which a process dies: before it has taken effect, or after it and before it is known.
#[derive(Clone, Copy, Debug)]
struct Cut {
    mode: Mode,
    step: u32,
}

impl Cut {
    /// After so many steps and one that nobody hears of.
    fn after(step: u32) -> Self {
        Cut { mode: Mode::DropAnswers, step }
    }

    /// A name that nothing else of the scene has.
    fn id(self) -> String {
        format!("{:?}-{}", self.mode, self.step)
    }
}

/// A process that dies, and one that comes after it.
struct Scene {
    keyspace: Keyspace,
    proxy: Proxy,
    clock: Arc<ManualClock>,
    mortal: CassandraStore,
    next: CassandraStore,
}

impl Scene {
    async fn open() -> Scene {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Scene {
        let keyspace = Keyspace::new();
        let clock = Arc::new(ManualClock::at(SystemClock::new().now()));
        let ports = || Ports { clock: Arc::clone(&clock) as _, random: Arc::new(SystemRandom) };
        let proxy = Proxy::start(keyspace.address()).await;
        let next = keyspace.store(options.clone(), ports());
        next.identity().await.unwrap();
        let options = Options { request_timeout: Duration::from_millis(300), ..options };
        let mortal = keyspace.store_with(proxy.address(), options, ports());
        mortal.identity().await.unwrap();
        Scene { keyspace, proxy, clock, mortal, next }
    }

    /// Has `trial` cut some work off at every step, before it and after it, until it says that there
    /// was no such step; there are `least` of them at least.
    async fn at_every_step(&self, least: u32, mut trial: impl AsyncFnMut(Cut) -> bool) {
        let mut steps = self.by_every_step(Mode::DropRequests, &mut trial).await;
        steps += self.by_every_step(Mode::DropAnswers, &mut trial).await;
        assert!(steps >= least, "{steps} steps, where there are {least} at least");
    }

    /// The same one way; how many steps there were.
    async fn by_every_step(&self, mode: Mode, mut trial: impl AsyncFnMut(Cut) -> bool) -> u32 {
        let mut step = 0;
        while trial(Cut { mode, step }).await {
            step += 1;
            assert!(step < STEPS_MAX, "no work has so many steps");
        }
        step
    }

    /// Runs `work` cut off at a step; false if it has no such step. Whatever it was waiting for when
    /// its time was over is what a killed process would have waited for.
    async fn cut_off<T>(&self, cut: Cut, work: impl Future<Output = T>) -> bool {
        self.proxy.set_after(cut.step, cut.mode);
        drop(tokio::time::timeout(Duration::from_millis(900), work).await);
        let began = self.proxy.disarm();
        self.proxy.set(Mode::Forward);
        // The driver needs a moment to have connections again.
        while self.mortal.holder("probe").await.is_err() {
            tokio::task::yield_now().await;
        }
        began
    }

    async fn due(&self, now: Timestamp) -> Vec<String> {
        let due = self.next.read_pending(now, 1_000).await.unwrap();
        due.into_iter().map(|pending| pending.message.message_id.to_string()).collect()
    }

    async fn count(&self, id: &str, now: Timestamp) -> usize {
        self.due(now).await.iter().filter(|due| *due == id).count()
    }

    async fn is_listed(&self, id: &str, state: MessageState) -> bool {
        let listed: Vec<_> = Upkeep::messages(&self.next, state).try_collect().await.unwrap();
        listed.iter().any(|message| message.message_id.as_str() == id)
    }

    async fn report(&self, store: &CassandraStore, id: &str, outcome: Outcome) {
        let report = Report::new(MessageId::new(id).unwrap(), self.clock.now(), outcome);
        // Of a store that dies nobody hears.
        drop(store.apply_reports(vec![report]).await);
    }
}

fn message(id: &str, key: Option<&str>) -> Message {
    Message {
        ordering_key: key.map(str::to_owned),
        ..Message::new(
            MessageId::new(id).unwrap(),
            ChannelId::new("orders").unwrap(),
            "order.placed",
            Payload::json(&serde_json::json!({ "id": id })),
            SystemClock::new().now(),
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_staged_or_was_never_there() {
    let scene = Scene::open().await;
    // Staging has two steps.
    let trial = async |cut: Cut| {
        let id = cut.id();
        if !scene.cut_off(cut, scene.mortal.enqueue(message(&id, None))).await {
            return false;
        }
        scene.clock.advance(PAST_EVERY_GRACE);
        scene.next.reconcile(false).await.unwrap();
        let before = scene.count(&id, scene.clock.now()).await;
        match scene.next.enqueue(message(&id, None)).await {
            Ok(Enqueued::Duplicate) => assert_eq!(before, 1, "{id} was lost"),
            Ok(Enqueued::Enqueued) => assert_eq!(before, 0, "{id} was invented"),
            Err(error) => {
                assert_eq!((error.code(), before), ("cancelled", 0), "{id}");
                assert!(scene.is_listed(&id, MessageState::Cancelled).await);
                return true;
            }
        }
        assert_eq!(scene.count(&id, scene.clock.now()).await, 1, "{id}");
        scene.report(&scene.next, &id, Outcome::Succeeded).await;
        true
    };
    scene.at_every_step(4, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_recorded_or_can_be_made_again() {
    let scene = Scene::open().await;
    // Settling reads, marks and drops.
    let trial = async |cut: Cut| {
        let id = cut.id();
        scene.next.enqueue(message(&id, None)).await.unwrap();
        let reporting = scene.report(&scene.mortal, &id, Outcome::Succeeded);
        let began = scene.cut_off(cut, reporting).await;
        let now = scene.clock.now();
        let pending = scene.count(&id, now).await;
        assert!(pending == 1 || scene.is_listed(&id, MessageState::Dispatched).await, "{id}");
        scene.report(&scene.next, &id, Outcome::Succeeded).await;
        assert_eq!(scene.count(&id, now).await, 0, "{id}");
        assert!(scene.is_listed(&id, MessageState::Dispatched).await, "{id}");
        began
    };
    scene.at_every_step(6, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_put_off_is_found_and_keeps_its_place() {
    let scene = Scene::open().await;
    // Putting off holds, writes, updates and drops.
    let trial = async |cut: Cut| {
        let (first, second) = (format!("{}-1", cut.id()), format!("{}-2", cut.id()));
        for id in [&first, &second] {
            scene.next.enqueue(message(id, Some(&cut.id()))).await.unwrap();
        }
        let later = scene.clock.now().plus(Duration::from_secs(30));
        let failed = Outcome::Failed { next_attempt_at: Some(later) };
        let began = scene.cut_off(cut, scene.report(&scene.mortal, &first, failed)).await;
        let due = scene.due(scene.clock.now()).await;
        let place = |id: &String| due.iter().position(|due| due == id);
        // Either it was not put off and comes first, or it was and both wait.
        assert!(place(&second).is_none() || place(&first) < place(&second), "{due:?}");
        scene.clock.advance(Duration::from_secs(31));
        let now = scene.clock.now();
        assert_eq!(scene.count(&first, now).await, 1, "{first} was lost");
        for id in [&first, &second] {
            scene.report(&scene.next, id, Outcome::Succeeded).await;
        }
        assert_eq!(scene.count(&first, now).await + scene.count(&second, now).await, 0);
        began
    };
    scene.at_every_step(8, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_parked_with_its_key_or_still_due() {
    let scene = Scene::open().await;
    // Parking reads, holds, marks and drops.
    let trial = async |cut: Cut| {
        let (first, second) = (format!("{}-1", cut.id()), format!("{}-2", cut.id()));
        for id in [&first, &second] {
            scene.next.enqueue(message(id, Some(&cut.id()))).await.unwrap();
        }
        let parked = Outcome::Parked { key: AfterParking::Stop };
        let began = scene.cut_off(cut, scene.report(&scene.mortal, &first, parked)).await;
        let due = scene.due(scene.clock.now()).await;
        let is_parked = scene.is_listed(&first, MessageState::Parked).await;
        assert_eq!(due.contains(&first), !is_parked, "{first}: parked or due");
        // What stands behind it comes after it, or waits.
        let place = |id: &String| due.iter().position(|due| due == id);
        assert!(place(&second).is_none() || place(&first) < place(&second), "{due:?}");
        scene.report(&scene.next, &first, parked).await;
        assert!(scene.is_listed(&first, MessageState::Parked).await, "{first}");
        let now = scene.clock.now();
        assert_eq!(scene.count(&first, now).await + scene.count(&second, now).await, 0);
        for id in [&first, &second] {
            scene.report(&scene.next, id, Outcome::Succeeded).await;
        }
        began
    };
    scene.at_every_step(8, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_taken_in_the_dark_passes_on_with_a_higher_epoch() {
    let scene = Scene::open().await;
    let ttl = Duration::from_secs(10);
    let trial = async |cut: Cut| {
        let name = cut.id();
        let Acquired::Held(before) = scene.next.acquire(&name, "before", ttl).await.unwrap() else {
            panic!("{name} is new")
        };
        scene.clock.advance(2 * ttl);
        let working = async {
            if let Ok(Acquired::Held(lease)) = scene.mortal.acquire(&name, "mortal", ttl).await {
                drop(scene.mortal.renew(&lease, ttl).await);
                drop(scene.mortal.release(&lease).await);
            }
        };
        let began = scene.cut_off(cut, working).await;
        let was = scene.next.holder(&name).await.unwrap();
        // The one that was there before is out as soon as another was in.
        let renewed = scene.next.renew(&before, ttl).await.unwrap();
        assert_eq!(renewed.is_some(), was.is_some_and(|lease| lease.owner == "before"), "{name}");
        scene.clock.advance(3 * ttl);
        let Acquired::Held(after) = scene.next.acquire(&name, "next", ttl).await.unwrap() else {
            panic!("{name} has expired")
        };
        assert!(after.epoch > before.epoch, "{name}");
        began
    };
    scene.at_every_step(6, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_there_or_can_be_made_again() {
    let scene = Scene::open().await;
    let lease = Duration::from_secs(10);
    let trial = async |cut: Cut| {
        let received = Received {
            message_id: MessageId::new(cut.id()).unwrap(),
            channel_id: ChannelId::new("orders").unwrap(),
            message_type: "order.placed".to_owned(),
            correlation_id: None,
            tenant_id: None,
            received_at: scene.clock.now(),
        };
        let working = async {
            let begun = scene.mortal.begin(received.clone(), None, "mortal", lease).await;
            if let Ok(Begun::Yours(work)) = begun {
                drop(scene.mortal.finish(&work, b"mortal".to_vec()).await);
            }
        };
        let began = scene.cut_off(cut, working).await;
        scene.clock.advance(2 * lease);
        let begun = scene.next.begin(received.clone(), None, "next", lease).await.unwrap();
        let result = match begun {
            Begun::Processed { result } => result,
            Begun::Yours(work) => {
                assert!(scene.next.finish(&work, b"next".to_vec()).await.unwrap());
                b"next".to_vec()
            }
            other => panic!("{other:?}"),
        };
        let entry = scene.next.look(&received.message_id).await.unwrap().unwrap();
        assert_eq!(entry.result, Some(result), "one result stands");
        began
    };
    scene.at_every_step(4, trial).await;
}
