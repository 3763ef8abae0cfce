//! Every change of a catalog as a function from a snapshot to an edit: no I/O, no clock.

use helenus_cql::rewrite::TableName;
use helenus_model::Timestamp;
use uuid::Uuid;

use super::change::{ChangeError, Step, is_owned};
use super::{Edit, Heartbeat, Snapshot, Status, Story, TableVersion};

/// What a publisher finds when it begins.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The row is pending and this publisher's.
    Ours(Box<TableVersion>),
    /// The run is complete already.
    Completed(Box<TableVersion>),
    /// Another publisher lives and works on it.
    Busy(Box<TableVersion>),
    /// The run was given up.
    GivenUp(Box<TableVersion>),
}

/// Who begins what.
#[derive(Clone, Debug)]
pub(crate) struct Begin<'a> {
    pub(crate) table: &'a TableName,
    pub(crate) run_id: &'a str,
    pub(crate) data_ts: Timestamp,
    pub(crate) publisher: Uuid,
    pub(crate) now: Timestamp,
    pub(crate) heartbeat: Heartbeat,
    /// Take the run over even from a publisher that lives. Both write the same rows at the same
    /// times, and the older one stops at its next heartbeat.
    pub(crate) take_over: bool,
    pub(crate) story: &'a Story,
}

/// Takes the next number, or takes up a run that was left behind.
pub(crate) fn begin(snapshot: &Snapshot, begin: &Begin<'_>) -> Result<Step, Begun> {
    let Some(row) = snapshot.run(begin.run_id) else {
        let number = snapshot.next_version.max(1);
        let row = TableVersion {
            create_ts: begin.now,
            publisher: begin.publisher,
            heartbeat_ts: begin.now,
            story: begin.story.clone(),
            ..TableVersion::new(begin.table.table(), number, begin.run_id, begin.data_ts)
        };
        let next_version = number.saturating_add(1);
        return Ok(Step::Commit(Edit { next_version, ..edit(snapshot, vec![(row, None)]) }));
    };
    let found = Box::new(row.clone());
    match row.status {
        Status::Completed => Err(Begun::Completed(found)),
        Status::Deleting | Status::Deleted => Err(Begun::GivenUp(found)),
        Status::Pending if row.publisher == begin.publisher => Err(Begun::Ours(found)),
        Status::Pending if begin.take_over || row.has_failed(begin.now, begin.heartbeat) => {
            let story = Story { who: begin.story.who.clone(), failure: None, ..row.story.clone() };
            let row = TableVersion {
                publisher: begin.publisher,
                heartbeat_ts: begin.now,
                story,
                ..row.clone()
            };
            Ok(Step::Commit(edit(snapshot, vec![(row, Some(Status::Pending))])))
        }
        Status::Pending => Err(Begun::Busy(found)),
    }
}

/// The switch: a pending version of this publisher becomes complete. `None` if it is no longer that
/// publisher's to complete.
pub(crate) fn complete(
    snapshot: &Snapshot,
    run_id: &str,
    publisher: Uuid,
    story: &Story,
) -> Option<Step> {
    let row = snapshot.run(run_id)?;
    if row.status == Status::Completed && row.publisher == publisher {
        return Some(Step::Done(Some(Box::new(row.clone()))));
    }
    is_owned(row, publisher).then(|| {
        let row = TableVersion { status: Status::Completed, story: story.clone(), ..row.clone() };
        Step::Commit(edit(snapshot, vec![(row, Some(Status::Pending))]))
    })
}

/// Records why a run failed; it stays pending until it is recycled or resumed.
pub(crate) fn fail(
    snapshot: &Snapshot,
    run_id: &str,
    publisher: Uuid,
    story: &Story,
) -> Option<Step> {
    let row = snapshot.run(run_id).filter(|row| is_owned(row, publisher))?;
    let row = TableVersion { story: story.clone(), ..row.clone() };
    Some(Step::Commit(edit(snapshot, vec![(row, Some(Status::Pending))])))
}

/// The version a rollback leads to.
pub(crate) fn rollback_goal<'a>(
    table: &TableName,
    snapshot: &'a Snapshot,
    to: Option<&str>,
) -> Result<&'a TableVersion, ChangeError> {
    let nothing = || ChangeError::NothingToRoute { table: Box::new(table.clone()) };
    if let Some(to) = to {
        let goal = snapshot.named(to).ok_or_else(|| no_version(table, to))?;
        return completed(goal);
    }
    let routed = snapshot.routed().ok_or_else(nothing)?;
    let rest = snapshot.versions.iter().filter(|version| version.number != routed.number).cloned();
    let rest: Vec<TableVersion> = rest.collect();
    let goal = super::route(&rest, None).map(|goal| goal.number);
    snapshot.versions.iter().find(|version| Some(version.number) == goal).ok_or_else(nothing)
}

