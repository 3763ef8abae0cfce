//! What the live page and the progress bar show of the demo.

use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use helenus_server::{Board, Check, Figure};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

use super::pipeline::{Counters, count};
use crate::output::Output;

/// Rates kept for the chart: two minutes of them.
const RATES_MAX: usize = 600;

pub(super) fn starting(path: &Path) -> Board {
    Board {
        title: "demo".to_owned(),
        subtitle: format!(
            "outbox → relay → topic → inbox, and event streams, all in {}",
            path.display()
        ),
        ..Board::default()
    }
}

fn figures(counters: &Counters) -> Vec<Figure> {
    let figure = |name, counter| Figure { name, value: count(counter) };
    // A consumer may take a record before the relay has counted it; whatever was taken has been
    // published, and whatever was published has been staged.
    let taken = count(&counters.processed);
    let published = count(&counters.published).max(taken);
    let staged = count(&counters.staged).max(published);
    vec![
        Figure { name: "messages staged", value: staged },
        Figure { name: "published", value: published },
        Figure { name: "taken by the consumer", value: taken },
        figure("repeats recognised by the outbox", &counters.staged_twice),
        figure("repeats dropped by the inbox", &counters.repeats_dropped),
        figure("refused: other content, same id", &counters.impostors_refused),
        figure("appends to event streams", &counters.appended),
        figure("conflicting appends refused", &counters.conflicts),
    ]
}

pub(super) fn finish(board: &watch::Sender<Board>, counters: &Counters, checks: Vec<Check>) {
    board.send_modify(|board| {
        board.figures = figures(counters);
        board.checks = checks;
        board.ended = true;
    });
}

/// Draws the counters while the pipeline runs.
pub(super) struct Watcher<'a> {
    board: &'a watch::Sender<Board>,
    bar: Option<ProgressBar>,
    last: Mutex<(Duration, u64)>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(seconds: u64, board: &'a watch::Sender<Board>, output: &Output) -> Self {
        let bar = output.draws_progress().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}");
            let bar = ProgressBar::new(seconds);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Watcher { board, bar, last: Mutex::new((Duration::ZERO, 0)) }
    }

    pub(super) fn tick(&self, elapsed: Duration, counters: &Counters) {
        let processed = count(&counters.processed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let since = elapsed.saturating_sub(last.0).as_secs_f64();
        let rate = processed.saturating_sub(last.1) as f64 / since.max(0.001);
        *last = (elapsed, processed);
        self.board.send_modify(|board| {
            board.figures = figures(counters);
            board.rates.push(rate);
            if board.rates.len() > RATES_MAX {
                board.rates.remove(0);
            }
        });
        if let Some(bar) = &self.bar {
            bar.set_position(elapsed.as_secs());
            bar.set_message(format!("{processed} messages, {rate:.0}/s"));
        }
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
