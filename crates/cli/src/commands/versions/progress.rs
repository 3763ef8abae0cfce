//! How far a publish is: drawn on a terminal, elsewhere a line in the log now and then.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use helenus::Ports;
use helenus::versions::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// How often progress is looked at, and drawn.
const LOOK: Duration = Duration::from_millis(200);

/// How often it is logged.
const LOG: Duration = Duration::from_secs(10);

/// What the rate is the rate of: long enough to be calm, short enough to follow a slow node.
const WINDOW: Duration = Duration::from_secs(10);

/// Follows `progress` until it is dropped.
pub(super) async fn follow(progress: &Progress, ports: &Ports, output: &Output) -> Infallible {
    let drawn = output.draws_progress();
    let bar = Bar(if drawn { ProgressBar::no_length() } else { ProgressBar::hidden() });
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
    bar.0.set_style(style.unwrap_or(ProgressStyle::default_spinner()));
    let mut pace = Pace::default();
    let mut logged = ports.clock.elapsed();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = ports.clock.elapsed();
        pace.add(now, progress.written(), progress.durable().bytes);
        let rate = pace.rows_per_second();
        let left = progress.source_bytes().and_then(|bytes| pace.left(bytes));
        let rows = progress.written();
        if drawn {
            bar.0.set_message(line(rows, rate, left, progress.is_loaded()));
        } else if now.saturating_sub(logged) >= LOG {
            logged = now;
            let seconds_left = left.map(|left| left.as_secs());
            let checking = progress.is_loaded();
            tracing::info!(rows, rows_per_second = rate, seconds_left, checking, "publishing");
        }
    }
}

/// Leaves the terminal as it was.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn line(rows: u64, rate: u64, left: Option<Duration>, is_loaded: bool) -> String {
    if is_loaded {
        return format!("{rows} rows, checking");
    }
    let left = left.map(|left| format!(", {} left", clock(left))).unwrap_or_default();
    format!("{rows} rows, {rate} rows/s{left}")
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// What was seen lately: when, rows written, bytes of the source that are durable.
#[derive(Debug, Default)]
struct Pace {
    seen: VecDeque<(Duration, u64, u64)>,
}

impl Pace {
    fn add(&mut self, now: Duration, rows: u64, bytes: u64) {
        let is_old = |(at, ..): &(Duration, u64, u64)| now.saturating_sub(*at) > WINDOW;
        while self.seen.front().is_some_and(is_old) {
            self.seen.pop_front();
        }
        self.seen.push_back((now, rows, bytes));
    }

    /// Seconds, rows and bytes between the first and the last.
    fn span(&self) -> Option<(f64, u64, u64)> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let seconds = last.0.saturating_sub(first.0).as_secs_f64();
        let (rows, bytes) = (last.1.saturating_sub(first.1), last.2.saturating_sub(first.2));
        (seconds > 0.0).then_some((seconds, rows, bytes))
    }

    fn rows_per_second(&self) -> u64 {
        let rate = self.span().map_or(0.0, |(seconds, rows, _)| rows as f64 / seconds);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rows a second"
        )]
        let rate = rate.round() as u64;
        rate
    }

    /// How long the rest takes at the rate of late; `None` while there is no rate.
    fn left(&self, source_bytes: u64) -> Option<Duration> {
        let (seconds, _, bytes) = self.span().filter(|(_, _, bytes)| *bytes > 0)?;
        let rest = source_bytes.saturating_sub(self.seen.back()?.2);
        Duration::try_from_secs_f64(rest as f64 / bytes as f64 * seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_rest_takes_as_long_as_the_rate_of_late_says() {
        let mut pace = Pace::default();
        pace.add(at(1), 0, 0);
        assert_eq!((pace.rows_per_second(), pace.left(1_000)), (0, None));
        pace.add(at(3), 100, 200);
        assert_eq!((pace.rows_per_second(), pace.left(1_000)), (50, Some(at(8))));
        // It has become slower: what is older than the window does not count.
        for second in 4..=20 {
            pace.add(at(second), 100 + second, 200 + second);
        }
        assert_eq!((pace.rows_per_second(), pace.left(230)), (1, Some(at(10))));
        assert_eq!(pace.left(100), Some(at(0)), "more was read than there seemed to be");
    }

    #[test]
    fn a_line_says_what_is_known() {
        assert_eq!(line(7, 3, Some(at(3_723)), false), "7 rows, 3 rows/s, 1:02:03 left");
        assert_eq!(line(7, 3, Some(at(83)), false), "7 rows, 3 rows/s, 1:23 left");
        assert_eq!(line(7, 3, None, false), "7 rows, 3 rows/s", "standard input has no end yet");
        assert_eq!(line(7, 3, None, true), "7 rows, checking");
    }
}
