//! Every step of staging, settling and receiving, cut off before and after it: whoever comes next
//! finds nothing lost and nothing invented.

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
    Begun, Dispatch, Enqueued, Inbox, Leases, MessageState, Outbox, Outcome, Received, Report,
    Upkeep,
};

use crate::cassandra::Keyspace;
use crate::proxy::{Mode, Proxy};

/// No operation has as many steps.
const STEPS_MAX: u32 = 30;
const PAST_EVERY_GRACE: Duration = Duration::from_secs(15 * 60);

/// A process that dies, and one that comes after it.
struct Scene {
    _keyspace: Keyspace,
    proxy: Proxy,
    clock: Arc<ManualClock>,
    mortal: CassandraStore,
    next: CassandraStore,
}

impl Scene {
    async fn open() -> Scene {
        let keyspace = Keyspace::new();
        let clock = Arc::new(ManualClock::at(SystemClock::new().now()));
        let ports = || Ports { clock: Arc::clone(&clock) as _, random: Arc::new(SystemRandom) };
        let proxy = Proxy::start(keyspace.address()).await;
        let next = keyspace.store(Options::default(), ports());
        next.identity().await.unwrap();
        let options = Options { request_timeout: Duration::from_millis(300), ..Options::default() };
        let mortal = keyspace.store_with(proxy.address(), options, ports());
        mortal.identity().await.unwrap();
        Scene { _keyspace: keyspace, proxy, clock, mortal, next }
    }

    /// Runs `work` cut off at a step; false if it has no such step. Whatever it was waiting for when
    /// its time was over is what a killed process would have waited for.
    async fn cut_off<T>(&self, step: u32, mode: Mode, work: impl Future<Output = T>) -> bool {
        self.proxy.set_after(step, mode);
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

/// Every step, cut off before it and after it.
fn cuts() -> impl Iterator<Item = (Mode, u32)> {
    [Mode::DropRequests, Mode::DropAnswers]
        .into_iter()
        .flat_map(|mode| (0..STEPS_MAX).map(move |step| (mode, step)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_staged_or_was_never_there() {
    let scene = Scene::open().await;
    let (mut steps, mut ended) = (0, None);
    for (mode, step) in cuts() {
        if ended == Some(mode) {
            continue;
        }
        let id = format!("{mode:?}-{step}");
        if !scene.cut_off(step, mode, scene.mortal.enqueue(message(&id, None))).await {
            ended = Some(mode);
            continue;
        }
        steps += 1;
        scene.clock.advance(PAST_EVERY_GRACE);
        scene.next.reconcile(false).await.unwrap();
        let before = scene.count(&id, scene.clock.now()).await;
        match scene.next.enqueue(message(&id, None)).await {
            Ok(Enqueued::Duplicate) => assert_eq!(before, 1, "{id} was lost"),
            Ok(Enqueued::Enqueued) => assert_eq!(before, 0, "{id} was invented"),
            Err(error) => {
                assert_eq!((error.code(), before), ("cancelled", 0), "{id}");
                assert!(scene.is_listed(&id, MessageState::Cancelled).await);
                continue;
            }
        }
        assert_eq!(scene.count(&id, scene.clock.now()).await, 1, "{id}");
        scene.report(&scene.next, &id, Outcome::Succeeded).await;
    }
    assert!(steps >= 4, "staging has two steps, each cut off twice: {steps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_recorded_or_can_be_made_again() {
    let scene = Scene::open().await;
    let (mut steps, mut ended) = (0, None);
    for (mode, step) in cuts() {
        if ended == Some(mode) {
            continue;
        }
        let id = format!("{mode:?}-{step}");
        scene.next.enqueue(message(&id, None)).await.unwrap();
        let reporting = scene.report(&scene.mortal, &id, Outcome::Succeeded);
        let began = scene.cut_off(step, mode, reporting).await;
        let now = scene.clock.now();
        let pending = scene.count(&id, now).await;
        assert!(pending == 1 || scene.is_listed(&id, MessageState::Dispatched).await, "{id}");
        scene.report(&scene.next, &id, Outcome::Succeeded).await;
        assert_eq!(scene.count(&id, now).await, 0, "{id}");
        assert!(scene.is_listed(&id, MessageState::Dispatched).await, "{id}");
        if !began {
            ended = Some(mode);
            continue;
        }
        steps += 1;
    }
    assert!(steps >= 6, "settling reads, marks and drops: {steps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_put_off_is_found_and_keeps_its_place() {
    let scene = Scene::open().await;
    let (mut steps, mut ended) = (0, None);
    for (mode, step) in cuts() {
        if ended == Some(mode) {
            continue;
        }
        let (first, second) = (format!("{mode:?}-{step}-1"), format!("{mode:?}-{step}-2"));
        let key = format!("{mode:?}-{step}");
        for id in [&first, &second] {
            scene.next.enqueue(message(id, Some(&key))).await.unwrap();
        }
        let later = scene.clock.now().plus(Duration::from_secs(30));
        let failed = Outcome::Failed { next_attempt_at: Some(later) };
        let began = scene.cut_off(step, mode, scene.report(&scene.mortal, &first, failed)).await;
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
        if !began {
            ended = Some(mode);
            continue;
        }
        steps += 1;
    }
    assert!(steps >= 8, "putting off holds, writes, updates and drops: {steps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_there_or_can_be_made_again() {
    let scene = Scene::open().await;
    let lease = Duration::from_secs(10);
    let (mut steps, mut ended) = (0, None);
    for (mode, step) in cuts() {
        if ended == Some(mode) {
            continue;
        }
        let received = Received {
            message_id: MessageId::new(format!("{mode:?}-{step}")).unwrap(),
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
        let began = scene.cut_off(step, mode, working).await;
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
        if !began {
            ended = Some(mode);
            continue;
        }
        steps += 1;
    }
    assert!(steps >= 4, "{steps}");
}
