//! The catalog's rows and the rule that picks one.

pub(crate) mod change;
mod contract;
mod plan;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use helenus_model::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use change::{ChangeError, include, pin, rollback, unpin};
pub use contract::{Catalog, ViewLease};
pub(crate) use plan::{Begin, Begun, begin, complete, doom, doomed, fail, finish};

/// Where a version is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Being loaded, or left behind by a publisher that died.
    Pending,
    /// Loaded and checked: may be read.
    Completed,
    /// Going away once its last readers have moved on.
    Deleting,
    /// Gone.
    Deleted,
}

impl Status {
    /// Whether a version may go from this status to `next`.
    pub fn may_become(self, next: Status) -> bool {
        use Status::{Completed, Deleted, Deleting, Pending};
        matches!(
            (self, next),
            (Pending, Completed | Deleting) | (Completed, Deleting) | (Deleting, Deleted)
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Pending => "PENDING",
            Status::Completed => "COMPLETED",
            Status::Deleting => "DELETING",
            Status::Deleted => "DELETED",
        })
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Status::Pending, Status::Completed, Status::Deleting, Status::Deleted];
        let found = all.into_iter().find(|status| status.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is not the status of a version"))
    }
}

/// A version of a table: one row of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct TableVersion {
    /// Names the publish; the same run twice is one version.
    pub run_id: String,
    /// Counted up with every publish.
    pub number: u32,
    /// The table that holds it.
    pub version_name: String,
    /// The time the data stands for.
    pub data_ts: Timestamp,
    /// When the publish began.
    pub create_ts: Timestamp,
    /// Where it is in its life.
    pub status: Status,
    /// Rolled back: not to be read unless pinned.
    pub excluded: bool,
    /// What the publisher says of it.
    pub story: Story,
    /// The running publisher, or the last one: what a publish is fenced by.
    pub publisher: Uuid,
    /// When the publisher last said that it lives.
    pub heartbeat_ts: Timestamp,
    /// Since when it is going away.
    pub deleting_ts: Option<Timestamp>,
    /// The last change of the row: what settles a lost answer.
    pub change_id: Uuid,
}

impl TableVersion {
    /// A version that is about to be loaded.
    pub fn new(table: &str, number: u32, run_id: &str, data_ts: Timestamp) -> Self {
        TableVersion {
            run_id: run_id.to_owned(),
            number,
            version_name: format!("{table}_v{number}"),
            data_ts,
            create_ts: data_ts,
            status: Status::Pending,
            excluded: false,
            story: Story::default(),
            publisher: Uuid::nil(),
            heartbeat_ts: data_ts,
            deleting_ts: None,
            change_id: Uuid::nil(),
        }
    }

    /// Whether it was left behind: its publisher said that it failed, or says nothing any more.
    pub fn has_failed(&self, now: Timestamp, heartbeat: Heartbeat) -> bool {
        let silent = || now.since(self.heartbeat_ts) > heartbeat.dead_after;
        self.status == Status::Pending && (self.story.failure.is_some() || silent())
    }
}

/// What the publisher says of a version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Story {
    /// User and machine.
    pub who: String,
    /// Where the rows came from.
    pub source: String,
    /// The table as it was created, in CQL, under the name readers use.
    pub schema: String,
    /// Source records whose rows are durable, from the first on without a gap.
    pub progress: u64,
    /// The checksum of the rows among them.
    pub progress_checksum: i64,
    /// Rows that were loaded.
    pub rows: u64,
    /// Records of the source that were left out.
    pub bad_rows: u64,
    /// Of the rows that were loaded; the same rows give the same sum in any order.
    pub checksum: i64,
    /// Share of nulls for each column that has any.
    pub null_rates: std::collections::BTreeMap<String, f64>,
    /// What was checked before the switch.
    pub checks: Vec<CheckResult>,
    /// Who overrode which vetoes.
    pub forced: Option<Forced>,
    /// Why the run failed.
    pub failure: Option<String>,
    /// The table's own id, where tables have one.
    pub table_id: Option<Uuid>,
}

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// The figures.
    pub detail: String,
}

/// A veto that somebody overrode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// Who.
    pub by: String,
    /// Which checks.
    pub checks: Vec<String>,
}

/// All of a table's catalog at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Counted up with every change; `None` before the first.
    pub epoch: Option<i64>,
    /// The number the next version gets.
    pub next_version: u32,
    /// The version that readers are held at.
    pub pinned: Option<u32>,
    /// Every version that ever was, by number.
    pub versions: Vec<TableVersion>,
}

