//! How long to wait before the next attempt.

use std::time::Duration;

use crate::Random;

/// Doubles from `first` up to `longest`, and takes a random part off so that what failed together
/// does not come back together.
///
/// ```
/// use helenus_model::{Backoff, SeededRandom};
/// use std::time::Duration;
///
/// let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) };
/// let wait = backoff.after(3, &SeededRandom::new(1));
/// assert!(wait >= Duration::from_millis(200) && wait <= Duration::from_millis(400));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first failure.
    pub first: Duration,
    /// The longest wait of all.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after failure number `attempt`, counted from 1: between half of the doubled wait
    /// and all of it.
    pub fn after(&self, attempt: u32, random: &dyn Random) -> Duration {
        let factor = 2_u32.checked_pow(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = self.first.saturating_mul(factor).min(self.longest);
        let half = u64::try_from(wait.as_micros() / 2).unwrap_or(u64::MAX);
        wait - Duration::from_micros(random.below(half.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    #[test]
    fn the_wait_doubles_and_stops_at_the_longest() {
        let backoff =
            Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
        let random = SeededRandom::new(1);
        for attempt in 1..200 {
            let factor = 2_u32.checked_pow(attempt - 1).unwrap_or(u32::MAX);
            let longest = backoff.first.saturating_mul(factor).min(backoff.longest);
            let wait = backoff.after(attempt, &random);
            assert!(wait <= longest && wait >= longest / 2, "{attempt}: {wait:?}");
        }
    }
}
