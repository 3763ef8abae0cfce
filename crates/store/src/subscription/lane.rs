//! The work on one lane, from taking it over to giving it back.

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::StreamId;
use tokio_util::sync::CancellationToken;

use super::consumer::ConsumerOptions;
use super::effect::{Delivery, Effect, Task, Work};
use super::error::ConsumeError;
use super::meters::Meters;
use crate::Ports;
use crate::contract::{
    Feed, FeedItem, Hold, OnPoison, Parked, Parking, Position, ReadFeed, Reason, Settlement,
    SubscriptionError, Subscriptions, lane_of,
};

/// How often an idle lane looks for parked events to replay.
const REPLAY_POLL: Duration = Duration::from_secs(1);
/// Events of other lanes passed over, for each one a batch holds, before the checkpoint moves.
const PASSED_PER_EVENT: usize = 10;

/// A lane that this consumer holds.
pub(super) struct Lane<S, E> {
    pub(super) store: S,
    pub(super) effect: Arc<E>,
    pub(super) ports: Ports,
    pub(super) options: ConsumerOptions,
    pub(super) meters: Meters,
    pub(super) hold: Hold,
    /// Ends the work after the event at hand.
    pub(super) stop: CancellationToken,
    /// Whether to wait for more at the end of the feed.
    pub(super) follow: bool,
}

/// Where the work stands.
struct Place {
    from: Position,
    stopped: HashSet<StreamId>,
    on_poison: OnPoison,
    lanes: u32,
}

/// What was done on a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) handled: u64,
    pub(super) parked: u64,
}

/// What was read ahead.
struct Gathered {
    deliveries: VecDeque<Delivery>,
    /// The last position read, whichever lane it belongs to.
    through: Position,
    has_ended: bool,
}

