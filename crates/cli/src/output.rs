//! The one place that prints: data on stdout, failures on stderr, a closed pipe is not an error.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the one place that prints")]

use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::exit::Failed;

/// Where a command's words go.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json }
    }

    /// A line for people; nothing with `--json`.
    pub(crate) fn line(&self, text: impl AsRef<str>) {
        if !self.json {
            self.text(&format!("{}\n", text.as_ref()));
        }
    }

    /// A JSON document; nothing without `--json`.
    pub(crate) fn document(&self, value: &impl Serialize) {
        if self.json {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            self.text(&format!("{text}\n"));
        }
    }

    /// A line of JSON, with `--json` and without: for commands whose output is data.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        let text = serde_json::to_string(value).unwrap_or_default();
        self.text(&format!("{text}\n"));
    }

    /// Rows for people; nothing with `--json`.
    pub(crate) fn table<const N: usize>(&self, head: [&str; N], rows: Vec<[String; N]>) {
        if self.json {
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(head);
        table.add_rows(rows);
        self.line(table.to_string());
    }

    /// Text as it is.
    pub(crate) fn text(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
            && error.kind() == ErrorKind::BrokenPipe
        {
            // Whoever read us has seen enough.
            std::process::exit(0);
        }
    }

    /// A failure, on stderr.
    pub(crate) fn failure(&self, failed: &Failed) {
        if self.json {
            eprintln!("{}", serde_json::json!({ "error": failed.to_json() }));
        } else {
            eprintln!("{}", failed.to_text());
        }
    }

    /// Whether progress may be drawn on stderr.
    pub(crate) fn draws_progress(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }
}