/// Excludes everything that would be routed before `goal`.
pub(crate) fn rollback(
    table: &TableName,
    snapshot: &Snapshot,
    goal: &TableVersion,
) -> Result<Step, ChangeError> {
    if let Some(version) = snapshot.pinned {
        return Err(ChangeError::Pinned { table: Box::new(table.clone()), version });
    }
    let now = snapshot.run(&goal.run_id).ok_or_else(|| no_version(table, &goal.version_name))?;
    let goal = completed(now)?;
    let rank = |version: &TableVersion| (version.data_ts, version.number);
    let mut rows = Vec::new();
    for version in snapshot.versions.iter().filter(|version| version.status == Status::Completed) {
        let excluded = rank(version) > rank(goal);
        let changes = if version.run_id == goal.run_id {
            version.excluded
        } else {
            excluded && !version.excluded
        };
        if changes {
            rows.push((TableVersion { excluded, ..version.clone() }, Some(Status::Completed)));
        }
    }
    Ok(if rows.is_empty() {
        Step::Done(Some(Box::new(goal.clone())))
    } else {
        Step::Commit(edit(snapshot, rows))
    })
}

pub(crate) fn include(
    table: &TableName,
    snapshot: &Snapshot,
    version: &str,
) -> Result<Step, ChangeError> {
    let row = snapshot.named(version).ok_or_else(|| no_version(table, version))?;
    let row = completed(row)?;
    if !row.excluded {
        return Ok(Step::Done(Some(Box::new(row.clone()))));
    }
    let row = TableVersion { excluded: false, ..row.clone() };
    Ok(Step::Commit(edit(snapshot, vec![(row, Some(Status::Completed))])))
}

pub(crate) fn pin(
    table: &TableName,
    snapshot: &Snapshot,
    version: &str,
) -> Result<Step, ChangeError> {
    let row = snapshot.named(version).ok_or_else(|| no_version(table, version))?;
    let row = completed(row)?.clone();
    if snapshot.pinned == Some(row.number) {
        return Ok(Step::Done(Some(Box::new(row))));
    }
    let pinned = Some(row.number);
    let rows = vec![(row, Some(Status::Completed))];
    Ok(Step::Commit(Edit { pinned, ..edit(snapshot, rows) }))
}

pub(crate) fn unpin(snapshot: &Snapshot) -> Step {
    if snapshot.pinned.is_none() {
        return Step::Done(None);
    }
    Step::Commit(Edit { pinned: None, ..edit(snapshot, Vec::new()) })
}

/// The versions that may go, with the reason: all completed but `keep`, and what failed. Never the
/// one readers have, nor a pinned one, nor an excluded one while it is newer than one that is kept:
/// somebody may still include it.
pub(crate) fn doomed(
    snapshot: &Snapshot,
    keep: usize,
    now: Timestamp,
    heartbeat: Heartbeat,
) -> Vec<(TableVersion, &'static str)> {
    let rank = |version: &&TableVersion| (version.data_ts, version.number);
    let is_completed = |version: &&TableVersion| version.status == Status::Completed;
    let mut good: Vec<&TableVersion> = snapshot.versions.iter().filter(is_completed).collect();
    good.retain(|version| !version.excluded);
    good.sort_by_key(|version| std::cmp::Reverse(rank(version)));
    good.truncate(keep.max(1));
    let oldest_kept = good.last().map(&rank);
    let routed = snapshot.routed().map(|version| version.number);
    let mut doomed = Vec::new();
    for version in &snapshot.versions {
        let is_safe = Some(version.number) == routed || Some(version.number) == snapshot.pinned;
        let is_kept = oldest_kept.is_none_or(|oldest| rank(&version) >= oldest);
        match version.status {
            Status::Completed if !is_safe && !is_kept => doomed.push((version.clone(), "old")),
            Status::Pending if version.has_failed(now, heartbeat) => {
                doomed.push((version.clone(), "failed"));
            }
            _ => {}
        }
    }
    doomed
}

/// Marks a version as going away, if the plan of [`doomed`] still says so.
pub(crate) fn doom(
    snapshot: &Snapshot,
    run_id: &str,
    keep: usize,
    now: Timestamp,
    heartbeat: Heartbeat,
) -> Step {
    let still = doomed(snapshot, keep, now, heartbeat);
    let Some((row, _)) = still.into_iter().find(|(row, _)| row.run_id == run_id) else {
        return Step::Done(None);
    };
    let was = row.status;
    let row = TableVersion { status: Status::Deleting, deleting_ts: Some(now), ..row };
    Step::Commit(edit(snapshot, vec![(row, Some(was))]))
}

/// Records that a version's table is gone.
pub(crate) fn finish(snapshot: &Snapshot, run_id: &str) -> Step {
    match snapshot.run(run_id) {
        Some(row) if row.status == Status::Deleting => {
            let row = TableVersion { status: Status::Deleted, ..row.clone() };
            Step::Commit(edit(snapshot, vec![(row, Some(Status::Deleting))]))
        }
        _ => Step::Done(None),
    }
}

pub(crate) fn no_version(table: &TableName, version: &str) -> ChangeError {
    ChangeError::NoVersion { table: Box::new(table.clone()), version: version.into() }
}

fn completed(row: &TableVersion) -> Result<&TableVersion, ChangeError> {
    if row.status == Status::Completed {
        return Ok(row);
    }
    let version = row.version_name.as_str().into();
    Err(ChangeError::WrongStatus { version, status: row.status, needed: Status::Completed })
}

fn edit(snapshot: &Snapshot, rows: Vec<(TableVersion, Option<Status>)>) -> Edit {
    Edit {
        epoch_was: snapshot.epoch,
        next_version: snapshot.next_version.max(1),
        pinned: snapshot.pinned,
        rows,
    }
}
