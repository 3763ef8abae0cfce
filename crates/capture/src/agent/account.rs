//! The account that an agent gives of itself, also while it waits for an answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use helenus_model::{Clock, told};
use tokio::sync::watch;

use super::Terms;
use super::status::{Status, unread};
use crate::metrics;
use crate::options::Options;
use crate::segments::list;
use crate::space::{Space, Watch, folder_bytes};
use crate::state::State;
use crate::tail::Place;

/// How often the status is written.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// After so long without an answer from the broker, changes wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// A node that would refuse writes this soon is warned of, so often.
const WARN_BEFORE: u64 = 600;
const WARN_EVERY: Duration = Duration::from_secs(60);

/// What an agent has done, and what keeps it from going on.
#[derive(Debug)]
pub(super) struct Account {
    options: Arc<Options>,
    clock: Arc<dyn Clock>,
    pub(super) space: Watch,
    pub(super) published: u64,
    pub(super) place: Option<Place>,
    pub(super) waiting_for: Option<String>,
    pub(super) node_away: Option<String>,
    terms: Terms,
    /// Why segments that are done with are still there.
    kept: Option<String>,
    shown_at: Option<Duration>,
    warned_at: Option<Duration>,
    pub(super) shown: watch::Sender<Option<Status>>,
}

impl Account {
    pub(super) fn new(
        options: Arc<Options>,
        clock: Arc<dyn Clock>,
        terms: Terms,
        place: Option<Place>,
    ) -> Self {
        let mut account = Self {
            space: Watch::new(options.total_space),
            options,
            clock,
            published: 0,
            place,
            waiting_for: None,
            node_away: None,
            terms: Terms::default(),
            kept: None,
            shown_at: None,
            warned_at: None,
            shown: watch::Sender::default(),
        };
        account.goes_by(terms);
        account
    }

    /// How the node keeps its log: it may be started again with other settings.
    pub(super) fn goes_by(&mut self, terms: Terms) {
        if let Some(bytes) = terms.total_space {
            self.space.limit(bytes);
        }
        if terms.is_cdc_off {
            tracing::error!(
                "change data capture is off at the node: nothing is logged for readers"
            );
        }
        if terms.deletes_unread {
            tracing::warn!(
                "cdc_block_writes is false at the node: while cdc_raw is full it deletes segments that nobody \
                 has read, and their changes are lost to readers"
            );
        }
        self.terms = terms;
    }

    /// Something keeps changes from being published; logged once.
    pub(super) fn waits_for(&mut self, told: String) {
        if self.waiting_for.as_ref() != Some(&told) {
            tracing::warn!(error = told, "waiting");
        }
        self.waiting_for = Some(told);
    }

    pub(super) fn node_is_away(&mut self, told: String) {
        if self.node_away.is_none() {
            tracing::warn!(error = told, "the node does not answer; segments are read and kept");
        }
        self.node_away = Some(told);
    }

    /// Segments cannot be given back, or can again; logged once.
    pub(super) fn keeps(&mut self, told: Option<String>) {
        if let Some(error) = told.as_ref().filter(|told| self.kept.as_ref() != Some(told)) {
            tracing::warn!(error, "cannot be released");
        }
        self.kept = told;
    }

    /// Waits for the broker's answer, and tells of that: the log grows meanwhile.
    pub(super) async fn while_publishing<T>(
        &mut self,
        state: &State,
        answer: impl Future<Output = T>,
    ) -> T {
        let mut answer = pin!(answer);
        let since = self.clock.elapsed();
        loop {
            if let Ok(answer) = tokio::time::timeout(STATUS_EVERY, answer.as_mut()).await {
                return answer;
            }
            let is_late = self.clock.elapsed().saturating_sub(since) >= PATIENCE;
            if is_late && self.waiting_for.is_none() {
                self.waits_for("the broker has not acknowledged what was sent".to_owned());
            }
            self.show(state, true);
        }
    }

