//! The agent beside a node: reads, publishes, remembers, releases, in this order.
//!
//! One batch at a time: what it holds is published and acknowledged, then the position behind it is
//! made durable, then segments before that position are released. Killed anywhere, the next agent
//! publishes what came after the last durable position again at worst, under the same event ids. While
//! the broker is away the batch waits and nothing is released.

mod account;
mod check;
mod error;
mod source;
mod status;

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use helenus_broker::contract::{self as broker, Broker, NewRecord};
use helenus_cql::schema::TableId;
use helenus_model::{Clock, Failure, Kind, told};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::checks::{check, check_folder};
use crate::metrics;
use crate::offline::Truncation;
use crate::options::Options;
use crate::outlet::Outlet;
use crate::schema::History;
use crate::segments::{ListError, Segment, list};
use crate::state::State;
use crate::tail::{Batch, Tail, TailError};

use account::Account;
use check::adopt;
pub use error::AgentError;
pub use source::{Pulse, SchemaSource, Terms};
pub use status::Status;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a position may wait to be made durable while there is more to read: whoever goes on from an
/// older one publishes what came since again, under the same ids.
const SAVE_EVERY: Duration = Duration::from_millis(100);

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
    saved_at: Option<Duration>,
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
        let (mut state, mut resume) = State::open(&options.state, &options.node)?;
        // Before the document, so that whatever changes meanwhile is noticed.
        let pulse = source.pulse().await.map_err(AgentError::Schema)?;
        if resume.is_first {
            resume.truncated = before_the_log(pulse.truncations, &list(&options.cdc_raw)?);
        }
        let document = source.fetch().await.map_err(AgentError::Schema)?;
        let history =
            History::new(&document).map_err(|error| AgentError::Document(Box::new(error)))?;
        check(&options, &history.catalog(), resume.documents.iter().map(|seen| &seen.catalog))?;
        let terms = source.terms().await.unwrap_or_default();
        let options = Arc::new(options);
        let now = clock.now();
        let at_us = state.time_of(&document, now.as_micros())?;
        let place = resume.place;
        state.emptied(&resume.truncated);
        let (mut tail, goes_back) = Tail::new(Arc::clone(&options), history, resume, at_us, now)?;
        adopt(&mut state, &mut tail, goes_back)?;
        state.remember(&document, at_us)?;
        let place = place.filter(|_| !goes_back);
        Ok(Self {
            outlet: Outlet::new(broker, Arc::clone(&options)),
            account: Account::new(Arc::clone(&options), Arc::clone(&clock), terms, place),
            options,
            source,
            clock,
            state,
            tail: Some(tail),
            schema_version: pulse.schema_version,
            checked_at: None,
            saved_at: None,
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
        self.save()?;
        self.show(true);
        Ok(())
    }

    /// Publishes what there is to be read now; returns how many events that was.
    pub async fn catch_up(&mut self) -> Result<u64, AgentError> {
        let before = self.account.published;
        let never = CancellationToken::new();
        let (mut give_up, mut is_checked) = (false, false);
        loop {
            match self.step(give_up, &never).await? {
                Step::Worked => (give_up, is_checked) = (false, false),
                Step::Renewed => give_up = true,
                Step::Idle if !is_checked && self.account.node_away.is_none() => {
                    self.check().await?;
                    is_checked = true;
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
                return self.failed(&error);
            }
        };
        self.account.waiting_for = None;
        if batch.is_empty() {
            self.tail = Some(tail);
            self.save()?;
            return Ok(Step::Idle);
        }
        let needs_schema = batch.needs_schema;
        report(&batch);
        let Some(published) = self.deliver(batch.records, stop).await? else {
            return Ok(Step::Idle);
        };
        tail.reuse(published);
        self.state.quarantine(&batch.undecoded)?;
        for undecoded in &batch.undecoded {
            self.state.keep(undecoded.damage.segment);
        }
        for (segment, _) in &batch.refused {
            self.state.keep(*segment);
        }
        if let Some(at_us) = batch.announces_us {
            self.state.announced(at_us);
        }
        if batch.position.is_some() {
            self.account.place = batch.position;
            self.state.go_on_at(self.account.place);
        }
        let is_ending = self.state.ending(tail.knowledge().ending());
        // Nothing that the tail knows of waits to be told now.
        let is_emptied = self.state.emptied(tail.knowledge().truncations());
        let is_told = batch.announces_us.is_some() || is_ending || is_emptied;
        let is_whole = batch.undecoded.is_empty() && batch.refused.is_empty();
        if is_told || !is_whole || account::is_due(self.saved_at, SAVE_EVERY, self.clock.elapsed())
        {
            self.save()?;
        }
        // Not before: the tail has left the segments of the batch behind, and whoever is dropped while it
        // publishes must not go on from there.
        self.tail = Some(tail);
        self.show(false);
        if needs_schema { self.renew().await } else { Ok(Step::Worked) }
    }

    /// Makes durable what has changed since the last time.
    fn save(&mut self) -> Result<(), AgentError> {
        self.saved_at = Some(self.clock.elapsed());
        Ok(self.state.save()?)
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

    /// Publishes until it is acknowledged, and returns what was; nothing if the agent was told to stop
    /// before.
    async fn deliver(
        &mut self,
        mut records: Vec<NewRecord>,
        stop: &CancellationToken,
    ) -> Result<Option<Vec<NewRecord>>, AgentError> {
        let mut failures = 0;
        while !records.is_empty() {
            let attempt = self.outlet.publish(&records);
            let attempt = self.account.while_publishing(&self.state, attempt);
            let Some(outcome) = stop.run_until_cancelled(attempt).await else { return Ok(None) };
            let error = match outcome {
                Ok(()) => {
                    self.account.published += records.len() as u64;
                    metrics::count(metrics::PUBLISHED, records.len());
                    self.account.waiting_for = None;
                    break;
                }
                Err(error) => error,
            };
            metrics::count(metrics::FAILED, 1);
            failures += 1;
            self.outlet.forget();
            self.failed(&error)?;
            if error.kind() == Kind::Invalid {
                records = self.set_refused_aside(records).await?;
            }
            self.show(true);
            let pause = tokio::time::sleep(pause_after(failures));
            if stop.run_until_cancelled(pause).await.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(records))
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

    /// What was published before is made durable: it may take long until there is more.
    fn failed(&mut self, error: &dyn std::error::Error) -> Result<Step, AgentError> {
        self.account.waits_for(told(error));
        self.save()?;
        Ok(Step::Failed)
    }

    /// Tells of itself, now and then or at once.
    fn show(&mut self, at_once: bool) {
        self.account.show(&self.state, at_once);
    }
}

/// Truncations of before the oldest segment in the folder. To a first agent they are no news: nobody was
/// told of what they emptied.
fn before_the_log(
    mut truncations: Vec<(TableId, Truncation)>,
    segments: &[Segment],
) -> HashMap<TableId, Truncation> {
    if let Some(oldest) = segments.first() {
        truncations.retain(|(_, truncation)| truncation.segment < oldest.id);
    }
    truncations.into_iter().collect()
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
        tracing::error!(%segment, "removed before it was read to its end: changes may be lost here");
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
