//! What becomes of a message the broker refuses, and what waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use helenus_broker::contract::{self as broker, Broker, NewRecord, Refusal};
use helenus_broker::partition;
use helenus_model::Timestamp;
use helenus_store::contract::{Dispatch, Leases, Outcome, Pending, Report};

use super::Lane;
use crate::error::is_hopeless;
use crate::plan::Lines;
use crate::record::{key, topic};
use crate::totals::add;
use crate::{Options, Ordering, RelayError};

impl<S, B> Lane<S, B>
where
    S: Dispatch + Leases,
    B: Broker,
{
    /// Counts an attempt of each and puts the message off, or parks it after its last one.
    pub(super) async fn fail<'a>(
        &mut self,
        failed: impl Iterator<Item = (&'a Pending, &'a broker::Error)> + Send,
    ) -> Result<(), RelayError> {
        let at = self.core.ports.clock.now();
        let mut reports = Vec::new();
        let mut put_off = Vec::new();
        for (pending, error) in failed {
            let failure = self.failure(pending, error, at);
            let id = &pending.message.message_id;
            let (attempt, reason) = (failure.attempt, helenus_model::told(error));
            tracing::warn!(message_id = %id, attempt, reason, outcome = ?failure.outcome, "refused");
            reports.push(Report::new(id.clone(), at, Outcome::Started));
            let outcome = Report::new(id.clone(), at, failure.outcome);
            reports.push(Report { reason: Some(reason), ..outcome });
            put_off.push((pending, failure.retry_at));
            if let Some(retry_at) = failure.retry_at {
                // Before it is no longer due: it must not look as if nothing were left to do.
                self.core.retry_at(id.clone(), retry_at);
            }
        }
        self.core.store.apply_reports(reports).await?;
        add(&self.core.counters.failed, put_off.len());
        for (pending, retry_at) in put_off {
            let id = pending.message.message_id.clone();
            match retry_at {
                None => {
                    add(&self.core.counters.parked, 1);
                    self.core.settled(std::iter::once(id));
                }
                Some(retry_at) => self.block(pending, retry_at).await?,
            }
        }
        Ok(())
    }

    fn failure(&self, pending: &Pending, error: &broker::Error, at: Timestamp) -> Failure {
        let options = &self.core.options;
        let attempt = pending.attempt_count.saturating_add(1);
        if is_hopeless(error) || attempt >= options.max_attempts {
            let outcome = Outcome::Parked { key: options.after_parking };
            return Failure { attempt, outcome, retry_at: None };
        }
        let retry_at = at.plus(options.backoff.after(attempt, &*self.core.ports.random));
        let next_attempt_at = match options.ordering {
            Ordering::Aggregate => Some(retry_at),
            // It stays first in line, also for whoever takes over.
            Ordering::Partition | Ordering::Global => None,
        };
        Failure { attempt, outcome: Outcome::Failed { next_attempt_at }, retry_at: Some(retry_at) }
    }

    /// What makes the messages of these records wait for those that are refused.
    pub(super) async fn lines(
        &self,
        records: &[NewRecord],
        refusals: &[Refusal],
    ) -> Result<Lines, RelayError> {
        let mut lines = Lines::default();
        match self.core.options.ordering {
            Ordering::Aggregate => {}
            Ordering::Global => lines.all = true,
            Ordering::Partition => {
                for refused in refusals.iter().filter_map(|refusal| records.get(refusal.index)) {
                    let topic = &refused.topic;
                    if !lines.partitions.contains_key(topic) {
                        lines.partitions.insert(Arc::clone(topic), self.partitions(topic).await?);
                    }
                }
            }
        }
        Ok(lines)
    }

    /// How many partitions a topic has; one that is not there is one line.
    async fn partitions(&self, topic: &str) -> Result<u32, RelayError> {
        match self.core.broker.bounds(topic).await {
            Ok(bounds) => Ok(u32::try_from(bounds.len()).unwrap_or(u32::MAX)),
            Err(broker::Error::UnknownTopic { .. } | broker::Error::InvalidTopic { .. }) => Ok(1),
            Err(error) => Err(error.into()),
        }
    }

    async fn block(&mut self, pending: &Pending, until: Timestamp) -> Result<(), RelayError> {
        match self.core.options.ordering {
            Ordering::Aggregate => {}
            Ordering::Global => self.blocked.all_until = Some(until),
            Ordering::Partition => {
                let topic = topic(&pending.message, &self.core.options).to_owned();
                let count = self.partitions(&topic).await?;
                let place = (topic, partition::of_key(key(&pending.message).as_bytes(), count));
                self.blocked.partitions.insert(place, (count, until));
            }
        }
        Ok(())
    }
}

/// What becomes of a message that was refused.
struct Failure {
    attempt: u32,
    outcome: Outcome,
    /// When it is tried again; parked where absent.
    retry_at: Option<Timestamp>,
}

/// What waits for a message that failed, beyond its ordering key.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    all_until: Option<Timestamp>,
    /// Partitions of topics, how many the topic has, and until when.
    partitions: HashMap<(String, u32), (u32, Timestamp)>,
}

impl Blocked {
    /// Removes from `due` what has to wait.
    pub(super) fn leave_out(&mut self, due: &mut Vec<Pending>, options: &Options, now: Timestamp) {
        if self.all_until.is_some_and(|until| until > now) {
            due.clear();
        }
        self.partitions.retain(|_, (_, until)| *until > now);
        if self.partitions.is_empty() {
            return;
        }
        due.retain(|pending| {
            let topic = topic(&pending.message, options);
            let key = key(&pending.message).as_bytes();
            !self.partitions.iter().any(|((blocked, partition), (count, _))| {
                blocked == topic && partition::of_key(key, *count) == *partition
            })
        });
    }
}
