//! What an agent tells of itself.

use helenus_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::done::Done;
use crate::segments::Segment;
use crate::tail::Place;

/// What an agent tells of itself; `helenus capture status` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The node.
    pub node: String,
    /// When this was written.
    pub updated_at: Timestamp,
    /// The segment being read, and how far.
    pub segment: Option<i64>,
    /// The logical offset in it up to which everything is published.
    pub offset: Option<u64>,
    /// Segments in the folder.
    pub segments: usize,
    /// Events published since the agent started.
    pub published: u64,
    /// Files in the quarantine.
    pub quarantined: usize,
    /// Bytes that the node has made durable and that are not published yet.
    #[serde(default)]
    pub unread_bytes: u64,
    /// Bytes in the folder.
    pub used_bytes: u64,
    /// Bytes it may hold.
    pub limit_bytes: Option<u64>,
    /// Until the node would refuse writes, at the pace of the last minute.
    pub seconds_left: Option<u64>,
    /// It would not refuse writes then, but delete what nobody has read (`cdc_block_writes: false`).
    #[serde(default)]
    pub deletes_unread: bool,
    /// Why nothing is published at the moment.
    pub waiting_for: Option<String>,
    /// Why segments that are published are kept: without the node nobody knows whether something in
    /// them was passed over.
    #[serde(default)]
    pub node_away: Option<String>,
}

/// Bytes of the log that the node has made durable and that are not published.
pub(super) fn unread(segments: &[Segment], place: Option<Place>, done: &Done) -> u64 {
    let left = segments.iter().filter(|segment| !done.contains(segment.id)).filter_map(|segment| {
        let durable = segment.index?.offset;
        match place {
            Some(place) if segment.id < place.segment => None,
            Some(place) if segment.id == place.segment => {
                Some(durable.saturating_sub(place.position.logical))
            }
            _ => Some(durable),
        }
    });
    left.sum()
}

#[cfg(test)]
mod tests {
    use helenus_commitlog::{CdcIndex, Position, SegmentId};

    use super::*;

    #[test]
    fn what_is_unread_is_what_is_durable_behind_the_place() {
        let segment = |id, offset: Option<u64>| Segment {
            id: SegmentId(id),
            log: "log".into(),
            index: offset.map(|offset| CdcIndex { offset, completed: false }),
        };
        let segments =
            [segment(1, Some(100)), segment(2, Some(100)), segment(3, None), segment(4, Some(7))];
        let at = |segment, logical| {
            let position = Position { file: 0, logical };
            Some(Place { segment: SegmentId(segment), position })
        };
        let mut done = Done::default();
        assert_eq!(unread(&segments, None, &done), 207);
        assert_eq!(unread(&segments, at(2, 60), &done), 47);
        assert_eq!(unread(&segments, at(4, 9), &done), 0);
        done.insert(SegmentId(2));
        assert_eq!(unread(&segments, at(2, 60), &done), 7);
    }
}
