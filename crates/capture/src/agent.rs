//! The agent beside a node: reads, publishes, remembers, releases, in this order.
//!
//! One batch at a time: what it holds is published and acknowledged, then the position behind it is
//! made durable, then segments before that position are released. Killed anywhere, the next agent
//! publishes the last batch again at worst, under the same event ids. While the broker is away the
//! batch waits and nothing is released.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use helenus_broker::contract::{self as broker, Broker, NewRecord};
use helenus_cql::schema::JournalError;
use helenus_model::{BackendError, Clock, Failure, Kind, Timestamp};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::metrics;
use crate::options::Options;
use crate::outlet::Outlet;
use crate::release::release;
use crate::schema::History;
use crate::segments::{ListError, list};
use crate::space::{Space, Watch, folder_bytes};
use crate::state::{State, StateError};
use crate::tail::{Batch, Place, Tail, TailError};

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often the status is written.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Where the schema comes from.
pub trait SchemaSource: Send + Sync {
    /// The schema now, as a document.
    fn fetch(&self) -> impl Future<Output = Result<String, BackendError>> + Send;

    /// Bytes that `cdc_raw` may hold, if the source knows.
    fn total_space(&self) -> impl Future<Output = Option<u64>> + Send;
}

/// A document that does not change: for tests and for reading without a node.
impl SchemaSource for String {
    async fn fetch(&self) -> Result<String, BackendError> {
        Ok(self.clone())
    }

