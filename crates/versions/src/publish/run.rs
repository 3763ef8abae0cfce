//! The steps of a run, in order.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::ready;
use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_model::{BackendError, Failure, Kind};
use helenus_store::Ports;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::checks::{Facts, evaluate};
use super::feed::{Fed, feed};
use super::schema::{blocking, has_checked_columns, schema};
use super::{DryRun, Publish, PublishError, Published};
use crate::catalog::change::{Step, change};
use crate::catalog::{
    self, Begin, Begun, Catalog, ChangeError, Forced, Snapshot, Status, Story, TableVersion,
};
use crate::source::{Standard, find};
use crate::tables::{Created, Mark, Progress, Tables, Target};
use crate::{TableName, TableSchema};

/// How far ahead of the clock data may stand.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Chunks read ahead of the writes.
const CHUNKS_AHEAD: usize = 4;

/// The pause before a step is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Keys that are read back at once.
const FETCHED_AT_ONCE: usize = 16;

/// Publishes a data set as the next version of its table; the same run twice is one version.
pub async fn publish<B: Catalog + Tables>(
    backend: &B,
    ports: &Ports,
    publish: Publish,
    progress: &Progress,
) -> Result<Published, PublishError> {
    let began = ports.clock.elapsed();
    let publish = Arc::new(publish);
    let publisher = ports.random.uuid();
    let run = Run { backend, ports, publish: &publish, publisher, standard: OnceLock::new() };
    let mut published = match run.begin().await? {
        Begun::Completed(row) => {
            let told = run.told(&row, backend.snapshot(&publish.table).await?);
            let mut note = "it was published before: nothing was read".to_owned();
            if let Some(more) = told.note {
                note.push_str("; ");
                note.push_str(&more);
            }
            Published { note: Some(note), ..told }
        }
        Begun::Ours(row) => Box::pin(run.carry_out(*row, progress)).await?,
        Begun::Busy(row) => {
            return Err(PublishError::Busy {
                run_id: row.run_id.into(),
                who: row.story.who.into(),
                heartbeat: row.heartbeat_ts,
            });
        }
        Begun::GivenUp(row) => {
            let (run_id, status) = (row.run_id.into(), row.status);
            return Err(PublishError::GivenUp { run_id, status });
        }
    };
    published.seconds = ports.clock.elapsed().saturating_sub(began).as_secs_f64();
    Ok(published)
}

pub(super) async fn dry_run<B: Catalog + Tables>(
    backend: &B,
    publish: &Publish,
) -> Result<DryRun, PublishError> {
    let publish = Arc::new(publish.clone());
    let mut input = find(&publish.sources, &*publish.storage, &publish.read)?;
    let snapshot = backend.snapshot(&publish.table).await?;
    let schema = Arc::new(schema(&publish, &mut input, &snapshot).await?);
    let fed = {
        let (publish, schema) = (Arc::clone(&publish), Arc::clone(&schema));
        blocking(move || feed(&publish, &input, schema, 0, None)).await?
    };
    let previous_rows = snapshot.routed().map(|row| row.story.rows);
    let (read, null_rates) = (fed.read, fed.null_rates);
    let facts = Facts { read, null_rates, previous_rows, ..Facts::default() };
    Ok(DryRun {
        rows: read.rows,
        bad_rows: read.bad,
        schema: schema.create_cql(publish.table.keyspace(), publish.table.table(), None),
        checks: evaluate(&facts, &publish.checks),
    })
}

/// A run of one publisher.
struct Run<'a, B> {
    backend: &'a B,
    ports: &'a Ports,
    publish: &'a Arc<Publish>,
    publisher: Uuid,
    /// What was read of standard input to infer a schema.
    standard: OnceLock<Standard>,
}

