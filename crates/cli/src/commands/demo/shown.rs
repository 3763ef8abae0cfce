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
            "outbox → relay → topic → inbox, and event streams → balances, all in {}",
            path.display()
        ),
        ..Board::default()
    }
}

fn figures(counters: &Counters) -> Vec<Figure> {
    let figure = |name, counter| Figure { name, value: count(counter) };
    vec![
        figure("messages staged", &counters.staged),
        figure("published", &counters.published),
        figure("taken by the consumer", &counters.processed),
        figure("repeats recognised by the outbox", &counters.staged_twice),
        figure("repeats dropped by the inbox", &counters.repeats_dropped),
        figure("refused: other content, same id", &counters.impostors_refused),
        figure("appends to event streams", &counters.appended),
        figure("conflicting appends refused", &counters.conflicts),
    ]
}

/// The figures while everything runs: a consumer may take a record before the relay has counted
/// it, but whatever was taken has been published, and whatever was published has been staged. The
/// final figures are the bare counters.
fn figures_so_far(counters: &Counters) -> Vec<Figure> {
    let mut figures = figures(counters);
    if let [staged, published, taken, ..] = figures.as_mut_slice() {
        published.value = published.value.max(taken.value);
        staged.value = staged.value.max(published.value);
    }
    figures
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
            board.figures = figures_so_far(counters);
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
