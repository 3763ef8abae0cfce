//! One lane: some shards of the store, published by whoever holds the lane's lease.

mod failures;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use helenus_broker::contract::{self as broker, Broker, NewRecord, Publisher, Transaction};
use helenus_model::limits::DISPATCH_BATCH_MAX;
use helenus_model::{MessageId, told};
use helenus_store::contract::{Dispatch, Lease, Leases, Outcome, Pending, Report};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::blames_a_record;
use crate::plan::{self, Batch, Events, Plan};
use crate::relay::Core;
use crate::totals::add;
use crate::{Mode, RelayError, marker};

use failures::Blocked;

/// Outages in a row after which a relay that is to end by itself gives up.
const OUTAGES_MAX: u32 = 3;

/// A lane and what is known of it while its lease is held.
pub(crate) struct Lane<S, B: Broker> {
    core: Arc<Core<S, B>>,
    number: u16,
    lease: Lease,
    /// When the lease was last known to be held, by the clock that never goes back.
    held_at: Duration,
    publisher: Option<B::Publisher>,
    /// Published and not known to be settled.
    unsettled: Vec<MessageId>,
    /// Messages the next transaction takes at most: less after one that was refused.
    count: usize,
    behind: bool,
    events: Events,
    blocked: Blocked,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There may be more to do.
    Worked,
    /// Nothing is due.
    Idle,
    /// The lease has passed on.
    Lost,
}

