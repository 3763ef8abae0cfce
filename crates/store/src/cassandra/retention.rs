//! Retiring events in a cluster: copy, compare, then one conditional batch.
//!
//! Copies stand in the archive before the stream lets go of the originals, so a reader finds every
//! event in one place or the other at any time. The batch moves `truncated_before` and
//! `archived_from` on the head, on the condition that they are what the copies were made for, and
//! deletes the originals: one mutation of one partition, seen whole or not at all. Both only ever
//! rise, so whoever lost an answer or a race looks at them and goes on from there.
//!
//! **The last event's row stays.** Where everything is retired it is kept, emptied if it was
//! dropped, until a later truncation passes it. A reader that meets the end of the rows has
//! therefore met the end of the stream, and needs no second look to know it.
//!
//! What was dropped is deleted from the archive last. A copy that was still under way then leaves
//! rows below `archived_from` behind; nobody reads them, and the next one who retires anything
//! deletes them.

mod copying;

use futures_util::stream::{self, FuturesUnordered};
use futures_util::{Stream, StreamExt, TryStreamExt};
use helenus_model::limits::{APPEND_ATTEMPTS_MAX, ARCHIVE_REQUESTS_MAX};
use helenus_model::{Failure, StreamId, Timestamp, Version};
use scylla::value::CqlValue;

use super::append::pause;
use super::archive::{self, Head, chunk_of};
use super::classify::{read_error, request_error};
use super::rows::{Answer, answer};
use super::snapshots::worse;
use super::{CassandraStore, Error};
use crate::contract::{
    self, Cut, Disposal, EventStore, Extent, ReadError, ReadEvents, Retention, Retire, RetireError,
    RetirePlan, RetireStep, Snapshots,
};
use copying::Copied;

impl Retention for CassandraStore {
    async fn extent(&self, stream_id: &StreamId) -> Result<Option<Extent>, contract::Error> {
        Ok(archive::head(self, stream_id).await?.map(|head| head.extent))
    }

    async fn plan(&self, retire: &Retire) -> Result<RetirePlan, RetireError> {
        Box::pin(plan(self, retire)).await
    }

    fn retire(
        &self,
        retire: Retire,
    ) -> impl Stream<Item = Result<RetireStep, RetireError>> + Send + use<> {
        let work = Work { store: self.clone(), stage: Stage::Start(retire) };
        stream::try_unfold(work, |mut work| async move {
            let step = Box::pin(work.next()).await?;
            Ok(step.map(|step| (step, work)))
        })
    }
}

impl From<Error> for RetireError {
    fn from(error: Error) -> Self {
        RetireError::Backend(error.into())
    }
}

async fn plan(store: &CassandraStore, retire: &Retire) -> Result<RetirePlan, RetireError> {
    let stream_id = &retire.stream_id;
    let head = archive::head(store, stream_id).await?.ok_or(RetireError::NoStream)?;
    let extent = head.extent;
    let cut = match (retire.cut_of(extent)?, retire.cut) {
        (Some(cut), _) => cut,
        (None, Cut::OlderThan(time)) => {
            let from = match retire.disposal {
                Disposal::Archive => extent.truncated_before,
                Disposal::Drop => extent.archived_from,
            };
            first_since(store, stream_id, from, time).await?
        }
        (None, _) => extent.truncated_before,
    };
    // The newest is never deleted: what is relied on here stays.
    let newest = Box::pin(store.snapshots(stream_id)).try_next().await?;
    retire.plan_of(extent, cut, newest.map(|info| info.version))
}

/// The first event from `from` on that was not appended before `time`; one past the last where
/// all were.
async fn first_since(
    store: &CassandraStore,
    stream_id: &StreamId,
    from: Version,
    time: Timestamp,
) -> Result<Version, RetireError> {
    let read = ReadEvents::forward(stream_id.clone()).starting_at(from);
    let mut events = Box::pin(store.read(read));
    let mut next = from;
    loop {
        match events.try_next().await {
            Ok(Some(event)) if event.appended_at < time => next = event.version.next(),
            Ok(_) => return Ok(next),
            Err(ReadError::Backend(error)) => return Err(error.into()),
            // Dropped by somebody else since the head was read.
            Err(_) => return Err(RetireError::Contended),
        }
    }
}

/// A request on its way.
struct Work {
    store: CassandraStore,
    stage: Stage,
}

enum Stage {
    Start(Retire),
    /// Copies from here on.
    Copy(RetirePlan, Version),
    Truncate(RetirePlan),
    Clean(StreamId),
    End,
}

