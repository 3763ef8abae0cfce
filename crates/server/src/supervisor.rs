//! Keeps tasks running, each for itself: one that fails or panics waits and starts again, and the
//! others do not notice.
//!
//! When to start again is decided by [`Restarts`], which knows nothing of time or tasks. What became
//! of each task is kept in a [`Register`] that anybody may look at while they run.

mod register;
mod restarts;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use helenus_model::{Clock, Kind, Random};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use register::{Register, TaskReport, TaskState};
pub use restarts::{Next, Policy, Restarts};

/// Why a task ended before it was told to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its class, which decides whether the task is started again.
    pub kind: Kind,
    /// What happened, in one line.
    pub reason: String,
}

/// What a task is given when it starts.
#[derive(Clone, Debug)]
pub struct Run {
    /// Cancelled when the task is to finish what it has begun and end.
    pub stop: CancellationToken,
    entry: register::Entry,
}

impl Run {
    /// Says that the task does what it is for: what ailed it before is over.
    pub fn is_well(&self) {
        self.entry.is_well();
    }
}

type Work = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// Something that runs until it is told to stop, and can be started again.
pub struct Task {
    name: &'static str,
    start: Box<dyn Fn(Run) -> Work + Send + Sync>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Task {
    /// A task that is started by calling `start`, as often as it takes.
    pub fn new<F, W>(name: &'static str, start: F) -> Self
    where
        F: Fn(Run) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        Task { name, start: Box::new(move |run| Box::pin(start(run))) }
    }
}

/// Runs tasks until it is told to stop.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use helenus_model::{Kind, SeededRandom, SystemClock};
/// use helenus_server::supervisor::{Fault, Policy, Supervisor, Task};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SeededRandom::new(1)));
/// let mut supervisor = Supervisor::new(Policy::default(), clock, random);
/// supervisor.add(Task::new("greeter", |run| async move {
///     run.is_well();
///     run.stop.cancelled().await;
///     Ok(())
/// }));
/// let stop = tokio_util::sync::CancellationToken::new();
/// stop.cancel();
/// let left_behind = supervisor.run(stop, Duration::from_secs(1)).await;
/// assert!(left_behind.is_empty());
/// # }
/// ```
#[derive(Debug)]
pub struct Supervisor {
    tasks: Vec<Task>,
    policy: Policy,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    register: Register,
}

impl Supervisor {
    /// A supervisor of nothing yet.
    pub fn new(policy: Policy, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let register = Register::new(Arc::clone(&clock), policy.steady_after);
        Supervisor { tasks: Vec::new(), policy, clock, random, register }
    }

    /// A further task, which starts with the others.
    pub fn add(&mut self, task: Task) {
        self.register.enter(task.name);
        self.tasks.push(task);
    }

    /// What is known of the tasks, now and while they run.
    pub fn register(&self) -> Register {
        self.register.clone()
    }

    /// Runs the tasks until `stop`, then gives them `drain` to end; gives the names of those that did
    /// not, which are ended where they are.
    pub async fn run(self, stop: CancellationToken, drain: Duration) -> Vec<&'static str> {
        let Supervisor { tasks, policy, clock, random, register } = self;
        let mut kept = JoinSet::new();
        for task in tasks {
            let keeper = Keeper {
                entry: register.enter(task.name),
                restarts: Restarts::new(policy),
                task,
                clock: Arc::clone(&clock),
                random: Arc::clone(&random),
                stop: stop.clone(),
            };
            kept.spawn(keeper.keep());
        }
        stop.cancelled().await;
        let ended = async { while kept.join_next().await.is_some() {} };
        drop(tokio::time::timeout(drain, ended).await);
        let reports = register.reports();
        let left = reports.iter().filter(|report| report.state == TaskState::Running);
        left.map(|report| report.name).collect()
    }
}

struct Keeper {
    task: Task,
    entry: register::Entry,
    restarts: Restarts,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    stop: CancellationToken,
}

impl Keeper {
    /// Starts the task again and again, until told to stop.
    async fn keep(mut self) {
        let name = self.task.name;
        while !self.stop.is_cancelled() {
            let begun = self.clock.elapsed();
            self.entry.started();
            let ended = self.once().await;
            if self.stop.is_cancelled() {
                if let Err(fault) = ended {
                    tracing::warn!(task = name, reason = fault.reason, "a task ended in haste");
                }
                break;
            }
            let fault = ended.err().unwrap_or_else(|| Fault {
                kind: Kind::Unavailable,
                reason: "it ended without being told to".to_owned(),
            });
            let ran_for = self.clock.elapsed().saturating_sub(begun);
            match self.restarts.failed(fault.kind, ran_for, &*self.random) {
                Next::Never => {
                    tracing::error!(task = name, reason = fault.reason, "a task was given up");
                    self.entry.given_up(fault.reason);
                    return;
                }
                Next::After(wait) => {
                    tracing::warn!(task = name, reason = fault.reason, ?wait, "a task failed");
                    self.entry.waits(fault.reason);
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.stop.cancelled() => {}
                    }
                }
            }
        }
        self.entry.ended();
    }

    /// Runs the task once; a panic is a fault like any other.
    async fn once(&self) -> Result<(), Fault> {
        let run = Run { stop: self.stop.clone(), entry: self.entry.clone() };
        // A set ends its tasks when it is dropped, which is how a task that does not drain ends.
        let mut alone = JoinSet::new();
        alone.spawn((self.task.start)(run));
        match alone.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => {
                let reason = format!("it panicked: {}", panic_text(error));
                Err(Fault { kind: Kind::Unavailable, reason })
            }
            None => Ok(()),
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was ended".to_owned() };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "for no reason it could tell".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
