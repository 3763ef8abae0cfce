//! The agent beside a node: reads, publishes, remembers, releases, in this order.
//!
//! One batch at a time: what it holds is published and acknowledged, then the position behind it is
//! made durable, then segments before that position are released. Killed anywhere, the next agent
//! publishes the last batch again at worst, under the same event ids. While the broker is away the
//! batch waits and nothing is released.

mod account;
mod error;
mod source;
mod status;

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use helenus_broker::contract::{self as broker, Broker, NewRecord};
use helenus_model::{Clock, Failure, Kind, told};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::checks::{check, check_folder, check_masks};
use crate::knowledge::Taken;
use crate::metrics;
use crate::options::Options;
use crate::outlet::Outlet;
use crate::release::release;
use crate::schema::History;
use crate::segments::ListError;
use crate::state::State;
use crate::tail::{Batch, Tail, TailError};

use account::Account;
pub use error::AgentError;
pub use source::{Pulse, SchemaSource};
pub use status::Status;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often the node is asked what has changed; more often while segments wait to be released.
const CHECK_EVERY: Duration = Duration::from_secs(2);
const CHECK_FINISHED_EVERY: Duration = Duration::from_millis(200);
/// How long it may take to answer that: changes are published meanwhile by nobody.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);

/// The agent.
#[derive(Debug)]
pub struct Agent<B, S> {
    options: Arc<Options>,
    outlet: Outlet<B>,
    source: S,
    clock: Arc<dyn Clock>,
    state: State,
    tail: Option<Tail>,
    account: Account,
    /// The version of the schema that the tail goes by.
    schema_version: Option<String>,
    checked_at: Option<Duration>,
    _lock: File,
}