impl Work {
    /// Does the next step that there is to do.
    async fn next(&mut self) -> Result<Option<RetireStep>, RetireError> {
        loop {
            match &self.stage {
                Stage::Start(retire) => {
                    let plan = plan(&self.store, retire).await?;
                    self.stage = match plan.disposal {
                        _ if plan.events() == 0 => Stage::Clean(plan.stream_id),
                        Disposal::Archive => Stage::Copy(plan.clone(), plan.from),
                        Disposal::Drop => Stage::Truncate(plan),
                    };
                }
                Stage::Copy(plan, from) if *from < plan.before => {
                    let (plan, from) = (plan.clone(), *from);
                    let before = match copying::chunk(&self.store, &plan, from).await? {
                        Copied::Before(before) => before,
                        // Somebody else was faster; the rest is still ours to copy.
                        Copied::Moved(extent) => extent.truncated_before,
                    };
                    self.stage = Stage::Copy(plan, before);
                    return Ok(Some(RetireStep::Copied { before }));
                }
                Stage::Copy(plan, _) => self.stage = Stage::Truncate(plan.clone()),
                Stage::Truncate(plan) => {
                    truncate(&self.store, plan).await?;
                    let before = plan.before;
                    self.stage = Stage::Clean(plan.stream_id.clone());
                    return Ok(Some(RetireStep::Truncated { before }));
                }
                Stage::Clean(stream_id) => {
                    let cleaned = clean(&self.store, stream_id).await?;
                    self.stage = Stage::End;
                    return Ok(cleaned.then_some(RetireStep::Cleaned));
                }
                Stage::End => return Ok(None),
            }
        }
    }
}

/// Moves the head's extent to where the plan wants it, with the batch that deletes the originals.
async fn truncate(store: &CassandraStore, plan: &RetirePlan) -> Result<(), RetireError> {
    let mut failure = None;
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        // A serial read: an earlier attempt whose answer was lost is decided before it answers.
        let outcome = match archive::head(store, &plan.stream_id).await {
            Ok(Some(old)) => {
                let new = old.extent.cut(plan.before, plan.disposal);
                if new == old.extent {
                    return Ok(());
                }
                send(store, &plan.stream_id, &old, new).await
            }
            Ok(None) => return Err(RetireError::NoStream),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Answer::Applied) => return Ok(()),
            Ok(Answer::Refused(_)) => {}
            Err(error) if error.is_retryable() => failure = worse(failure, error),
            Err(error) => return Err(failure.unwrap_or(error).into()),
        }
    }
    Err(failure.map_or(RetireError::Contended, RetireError::from))
}

async fn send(
    store: &CassandraStore,
    stream_id: &StreamId,
    old: &Head,
    new: Extent,
) -> Result<Answer, Error> {
    let (link, annex) = store.annex().await?;
    let stream = || Some(CqlValue::Text(stream_id.to_string()));
    let number = |number: i64| Some(CqlValue::BigInt(number));
    let last = new.head.as_i64();
    let (truncated, archived) = (new.truncated_before.as_i64(), new.archived_from.as_i64());
    let mut batch = link.statements.batch();
    batch.append_statement(annex.truncate.clone());
    batch.append_statement(annex.delete_events.clone());
    let old = (old.truncated_before, old.archived_from);
    let mut values = vec![
        vec![
            number(truncated),
            number(archived),
            stream(),
            old.0.and_then(number),
            old.1.and_then(number),
            number(last),
        ],
        // The last row stays, to say where the stream ends.
        vec![stream(), number(truncated.min(last))],
    ];
    if archived > last {
        batch.append_statement(annex.empty_event.clone());
        values.push(vec![stream(), number(last)]);
    }
    let sent = Box::pin(link.session.batch(&batch, values)).await;
    let sent = sent.map_err(|error| request_error("truncate a stream", error))?;
    answer(sent).map_err(|error| Error::Lost { what: "truncate a stream", source: Box::new(error) })
}

/// Deletes what is in the archive of events that were dropped; whether there can be any.
async fn clean(store: &CassandraStore, stream_id: &StreamId) -> Result<bool, Error> {
    let Some(Head { extent, .. }) = archive::head(store, stream_id).await? else {
        return Ok(false);
    };
    if !extent.has_dropped() {
        return Ok(false);
    }
    let mut under_way = FuturesUnordered::new();
    for chunk in 0..=chunk_of(extent.archived_from) {
        if under_way.len() >= ARCHIVE_REQUESTS_MAX {
            under_way.next().await.transpose()?;
        }
        under_way.push(Box::pin(clean_chunk(store, stream_id, chunk, extent.archived_from)));
    }
    while under_way.next().await.transpose()?.is_some() {}
    Ok(true)
}

/// Looks before it deletes: most partitions have been cleaned before, and a deletion leaves a mark.
async fn clean_chunk(
    store: &CassandraStore,
    stream_id: &StreamId,
    chunk: i64,
    before: Version,
) -> Result<(), Error> {
    let (link, annex) = store.annex().await?;
    let values = (stream_id.as_str(), chunk, before.as_i64());
    let found = link.session.execute_unpaged(&annex.leftover, values).await.map_err(read_error)?;
    let found = found.into_rows_result().map_err(|error| Error::corrupt(error.to_string()))?;
    if found.rows_num() > 0 {
        let deleted = link.session.execute_unpaged(&annex.delete_copies, values).await;
        deleted.map_err(|error| request_error("clean the archive", error))?;
    }
    Ok(())
}
