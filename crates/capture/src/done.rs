//! Which segments are done with, by their ids.

use helenus_commitlog::SegmentId;
use serde::{Deserialize, Serialize};

/// A node counts its segments up by one from the millisecond it started in.
const ONE_START: i64 = 1_000;
/// Ranges that are remembered beside those of which something is still there; what lies before them has
/// long been released.
const RANGES_MAX: usize = 256;

/// Whether two segments were written between the same start and end of the node: their ids are near.
pub(crate) const fn is_one_start(earlier: SegmentId, later: SegmentId) -> bool {
    later.0 - earlier.0 < ONE_START
}

/// Segments that are done with: published, and released or about to be.
///
/// Not only up to which id: the ids of a node whose clock was set back, and whose log was emptied, are
/// lower than those before, and nobody has read what is in them. Nor what lies between two that are: a
/// segment that the node removed unread, because the folder was full, may come back when it is restarted.
///
/// ```
/// use helenus_capture::Done;
/// use helenus_commitlog::SegmentId;
///
/// let mut done = Done::default();
/// done.insert(SegmentId(1_731_000_000_000));
/// done.insert(SegmentId(1_731_000_000_002));
/// assert!(done.contains(SegmentId(1_731_000_000_002)));
/// assert!(!done.contains(SegmentId(1_731_000_000_001)), "nobody has read it");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Done {
    /// First and last of each range, in order.
    ranges: Vec<(i64, i64)>,
}

impl Done {
    /// Whether a segment is done with.
    #[must_use]
    pub fn contains(&self, segment: SegmentId) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&segment.0))
    }

    /// Whether some later segment is done with.
    #[must_use]
    pub fn is_past(&self, segment: SegmentId) -> bool {
        self.ranges.last().is_some_and(|(_, last)| *last > segment.0)
    }

    /// A segment is done with.
    pub fn insert(&mut self, segment: SegmentId) {
        if self.contains(segment) {
            return;
        }
        let id = segment.0;
        let before = self.ranges.iter_mut().rev().find(|(_, last)| *last < id);
        match before {
            Some((_, last)) if id - *last == 1 => *last = id,
            _ => self.ranges.push((id, id)),
        }
        self.ranges.sort_unstable();
    }

    /// Forgets the lowest ranges where there are too many, but none that has a segment which is still
    /// `there`: it would be read again.
    pub(crate) fn trim(&mut self, there: &[SegmentId]) {
        let mut surplus = self.ranges.len().saturating_sub(RANGES_MAX);
        self.ranges.retain(|(first, last)| {
            let is_there = || there.iter().any(|id| (*first..=*last).contains(&id.0));
            let goes = surplus > 0 && !is_there();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ids: &[i64]) -> Done {
        let mut done = Done::default();
        ids.iter().for_each(|id| done.insert(SegmentId(*id)));
        done
    }

    #[test]
    fn what_follows_each_other_is_one_range_and_what_lies_between_is_not_done() {
        let done = of(&[5_000, 5_001, 5_004, 9_000_000]);
        assert_eq!(done.ranges, [(5_000, 5_001), (5_004, 5_004), (9_000_000, 9_000_000)]);
        assert!(done.contains(SegmentId(5_001)) && !done.contains(SegmentId(5_002)));
        assert!(!done.contains(SegmentId(4_999)) && !done.contains(SegmentId(8_999_999)));
        assert!(done.is_past(SegmentId(5_005)) && !done.is_past(SegmentId(9_000_000)));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_a_range_of_its_own() {
        let done = of(&[9_000_000, 5_000, 5_001]);
        assert_eq!(done.ranges, [(5_000, 5_001), (9_000_000, 9_000_000)]);
        // Right below one that is done lies what nobody may have read.
        assert_eq!(of(&[5_000, 4_998]).ranges, [(4_998, 4_998), (5_000, 5_000)]);
    }

    #[test]
    fn few_ranges_are_kept_and_those_of_which_something_is_there() {
        let many: Vec<i64> = (1..=300).map(|start| start * 10_000).collect();
        let mut done = of(&many);
        done.trim(&[SegmentId(10_000), SegmentId(40_001), SegmentId(3_000_000)]);
        assert_eq!(done.ranges.len(), RANGES_MAX);
        assert!(done.contains(SegmentId(3_000_000)) && done.contains(SegmentId(10_000)));
        assert!(!done.contains(SegmentId(20_000)) && !done.contains(SegmentId(40_000)));
        let there: Vec<SegmentId> = many.into_iter().map(SegmentId).collect();
        let mut full = of(&[]);
        there.iter().for_each(|id| full.insert(*id));
        full.trim(&there);
        assert_eq!(full.ranges.len(), 300);
    }
}
