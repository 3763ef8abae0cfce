//! Changing a catalog: plan on a snapshot, commit on the condition that it still holds, and settle
//! what was lost by reading again.

use std::borrow::Cow;
use std::time::Duration;

use helenus_cql::rewrite::TableName;
use helenus_model::{BackendError, Failure, Kind};
use helenus_store::Ports;
use uuid::Uuid;

use super::{Catalog, Edit, Snapshot, Status, TableVersion, plan};

/// Times a change is planned again because somebody else was faster.
const ATTEMPTS_MAX: u32 = 64;

/// Why a catalog was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The table has no such version.
    #[error("table {table} has no version {version}")]
    NoVersion {
        /// The table.
        table: Box<TableName>,
        /// What was asked for.
        version: Box<str>,
    },
    /// There is nothing to go back to.
    #[error("table {table} has no version to go back to")]
    NothingToRoute {
        /// The table.
        table: Box<TableName>,
    },
    /// The version cannot do that in its status.
    #[error("{version} is {status}, not {needed}")]
    WrongStatus {
        /// The version.
        version: Box<str>,
        /// What it is.
        status: Status,
        /// What it would have to be.
        needed: Status,
    },
    /// The table is pinned, so excluding a version would change nothing for readers.
    #[error("table {table} is pinned to version {version}")]
    Pinned {
        /// The table.
        table: Box<TableName>,
        /// The version.
        version: u32,
    },
    /// Others changed the catalog again and again.
    #[error("the catalog of {table} was changed by others {ATTEMPTS_MAX} times in a row")]
    Contended {
        /// The table.
        table: Box<TableName>,
    },
    /// The backend is in trouble.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl Failure for ChangeError {
    fn kind(&self) -> Kind {
        match self {
            ChangeError::NoVersion { .. } | ChangeError::NothingToRoute { .. } => Kind::NotFound,
            ChangeError::WrongStatus { .. } | ChangeError::Pinned { .. } => Kind::Conflict,
            ChangeError::Contended { .. } => Kind::Unavailable,
            ChangeError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            ChangeError::NoVersion { .. } => "no_version",
            ChangeError::NothingToRoute { .. } => "nothing_to_route",
            ChangeError::WrongStatus { .. } => "wrong_status",
            ChangeError::Pinned { .. } => "pinned",
            ChangeError::Contended { .. } => "contended",
            ChangeError::Backend(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        match self {
            ChangeError::Backend(error) => error.applied(),
            _ => Some(false),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            ChangeError::NoVersion { .. } => "see `helenus versions list`",
            ChangeError::NothingToRoute { .. } => "publish a version first, or name one with --to",
            ChangeError::WrongStatus { .. } => {
                "choose a version that is, see `helenus versions list`"
            }
            ChangeError::Pinned { .. } => "unpin it first, or pin another version",
            ChangeError::Contended { .. } => "try again",
            ChangeError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

/// What a plan says on a snapshot.
pub(crate) enum Step {
    /// It is so already.
    Done(Option<Box<TableVersion>>),
    /// This has to be changed.
    Commit(Edit),
}

/// Plans on the catalog as it is and commits, until that succeeds. Returns the row that changed, or
/// would have.
///
/// All attempts carry one id. A lost answer is settled by reading again: the row then has the id,
/// or the epoch has moved and the attempt can never apply, or it is sent again on the same epoch.
pub(crate) async fn change<C: Catalog>(
    catalog: &C,
    ports: &Ports,
    table: &TableName,
    plan: impl Fn(&Snapshot) -> Result<Step, ChangeError> + Send + Sync,
) -> Result<Option<TableVersion>, ChangeError> {
    let change_id = ports.random.uuid();
    let mut lost = None;
    for attempt in 0..ATTEMPTS_MAX {
        pause(ports, attempt).await;
        let snapshot = match catalog.snapshot(table).await {
            Ok(snapshot) => snapshot,
            Err(error) if lost.is_some() && error.is_retryable() => continue,
            Err(error) => return Err(lost.unwrap_or(error).into()),
        };
        if let Some(row) = snapshot.versions.iter().find(|row| row.change_id == change_id) {
            return Ok(Some(row.clone()));
        }
        let mut edit = match plan(&snapshot)? {
            Step::Done(row) => return Ok(row.map(|row| *row)),
            Step::Commit(edit) => edit,
        };
        for (row, _) in &mut edit.rows {
            row.change_id = change_id;
        }
        let row = edit.rows.first().map(|(row, _)| row.clone());
        match catalog.commit(table, edit).await {
            Ok(true) => return Ok(row),
            Ok(false) => {}
            Err(error) if error.kind() == Kind::OutcomeUnknown => lost = Some(error),
            Err(error) if lost.is_some() && error.is_retryable() => {}
            Err(error) => return Err(lost.unwrap_or(error).into()),
        }
    }
    Err(lost.map_or_else(|| ChangeError::Contended { table: Box::new(table.clone()) }, Into::into))
}

/// Waits before the next attempt: longer each time, and not all losers equally long.
async fn pause(ports: &Ports, attempt: u32) {
    if attempt > 0 {
        let millis = ports.random.below(1 << attempt.min(8)) + 1;
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Takes readers off the version they have now, or off everything newer than `to`: those versions
/// are excluded in one step, so the next publish routes by itself. Returns the version readers get.
pub async fn rollback<C: Catalog>(
    catalog: &C,
    ports: &Ports,
    table: &TableName,
    to: Option<&str>,
) -> Result<TableVersion, ChangeError> {
    // Chosen once: planned again after a lost answer it must not go back a second time.
    let goal = plan::rollback_goal(table, &catalog.snapshot(table).await?, to)?.clone();
    change(catalog, ports, table, |now| plan::rollback(table, now, &goal)).await?;
    Ok(TableVersion { excluded: false, ..goal })
}

/// Undoes an exclusion.
pub async fn include<C: Catalog>(
    catalog: &C,
    ports: &Ports,
    table: &TableName,
    version: &str,
) -> Result<TableVersion, ChangeError> {
    let row = change(catalog, ports, table, |now| plan::include(table, now, version)).await?;
    row.ok_or_else(|| plan::no_version(table, version))
}

/// Holds readers at a version until [`unpin`].
pub async fn pin<C: Catalog>(
    catalog: &C,
    ports: &Ports,
    table: &TableName,
    version: &str,
) -> Result<TableVersion, ChangeError> {
    let row = change(catalog, ports, table, |now| plan::pin(table, now, version)).await?;
    row.ok_or_else(|| plan::no_version(table, version))
}

/// Lets readers go where the data is latest again.
pub async fn unpin<C: Catalog>(
    catalog: &C,
    ports: &Ports,
    table: &TableName,
) -> Result<(), ChangeError> {
    change(catalog, ports, table, |now| Ok(plan::unpin(now))).await.map(drop)
}

/// Whether a publisher's id is still the row's.
pub(crate) fn is_owned(row: &TableVersion, publisher: Uuid) -> bool {
    row.status == Status::Pending && row.publisher == publisher
}