impl<S, B> Lane<S, B>
where
    S: Dispatch + Leases,
    B: Broker,
{
    pub(crate) fn new(core: Arc<Core<S, B>>, number: u16, lease: Lease, held_at: Duration) -> Self {
        Lane {
            number,
            lease,
            held_at,
            publisher: None,
            unsettled: Vec::new(),
            count: core.options.catch_up_batch,
            behind: false,
            events: Events::default(),
            blocked: Blocked::default(),
            core,
        }
    }

    /// Publishes until told to stop or until the lease has passed on. Ends between transactions.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> u16 {
        let mut wakeups = self.core.store.wakeups();
        let mut pause = self.core.options.polling.first;
        let mut outages = 0;
        while !stop.is_cancelled() {
            wakeups.mark_unchanged();
            match self.turn().await {
                Ok(Turn::Worked) => {
                    outages = 0;
                    pause = (pause / 2).max(self.core.options.polling.least);
                }
                Ok(Turn::Idle) => {
                    outages = 0;
                    self.core.idle.notify_one();
                    self.wait(&mut wakeups, pause, &stop).await;
                    pause = (pause * 2).min(self.core.options.polling.most);
                }
                Ok(Turn::Lost) => return self.number,
                Err(error) => {
                    outages += 1;
                    self.away(error, outages, &stop).await;
                }
            }
        }
        if let Err(error) = self.leave().await {
            // A lease that is not given back expires.
            tracing::warn!(lane = self.number, error = %told(&error), "a lane was left in haste");
        }
        self.number
    }

    /// Lets readers see everything, then gives the lease back.
    async fn leave(&mut self) -> Result<(), RelayError> {
        if let Some(publisher) = self.publisher.take() {
            publisher.finish().await?;
        }
        Ok(self.core.store.release(&self.lease).await?)
    }

    async fn wait(
        &self,
        wakeups: &mut watch::Receiver<u64>,
        pause: Duration,
        stop: &CancellationToken,
    ) {
        let retry = self.core.until_next_retry(self.core.ports.clock.now());
        // The lease is looked after in every turn, however rarely messages are looked for.
        let pause = pause.min(self.core.options.lease_ttl / 3);
        let pause = retry.map_or(pause, |retry| pause.min(retry));
        let woken = async {
            // A store that is gone wakes nobody.
            if !self.core.options.wake_up || wakeups.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = woken => {}
            () = self.core.woken(self.number) => {}
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Waits out an outage.
    async fn away(&mut self, error: RelayError, outages: u32, stop: &CancellationToken) {
        self.publisher = None;
        add(&self.core.counters.outages, 1);
        tracing::warn!(lane = self.number, outages, error = %told(&error), "a lane cannot publish");
        if outages >= OUTAGES_MAX {
            self.core.give_up(error);
        }
        let pause = self.core.options.backoff.after(outages, &*self.core.ports.random);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn turn(&mut self) -> Result<Turn, RelayError> {
        if !self.holds_lease().await? {
            return Ok(Turn::Lost);
        }
        self.settle().await?;
        let begun = self.core.ports.clock.elapsed();
        let due = self.read().await?;
        self.core.took(begun, |counters| &counters.reading);
        if due.is_empty() {
            return Ok(Turn::Idle);
        }
        if self.core.options.mode == Mode::ExactlyOnce && self.publisher.is_none() {
            return self.take_over().await;
        }
        let begun = self.core.ports.clock.elapsed();
        let Plan { publish, skip } = plan::plan(due, self.count, &self.core.options, &self.events);
        self.skip(skip).await?;
        let publish = self.leave_out_refused(publish).await?;
        self.core.took(begun, |counters| &counters.planning);
        self.publish(publish).await
    }

    /// Holds on to the lease, asking the store when a third of its time is over.
    async fn holds_lease(&mut self) -> Result<bool, RelayError> {
        let (now, ttl) = (self.core.ports.clock.elapsed(), self.core.options.lease_ttl);
        if now.saturating_sub(self.held_at) < ttl / 3 {
            return Ok(true);
        }
        self.renew().await
    }

    async fn renew(&mut self) -> Result<bool, RelayError> {
        let asked_at = self.core.ports.clock.elapsed();
        let renewed = self.core.store.renew(&self.lease, self.core.options.lease_ttl).await?;
        let Some(lease) = renewed else {
            tracing::info!(lane = self.number, epoch = self.lease.epoch, "a lane has passed on");
            return Ok(false);
        };
        (self.lease, self.held_at) = (lease, asked_at);
        Ok(true)
    }

    /// Becomes the lane's publisher, and settles what an earlier one published. The lease is looked at
    /// again after the name was taken: a process that was paused in between must not work on, and the
    /// rightful one takes the name back.
    async fn take_over(&mut self) -> Result<Turn, RelayError> {
        let publisher = self.core.broker.publisher(&self.core.publisher_name(self.number)).await?;
        if !self.renew().await? {
            return Ok(Turn::Lost);
        }
        let lane = u32::from(self.number);
        let last = self.core.broker.last(&self.core.markers, lane).await?;
        let published = last.and_then(|record| marker::ids(&record.payload)).unwrap_or_default();
        self.unsettled = published;
        self.settle().await?;
        self.publisher = Some(publisher);
        add(&self.core.counters.take_overs, 1);
        tracing::info!(lane = self.number, epoch = self.lease.epoch, "took a lane");
        Ok(Turn::Worked)
    }

    /// Records that what was published is done.
    async fn settle(&mut self) -> Result<(), RelayError> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        let begun = self.core.ports.clock.elapsed();
        let at = self.core.ports.clock.now();
        let succeeded = |id: &MessageId| Report::new(id.clone(), at, Outcome::Succeeded);
        self.core.store.apply_reports(self.unsettled.iter().map(succeeded).collect()).await?;
        self.core.settled(self.unsettled.drain(..));
        self.core.took(begun, |counters| &counters.settling);
        Ok(())
    }

    /// What is due in the lane's shards, oldest first.
    async fn read(&mut self) -> Result<Vec<Pending>, RelayError> {
        let core = &self.core;
        let now = core.ports.clock.now();
        let usual = if self.behind { core.options.catch_up_batch } else { core.options.batch };
        let limit = usual.min(DISPATCH_BATCH_MAX);
        let mut due = if core.lanes == 1 {
            // One line for all: nothing younger before something older.
            core.store.read_pending(now, limit).await?
        } else {
            let shards = core.shards_of(self.number).collect();
            core.store.read_shards(shards, now, limit).await?
        };
        let lag = due.first().map_or(Duration::ZERO, |oldest| now.since(oldest.eligible_at));
        self.behind = due.len() >= limit || lag > core.options.catch_up_after;
        self.blocked.leave_out(&mut due, &core.options, now);
        Ok(due)
    }

    /// Settles messages of events that were published under another message.
    async fn skip(&self, skip: Vec<Pending>) -> Result<(), RelayError> {
        if skip.is_empty() {
            return Ok(());
        }
        let at = self.core.ports.clock.now();
        let count = skip.len();
        let skipped = skip
            .into_iter()
            .map(|pending| Report::new(pending.message.message_id, at, Outcome::Skipped));
        self.core.store.apply_reports(skipped.collect()).await?;
        add(&self.core.counters.duplicates_suppressed, count);
        Ok(())
    }

    /// Fails what the broker would refuse, before a transaction begins.
    async fn leave_out_refused(&mut self, batch: Batch) -> Result<Batch, RelayError> {
        let refusals = self.core.broker.refusals(&batch.records).await?;
        if refusals.is_empty() {
            return Ok(batch);
        }
        let lines = self.lines(&batch.records, &refusals).await?;
        let places: HashSet<usize> = refusals.iter().map(|refusal| refusal.index).collect();
        let (refused, rest) = plan::without(batch, &places, &lines);
        let errors = refusals.iter().map(|refusal| &refusal.error);
        self.fail(refused.iter().zip(errors)).await?;
        Ok(rest)
    }

    async fn publish(&mut self, batch: Batch) -> Result<Turn, RelayError> {
        let Batch { messages, records } = batch;
        if messages.is_empty() {
            return Ok(Turn::Worked);
        }
        let ids: Vec<MessageId> =
            messages.iter().map(|pending| pending.message.message_id.clone()).collect();
        let begun = self.core.ports.clock.elapsed();
        let sent = self.send(records, &ids).await;
        self.core.took(begun, |counters| &counters.publishing);
        match sent {
            Ok(()) => {
                add(&self.core.counters.published, ids.len());
                self.unsettled = ids;
                self.count = (self.count * 2).min(self.core.options.catch_up_batch);
                let options = &self.core.options;
                let events =
                    messages.iter().filter_map(|pending| plan::event(&pending.message, options));
                events.for_each(|event| self.events.remember(event));
                self.settle().await?;
                Ok(Turn::Worked)
            }
            // Whether the lane is still this relay's is what the lease says.
            Err(broker::Error::Fenced { .. }) => {
                self.publisher = None;
                Ok(if self.renew().await? { Turn::Worked } else { Turn::Lost })
            }
            Err(error) if blames_a_record(&error) => {
                self.publisher = None;
                match messages.as_slice() {
                    [offender] => self.fail(std::iter::once((offender, &error))).await?,
                    several => self.count = several.len() / 2,
                }
                Ok(Turn::Worked)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn send(
        &mut self,
        records: Vec<NewRecord>,
        ids: &[MessageId],
    ) -> Result<(), broker::Error> {
        match &mut self.publisher {
            Some(publisher) => {
                let (topic, lane) = (&self.core.markers, self.number);
                let marker = marker::marker(topic, lane, &self.lease, ids.iter());
                publisher.publish(Transaction { records, marker: Some(marker) }).await
            }
            None => self.core.broker.publish(&records).await.map(drop),
        }
    }
}
