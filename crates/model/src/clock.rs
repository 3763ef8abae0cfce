//! Where time comes from. The core asks a [`Clock`]; only [`SystemClock`] asks the system.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// A wall clock and a stop-watch.
///
/// The wall clock may jump; whatever must measure a span (a lease, a deadline) uses
/// [`Clock::elapsed`], which never goes back.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock's time.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment of this clock, never going back.
    fn elapsed(&self) -> Duration;
}

/// The system's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose stop-watch starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
    pub fn new() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
    fn now(&self) -> Timestamp {
        // A system clock before 1970 is a broken machine, not a case to carry through the core.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.plus(since_epoch)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when told to: for tests and simulations.
///
/// ```
/// use helenus_model::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::at(Timestamp::from_millis(1_000));
/// clock.advance(Duration::from_millis(5));
/// assert_eq!(clock.now().as_millis(), 1_005);
/// assert_eq!(clock.elapsed(), Duration::from_millis(5));
/// ```
#[derive(Debug)]
pub struct ManualClock {
    now_us: AtomicI64,
    elapsed_us: AtomicI64,
}

impl ManualClock {
    /// A clock standing at `start`.
    pub fn at(start: Timestamp) -> Self {
        ManualClock { now_us: AtomicI64::new(start.as_micros()), elapsed_us: AtomicI64::new(0) }
    }

    /// Lets `duration` pass.
    pub fn advance(&self, duration: Duration) {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        self.now_us.fetch_add(micros, Ordering::SeqCst);
        self.elapsed_us.fetch_add(micros, Ordering::SeqCst);
    }

    /// Sets the wall clock, as an operator or NTP might; the stop-watch does not notice.
    pub fn jump_to(&self, time: Timestamp) {
        self.now_us.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        let micros = self.elapsed_us.load(Ordering::SeqCst);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}
