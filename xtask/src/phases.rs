//! Timed steps with a heading each, and a table of their times at the end.

use std::time::{Duration, Instant};

/// The steps of a long command so far.
#[derive(Debug)]
pub(crate) struct Phases {
    begun: Instant,
    done: Vec<(String, Duration)>,
}

impl Phases {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), done: Vec::new() }
    }

    /// Runs one step under its heading.
    pub(crate) fn run<T>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        eprintln!("\n=== {name}");
        let begun = Instant::now();
        let outcome = step();
        self.done.push((name.to_owned(), begun.elapsed()));
        outcome.map_err(|error| error.context(format!("{name} failed")))
    }

    /// The time each step took, in one line.
    pub(crate) fn line(&self) -> String {
        let steps = self.done.iter().map(|(name, time)| (name.as_str(), *time));
        let all = steps.chain([("total", self.begun.elapsed())]);
        let words: Vec<String> =
            all.map(|(name, time)| format!("{name} {:.1} s", time.as_secs_f64())).collect();
        words.join(", ")
    }

    /// The time each step took, a row each, in the order they ran.
    pub(crate) fn table(&self) -> String {
        let rows = self.done.iter().map(|(name, time)| row(name, *time));
        rows.chain([row("total", self.begun.elapsed())]).collect()
    }
}

fn row(name: &str, time: Duration) -> String {
    format!("{:>8.1} s  {name}\n", time.as_secs_f64())
}
