//! The part of retention that both backends share: where a version is, and what a request to
//! retire events comes to. Values in, values out.

use helenus_model::Version;

use crate::contract::{Cut, Disposal, Extent, Retire, RetireError, RetirePlan};

/// Where a version of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere any more.
    Dropped,
    /// In the archive.
    Archived,
    /// In the stream itself.
    Live,
    /// Nowhere yet.
    Beyond,
}

impl Extent {
    pub(crate) fn place(&self, version: Version) -> Place {
        if version < self.archived_from {
            Place::Dropped
        } else if version < self.truncated_before {
            Place::Archived
        } else if version <= self.head {
            Place::Live
        } else {
            Place::Beyond
        }
    }

    /// Whether events were dropped: then not finding one does not say that it never was.
    pub(crate) fn has_dropped(&self) -> bool {
        self.archived_from > Version::FIRST
    }

    /// The extent once events before `cut` are retired.
    #[must_use]
    pub(crate) fn cut(self, cut: Version, disposal: Disposal) -> Extent {
        let archived_from = match disposal {
            Disposal::Archive => self.archived_from,
            Disposal::Drop => self.archived_from.max(cut),
        };
        Extent { archived_from, truncated_before: self.truncated_before.max(cut), ..self }
    }
}

impl Retire {
    /// Where the stream is cut, if its extent is all that is needed to tell.
    pub(crate) fn cut_of(&self, extent: Extent) -> Result<Option<Version>, RetireError> {
        let head = extent.head;
        match self.cut {
            Cut::Before(before) if before > head.next() => {
                Err(RetireError::BeyondHead { before, head })
            }
            Cut::Before(before) => Ok(Some(before)),
            Cut::KeepLast(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                let before = head.as_i64().saturating_add(1).saturating_sub(count);
                Ok(Some(Version::new(before).unwrap_or(Version::FIRST)))
            }
            Cut::OlderThan(_) => Ok(None),
        }
    }

    /// What there is to do before `cut`, unless what relies on the events forbids it.
    pub(crate) fn plan_of(
        &self,
        extent: Extent,
        cut: Version,
        snapshot: Option<Version>,
    ) -> Result<RetirePlan, RetireError> {
        let from = match self.disposal {
            Disposal::Archive => extent.truncated_before,
            Disposal::Drop => extent.archived_from,
        };
        let before = cut.max(from);
        let (stream_id, disposal) = (self.stream_id.clone(), self.disposal);
        let plan = RetirePlan { stream_id, disposal, from, before, snapshot };
        let last = Version::new(before.as_i64() - 1);
        match last {
            Some(needed) if plan.events() > 0 && !self.forced && snapshot < Some(needed) => {
                Err(RetireError::NoSnapshot { needed, latest: snapshot })
            }
            _ => Ok(plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use helenus_model::StreamId;

    use super::*;

    fn version(number: i64) -> Version {
        Version::new(number).unwrap()
    }

    fn extent(archived_from: i64, truncated_before: i64, head: i64) -> Extent {
        Extent {
            archived_from: version(archived_from),
            truncated_before: version(truncated_before),
            head: version(head),
        }
    }

    #[test]
    fn every_version_has_one_place() {
        let places = |extent: Extent| -> String {
            let letter = |number| match extent.place(version(number)) {
                Place::Dropped => 'd',
                Place::Archived => 'a',
                Place::Live => 'l',
                Place::Beyond => '.',
            };
            (1..=8).map(letter).collect()
        };
        assert_eq!(places(extent(1, 1, 6)), "llllll..");
        assert_eq!(places(extent(1, 4, 6)), "aaalll..");
        assert_eq!(places(extent(3, 4, 6)), "ddalll..");
        assert_eq!(places(extent(4, 4, 6)), "dddlll..");
        assert_eq!(places(extent(3, 7, 6)), "ddaaaa..");
        assert_eq!(places(extent(7, 7, 6)), "dddddd..");
    }

    #[test]
    fn cutting_never_brings_anything_back() {
        for before in 1..=8 {
            for disposal in [Disposal::Archive, Disposal::Drop] {
                let old = extent(3, 5, 7);
                let new = old.cut(version(before), disposal);
                assert!(new.archived_from >= old.archived_from);
                assert!(new.truncated_before >= old.truncated_before);
                assert!(new.archived_from <= new.truncated_before);
            }
        }
    }

    #[test]
    fn a_plan_names_what_is_left_to_do_and_what_is_missing() {
        let retire = |disposal, cut, forced| Retire {
            stream_id: StreamId::new("s").unwrap(),
            cut,
            disposal,
            forced,
        };
        // Dropped before 3, archived before 5, ends at 9.
        let extent = extent(3, 5, 9);
        let planned = |disposal, cut, forced, snapshot: Option<i64>| {
            let retire = retire(disposal, cut, forced);
            let cut = retire.cut_of(extent)?.unwrap();
            let plan = retire.plan_of(extent, cut, snapshot.map(version))?;
            Ok::<_, RetireError>((plan.from.as_i64(), plan.before.as_i64()))
        };
        use Cut::{Before, KeepLast};
        use Disposal::{Archive, Drop};
        for (disposal, cut, found) in [
            (Archive, Before(version(7)), (5, 7)),
            (Archive, Before(version(10)), (5, 10)),
            (Archive, Before(version(2)), (5, 5)),
            (Archive, KeepLast(3), (5, 7)),
            (Archive, KeepLast(0), (5, 10)),
            (Archive, KeepLast(u64::MAX), (5, 5)),
            (Drop, Before(version(4)), (3, 4)),
            (Drop, KeepLast(3), (3, 7)),
        ] {
            assert_eq!(planned(disposal, cut, true, None).unwrap(), found, "{disposal:?} {cut:?}");
            assert_eq!(planned(disposal, cut, false, Some(9)).unwrap(), found);
        }
        let before = Before(version(7));
        assert_eq!(planned(Archive, before, false, Some(6)).unwrap(), (5, 7));
        for snapshot in [None, Some(5)] {
            let error = planned(Archive, before, false, snapshot).unwrap_err();
            assert!(matches!(error, RetireError::NoSnapshot { .. }), "{error}");
        }
        // Nothing to do needs no snapshot.
        assert_eq!(planned(Archive, Before(version(5)), false, None).unwrap(), (5, 5));
        let error = planned(Archive, Before(version(11)), true, None).unwrap_err();
        assert!(matches!(error, RetireError::BeyondHead { .. }), "{error}");
    }
}
