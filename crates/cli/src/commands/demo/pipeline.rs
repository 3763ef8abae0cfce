//! Producers, relay and consumer, until time is up and nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helenus::broker::{Broker as _, Offset, Position, Record};
use helenus::relay::{Options, Relay};
use helenus::store::{EnqueueError, Enqueued, Inbox, Outbox, Receipt, Received};
use helenus::{Broker, ChannelId, Message, MessageId, Payload, Ports, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ledger;
use crate::exit::Failed;

pub(super) const GROUP: &str = "billing";
pub(super) const PARTITIONS: u32 = 4;
const PRODUCERS: u64 = 4;
const KEYS: u64 = 50;
/// Messages a producer stages before it looks at the clock again.
const BURST: u64 = 25;
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Names of one run, so that a kept file can hold several.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) topic: String,
    pub(super) prefix: String,
}

impl Run {
    pub(super) fn new(ports: &Ports) -> Self {
        let started = ports.clock.now().as_millis();
        Run { topic: format!("orders-{started}"), prefix: format!("{started}") }
    }
}

/// What has happened so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) staged: AtomicU64,
    pub(super) staged_twice: AtomicU64,
    pub(super) impostors_refused: AtomicU64,
    pub(super) published: AtomicU64,
    pub(super) processed: AtomicU64,
    pub(super) repeats_dropped: AtomicU64,
    pub(super) appended: AtomicU64,
    pub(super) appends_recognised: AtomicU64,
    pub(super) conflicts: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::SeqCst);
}

/// Runs everything for `seconds`, then until the outbox and the topic are read to the end. Calls
/// `tick` about five times a second. Returns how many messages were staged.
pub(super) async fn run(part: &Part, seconds: u64, tick: impl Fn(Duration)) -> Result<u64, Failed> {
    let (ports, counters) = (&part.ports, &part.counters);
    let time_is_up = CancellationToken::new();
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(part.clone().produce(producer, time_is_up.clone()));
    }
    for _ in 0..ledger::WRITERS {
        producers.spawn(part.clone().book(time_is_up.clone()));
    }
    let all_staged = CancellationToken::new();
    let all_published = CancellationToken::new();
    let mut rest = JoinSet::new();
    rest.spawn(part.clone().publish(all_staged.clone(), all_published.clone()));
    rest.spawn(part.clone().consume(all_published));
    rest.spawn(part.clone().project(all_staged.clone()));

    let started = ports.clock.elapsed();
    let elapsed = || ports.clock.elapsed().saturating_sub(started);
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            _ = ticks.tick() => tick(elapsed()),
            Some(ended) = producers.join_next() => ended.map_err(panicked)??,
            Some(ended) = rest.join_next(), if !rest.is_empty() => ended.map_err(panicked)??,
            else => break,
        }
        if elapsed() >= Duration::from_secs(seconds) {
            time_is_up.cancel();
        }
        if producers.is_empty() {
            all_staged.cancel();
        }
        if rest.is_empty() {
            break;
        }
    }
    tick(elapsed());
    Ok(count(&counters.staged))
}

fn panicked(error: tokio::task::JoinError) -> Failed {
    Failed::system("finish a task", "report it: this is a bug")(std::io::Error::other(error))
}

/// What each task of the pipeline holds.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) store: Store,
    pub(super) broker: Broker,
    pub(super) ports: Ports,
    pub(super) counters: Arc<Counters>,
    pub(super) run: Run,
}