impl<B: Broker, S: SchemaSource> Agent<B, S> {
    /// Opens state and schema. Nothing is published or released yet.
    pub async fn start(
        options: Options,
        broker: B,
        source: S,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AgentError> {
        let lock = lock(&options)?;
        let (mut state, resume) = State::open(&options.state, &options.node)?;
        // Before the document, so that whatever changes meanwhile is noticed.
        let schema_version = source.pulse().await.map_err(AgentError::Schema)?.schema_version;
        let document = source.fetch().await.map_err(AgentError::Schema)?;
        let history =
            History::new(&document).map_err(|error| AgentError::Document(Box::new(error)))?;
        check(&options, &history.catalog(), resume.documents.iter().map(|seen| &seen.catalog))?;
        let limit = match source.total_space().await {
            Some(limit) => Some(limit),
            None => options.total_space,
        };
        let options = Arc::new(options);
        let now = clock.now();
        let at_us = state.time_of(&document, now.as_micros())?;
        let place = resume.place;
        let (mut tail, goes_back) = Tail::new(Arc::clone(&options), history, resume, at_us, now)?;
        adopt(&mut state, &mut tail, goes_back)?;
        state.remember(&document, at_us)?;
        let place = place.filter(|_| !goes_back);
        Ok(Self {
            outlet: Outlet::new(broker, Arc::clone(&options)),
            account: Account::new(Arc::clone(&options), Arc::clone(&clock), limit, place),
            options,
            source,
            clock,
            state,
            tail: Some(tail),
            schema_version,
            checked_at: None,
            _lock: lock,
        })
    }

    /// What the agent tells of itself, from now on; nothing before its first look.
    pub fn watch(&self) -> watch::Receiver<Option<Status>> {
        self.account.shown.subscribe()
    }

    /// Works until it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), AgentError> {
        let mut give_up = false;
        let mut failures = 0;
        while !stop.is_cancelled() {
            let step = self.step(give_up, &stop).await?;
            let pause = match step {
                Step::Worked => {
                    (give_up, failures) = (false, 0);
                    continue;
                }
                Step::Renewed => {
                    give_up = true;
                    continue;
                }
                Step::Idle => {
                    failures = 0;
                    self.options.poll
                }
                Step::Failed => {
                    failures += 1;
                    pause_after(failures)
                }
            };
            self.show(matches!(step, Step::Failed));
            let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
        self.show(true);
        Ok(())
    }

    /// Publishes what there is to be read now; returns how many events that was.
    pub async fn catch_up(&mut self) -> Result<u64, AgentError> {
        let before = self.account.published;
        let never = CancellationToken::new();
        let mut give_up = false;
        loop {
            match self.step(give_up, &never).await? {
                Step::Worked => give_up = false,
                Step::Renewed => give_up = true,
                Step::Idle if self.has_finished() && self.account.node_away.is_none() => {
                    self.check().await?;
                }
                Step::Idle | Step::Failed => {
                    self.show(true);
                    return Ok(self.account.published - before);
                }
            }
        }
    }

    async fn step(&mut self, give_up: bool, stop: &CancellationToken) -> Result<Step, AgentError> {
        if self.is_check_due() {
            self.check().await?;
        }
        let (mut tail, read) = self.read(give_up).await?;
        let batch = match read {
            Ok(batch) => batch,
            Err(TailError::Unmasked { column }) => {
                return Err(AgentError::UnknownColumn { column });
            }
            Err(error) => {
                self.tail = Some(tail);
                return Ok(self.failed(&error));
            }
        };
        self.account.waiting_for = None;
        if batch.is_empty() {
            self.tail = Some(tail);
            return Ok(Step::Idle);
        }
        let needs_schema = batch.needs_schema;
        report(&batch);
        if !self.deliver(batch.records, stop).await? {
            return Ok(Step::Idle);
        }
        self.state.quarantine(&batch.undecoded)?;
        for undecoded in &batch.undecoded {
            self.state.keep(undecoded.damage.segment);
        }
        for (segment, _) in &batch.refused {
            self.state.keep(*segment);
        }
        if let Some(at_us) = batch.announces_us {
            self.state.announced(at_us, tail.knowledge().truncations());
        }
        if batch.position.is_some() {
            self.account.place = batch.position;
            self.state.go_on_at(self.account.place);
        }
        let is_ending = self.state.ending(tail.knowledge().ending());
        if batch.position.is_some() || batch.announces_us.is_some() || is_ending {
            self.state.save()?;
        }
        // Not before: the tail has left the segments of the batch behind, and whoever is dropped while it
        // publishes must not go on from there.
        self.tail = Some(tail);
        self.show(false);
        if needs_schema { self.renew().await } else { Ok(Step::Worked) }
    }

    /// Reads the next batch beside the runtime, with the tail behind it.
    async fn read(
        &mut self,
        give_up: bool,
    ) -> Result<(Tail, Result<Batch, TailError>), AgentError> {
        let mut tail = self.tail.take().ok_or(AgentError::Reader)?;
        let now = self.clock.now();
        let read = tokio::task::spawn_blocking(move || {
            let batch = tail.next_batch(now, give_up);
            (tail, batch)
        });
        read.await.map_err(|_| AgentError::Reader)
    }

    /// Publishes until it is acknowledged; false if the agent was told to stop before.
    async fn deliver(
        &mut self,
        mut records: Vec<NewRecord>,
        stop: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let mut failures = 0;
        while !records.is_empty() {
            let attempt = self.outlet.publish(&records);
            let attempt = self.account.while_publishing(&self.state, attempt);
            let Some(outcome) = stop.run_until_cancelled(attempt).await else { return Ok(false) };
            let error = match outcome {
                Ok(()) => {
                    self.account.published += records.len() as u64;
                    metrics::count(metrics::PUBLISHED, records.len());
                    self.account.waiting_for = None;
                    return Ok(true);
                }
                Err(error) => error,
            };
            metrics::count(metrics::FAILED, 1);
            failures += 1;
            self.outlet.forget();
            self.failed(&error);
            if error.kind() == Kind::Invalid {
                records = self.set_refused_aside(records).await?;
            }
            self.show(true);
            let pause = tokio::time::sleep(pause_after(failures));
            if stop.run_until_cancelled(pause).await.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts what the broker will never take into the quarantine; returns the rest.
    async fn set_refused_aside(
        &self,
        records: Vec<NewRecord>,
    ) -> Result<Vec<NewRecord>, AgentError> {
        let refusals = self.outlet.broker.refusals(&records).await.unwrap_or_default();
        let too_large = refusals
            .iter()
            .filter(|refusal| matches!(refusal.error, broker::Error::TooLarge { .. }))
            .map(|refusal| (refusal.index, refusal.error.to_string()));
        let too_large: HashMap<usize, String> = too_large.collect();
        let mut taken = Vec::with_capacity(records.len());
        for (index, record) in records.into_iter().enumerate() {
            let reason = too_large.get(&index).or_else(|| self.outlet.refuses(&record.topic));
            let Some(reason) = reason else {
                taken.push(record);
                continue;
            };
            let id = record.headers.iter().find(|(name, _)| name == "event_id");
            let id = id.map_or_else(String::new, |(_, id)| String::from_utf8_lossy(id).into());
            tracing::error!(topic = &*record.topic, event_id = id, reason, "refused, quarantined");
            self.state.quarantine_refused(&id, &record.payload, reason)?;
            metrics::count(metrics::QUARANTINED, 1);
        }
        Ok(taken)
    }

    fn has_finished(&self) -> bool {
        self.tail.as_ref().is_some_and(Tail::has_finished)
    }

    fn is_check_due(&self) -> bool {
        let is_finished = self.has_finished() && self.account.node_away.is_none();
        let every = if is_finished { CHECK_FINISHED_EVERY } else { CHECK_EVERY };
        account::is_due(self.checked_at, every, self.clock.elapsed())
    }

    /// Asks the node what has changed. Segments are done with only after that: a table whose capture was
    /// switched on in a part of the log that nobody reads has been passed over until then.
    async fn check(&mut self) -> Result<(), AgentError> {
        let asked = tokio::time::timeout(CHECK_PATIENCE, self.source.pulse()).await;
        self.checked_at = Some(self.clock.elapsed());
        let pulse = match asked {
            Ok(Ok(pulse)) => pulse,
            Ok(Err(error)) => {
                self.account.node_is_away(told(&error));
                return Ok(());
            }
            Err(_) => {
                self.account.node_is_away(format!("no answer in {CHECK_PATIENCE:?}"));
                return Ok(());
            }
        };
        if pulse.schema_version != self.schema_version {
            if let Some(tail) = &mut self.tail {
                tail.knowledge().hope_again();
            }
            if self.renew().await? != Step::Renewed {
                return Ok(());
            }
            self.schema_version = pulse.schema_version;
        }
        self.account.node_away = None;
        let now = self.clock.now();
        let Some(tail) = &mut self.tail else { return Ok(()) };
        tail.look_at(pulse.truncations, now);
        let finished = tail.settle();
        if finished.is_empty() {
            return Ok(());
        }
        self.state.finish(&finished);
        self.state.save()?;
        match release(&self.options.cdc_raw, &self.state) {
            Ok(released) => {
                self.account.space.released(released.bytes);
                metrics::count(metrics::RELEASED, released.segments);
            }
            Err(error) => tracing::warn!(%error, "nothing is released"),
        }
        Ok(())
    }

    /// Fetches the schema again.
    async fn renew(&mut self) -> Result<Step, AgentError> {
        let document = match self.source.fetch().await {
            Ok(document) => document,
            Err(error) => return Ok(self.failed(&error)),
        };
        let now = self.clock.now();
        let at_us = self.state.time_of(&document, now.as_micros())?;
        let Some(tail) = &mut self.tail else { return Err(AgentError::Reader) };
        let goes_back = match tail.renew(Taken { document: &document, at_us }, now) {
            Ok(goes_back) => goes_back,
            Err(error) => {
                tracing::error!(%error, "what the node answered is no schema");
                return Ok(Step::Failed);
            }
        };
        check_masks(&self.options, &tail.knowledge().catalog())?;
        self.account.place = self.account.place.filter(|_| !goes_back);
        adopt(&mut self.state, tail, goes_back)?;
        self.state.remember(&document, at_us)?;
        Ok(Step::Renewed)
    }

    fn failed(&mut self, error: &dyn std::error::Error) -> Step {
        self.account.waits_for(told(error));
        Step::Failed
    }

    /// Tells of itself, now and then or at once.
    fn show(&mut self, at_once: bool) {
        self.account.show(&self.state, at_once);
    }
}

/// Makes durable what follows from a schema, before the schema itself is remembered: whoever knows the
/// schema sees no difference any more, and does not go back.
fn adopt(state: &mut State, tail: &mut Tail, goes_back: bool) -> Result<(), AgentError> {
    let changed = state.ending(tail.knowledge().ending());
    if goes_back {
        state.go_on_at(None);
    }
    if changed || goes_back { Ok(state.save()?) } else { Ok(()) }
}

/// One agent a folder, whatever state it goes by: it deletes what it has read.
fn lock(options: &Options) -> Result<File, AgentError> {
    let folder = &options.cdc_raw;
    check_folder(folder)?;
    let file = File::open(folder).map_err(|source| ListError::new(folder, source))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(AgentError::FolderInUse { folder: folder.clone() }),
        // Some file systems have no locks.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(file),
    }
}

/// Says what was not as it should be; once, where it is dealt with.
fn report(batch: &Batch) {
    for undecoded in &batch.undecoded {
        tracing::error!(damage = %undecoded.damage, "quarantined; the segment is kept");
    }
    for segment in &batch.missing {
        tracing::error!(%segment, "removed before it was read: its changes are lost here");
    }
    for (segment, error) in &batch.refused {
        let reason = error.code();
        tracing::error!(%segment, reason, %error, "cannot be read; the segment is kept");
    }
    metrics::count(metrics::QUARANTINED, batch.undecoded.len());
    metrics::count(metrics::MISSING, batch.missing.len());
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Worked,
    Renewed,
    Idle,
    Failed,
}

/// A pause that grows with the failures before it.
fn pause_after(failures: u32) -> Duration {
    Duration::from_millis(50).saturating_mul(1 << failures.min(10)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        assert!(pause_after(1) < pause_after(3));
        assert_eq!(pause_after(40), PAUSE_MAX);
    }
}
