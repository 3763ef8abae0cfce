//! Whether publishing keeps up.

use std::time::Duration;

use serde::Serialize;

use crate::Status;

/// How old the oldest due message may be before publishing counts as down.
pub const DOWN_AFTER: Duration = Duration::from_secs(5 * 60);

/// Whether publishing keeps up, with what that is judged by.
///
/// ```
/// use helenus_relay::{DOWN_AFTER, Health, Status};
///
/// let behind = Status { lag_ms: 300_001, unpublished: 7, shards: vec![] };
/// assert!(!Health::of(&behind, DOWN_AFTER).is_up());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Up, or down.
    pub status: UpOrDown,
    /// Age of the oldest message that is due.
    pub lag_ms: u64,
    /// Messages neither published nor parked.
    pub unpublished: u64,
}

/// The two things health can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpOrDown {
    /// It keeps up.
    Up,
    /// It does not.
    Down,
}

impl Health {
    /// Down if something has been due for longer than `down_after`.
    pub fn of(status: &Status, down_after: Duration) -> Self {
        let is_down = Duration::from_millis(status.lag_ms) > down_after;
        let (lag_ms, unpublished) = (status.lag_ms, status.unpublished);
        Health { status: if is_down { UpOrDown::Down } else { UpOrDown::Up }, lag_ms, unpublished }
    }

    /// Whether it keeps up.
    pub fn is_up(&self) -> bool {
        self.status == UpOrDown::Up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_is_down_past_the_limit_and_not_at_it() {
        let at = |lag_ms| {
            let status = Status { lag_ms, unpublished: 3, shards: vec![] };
            Health::of(&status, DOWN_AFTER)
        };
        assert!(at(0).is_up() && at(300_000).is_up());
        let down = at(300_001);
        assert!(!down.is_up());
        let shown = serde_json::json!({"status": "down", "lag_ms": 300_001, "unpublished": 3});
        assert_eq!(serde_json::json!(down), shown);
    }
}