    async fn total_space(&self) -> Option<u64> {
        None
    }
}

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] ListError),
    /// The position cannot be read or made durable.
    #[error(transparent)]
    State(#[from] StateError),
    /// The schema cannot be had.
    #[error("the schema cannot be fetched")]
    Schema(#[source] BackendError),
    /// What came is no schema.
    #[error("what the node answered is no schema")]
    Document(#[source] Box<JournalError>),
    /// The part that reads ended by itself.
    #[error("the reader ended unexpectedly")]
    Reader,
}

impl Failure for AgentError {
    fn kind(&self) -> Kind {
        match self {
            Self::Folder(error) => error.kind(),
            Self::State(error) => error.kind(),
            Self::Schema(error) => error.kind(),
            Self::Document(_) | Self::Reader => Kind::Fatal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Folder(error) => error.code(),
            Self::State(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Document(_) => "schema_malformed",
            Self::Reader => "stopped",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Folder(error) => error.remedy(),
            Self::State(error) => error.remedy(),
            Self::Schema(error) => error.remedy(),
            Self::Document(_) | Self::Reader => Some("report this with the log".into()),
        }
    }
}

/// What an agent tells of itself; `helenus capture status` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The node.
    pub node: String,
    /// When this was written.
    pub updated_at: Timestamp,
    /// The segment being read, and how far.
    pub segment: Option<i64>,
    /// The logical offset in it up to which everything is published.
    pub offset: Option<u64>,
    /// Segments in the folder.
    pub segments: usize,
    /// Events published since the agent started.
    pub published: u64,
    /// Records in the quarantine.
    pub quarantined: usize,
    /// Bytes in the folder.
    pub used_bytes: u64,
    /// Bytes it may hold.
    pub limit_bytes: Option<u64>,
    /// Until the node would refuse writes, at the pace of the last minute.
    pub seconds_left: Option<u64>,
    /// Why nothing is published at the moment.
    pub waiting_for: Option<String>,
}

/// The agent.
#[derive(Debug)]
pub struct Agent<B, S> {
    options: Arc<Options>,
    outlet: Outlet<B>,
    source: S,
    clock: Arc<dyn Clock>,
    state: State,
    tail: Option<Tail>,
    watch: Watch,
    published: u64,
    waiting_for: Option<String>,
    place: Option<Place>,
    shown_at: Option<Duration>,
}

impl<B: Broker, S: SchemaSource> Agent<B, S> {
    /// Opens state and schema. Nothing is published or released yet.
    pub async fn start(
        options: Options,
        broker: B,
        source: S,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AgentError> {
        list(&options.cdc_raw)?;
        let (state, place, known) = State::open(&options.state, &options.node)?;
        let document = source.fetch().await.map_err(AgentError::Schema)?;
        let history =
            History::new(&document).map_err(|error| AgentError::Document(Box::new(error)))?;
        state.remember(&document, clock.now().as_micros())?;
        let limit = match source.total_space().await {
            Some(limit) => Some(limit),
            None => options.total_space,
        };
        let options = Arc::new(options);
        let tail = Tail::new(Arc::clone(&options), history, known, place);
        Ok(Self {
            outlet: Outlet::new(broker, Arc::clone(&options)),
            options,
            source,
            clock,
            state,
            tail: Some(tail),
            watch: Watch::new(limit),
            published: 0,
            waiting_for: None,
            place,
            shown_at: None,
        })
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
            self.show(matches!(step, Step::Failed))?;
            let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
        self.show(true)
    }

    /// Publishes what there is to be read now; returns how many events that was.
    pub async fn catch_up(&mut self) -> Result<u64, AgentError> {
        let before = self.published;
        let never = CancellationToken::new();
        let mut give_up = false;
        loop {
            match self.step(give_up, &never).await? {
                Step::Worked => give_up = false,
                Step::Renewed => give_up = true,
                Step::Idle | Step::Failed => return Ok(self.published - before),
            }
        }
    }

    async fn step(&mut self, give_up: bool, stop: &CancellationToken) -> Result<Step, AgentError> {
        let batch = match self.read(give_up).await? {
            Ok(batch) => batch,
            Err(error) => return Ok(self.failed(&error)),
        };
        if batch.is_empty() {
            return Ok(Step::Idle);
        }
        let needs_schema = batch.needs_schema;
        report(&batch);
        if !self.deliver(batch.records, stop).await? {
            return Ok(Step::Idle);
        }
        for undecoded in &batch.undecoded {
            self.state.quarantine(undecoded)?;
            self.state.keep(undecoded.damage.segment);
        }
        for (segment, _) in &batch.refused {
            self.state.keep(*segment);
        }
        if let Some(place) = batch.position {
            self.settle(place)?;
        }
        self.show(false)?;
        if needs_schema { self.renew().await } else { Ok(Step::Worked) }
    }

    /// Reads the next batch beside the runtime.
    async fn read(&mut self, give_up: bool) -> Result<Result<Batch, TailError>, AgentError> {
        let mut tail = self.tail.take().ok_or(AgentError::Reader)?;
        let now = self.clock.now();
        let read = tokio::task::spawn_blocking(move || {
            let batch = tail.next_batch(now, give_up);
            (tail, batch)
        });
        let (tail, batch) = read.await.map_err(|_| AgentError::Reader)?;
        self.tail = Some(tail);
        Ok(batch)
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
            let Some(outcome) = stop.run_until_cancelled(attempt).await else { return Ok(false) };
            let error = match outcome {
                Ok(()) => {
                    self.published += records.len() as u64;
                    metrics::count(metrics::PUBLISHED, records.len());
                    self.waiting_for = None;
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
            self.show(true)?;
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
        let Ok(refusals) = self.outlet.broker.refusals(&records).await else { return Ok(records) };
        let refused: Vec<_> = refusals
            .iter()
            .filter(|refusal| matches!(refusal.error, broker::Error::TooLarge { .. }))
            .collect();
        for refusal in &refused {
            if let Some(record) = records.get(refusal.index) {
                let id = record.headers.iter().find(|(name, _)| name == "event_id");
                let id = id.map_or_else(String::new, |(_, id)| String::from_utf8_lossy(id).into());
                let reason = refusal.error.to_string();
                tracing::error!(
                    topic = &*record.topic,
                    event_id = id,
                    reason,
                    "refused, quarantined"
                );
                self.state.quarantine_refused(&id, &record.payload, &reason)?;
                metrics::count(metrics::QUARANTINED, 1);
            }
        }
        let is_taken = |index: &usize| !refused.iter().any(|refusal| refusal.index == *index);
        let taken = records.into_iter().enumerate().filter(|(index, _)| is_taken(index));
        Ok(taken.map(|(_, record)| record).collect())
    }

    /// Everything before `place` is acknowledged: makes it durable, then releases.
    fn settle(&mut self, place: Place) -> Result<(), AgentError> {
        self.state.save(place)?;
        let moved_on = self.place.is_none_or(|before| {
            before.segment != place.segment || before.finished != place.finished
        });
        self.place = Some(place);
        if moved_on {
            let released = release(&self.options.cdc_raw, place, &self.state)?;
            self.watch.released(released.bytes);
            metrics::count(metrics::RELEASED, released.segments);
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
        if let Some(tail) = &mut self.tail
            && let Err(error) = tail.renew(&document, now)
        {
            tracing::error!(%error, "what the node answered is no schema");
            return Ok(Step::Failed);
        }
        self.state.remember(&document, now.as_micros())?;
        Ok(Step::Renewed)
    }

    fn failed(&mut self, error: &dyn std::error::Error) -> Step {
        let mut told = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            told = format!("{told}: {next}");
            cause = next.source();
        }
        if self.waiting_for.as_ref() != Some(&told) {
            tracing::warn!(error = told, "waiting");
        }
        self.waiting_for = Some(told);
        Step::Failed
    }

    /// Writes the status, now and then or at once.
    fn show(&mut self, at_once: bool) -> Result<(), AgentError> {
        let elapsed = self.clock.elapsed();
        let is_due = self.shown_at.is_none_or(|at| elapsed.saturating_sub(at) >= STATUS_EVERY);
        if !is_due && !at_once {
            return Ok(());
        }
        self.shown_at = Some(elapsed);
        let used = folder_bytes(&self.options.cdc_raw).unwrap_or_default();
        let Space { used_bytes, limit_bytes, seconds_left } = self.watch.look(elapsed, used);
        metrics::show(metrics::USED_BYTES, Some(used_bytes));
        metrics::show(metrics::LIMIT_BYTES, limit_bytes);
        metrics::show(metrics::SECONDS_LEFT, seconds_left);
        if let Some(left) = seconds_left.filter(|left| *left < 600) {
            tracing::warn!(seconds_left = left, "cdc_raw fills up; the node will refuse writes");
        }
        let status = Status {
            node: self.options.node.to_string(),
            updated_at: self.clock.now(),
            segment: self.place.map(|place| place.segment.0),
            offset: self.place.map(|place| place.position.logical),
            segments: list(&self.options.cdc_raw).map_or(0, |segments| segments.len()),
            published: self.published,
            quarantined: self.state.quarantined()?,
            used_bytes,
            limit_bytes,
            seconds_left,
            waiting_for: self.waiting_for.clone(),
        };
        Ok(self.state.show(&status)?)
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
    use crate::reader::ReadError;

    #[test]
    fn errors_are_small() {
        assert!(size_of::<AgentError>() <= 64, "{}", size_of::<AgentError>());
        assert!(size_of::<TailError>() <= 64, "{}", size_of::<TailError>());
        assert!(size_of::<ReadError>() <= 64, "{}", size_of::<ReadError>());
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        assert!(pause_after(1) < pause_after(3));
        assert_eq!(pause_after(40), PAUSE_MAX);
    }
}