    /// Tells how things are, now and then or at once.
    pub(super) fn show(&mut self, state: &State, at_once: bool) {
        let elapsed = self.clock.elapsed();
        if !is_due(self.shown_at, STATUS_EVERY, elapsed) && !at_once {
            return;
        }
        self.shown_at = Some(elapsed);
        let (segments, unlisted) = match list(&self.options.cdc_raw) {
            Ok(segments) => (segments, None),
            Err(error) => (Vec::new(), Some(told(&error))),
        };
        let used = folder_bytes(&self.options.cdc_raw).unwrap_or_default();
        let sizes = segments.iter().filter_map(|segment| std::fs::metadata(&segment.log).ok());
        let largest = sizes.map(|file| file.len()).max().unwrap_or_default();
        let Space { used_bytes, limit_bytes, seconds_left } =
            self.space.look(elapsed, used, largest);
        if let Some(left) = seconds_left.filter(|left| *left < WARN_BEFORE)
            && is_due(self.warned_at, WARN_EVERY, elapsed)
        {
            self.warned_at = Some(elapsed);
            let then = match self.terms.deletes_unread {
                true => "delete what nobody has read",
                false => "refuse writes",
            };
            tracing::warn!(seconds_left = left, "cdc_raw fills up; the node will {then}");
        }
        let status = Status {
            node: self.options.node.to_string(),
            updated_at: self.clock.now(),
            segment: self.place.map(|place| place.segment.0),
            offset: self.place.map(|place| place.position.logical),
            segments: segments.len(),
            published: self.published,
            quarantined: state.quarantined().unwrap_or_default(),
            unread_bytes: unread(&segments, self.place, state.done()),
            used_bytes,
            limit_bytes,
            seconds_left,
            deletes_unread: self.terms.deletes_unread,
            waiting_for: self.waiting_for.clone().or(unlisted).or_else(|| {
                self.terms.is_cdc_off.then(|| "change data capture is off at the node".to_owned())
            }),
            node_away: self.node_away.clone(),
        };
        metrics::status(&status);
        // Nothing depends on it: an agent does not end because nobody can be told of it.
        if let Err(error) = state.show(&status) {
            tracing::warn!(error = told(&error), "the status cannot be written");
        }
        self.shown.send_replace(Some(status));
    }
}

/// Whether something that was last done `at` is to be done again.
pub(super) fn is_due(at: Option<Duration>, every: Duration, elapsed: Duration) -> bool {
    at.is_none_or(|at| elapsed.saturating_sub(at) >= every)
}

#[cfg(test)]
mod tests {
    use helenus_model::{ManualClock, Timestamp};
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_folder_that_cannot_be_listed_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let (state, _) = State::open(&dir.path().join("state"), "n1").unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
        let options = Arc::new(Options::new(dir.path().join("none"), dir.path().join("state")));
        let mut account = Account::new(options, clock, Terms::default(), None);
        account.show(&state, true);
        let told = account.shown.borrow().as_ref().unwrap().waiting_for.clone().unwrap();
        assert!(told.contains("none cannot be read"), "{told}");
    }

    #[tokio::test]
    async fn a_broker_that_does_not_answer_is_told_of_before_it_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let (state, _) = State::open(&dir.path().join("state"), "n1").unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
        let options = Arc::new(Options::new(dir.path(), dir.path().join("state")));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let mut account = Account::new(options, shared, Terms::default(), None);
        let mut told = account.shown.subscribe();
        let (acknowledge, answer) = oneshot::channel();
        let watching = async {
            told.changed().await.unwrap();
            let first = told.borrow_and_update().as_ref().unwrap().waiting_for.clone();
            assert_eq!(first, None, "it may be slow");
            clock.advance(PATIENCE);
            let waits = |told: &Option<Status>| told.as_ref().unwrap().waiting_for.is_some();
            told.wait_for(waits).await.unwrap();
            acknowledge.send(7).unwrap();
        };
        let (answered, ()) = tokio::join!(account.while_publishing(&state, answer), watching);
        assert_eq!(answered, Ok(7));
    }
}
