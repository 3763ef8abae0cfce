//! The one writer: a thread that puts all waiting writes into one commit.
//!
//! A commit costs a disk sync however much is in it, so whatever has queued up while the last one
//! was synced goes into the next. Nobody is answered before the commit has returned.
//!
//! A write that fails is undone alone. Most that fail have changed nothing yet (a conflict is seen
//! before it is written), so the group first runs without savepoints, which would cost as much as
//! a small write does. Only when a write fails half-way is the group undone and run again, each
//! write in a savepoint of its own; that is why a write may run twice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use helenus_model::limits::GROUP_COMMIT_MAX;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::Error;

/// What reaches the writer.
pub(crate) enum Request {
    /// Something to write.
    Write(Box<dyn Job>),
    /// Finish what is queued, take no more, close the file.
    Close,
}

/// A write waiting for its turn, its types erased.
pub(crate) trait Job: Send {
    /// Runs the closure; says whether what it wrote shall be kept.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Answers the caller, after the commit or instead of it.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// A closure, what came of it, and who waits for that.
pub(crate) struct Write<F, T, E> {
    work: F,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Write<F, T, E> {
    pub(crate) fn new(work: F, reply: oneshot::Sender<Result<T, E>>) -> Self {
        Write { work, outcome: None, reply }
    }
}

impl<F, T, E> Job for Write<F, T, E>
where
    F: Fn(&Connection) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(connection)))
            .unwrap_or_else(|_| Err(E::from(Error::Panicked)));
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let answer = match (committed, self.outcome) {
            // A write that failed by itself keeps its own error: it wrote nothing either way.
            (_, Some(Err(own))) => Err(own),
            (Ok(()), Some(Ok(value))) => Ok(value),
            (Ok(()), None) => Err(E::from(Error::Closed)),
            (Err(error), _) => Err(E::from(error)),
        };
        // A caller that has gone away does not need the answer; its write stands.
        drop(self.reply.send(answer));
    }
}

/// The thread's loop. Ends when it is told to close or every [`crate::Engine`] handle is gone, and
/// the queue is empty.
pub(crate) fn run(
    connection: Connection,
    mut queue: mpsc::Receiver<Request>,
    commits: &watch::Sender<u64>,
) {
    let mut stopped = false;
    let mut group: Vec<Box<dyn Job>> = Vec::new();
    while let Some(request) = queue.blocking_recv() {
        let Request::Write(first) = request else {
            queue.close();
            continue;
        };
        if stopped {
            first.answer(Err(Error::Stopped));
            continue;
        }
        let committed = commit_group(&connection, first, &mut queue, &mut group);
        // After a failed sync the kernel may have dropped the dirty pages, so a later sync that
        // succeeds proves nothing. Only opening the file anew shows what is there.
        stopped = matches!(committed, Err(Error::CommitLost { .. }));
        if stopped {
            tracing::error!("writing stops: a commit failed on the disk");
        }
        if committed.is_ok() {
            commits.send_modify(|count| *count += 1);
        }
        for job in group.drain(..) {
            job.answer(committed.clone());
        }
    }
    // Closing the last connection checkpoints the log into the file.
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the store file was not closed cleanly; it recovers when opened");
    }
}

/// Runs `first` and whatever else is waiting in one transaction.
fn commit_group(
    connection: &Connection,
    first: Box<dyn Job>,
    queue: &mut mpsc::Receiver<Request>,
    group: &mut Vec<Box<dyn Job>>,
) -> Result<(), Error> {
    group.push(first);
    execute(connection, "BEGIN IMMEDIATE")?;
    let ran = match run_together(connection, queue, group) {
        Ok(true) => Ok(()),
        Ok(false) => run_apart(connection, group),
        Err(error) => Err(error),
    };
    let committed = ran.and_then(|()| {
        execute(connection, "COMMIT").map_err(|error| match error {
            Error::Io { message } => Error::CommitLost { message },
            error => error,
        })
    });
    if committed.is_err() {
        roll_back(connection);
    }
    committed
}

/// Runs the group and whatever else is waiting; `false` if a write failed after it had changed
/// something, and the transaction must not be committed.
fn run_together(
    connection: &Connection,
    queue: &mut mpsc::Receiver<Request>,
    group: &mut Vec<Box<dyn Job>>,
) -> Result<bool, Error> {
    let mut next = 0;
    loop {
        while let Some(job) = group.get_mut(next) {
            let before = connection.total_changes();
            let kept = job.run(connection);
            // After some errors, a full disk among them, SQLite ends the whole transaction.
            if connection.is_autocommit() {
                return Err(Error::Undone);
            }
            if !kept && connection.total_changes() != before {
                return Ok(false);
            }
            next += 1;
        }
        if next >= GROUP_COMMIT_MAX {
            return Ok(true);
        }
        match queue.try_recv() {
            Ok(Request::Write(job)) => group.push(job),
            Ok(Request::Close) => queue.close(),
            Err(_) => return Ok(true),
        }
    }
}

/// Runs the group from the start, each write undone by itself if it fails.
fn run_apart(connection: &Connection, group: &mut [Box<dyn Job>]) -> Result<(), Error> {
    execute(connection, "ROLLBACK")?;
    execute(connection, "BEGIN IMMEDIATE")?;
    for job in group {
        execute(connection, "SAVEPOINT job")?;
        let kept = job.run(connection);
        if connection.is_autocommit() {
            return Err(Error::Undone);
        }
        if !kept {
            execute(connection, "ROLLBACK TO job")?;
        }
        execute(connection, "RELEASE job")?;
    }
    Ok(())
}

fn execute(connection: &Connection, sql: &str) -> Result<(), Error> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

fn roll_back(connection: &Connection) {
    // SQLite has rolled back by itself after some errors; then there is nothing left to undo.
    if !connection.is_autocommit()
        && let Err(error) = execute(connection, "ROLLBACK")
    {
        tracing::error!(%error, "a transaction could not be rolled back");
    }
}
