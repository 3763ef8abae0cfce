//! What became of each task, kept for whoever asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helenus_model::Clock;
use serde::Serialize;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It has not been started yet.
    New,
    /// It runs.
    Running,
    /// It failed, and will be started again.
    Waiting,
    /// It failed, and will not.
    GivenUp,
    /// It was told to end, and did.
    Ended,
}

/// A task as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskReport {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub state: TaskState,
    /// Times it was started again.
    pub restarts: u64,
    /// Why it failed, until it is known to be well again.
    pub reason: Option<String>,
}

#[derive(Clone, Debug)]
struct Known {
    report: TaskReport,
    /// When it was last started, by the clock that never goes back.
    started_at: Duration,
}

/// What is known of all tasks of a supervisor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Register {
    tasks: Arc<Mutex<Vec<Known>>>,
    clock: Arc<dyn Clock>,
    steady_after: Duration,
}

impl Register {
    pub(super) fn new(clock: Arc<dyn Clock>, steady_after: Duration) -> Self {
        Register { tasks: Arc::default(), clock, steady_after }
    }

    /// The place of a task, made where there is none.
    pub(super) fn enter(&self, name: &'static str) -> Entry {
        let mut tasks = self.lock();
        if !tasks.iter().any(|known| known.report.name == name) {
            let report = TaskReport { name, state: TaskState::New, restarts: 0, reason: None };
            tasks.push(Known { report, started_at: Duration::ZERO });
        }
        Entry { name, register: self.clone() }
    }

    /// Every task, in the order they were added. One that has run for long enough is well.
    pub fn reports(&self) -> Vec<TaskReport> {
        let now = self.clock.elapsed();
        let mut tasks = self.lock();
        for known in tasks.iter_mut() {
            let ran_for = now.saturating_sub(known.started_at);
            if known.report.state == TaskState::Running && ran_for >= self.steady_after {
                known.report.reason = None;
            }
        }
        tasks.iter().map(|known| known.report.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One task's place in the register.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    name: &'static str,
    register: Register,
}

impl Entry {
    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut tasks = self.register.lock();
        if let Some(known) = tasks.iter_mut().find(|known| known.report.name == self.name) {
            change(known);
        }
    }

    pub(super) fn started(&self) {
        let now = self.register.clock.elapsed();
        self.change(|known| {
            known.report.restarts += u64::from(known.report.state == TaskState::Waiting);
            known.report.state = TaskState::Running;
            known.started_at = now;
        });
    }

    pub(super) fn is_well(&self) {
        self.change(|known| known.report.reason = None);
    }

    pub(super) fn waits(&self, reason: String) {
        self.failed(TaskState::Waiting, reason);
    }

    pub(super) fn given_up(&self, reason: String) {
        self.failed(TaskState::GivenUp, reason);
    }

    pub(super) fn ended(&self) {
        self.change(|known| known.report.state = TaskState::Ended);
    }

    fn failed(&self, state: TaskState, reason: String) {
        self.change(|known| {
            known.report.state = state;
            known.report.reason = Some(reason);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_model::{ManualClock, Timestamp};

    #[test]
    fn a_reason_stays_until_the_task_is_known_to_be_well() {
        let clock = Arc::new(ManualClock::at(Timestamp::EPOCH));
        let own = Arc::clone(&clock) as Arc<dyn Clock>;
        let register = Register::new(own, Duration::from_secs(10));
        let entry = register.enter("relay");
        let report = || register.reports().remove(0);
        assert_eq!((report().state, report().restarts), (TaskState::New, 0));
        entry.started();
        entry.waits("no broker".to_owned());
        assert_eq!(report().state, TaskState::Waiting);
        entry.started();
        assert_eq!((report().state, report().restarts), (TaskState::Running, 1));
        clock.advance(Duration::from_secs(9));
        assert_eq!(report().reason.as_deref(), Some("no broker"), "it may fail again");
        clock.advance(Duration::from_secs(1));
        assert_eq!(report().reason, None);
        entry.waits("no store".to_owned());
        entry.started();
        entry.is_well();
        assert_eq!((report().reason, report().restarts), (None, 2));
    }
}
