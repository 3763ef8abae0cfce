//! What a running service knows of itself: its tasks, what was last seen of store and broker, and
//! what follows for whoever asks whether it is ready.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helenus_broker::contract::Broker;
use helenus_model::{Clock, told};
use helenus_relay::{Health, Options, Status, status};
use helenus_store::contract::{Dispatch, Leases};
use serde::Serialize;

use crate::meters;
use crate::supervisor::{Register, TaskReport, TaskState};

/// What makes a service unready.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// How old the oldest due message may be.
    pub down_after: Duration,
    /// How old what was last seen may be.
    pub stale_after: Duration,
    /// How long store and broker may take to answer.
    pub patience: Duration,
    /// Whether some relay should hold each shard.
    pub relay: bool,
}

/// A service as it sees itself. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Overview {
    register: Register,
    clock: Arc<dyn Clock>,
    expectations: Expectations,
    last: Arc<Mutex<Last>>,
}

#[derive(Clone, Debug, Default)]
struct Last {
    seen: Option<Seen>,
    draining: bool,
}

/// What a look at store and broker found.
#[derive(Clone, Debug)]
struct Seen {
    store: Result<Status, String>,
    broker: Result<(), String>,
    at: Duration,
}

/// Whether a service does all it is for, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Whether it does.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Whether publishing keeps up, as it was last seen.
    pub health: Option<Health>,
    /// The tasks.
    pub tasks: Vec<TaskReport>,
}

impl Overview {
    /// Of a service that has not looked around yet.
    pub fn new(register: Register, clock: Arc<dyn Clock>, expectations: Expectations) -> Self {
        Overview { register, clock, expectations, last: Arc::default() }
    }

    /// Looks at store and broker, and keeps and measures what was seen.
    pub async fn look<S, B>(&self, store: &S, broker: &B, options: &Options)
    where
        S: Dispatch + Leases,
        B: Broker,
    {
        let Expectations { patience, down_after, .. } = self.expectations;
        let late = || format!("it did not answer within {patience:?}");
        let asked = tokio::time::timeout(patience, status(store, options, self.clock.now()));
        let reached = tokio::time::timeout(patience, broker.topics());
        let (store, broker) = tokio::join!(asked, reached);
        let store = store.map_err(|_| late()).and_then(|seen| seen.map_err(|error| told(&error)));
        let broker = broker
            .map_err(|_| late())
            .and_then(|seen| seen.map(drop).map_err(|error| told(&error)));
        meters::reached(store.is_ok(), broker.is_ok());
        meters::tasks(&self.register.reports());
        if let Ok(status) = &store {
            meters::status(status, &Health::of(status, down_after));
        }
        self.change(|last| last.seen = Some(Seen { store, broker, at: self.clock.elapsed() }));
    }

    /// From now on the service only finishes what it has begun.
    pub fn drains(&self) {
        self.change(|last| last.draining = true);
    }

    /// Whether it does all it is for.
    pub fn readiness(&self) -> Readiness {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tasks = self.register.reports();
        judge(&self.expectations, tasks, &last, self.clock.elapsed())
    }

