//! Command-line words, taken one by one. A usage error names the words that would have done.

use std::collections::VecDeque;
use std::fmt;

/// A command line that makes no sense; exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A usage error with this text.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

/// "unknown COMMAND `x`; one of: …"
pub(crate) fn unknown<'a>(
    kind: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> anyhow::Error {
    let known: Vec<&str> = known.into_iter().collect();
    usage(format!("unknown {kind} `{word}`; one of: {}", known.join(", ")))
}

/// The words that are left.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    words: VecDeque<String>,
}

impl Arguments {
    /// Those of this process.
    pub(crate) fn from_env() -> Self {
        Self { words: std::env::args().skip(1).collect() }
    }

    /// The next word.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.words.pop_front()
    }

    /// The word after an option.
    pub(crate) fn value(&mut self, option: &str) -> anyhow::Result<String> {
        self.next().ok_or_else(|| usage(format!("{option} wants a value")))
    }

    /// Words up to the next option: at least one.
    pub(crate) fn values(&mut self, option: &str) -> anyhow::Result<Vec<String>> {
        let mut values = Vec::new();
        while self.words.front().is_some_and(|word| !word.starts_with('-')) {
            values.extend(self.next());
        }
        if values.is_empty() {
            return Err(usage(format!("{option} wants at least one value")));
        }
        Ok(values)
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        self.words.drain(..).collect()
    }

    /// Whether `--help` stands before any `--`.
    pub(crate) fn asks_for_help(&self) -> bool {
        let own = self.words.iter().take_while(|word| *word != "--");
        own.into_iter().any(|word| word == "--help" || word == "-h")
    }
}
