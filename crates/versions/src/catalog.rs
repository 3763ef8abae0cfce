//! The catalog's rows and the rule that picks one.

use helenus_model::Timestamp;

/// Where a version is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A version of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableVersion {
    /// Counted up with every publish.
    pub number: u32,
    /// The table that holds it.
    pub version_name: String,
    /// The time the data stands for.
    pub data_ts: Timestamp,
    /// Where it is in its life.
    pub status: Status,
    /// Rolled back: not to be read unless pinned.
    pub excluded: bool,
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
///     number,
///     version_name: format!("features_v{number}"),
///     data_ts: Timestamp::from_millis(day),
///     status: Status::Completed,
///     excluded: false,
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
        TableVersion {
            number,
            version_name: format!("t_v{number}"),
            data_ts: Timestamp::from_millis(day),
            status,
            excluded: false,
        }
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