    /// Tasks that will not be started again: somebody has to look.
    pub fn given_up(&self) -> Vec<&'static str> {
        let reports = self.register.reports();
        let given_up = reports.iter().filter(|report| report.state == TaskState::GivenUp);
        given_up.map(|report| report.name).collect()
    }

    fn change(&self, change: impl FnOnce(&mut Last)) {
        change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn judge(expected: &Expectations, tasks: Vec<TaskReport>, last: &Last, now: Duration) -> Readiness {
    let mut reasons = Vec::new();
    if last.draining {
        reasons.push("it was told to end and finishes what it has begun".to_owned());
    }
    for TaskReport { name, state, reason, .. } in &tasks {
        match (state, reason) {
            (TaskState::GivenUp, Some(reason)) => {
                reasons.push(format!("task {name} was given up: {reason}"));
            }
            (_, Some(reason)) => reasons.push(format!("task {name} failed: {reason}")),
            (TaskState::New, None) => reasons.push(format!("task {name} has not begun")),
            _ => {}
        }
    }
    let Some(Seen { store, broker, at }) = &last.seen else {
        reasons.push("store and broker have not been looked at yet".to_owned());
        return Readiness { ready: false, reasons, health: None, tasks };
    };
    if now.saturating_sub(*at) > expected.stale_after {
        let ago = now.saturating_sub(*at).as_secs();
        reasons.push(format!("store and broker were last looked at {ago} s ago"));
    }
    if let Err(reason) = broker {
        reasons.push(format!("the broker is away: {reason}"));
    }
    let status = match store {
        Ok(status) => status,
        Err(reason) => {
            reasons.push(format!("the store is away: {reason}"));
            return Readiness { ready: false, reasons, health: None, tasks };
        }
    };
    let health = Health::of(status, expected.down_after);
    if !health.is_up() {
        let Health { lag_ms, unpublished, .. } = health;
        reasons.push(format!(
            "publishing is behind: {unpublished} unpublished, the oldest due for {lag_ms} ms"
        ));
    }
    let unheld = status.shards.iter().filter(|shard| shard.owner.is_none());
    let unheld: Vec<String> = unheld.map(|shard| shard.shard.to_string()).collect();
    if expected.relay && !unheld.is_empty() {
        reasons.push(format!("no relay holds shard {}", unheld.join(", ")));
    }
    Readiness { ready: reasons.is_empty(), reasons, health: Some(health), tasks }
}

#[cfg(test)]
mod tests {
    use helenus_model::Timestamp;
    use helenus_relay::ShardStatus;

    use super::*;

    fn seen(lag_ms: u64, owner: Option<&str>) -> Seen {
        let shard = ShardStatus {
            shard: 3,
            owner: owner.map(str::to_owned),
            epoch: None,
            watermark: Timestamp::EPOCH,
        };
        let status = Status { lag_ms, unpublished: 2, shards: vec![shard] };
        Seen { store: Ok(status), broker: Ok(()), at: Duration::from_secs(100) }
    }

    fn task(state: TaskState, reason: Option<&str>) -> TaskReport {
        TaskReport { name: "relay", state, restarts: 0, reason: reason.map(str::to_owned) }
    }

    fn reasons(task: TaskReport, last: Last) -> Vec<String> {
        let expected = Expectations {
            down_after: Duration::from_secs(300),
            stale_after: Duration::from_secs(15),
            patience: Duration::from_secs(5),
            relay: true,
        };
        let readiness = judge(&expected, vec![task], &last, Duration::from_secs(110));
        assert_eq!(readiness.ready, readiness.reasons.is_empty());
        readiness.reasons
    }

    #[test]
    fn a_service_is_ready_or_says_why_not() {
        let well = || task(TaskState::Running, None);
        let last = |seen| Last { seen: Some(seen), draining: false };
        assert_eq!(reasons(well(), last(seen(300_000, Some("relay-1")))), [""; 0]);
        let behind = "publishing is behind: 2 unpublished, the oldest due for 300001 ms";
        assert_eq!(reasons(well(), last(seen(300_001, Some("relay-1")))), [behind]);
        assert_eq!(reasons(well(), last(seen(0, None))), ["no relay holds shard 3"]);
        let away =
            Seen { store: Err("a".to_owned()), broker: Err("b".to_owned()), ..seen(0, None) };
        let both = ["the broker is away: b", "the store is away: a"];
        assert_eq!(reasons(well(), last(away)), both);
        let old = Seen { at: Duration::from_secs(90), ..seen(0, Some("relay-1")) };
        assert_eq!(reasons(well(), last(old)), ["store and broker were last looked at 20 s ago"]);
        let nothing = "store and broker have not been looked at yet";
        assert_eq!(reasons(well(), Last::default()), [nothing]);
        let draining = Last { seen: Some(seen(0, Some("relay-1"))), draining: true };
        assert_eq!(reasons(well(), draining).len(), 1);
    }

    #[test]
    fn a_task_that_failed_is_a_reason_until_it_is_well() {
        let last = || Last { seen: Some(seen(0, Some("relay-1"))), draining: false };
        let failed = ["task relay failed: no broker"];
        assert_eq!(reasons(task(TaskState::Waiting, Some("no broker")), last()), failed);
        assert_eq!(reasons(task(TaskState::Running, Some("no broker")), last()), failed);
        let given_up = reasons(task(TaskState::GivenUp, Some("damage")), last());
        assert_eq!(given_up, ["task relay was given up: damage"]);
        assert_eq!(reasons(task(TaskState::New, None), last()), ["task relay has not begun"]);
        assert_eq!(reasons(task(TaskState::Running, None), last()), [""; 0]);
    }
}
