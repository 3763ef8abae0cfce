//! How far reading is, on a terminal, once it has taken a while.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// What is over sooner shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts segments; takes itself away after the last one, or when it is dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    drawn: bool,
}

impl Progress {
    /// Of so many segments; nothing is shown unless it may be `drawn`.
    pub(super) fn new(segments: usize, drawn: bool) -> Self {
        let bar =
            ProgressBar::with_draw_target(Some(segments as u64), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{pos} of {len} segments read, {eta} left");
        bar.set_style(style.unwrap_or(ProgressStyle::default_bar()));
        Progress { bar: bar.with_finish(ProgressFinish::AndClear), drawn }
    }

    /// One more is read.
    pub(super) fn step(&self) {
        if self.drawn && self.bar.is_hidden() && self.bar.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(1);
        if self.bar.length() == Some(self.bar.position()) {
            self.bar.finish_using_style();
        }
    }

    /// Prints without being in the way.
    pub(super) fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}