impl<B: Catalog + Tables> Run<'_, B> {
    /// Finds out whether there is anything to do, and takes the run if so.
    async fn begin(&self) -> Result<Begun, PublishError> {
        let publish = self.publish;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        let run_id = publish.run_id.as_str();
        if run_id.is_empty() || run_id.len() > 128 || !run_id.bytes().all(is_name) {
            return Err(PublishError::RunId { run_id: run_id.into() });
        }
        let now = self.ports.clock.now();
        let snapshot = self.backend.snapshot(&publish.table).await?;
        if let Some(row) = snapshot.run(run_id).filter(|row| row.status == Status::Completed) {
            // Whoever repeats a run need not have its sources any more; other ones are another run.
            if let Ok(input) = find(&publish.sources, &*publish.storage, &publish.read) {
                same_source(row, &input.describe())?;
            }
            return Ok(Begun::Completed(Box::new(row.clone())));
        }
        if publish.data_ts > now.plus(AHEAD_MAX) && !publish.force {
            return Err(PublishError::Ahead { data_ts: publish.data_ts });
        }
        if self.backend.is_taken(&publish.table).await? {
            return Err(PublishError::NameTaken { table: Box::new(publish.table.clone()) });
        }
        let mut input = find(&publish.sources, &*publish.storage, &publish.read)?;
        let source = input.describe();
        let schema = match snapshot.run(run_id) {
            Some(row) => {
                same_source(row, &source)?;
                row.story.schema.clone()
            }
            None => {
                let schema = schema(publish, &mut input, &snapshot).await?;
                self.standard.get_or_init(|| input.standard);
                schema.create_cql(publish.table.keyspace(), publish.table.table(), None)
            }
        };
        let story = Story { who: publish.who.clone(), source, schema, ..Story::default() };
        let begin = Begin {
            table: &publish.table,
            run_id,
            data_ts: publish.data_ts,
            publisher: self.publisher,
            now,
            heartbeat: publish.heartbeat,
            take_over: publish.resume,
            story: &story,
        };
        let met = std::sync::Mutex::new(None);
        let changed = change(self.backend, self.ports, &publish.table, |snapshot| {
            catalog::begin(snapshot, &begin).or_else(|found| {
                *met.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(found);
                Ok(Step::Done(None))
            })
        });
        let changed = changed.await?;
        let met = met.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (changed, met) {
            (Some(row), _) => Ok(Begun::Ours(Box::new(row))),
            (None, Some(found)) => Ok(found),
            (None, None) => Err(self.fenced()),
        }
    }

    /// From a pending row of ours to its end.
    async fn carry_out(
        &self,
        row: TableVersion,
        progress: &Progress,
    ) -> Result<Published, PublishError> {
        let schema = Arc::new(TableSchema::parse(&row.story.schema)?);
        has_checked_columns(&schema, self.publish)?;
        let target = Target {
            table: self.publish.table.clone(),
            version_name: row.version_name.clone(),
            run_id: row.run_id.clone(),
            publisher: self.publisher,
            schema,
            data_ts: row.data_ts,
            duplicates: self.publish.checks.allow_duplicates || self.publish.force,
        };
        let mut story = row.story.clone();
        let done = match Box::pin(self.load(&target, &mut story, progress)).await {
            Ok(fed) => Box::pin(self.finish(&target, &mut story, fed, progress)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &done
            && !matches!(error, PublishError::Fenced { .. })
        {
            story.failure = Some(told(error));
            // The first trouble is what is told of; a run that cannot even record it stays pending,
            // and is found by its silence. One that is complete after all is left as it is.
            drop(self.record_failure(&story).await);
        }
        done
    }

    /// Makes the table and fills it, while the heart beats.
    async fn load(
        &self,
        target: &Target,
        story: &mut Story,
        progress: &Progress,
    ) -> Result<Fed, PublishError> {
        story.table_id = match self.backend.create(target).await? {
            Created::Ours(id) => id,
            Created::Taken => {
                let name = TableName::new(target.table.keyspace(), &target.version_name);
                return Err(PublishError::NameTaken { table: Box::new(name) });
            }
        };
        let was = story.progress_checksum;
        let durable = Mark { records: story.progress, checksum: was, ..Mark::default() };
        progress.reached(durable);
        let mut input = find(&self.publish.sources, &*self.publish.storage, &self.publish.read)?;
        input.standard = self.standard.get().cloned().unwrap_or_default();
        if let Some(bytes) = input.bytes() {
            progress.expect(bytes);
        }
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let (publish, schema) = (Arc::clone(self.publish), Arc::clone(&target.schema));
        let skip = durable.records;
        let reader = tokio::task::spawn_blocking(move || {
            feed(&publish, &input, schema, skip, Some(&sender))
        });
        let loading = self.backend.load(target, &self.publish.load, receiver, progress);
        let loaded = tokio::select! {
            loaded = loading => loaded.map_err(PublishError::from),
            lost = self.beat(story.clone(), progress) => Err(lost),
        };
        // Its chunks are taken by nobody now, so it ends.
        let fed =
            reader.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let done = progress.durable();
        (story.progress, story.progress_checksum) = (done.records, done.checksum);
        let (rows, bad) = (done.rows, done.bad);
        (story.rows, story.bad_rows) = (rows.max(story.rows), bad.max(story.bad_rows));
        loaded.map_err(|error| self.unless_fenced(error))?;
        let fed = fed?;
        if skip > 0 && fed.skipped_checksum != Some(was) {
            let (before, now) = (was.to_string(), fed.skipped_checksum.unwrap_or(0).to_string());
            let run_id = target.run_id.as_str().into();
            let was = format!("checksum {before} over {skip} records").into();
            return Err(PublishError::SourceChanged { run_id, was, is: now.into() });
        }
        Ok(fed)
    }

    /// Says that this publisher lives; ends when it must not go on.
    async fn beat(&self, mut story: Story, progress: &Progress) -> PublishError {
        let heartbeat = self.publish.heartbeat;
        let mut last_heard = self.ports.clock.elapsed();
        loop {
            tokio::time::sleep(heartbeat.every).await;
            let durable = progress.durable();
            (story.progress, story.progress_checksum) = (durable.records, durable.checksum);
            (story.rows, story.bad_rows) = (durable.rows, durable.bad);
            let (table, run_id) = (&self.publish.table, &self.publish.run_id);
            match self.backend.beat(table, run_id, self.publisher, &story).await {
                Ok(true) => last_heard = self.ports.clock.elapsed(),
                Ok(false) => return self.fenced(),
                Err(error) => {
                    let silent = self.ports.clock.elapsed().saturating_sub(last_heard);
                    if !error.is_retryable() || silent > heartbeat.dead_after {
                        return error.into();
                    }
                }
            }
        }
    }

    /// Checks, and the switch.
    async fn finish(
        &self,
        target: &Target,
        story: &mut Story,
        fed: Fed,
        progress: &Progress,
    ) -> Result<Published, PublishError> {
        progress.loaded();
        let snapshot = self.snapshot().await?;
        let checks = &self.publish.checks;
        let stopped_early = fed.read.bad > checks.max_bad_rows && !self.publish.force;
        let mut facts = Facts {
            read: fed.read,
            stopped_early,
            null_rates: fed.null_rates.clone(),
            previous_rows: snapshot.routed().map(|row| row.story.rows),
            ..Facts::default()
        };
        if !stopped_early {
            let looking = async {
                let counted = self.patiently(|| self.backend.count(target)).await?;
                Ok::<_, PublishError>((counted, self.read_back(target, &fed.sample).await?))
            };
            // Counting a large table takes longer than a publisher may be silent.
            let (counted, read_back) = tokio::select! {
                looked = looking => looked?,
                lost = self.beat(story.clone(), progress) => return Err(lost),
            };
            (facts.counted, facts.read_back) = (Some(counted), Some(read_back));
        }
        story.rows = fed.read.rows;
        story.bad_rows = fed.read.bad;
        story.checksum = fed.read.checksum;
        story.null_rates = fed.null_rates;
        story.checks = evaluate(&facts, checks);
        let mut vetoed: Vec<String> = Vec::new();
        vetoed
            .extend(story.checks.iter().filter(|check| !check.ok).map(|check| check.name.clone()));
        if !vetoed.is_empty() && !self.publish.force {
            story.failure = Some(format!("vetoed by {}", vetoed.join(", ")));
            let row = self.record_failure(story).await?.ok_or_else(|| self.fenced())?;
            return Ok(self.told(&row, self.snapshot().await?));
        }
        if target.data_ts > self.ports.clock.now().plus(AHEAD_MAX) {
            vetoed.push("data_ts".to_owned());
        }
        story.forced =
            (!vetoed.is_empty()).then(|| Forced { by: self.publish.who.clone(), checks: vetoed });
        let complete = |now: &_| catalog::complete(now, &target.run_id, self.publisher, story);
        // A change that is asked for again finds that it has been made.
        let Some(row) = self.patiently(|| self.change(&complete)).await? else {
            self.clean_up(target).await;
            return Err(self.fenced());
        };
        Ok(self.told(&row, self.snapshot().await?))
    }

    async fn snapshot(&self) -> Result<Snapshot, BackendError> {
        self.patiently(|| self.backend.snapshot(&self.publish.table)).await
    }

    /// Tries again what a node that was lost, or is overloaded, has not done: everything is loaded by
    /// now, and must not be for nothing.
    async fn patiently<T, E: Failure, W: Future<Output = Result<T, E>>>(
        &self,
        work: impl Fn() -> W,
    ) -> Result<T, E> {
        let began = self.ports.clock.elapsed();
        loop {
            let error = match work().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let tried = self.ports.clock.elapsed().saturating_sub(began);
            if !error.is_retryable() || tried > self.publish.load.give_up_after {
                return Err(error);
            }
            tracing::warn!(%error, "tried again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads the sample back; how many keys there were, and how many were not as written.
    async fn read_back(
        &self,
        target: &Target,
        sample: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(usize, usize), BackendError> {
        let looks = stream::iter(sample).map(|(key, expected)| async move {
            let found = self.patiently(|| self.backend.fetch(target, key)).await?;
            Ok::<bool, BackendError>(found.as_ref() != Some(expected))
        });
        let wrong = looks.buffer_unordered(FETCHED_AT_ONCE).try_filter(|wrong| ready(*wrong));
        Ok((sample.len(), wrong.try_fold(0, |count, _| ready(Ok(count + 1))).await?))
    }

    /// The last step was refused: if the run is gone altogether, its table must not stay.
    async fn clean_up(&self, target: &Target) {
        let snapshot = self.backend.snapshot(&target.table).await;
        let row = snapshot.ok().and_then(|snapshot| snapshot.run(&target.run_id).cloned());
        if row.is_some_and(|row| row.status == Status::Deleted) {
            // If it cannot be dropped now, the next recycle finds it by its mark.
            let Target { table, version_name, run_id, .. } = target;
            drop(self.backend.drop_table(table, version_name, run_id).await);
        }
    }

    async fn record_failure(&self, story: &Story) -> Result<Option<TableVersion>, ChangeError> {
        let run_id = &self.publish.run_id;
        self.change(|snapshot| catalog::fail(snapshot, run_id, self.publisher, story)).await
    }

    /// A change of the row that is this publisher's; `None` if it no longer is.
    async fn change(
        &self,
        plan: impl Fn(&Snapshot) -> Option<Step> + Send + Sync,
    ) -> Result<Option<TableVersion>, ChangeError> {
        let plan = |snapshot: &Snapshot| Ok(plan(snapshot).unwrap_or(Step::Done(None)));
        change(self.backend, self.ports, &self.publish.table, plan).await
    }

    fn told(&self, row: &TableVersion, snapshot: Snapshot) -> Published {
        let routed = snapshot.routed().is_some_and(|routed| routed.run_id == row.run_id);
        let note = match (row.status, &row.story.failure, snapshot.routed()) {
            (Status::Pending, Some(failure), _) => Some(failure.clone()),
            (Status::Completed, _, Some(other)) if !routed => Some(if snapshot.pinned.is_some() {
                format!("readers stay at {}, which is pinned", other.version_name)
            } else {
                format!(
                    "readers stay at {}, whose data is later ({})",
                    other.version_name, other.data_ts
                )
            }),
            _ => None,
        };
        Published {
            run_id: row.run_id.clone(),
            version_name: row.version_name.clone(),
            status: row.status,
            routed,
            rows: row.story.rows,
            bad_rows: row.story.bad_rows,
            checks: row.story.checks.clone(),
            seconds: 0.0,
            note,
            schema: row.story.schema.clone(),
        }
    }

    fn fenced(&self) -> PublishError {
        PublishError::Fenced { run_id: self.publish.run_id.as_str().into() }
    }

    /// A backend that is written under a fence says so in its own words.
    fn unless_fenced(&self, error: PublishError) -> PublishError {
        match error {
            PublishError::Backend(error) if error.code() == "fenced" => self.fenced(),
            error => error,
        }
    }
}

/// A run goes on with the sources that it began with.
fn same_source(row: &TableVersion, source: &str) -> Result<(), PublishError> {
    if row.story.source == source {
        return Ok(());
    }
    let (was, is) = (row.story.source.as_str().into(), source.into());
    Err(PublishError::SourceChanged { run_id: row.run_id.as_str().into(), was, is })
}

/// The error and its causes, for the catalog.
fn told(error: &PublishError) -> String {
    let text = helenus_model::told(error);
    if error.kind() == Kind::OutcomeUnknown { format!("unknown: {text}") } else { text }
}
