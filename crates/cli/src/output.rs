//! The one place that prints: data on stdout, failures on stderr, a closed pipe is not an error.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the one place that prints")]

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue};
use comfy_table::{Table, presets};
use helenus::backend::without_password;
use serde::Serialize;

use crate::exit::Failed;

/// Where a command's words go.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    /// Why nothing more can be written to stdout.
    ended: OnceLock<std::io::Error>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json, ended: OnceLock::new() }
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

    /// A line: of JSON with `--json`, for people without.
    pub(crate) fn say(&self, json: &impl Serialize, text: &str) {
        if self.json {
            self.json_line(json);
        } else {
            self.line(text);
        }
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
        for line in table.lines() {
            self.line(line.trim_end());
        }
    }

    /// Text as it is. Once stdout takes no more, the rest is dropped and the command goes on.
    pub(crate) fn text(&self, text: &str) {
        if self.has_ended() {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            self.ended.get_or_init(|| error);
        }
    }

    /// Whether data and errors are printed as JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Many lines, written in larger pieces.
    pub(crate) fn lines(&self) -> Lines<'_> {
        Lines { output: self, waiting: String::new() }
    }

    /// A complaint that does not end the command, on stderr.
    pub(crate) fn complain(&self, text: &str, details: &impl Serialize) {
        if self.json {
            eprintln!("{}", serde_json::to_string(details).unwrap_or_default());
        } else {
            eprintln!("{text}");
        }
    }

    /// Whether stdout takes no more: a command that only prints may stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Fails if what was printed did not arrive, unless its reader had seen enough.
    pub(crate) fn finish(self) -> Result<(), Failed> {
        match self.ended.into_inner() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failed::system(
                "write the output",
                "free some space, or print elsewhere",
            )(error)),
            _ => Ok(()),
        }
    }

    /// Whether somebody watches what is printed.
    pub(crate) fn is_on_terminal(&self) -> bool {
        std::io::stdout().is_terminal()
    }

    /// Whether progress may be drawn on stderr.
    pub(crate) fn draws_progress(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }
}

/// Lines on their way to stdout.
#[derive(Debug)]
pub(crate) struct Lines<'o> {
    output: &'o Output,
    waiting: String,
}

impl Lines<'_> {
    pub(crate) fn push(&mut self, line: &str) {
        self.waiting.push_str(line);
        self.waiting.push('\n');
        if self.waiting.len() > 64 * 1024 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.output.text(&self.waiting);
        self.waiting.clear();
    }
}

impl Drop for Lines<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// A failure, on stderr.
pub(crate) fn failure(failed: &Failed, json: bool) {
    if json {
        eprintln!("{}", serde_json::json!({ "error": failed.to_json() }));
    } else {
        eprintln!("{}", failed.to_text());
    }
}

/// Wrong arguments, or a call for help: what clap has to say, as JSON if the caller wanted that.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let refused = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let shown = without_password(refused);
    if error.use_stderr() && wants_json {
        let message = error.to_string().replace(refused, &shown);
        let said = message.lines().take_while(|line| !line.is_empty()).map(str::trim);
        let said = said.collect::<Vec<_>>().join(" ");
        let said = said.trim_start_matches("error: ");
        // A value that says nothing sensible is told from a command line that has the wrong shape.
        let kind = match error.kind() {
            clap::error::ErrorKind::ValueValidation => "invalid",
            _ => "usage",
        };
        let error = serde_json::json!({
            "kind": kind,
            "class": "invalid",
            "applied": false,
            "message": said,
            "causes": [],
            "remedy": "see --help",
        });
        eprintln!("{}", serde_json::json!({ "error": error }));
    } else if shown != refused {
        // clap repeats what it was given, and this holds a password.
        eprint!("{}", error.to_string().replace(refused, &shown));
    } else if let Err(error) = error.print()
        && error.kind() != ErrorKind::BrokenPipe
    {
        return ExitCode::FAILURE;
    }
    // 2 for wrong usage, 0 for --help and --version.
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
