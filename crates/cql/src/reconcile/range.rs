//! Range deletions of one partition, flattened: ranges that do not overlap, in order, each with
//! the strongest deletion that covers it.
//!
//! The flattened form is unique, so two histories that delete the same end up equal.

use super::clustering::{ClusteringKey, Cut};
use crate::update::Deletion;

/// Range deletions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    start: Cut,
    end: Cut,
    deletion: Deletion,
}

impl Ranges {
    /// True without any.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a deletion of everything between two cuts; nothing if they are not in order.
    pub fn add(&mut self, start: Cut, end: Cut, deletion: Deletion) {
        if start >= end {
            return;
        }
        // Neighbours that merely touch are taken in too, so that equal ones join.
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end).max(first);
        let touched: Vec<Range> = self.ranges.drain(first..last).collect();
        let mut merged = Merged { ranges: Vec::new() };
        let mut from = start;
        for range in touched {
            // What is free before this range, then the range's parts before, inside and behind.
            if from < range.start {
                let free = if end < range.start { end.clone() } else { range.start.clone() };
                merged.push(Range { start: from, end: free, deletion });
                from = range.start.clone();
            }
            let (inner_start, inner_end) = overlap(&from, &end, &range);
            if range.start < inner_start {
                merged.push(Range { end: inner_start.clone(), ..range.clone() });
            }
            if inner_start < inner_end {
                let stronger = range.deletion.max(deletion);
                merged.push(Range {
                    start: inner_start,
                    end: inner_end.clone(),
                    deletion: stronger,
                });
            }
            if inner_end < range.end {
                merged.push(Range { start: inner_end, ..range.clone() });
            }
            from = from.max(range.end);
        }
        if from < end {
            merged.push(Range { start: from, end, deletion });
        }
        self.ranges.splice(first..first, merged.ranges);
    }

    /// Adds all deletions of another.
    pub fn merge(&mut self, other: Self) {
        for range in other.ranges {
            self.add(range.start, range.end, range.deletion);
        }
    }

    /// The deletion that covers a row.
    #[must_use]
    pub fn covering(&self, row: &ClusteringKey) -> Option<Deletion> {
        let index = self.ranges.partition_point(|range| range.end.compare_row(row).is_lt());
        let range = self.ranges.get(index)?;
        range.start.compare_row(row).is_lt().then_some(range.deletion)
    }

    /// Forgets what a deletion of the whole partition makes superfluous.
    pub(super) fn drop_covered(&mut self, partition: Deletion) {
        self.ranges.retain(|range| range.deletion.timestamp > partition.timestamp);
    }
}

/// The part of `range` between two cuts, clamped to the range; empty if it lies outside.
fn overlap(from: &Cut, to: &Cut, range: &Range) -> (Cut, Cut) {
    let start = from.max(&range.start).min(&range.end).clone();
    let end = to.min(&range.end).max(&start).clone();
    (start, end)
}

/// Ranges in order; a range that continues the last one with the same deletion extends it.
struct Merged {
    ranges: Vec<Range>,
}

impl Merged {
    fn push(&mut self, range: Range) {
        match self.ranges.last_mut() {
            Some(last) if last.deletion == range.deletion && last.end == range.start => {
                last.end = range.end;
            }
            _ => self.ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests;