impl Part {
    /// Stages orders; one in ten twice, one in fifty under an id that is taken.
    async fn produce(self, producer: u64, time_is_up: CancellationToken) -> Result<(), Failed> {
        let mut number = 0;
        while !time_is_up.is_cancelled() {
            for _ in 0..BURST {
                let message = self.order(producer, number)?;
                self.stage(message.clone()).await?;
                if number % 10 == 0
                    && self.store.enqueue(message.clone()).await? == Enqueued::Duplicate
                {
                    add(&self.counters.staged_twice, 1);
                }
                if number % 50 == 0 {
                    self.stage_impostor(message).await?;
                }
                number += 1;
            }
            tokio::select! {
                () = time_is_up.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        Ok(())
    }

    fn order(&self, producer: u64, number: u64) -> Result<Message, Failed> {
        // A key belongs to one producer, so that its order is known.
        let key = format!("order-{producer}-{}", number % KEYS);
        let payload = Payload::json(&serde_json::json!({ "key": key, "number": number }));
        let id = MessageId::new(format!("{}-{producer}-{number}", self.run.prefix))?;
        let channel = ChannelId::new(self.run.topic.as_str())?;
        let message = Message::new(id, channel, "order.placed", payload, self.ports.clock.now());
        Ok(Message { ordering_key: Some(key), ..message })
    }

    async fn stage(&self, message: Message) -> Result<(), Failed> {
        if self.store.enqueue(message).await? == Enqueued::Enqueued {
            add(&self.counters.staged, 1);
        }
        Ok(())
    }

    async fn stage_impostor(&self, message: Message) -> Result<(), Failed> {
        let other = Payload::json(&serde_json::json!("other content"));
        match self.store.enqueue(Message { payload: other, ..message }).await {
            Err(EnqueueError::ContentMismatch { .. }) => add(&self.counters.impostors_refused, 1),
            Err(error) => return Err(error.into()),
            Ok(_) => {} // counted as staged by nobody: a check fails
        }
        Ok(())
    }

    /// Runs a relay until all is staged, then until all is published.
    async fn publish(
        self,
        all_staged: CancellationToken,
        all_published: CancellationToken,
    ) -> Result<(), Failed> {
        let (store, broker) = (self.store.clone(), self.broker.clone());
        let relay = Relay::new(store, broker, Options::default(), self.ports.clone());
        let count = || self.counters.published.store(relay.totals().published, Ordering::SeqCst);
        let mut running = Box::pin(async {
            relay.run(all_staged).await?;
            relay.run_until_empty(CancellationToken::new()).await
        });
        let mut ticks = tokio::time::interval(PAUSE);
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                _ = ticks.tick() => count(),
            }
        };
        ended?;
        count();
        all_published.cancel();
        Ok(())
    }

    /// Reads every partition to its end, again and again until all is published; every tenth
    /// record is taken twice, as after a consumer's crash.
    async fn consume(self, all_published: CancellationToken) -> Result<(), Failed> {
        let mut commits = self.store.commits();
        loop {
            let was_last = all_published.is_cancelled();
            commits.mark_unchanged();
            for partition in 0..PARTITIONS {
                self.consume_partition(partition).await?;
            }
            if was_last {
                return Ok(());
            }
            tokio::select! {
                _ = commits.changed() => {}
                () = all_published.cancelled() => {}
            }
        }
    }

    async fn consume_partition(&self, partition: u32) -> Result<(), Failed> {
        let committed = self.broker.committed(GROUP, &self.run.topic, partition).await?;
        let mut offset = committed.unwrap_or(Offset::START);
        loop {
            let from = Position { topic: self.run.topic.as_str().into(), partition, offset };
            let records = self.broker.read(from.clone(), 1_000).await?;
            let Some(last) = records.last() else { return Ok(()) };
            offset = last.position.offset.next();
            let mut taken = JoinSet::new();
            for record in records {
                let part = self.clone();
                taken.spawn(async move { part.take(&record).await });
            }
            while let Some(ended) = taken.join_next().await {
                ended.map_err(panicked)??;
            }
            self.broker.commit(GROUP, Position { offset, ..from }).await?;
        }
    }

    async fn take(&self, record: &Record) -> Result<(), Failed> {
        let times = if record.position.offset.0 % 10 == 0 { 2 } else { 1 };
        for _ in 0..times {
            match self.store.mark_processed(self.received(record)?).await? {
                Receipt::First => add(&self.counters.processed, 1),
                Receipt::Repeated => add(&self.counters.repeats_dropped, 1),
            }
        }
        Ok(())
    }

    fn received(&self, record: &Record) -> Result<Received, Failed> {
        let header = |name: &str| {
            let found = record.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        Ok(Received {
            message_id: MessageId::new(header("ce_id"))?,
            channel_id: ChannelId::new(&*record.position.topic)?,
            message_type: header("ce_type"),
            correlation_id: None,
            tenant_id: None,
            received_at: self.ports.clock.now(),
        })
    }
}