impl<S, E> Lane<S, E>
where
    S: Feed + Subscriptions + 'static,
    E: Effect,
{
    /// Works until it is stopped, the feed ends or the lane is lost; then gives the lane back.
    pub(super) async fn run(self) -> Result<Done, ConsumeError> {
        let mut done = Done::default();
        let ended = tokio::select! {
            ended = Box::pin(self.work(&mut done)) => ended,
            () = self.renew() => Err(self.lost()),
        };
        // One that has passed on stays where it is.
        let released = self.store.release(&self.hold.lease).await;
        ended?;
        released?;
        Ok(done)
    }

    fn lost(&self) -> ConsumeError {
        let (name, lane) = (self.hold.subscription.clone(), self.hold.lane);
        SubscriptionError::Fenced { name, lane }.into()
    }

    /// Holds on to the lane until it is lost.
    async fn renew(&self) {
        loop {
            tokio::time::sleep(self.options.lease_ttl / 3).await;
            match self.store.renew(&self.hold.lease, self.options.lease_ttl).await {
                Ok(Some(_)) => {}
                Ok(None) => return,
                // Should it last, somebody else takes the lane, and the epoch keeps us out.
                Err(error) => tracing::warn!(%error, "a lease could not be renewed"),
            }
        }
    }

    async fn work(&self, done: &mut Done) -> Result<(), ConsumeError> {
        let state = self.store.lane(&self.hold).await?;
        let mut place = Place {
            from: state.position,
            stopped: state.stopped.into_iter().collect(),
            on_poison: state.on_poison,
            lanes: state.lanes,
        };
        let read = ReadFeed { after: Some(place.from.clone()), limit: None, follow: self.follow };
        let mut feed = pin!(self.store.feed(read));
        loop {
            self.replay(&mut place, done).await?;
            let gathered = self.gather(&mut feed, &place).await?;
            let has_ended = gathered.has_ended;
            self.go_on(gathered, &mut place, done).await?;
            if self.stop.is_cancelled() || has_ended {
                return Ok(());
            }
        }
    }

    /// Reads ahead until there is a batch, or nothing more for now.
    async fn gather<F>(&self, feed: &mut F, place: &Place) -> Result<Gathered, ConsumeError>
    where
        F: futures_util::TryStream<Ok = FeedItem, Error = crate::contract::ReadError> + Unpin,
    {
        let (mut deliveries, mut passed) = (VecDeque::new(), 0);
        let mut through = place.from.clone();
        let mut has_ended = false;
        let is_full = |count, passed| {
            count >= self.options.batch || passed >= self.options.batch * PASSED_PER_EVENT
        };
        while !is_full(deliveries.len(), passed) {
            let item = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                item = feed.try_next() => item?,
                () = tokio::time::sleep(REPLAY_POLL) => break,
            };
            match item {
                Some(FeedItem::Event { position, event }) => {
                    through = position.clone();
                    if lane_of(&event.stream_id, place.lanes) == self.hold.lane {
                        deliveries.push_back(Delivery { position, event: Arc::new(event) });
                    } else {
                        passed += 1;
                    }
                }
                // Whoever dropped them did so by force, or before there was this subscription.
                Some(FeedItem::Dropped { position, count }) => {
                    tracing::warn!(count, %position, "events were dropped before they were read");
                    through = position;
                    passed += 1;
                }
                Some(FeedItem::CaughtUp) if through == place.from => {}
                Some(FeedItem::CaughtUp) => break,
                None => {
                    has_ended = true;
                    break;
                }
            }
        }
        Ok(Gathered { deliveries, through, has_ended })
    }

    /// Handles what was gathered, parks what has to be, and moves the checkpoint past it.
    async fn go_on(
        &self,
        gathered: Gathered,
        place: &mut Place,
        done: &mut Done,
    ) -> Result<(), ConsumeError> {
        let Gathered { mut deliveries, through, .. } = gathered;
        while let Some(first) = deliveries.front().cloned() {
            if self.stop.is_cancelled() {
                return Ok(());
            }
            if place.stopped.contains(&first.event.stream_id) {
                if self.park(place, &first, Reason::Behind).await? {
                    done.parked += 1;
                    deliveries.pop_front();
                } else {
                    // Somebody discarded what was before it.
                    place.stopped.remove(&first.event.stream_id);
                }
                continue;
            }
            let free = |delivery: &&Delivery| !place.stopped.contains(&delivery.event.stream_id);
            let now: Vec<Delivery> = deliveries.iter().take_while(free).cloned().collect();
            let last = now.last().map_or(&through, |last| &last.position);
            let to = if now.len() == deliveries.len() { &through } else { last }.clone();
            let task = Task::Ahead { from: place.from.clone(), through: to };
            let work = Work { deliveries: now, task, stop: self.stop.clone() };
            let carried = self.effect.carry_out(&self.hold, work.clone()).await?;
            if let Some(Settlement::Ahead { to, .. }) = work.settlement(carried.done) {
                place.from = to;
            }
            self.meters.processed(carried.done);
            done.handled += carried.done as u64;
            deliveries.drain(..carried.done);
            if let (Some(error), Some(next)) = (carried.failed, deliveries.front().cloned())
                && self.failed(place, &next, error).await?
            {
                done.parked += 1;
                deliveries.pop_front();
            }
        }
        if place.from != through {
            let from = std::mem::replace(&mut place.from, through.clone());
            self.store.settle(&self.hold, Settlement::Ahead { from, to: through }).await?;
        }
        Ok(())
    }

    /// Counts a failure; parks the event after the last attempt, else waits before the next.
    async fn failed(
        &self,
        place: &mut Place,
        next: &Delivery,
        error: String,
    ) -> Result<bool, ConsumeError> {
        let attempts = self.store.fail(&self.hold, None, &error).await?;
        self.meters.failed();
        let (stream, position) = (&next.event.stream_id, &next.position);
        tracing::debug!(%stream, %position, attempts, error, "an event could not be handled");
        if attempts < self.options.attempts_max {
            self.back_off(attempts).await;
            return Ok(false);
        }
        tracing::warn!(%stream, %position, attempts, error, "an event is parked");
        self.park(place, next, Reason::Failed { error }).await?;
        if place.on_poison == OnPoison::StopStream {
            place.stopped.insert(stream.clone());
        }
        Ok(true)
    }

    async fn park(
        &self,
        place: &mut Place,
        delivery: &Delivery,
        reason: Reason,
    ) -> Result<bool, ConsumeError> {
        let parking = Parking {
            from: place.from.clone(),
            position: delivery.position.clone(),
            stream_id: delivery.event.stream_id.clone(),
            reason,
        };
        let parked = self.store.park(&self.hold, parking).await?;
        if parked {
            self.meters.parked();
            place.from = delivery.position.clone();
        }
        Ok(parked)
    }

    async fn back_off(&self, attempts: u32) {
        let wait = self.options.backoff.after(attempts, &*self.ports.random);
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Tries the parked events again that somebody asked for.
    async fn replay(&self, place: &mut Place, done: &mut Done) -> Result<(), ConsumeError> {
        let mut has_replayed = false;
        while !self.stop.is_cancelled() {
            let due = self.store.replays(&self.hold, self.options.batch).await?;
            if due.is_empty() {
                break;
            }
            has_replayed = true;
            for parked in due {
                // What waits behind one that failed is asked for no longer: look again.
                if !self.replay_one(&parked, done).await? {
                    break;
                }
            }
        }
        if has_replayed {
            place.stopped = self.store.lane(&self.hold).await?.stopped.into_iter().collect();
        }
        Ok(())
    }

    /// Whether the event was handled, or is gone.
    async fn replay_one(&self, parked: &Parked, done: &mut Done) -> Result<bool, ConsumeError> {
        let position = &parked.position;
        let Some(event) = parked.event.clone() else {
            let error = "the event is no longer in the store";
            self.store.park_again(&self.hold, position, error).await?;
            return Ok(false);
        };
        let delivery = Delivery { position: position.clone(), event: Arc::new(event) };
        for attempt in 1_u32.. {
            let (deliveries, stop) = (vec![delivery.clone()], self.stop.clone());
            let work = Work { deliveries, task: Task::Replay, stop };
            let error = match self.effect.carry_out(&self.hold, work).await {
                Ok(carried) => match carried.failed {
                    Some(error) => error,
                    None => {
                        self.meters.processed(1);
                        done.handled += 1;
                        return Ok(true);
                    }
                },
                // Discarded meanwhile.
                Err(SubscriptionError::NotParked { .. }) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            self.meters.failed();
            match self.store.fail(&self.hold, Some(position), &error).await {
                Ok(_) => {}
                Err(SubscriptionError::NotParked { .. }) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
            if attempt >= self.options.attempts_max {
                self.store.park_again(&self.hold, position, &error).await?;
                return Ok(false);
            }
            self.back_off(attempt).await;
            if self.stop.is_cancelled() {
                return Ok(false);
            }
        }
        Ok(false)
    }
}
