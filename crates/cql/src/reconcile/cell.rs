//! Which of two cells, or of two row markers, wins.

use std::cmp::{Ordering, Reverse};

use crate::update::{Cell, Content, Deletion, Liveness, Seconds, Timestamp, Ttl};

/// Views mark rows that are gone with this TTL.
const EXPIRED_TTL: Ttl = Ttl(i32::MAX);

/// Orders two cells of one place: the greater wins. Equal ones are the same cell.
///
/// ```
/// use std::cmp::Ordering;
/// use helenus_cql::reconcile::order_cells;
/// use helenus_cql::update::{Cell, Content, Seconds, Timestamp};
///
/// let value = Cell { timestamp: Timestamp(5), content: Content::Live(&b"a"[..]) };
/// let tombstone = Cell { timestamp: Timestamp(5), content: Content::Deleted(Seconds(0)) };
/// let later = Cell { timestamp: Timestamp(6), content: Content::Live(&b""[..]) };
/// assert_eq!(order_cells(&value, &tombstone), Ordering::Less);
/// assert_eq!(order_cells(&later, &tombstone), Ordering::Greater);
/// ```
pub fn order_cells<B: AsRef<[u8]>>(left: &Cell<B>, right: &Cell<B>) -> Ordering {
    left.timestamp
        .cmp(&right.timestamp)
        .then_with(|| rank(&left.content).cmp(&rank(&right.content)))
}

/// Tombstone over expiring over live; then later time, lower TTL, larger value.
fn rank<B: AsRef<[u8]>>(content: &Content<B>) -> (u8, Seconds, Reverse<Ttl>, &[u8]) {
    match content {
        Content::Live(value) => (0, Seconds(0), Reverse(Ttl(0)), value.as_ref()),
        Content::Expiring(value, expiry) => (1, expiry.at, Reverse(expiry.ttl), value.as_ref()),
        Content::Deleted(at) => (2, *at, Reverse(Ttl(0)), &[]),
    }
}

/// Orders two row markers: the greater wins.
#[must_use]
pub fn order_liveness(left: &Liveness, right: &Liveness) -> Ordering {
    let rank = |liveness: &Liveness| {
        let expired = liveness.expiry.is_some_and(|expiry| expiry.ttl == EXPIRED_TTL);
        let expiry = liveness.expiry.map(|expiry| (expiry.at, Reverse(expiry.ttl)));
        (liveness.timestamp, expired, expiry)
    };
    rank(left).cmp(&rank(right))
}

/// True if the deletion removes what was written at `timestamp`.
pub(super) fn covers(deletion: Option<Deletion>, timestamp: Timestamp) -> bool {
    deletion.is_some_and(|deletion| timestamp <= deletion.timestamp)
}

/// The value of a cell that has one at that moment.
pub(super) fn live_value<B: AsRef<[u8]>>(cell: &Cell<B>, now: Seconds) -> Option<&[u8]> {
    match &cell.content {
        Content::Live(value) => Some(value.as_ref()),
        Content::Expiring(value, expiry) if now < expiry.at => Some(value.as_ref()),
        Content::Expiring(..) | Content::Deleted(_) => None,
    }
}

/// True if the row marker holds at that moment.
pub(super) fn is_live(liveness: &Liveness, now: Seconds) -> bool {
    liveness.expiry.is_none_or(|expiry| expiry.ttl != EXPIRED_TTL && now < expiry.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::Expiry;

    fn cells() -> [(&'static str, Cell<&'static [u8]>); 6] {
        let at = |content| Cell { timestamp: Timestamp(7), content };
        let expiring = |at, ttl| Expiry { at: Seconds(at), ttl: Ttl(ttl) };
        [
            ("live a", at(Content::Live(&b"a"[..]))),
            ("live b", at(Content::Live(&b"b"[..]))),
            ("expiring early", at(Content::Expiring(&b"z"[..], expiring(100, 50)))),
            ("expiring late", at(Content::Expiring(&b"a"[..], expiring(200, 50)))),
            ("same expiry, lower ttl", at(Content::Expiring(&b"a"[..], expiring(200, 40)))),
            ("tombstone", at(Content::Deleted(Seconds(1)))),
        ]
    }

    /// All 21 unordered pairs at one timestamp: each cell beats every one before it in the list.
    #[test]
    fn ties_of_every_pair() {
        let cells = cells();
        let mut pairs = 0;
        for (left_at, (left_name, left)) in cells.iter().enumerate() {
            for (right_at, (right_name, right)) in cells.iter().enumerate().skip(left_at) {
                let expected = left_at.cmp(&right_at);
                assert_eq!(order_cells(left, right), expected, "{left_name} against {right_name}");
                assert_eq!(order_cells(right, left), expected.reverse());
                pairs += 1;
            }
        }
        assert_eq!(pairs, 21);
    }

    #[test]
    fn a_later_timestamp_beats_every_kind() {
        for (name, cell) in cells() {
            for (other_name, other) in cells() {
                let later = Cell { timestamp: Timestamp(8), ..cell };
                assert_eq!(order_cells(&later, &other), Ordering::Greater, "{name}, {other_name}");
            }
        }
    }

    #[test]
    fn tombstones_by_server_time() {
        let at =
            |at| Cell::<&[u8]> { timestamp: Timestamp(1), content: Content::Deleted(Seconds(at)) };
        assert_eq!(order_cells(&at(2), &at(1)), Ordering::Greater);
    }

    #[test]
    fn row_markers() {
        let expiring = |at, ttl| Some(Expiry { at: Seconds(at), ttl: Ttl(ttl) });
        let marker = |timestamp, expiry| Liveness { timestamp: Timestamp(timestamp), expiry };
        let ascending = [
            marker(1, None),
            marker(1, expiring(100, 50)),
            marker(1, expiring(200, 50)),
            marker(1, expiring(200, 40)),
            marker(1, expiring(50, i32::MAX)),
            marker(2, None),
        ];
        assert!(ascending.is_sorted_by(|left, right| order_liveness(left, right).is_lt()));
        assert!(is_live(&ascending[1], Seconds(99)) && !is_live(&ascending[1], Seconds(100)));
        assert!(!is_live(&ascending[4], Seconds(0)));
    }
}
