//! What an agent asks its node now and then, and what follows from the answers.

use std::time::Duration;

use helenus_broker::contract::Broker;
use helenus_commitlog::SegmentId;
use helenus_model::told;

use super::{Agent, AgentError, SchemaSource, Step, account};
use crate::checks::check_masks;
use crate::knowledge::Taken;
use crate::metrics;
use crate::release::{Released, release};
use crate::segments::files;
use crate::state::State;
use crate::tail::Tail;

/// How often the node is asked what has changed; more often while segments wait to be released.
const CHECK_EVERY: Duration = Duration::from_secs(2);
const CHECK_FINISHED_EVERY: Duration = Duration::from_millis(200);
/// How long it may take to answer that: changes are published meanwhile by nobody.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);

impl<B: Broker, S: SchemaSource> Agent<B, S> {
    fn has_finished(&self) -> bool {
        self.tail.as_ref().is_some_and(Tail::has_finished)
    }

    pub(super) fn is_check_due(&self) -> bool {
        let is_finished = self.has_finished() && self.account.node_away.is_none();
        let every = if is_finished { CHECK_FINISHED_EVERY } else { CHECK_EVERY };
        account::is_due(self.checked_at, every, self.clock.elapsed())
    }

    /// Asks the node what has changed. Segments are done with only after that: a table whose capture was
    /// switched on in a part of the log that nobody reads has been passed over until then.
    pub(super) async fn check(&mut self) -> Result<(), AgentError> {
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
        if self.account.node_away.take().is_some() {
            self.ask_settings().await;
        }
        let now = self.clock.now();
        if let Some(tail) = &mut self.tail {
            tail.look_at(pulse.truncations, now);
        }
        self.settle()
    }

    /// What is finished is done with, and what is done with is given back; again and again, because it
    /// comes back: a node that was killed links it once more, and a power failure may undo a deletion.
    fn settle(&mut self) -> Result<(), AgentError> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        let files = match files(&self.options.cdc_raw) {
            Ok(files) => files,
            Err(error) => {
                self.account.keeps(Some(told(&error)));
                return Ok(());
            }
        };
        let there: Vec<SegmentId> = files.iter().map(|(name, _)| name.id).collect();
        let finished = tail.settle(&there);
        self.state.finish(&finished, &there);
        // Also where nothing is new: it may have failed the last time.
        self.state.save()?;
        let Released { segments, bytes, failure } = release(&files, &self.state);
        self.account.space.released(bytes);
        metrics::count(metrics::RELEASED, segments);
        self.account.keeps(failure);
        Ok(())
    }

    /// A node that was away may have been started with other settings.
    async fn ask_settings(&mut self) {
        let asked = tokio::time::timeout(CHECK_PATIENCE, self.source.terms()).await;
        if let Ok(Some(terms)) = asked {
            self.account.goes_by(terms);
        }
    }

    /// Fetches the schema again.
    pub(super) async fn renew(&mut self) -> Result<Step, AgentError> {
        let document = match self.source.fetch().await {
            Ok(document) => document,
            Err(error) => return self.failed(&error),
        };
        let now = self.clock.now();
        let at_us = self.state.time_of(&document, now.as_micros())?;
        let Some(tail) = &mut self.tail else { return Err(AgentError::Reader) };
        let goes_back = match tail.renew(Taken { document: &document, at_us }, now) {
            Ok(goes_back) => goes_back,
            Err(error) => return self.failed(&error),
        };
        check_masks(&self.options, &tail.knowledge().catalog())?;
        self.account.place = self.account.place.filter(|_| !goes_back);
        adopt(&mut self.state, tail, goes_back)?;
        self.state.remember(&document, at_us)?;
        Ok(Step::Renewed)
    }
}

/// Makes durable what follows from a schema, before the schema itself is remembered: whoever knows the
/// schema sees no difference any more, and does not go back.
pub(super) fn adopt(state: &mut State, tail: &mut Tail, goes_back: bool) -> Result<(), AgentError> {
    state.ending(tail.knowledge().ending());
    if goes_back {
        state.go_on_at(None);
    }
    Ok(state.save()?)
}