impl Snapshot {
    /// The version readers get; see [`route`].
    pub fn routed(&self) -> Option<&TableVersion> {
        route(&self.versions, self.pinned)
    }

    /// The version of a run.
    pub fn run(&self, run_id: &str) -> Option<&TableVersion> {
        self.versions.iter().find(|version| version.run_id == run_id)
    }

    /// The version of that name (`features_v7`), number (`7`) or run.
    pub fn named(&self, name: &str) -> Option<&TableVersion> {
        let by_name = self.versions.iter().find(|version| version.version_name == name);
        let by_number = || {
            self.versions
                .iter()
                .find(|version| name.parse().is_ok_and(|n: u32| n == version.number))
        };
        by_name.or_else(by_number).or_else(|| self.run(name))
    }
}

/// A change of a table's catalog, made whole or not at all: on the condition that nobody changed
/// anything since `epoch_was`, and that each row still has the status it had.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// The epoch it was planned at.
    pub epoch_was: Option<i64>,
    /// The number the next version gets.
    pub next_version: u32,
    /// The version that readers are held at from now on.
    pub pinned: Option<u32>,
    /// The rows that change, each with the status it has now; `None` for a row that is new.
    pub rows: Vec<(TableVersion, Option<Status>)>,
}

impl Edit {
    /// The epoch after the change.
    pub fn epoch(&self) -> i64 {
        self.epoch_was.map_or(1, |epoch| epoch.saturating_add(1))
    }
}

/// How a publisher's life and progress are told apart from its death.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat {
    /// How often a publisher says that it lives.
    pub every: Duration,
    /// A publisher silent for so long is taken for dead.
    pub dead_after: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Heartbeat { every: Duration::from_secs(2), dead_after: Duration::from_secs(30) }
    }
}

/// The version readers get: the pinned one, or the completed one with the latest data (the higher
/// number where two are equal) that is not excluded. A pinned version that is no longer completed
/// routes nobody anywhere else: a pin is a promise, and breaking it must be seen.
///
/// ```
/// use helenus_model::Timestamp;
/// use helenus_versions::{Status, TableVersion, route};
///
/// let version = |number, day| TableVersion {
///     status: Status::Completed,
///     ..TableVersion::new("features", number, "run", Timestamp::from_millis(day))
/// };
/// let versions = [version(1, 1), version(2, 3), version(3, 2)];
/// assert_eq!(route(&versions, None).unwrap().version_name, "features_v2");
/// assert_eq!(route(&versions, Some(1)).unwrap().version_name, "features_v1");
/// ```
pub fn route(versions: &[TableVersion], pinned: Option<u32>) -> Option<&TableVersion> {
    let completed = versions.iter().filter(|version| version.status == Status::Completed);
    match pinned {
        Some(number) => completed.into_iter().find(|version| version.number == number),
        None => completed
            .filter(|version| !version.excluded)
            .max_by_key(|version| (version.data_ts, version.number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u32, day: i64, status: Status) -> TableVersion {
        let data_ts = Timestamp::from_millis(day);
        TableVersion { status, ..TableVersion::new("t", number, "run", data_ts) }
    }

    fn routed(versions: &[TableVersion], pinned: Option<u32>) -> Option<u32> {
        route(versions, pinned).map(|version| version.number)
    }

    #[test]
    fn readers_get_the_latest_completed_data() {
        let mut versions = vec![
            version(1, 10, Status::Completed),
            version(2, 20, Status::Completed),
            version(3, 20, Status::Completed),
            version(4, 30, Status::Pending),
            version(5, 40, Status::Deleting),
        ];
        assert_eq!(routed(&versions, None), Some(3));
        versions[2].excluded = true;
        assert_eq!(routed(&versions, None), Some(2));
        assert_eq!(routed(&versions, Some(3)), Some(3), "a pin beats an exclusion");
        assert_eq!(routed(&versions, Some(5)), None, "a pin is never replaced in silence");
        assert_eq!(routed(&[], None), None);
    }

    #[test]
    fn a_version_only_moves_forward() {
        use Status::{Completed, Deleted, Deleting, Pending};
        let all = [Pending, Completed, Deleting, Deleted];
        let allowed =
            [(Pending, Completed), (Pending, Deleting), (Completed, Deleting), (Deleting, Deleted)];
        for from in all {
            for to in all {
                assert_eq!(from.may_become(to), allowed.contains(&(from, to)), "{from:?} {to:?}");
            }
        }
    }
}
