//! Points in time as microseconds since 1970, the unit Cassandra writes with.
//!
//! Calendars and text live at the edge: [`Timestamp`] prints and reads RFC 3339 and does nothing
//! else with dates.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Microseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use helenus_model::Timestamp;
///
/// let at: Timestamp = "2026-11-15T12:00:00.25Z".parse()?;
/// assert_eq!(at.as_millis(), 1_794_744_000_250);
/// assert_eq!(at.to_string(), "2026-11-15T12:00:00.25Z");
/// # Ok::<(), helenus_model::InvalidTime>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 time, or a time out of range.
#[derive(Debug, thiserror::Error)]
#[error("'{text}' is not a time; write it as 2026-11-15T12:00:00Z")]
pub struct InvalidTime {
    text: String,
    #[source]
    source: jiff::Error,
}

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// The time `micros` microseconds after (or, negative, before) 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// The time `millis` milliseconds after 1970, held at the ends of the range.
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis.saturating_mul(1_000))
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since 1970, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// This time plus `duration`, held at the end of the range.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_add(micros(duration)))
    }

    /// This time minus `duration`, held at the start of the range.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_sub(micros(duration)))
    }

    /// How long ago `earlier` was; zero if it was not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{} µs since 1970", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        text.parse::<jiff::Timestamp>()
            .map(|time| Timestamp(time.as_microsecond()))
            .map_err(|source| InvalidTime { text: text.to_owned(), source })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_before_1970_round_down() {
        assert_eq!(Timestamp::from_micros(-1).as_millis(), -1);
        assert_eq!(Timestamp::from_micros(-1_001).as_millis(), -2);
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        let last = Timestamp::from_micros(i64::MAX);
        assert_eq!(last.plus(Duration::from_secs(1)), last);
        assert_eq!(Timestamp::EPOCH.since(last), Duration::ZERO);
        assert_eq!(last.minus(Duration::MAX).as_micros(), 0);
    }

    #[test]
    fn a_time_beyond_the_calendar_still_prints() {
        assert_eq!(
            Timestamp::from_micros(i64::MAX).to_string(),
            "9223372036854775807 µs since 1970"
        );
    }
}
