//! How a command ends: the exit codes, and the one type every failure becomes.

use std::borrow::Cow;
use std::process::ExitCode;

use helenus::{BackendError, Failure, Kind, causes};

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done: 0.
    Done,
    /// It ran, and what it checked does not hold: 1.
    ChecksFailed,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::ChecksFailed => ExitCode::from(1),
        }
    }
}

/// Why a command failed: 1. (Wrong arguments end with 2 before any command runs.)
#[derive(Debug)]
pub(crate) struct Failed(BackendError);

impl Failed {
    /// The system refused something a command needs.
    pub(crate) fn system(
        what: impl Into<String>,
        remedy: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| System { what, remedy, source }.into()
    }

    /// The failure itself.
    pub(crate) const fn error(&self) -> &BackendError {
        &self.0
    }

    /// What is printed under `error` with `--json`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({
            "kind": self.0.code(),
            "class": self.0.kind(),
            "applied": self.0.applied(),
            "message": self.0.to_string(),
            "causes": causes(&self.0),
            "remedy": self.0.remedy(),
        });
        if let Some(object) = json.as_object_mut() {
            object.extend(self.0.details());
        }
        json
    }

    /// What is printed for people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("error: {}", self.0);
        for cause in causes(&self.0) {
            text.push_str(&format!("\n  because: {cause}"));
        }
        match self.0.applied() {
            Some(true) => text.push_str("\n  it was applied"),
            Some(false) => text.push_str("\n  nothing was applied"),
            None => text.push_str("\n  whether it was applied is not known"),
        }
        if let Some(remedy) = self.0.remedy() {
            text.push_str(&format!("\n  next: {remedy}"));
        }
        text
    }
}

impl<E: Failure + Send + Sync + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed(BackendError::new(error))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("could not {what}")]
struct System {
    what: String,
    remedy: &'static str,
    #[source]
    source: std::io::Error,
}

impl Failure for System {
    fn kind(&self) -> Kind {
        Kind::Unavailable
    }

    fn code(&self) -> &'static str {
        "system"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(self.remedy.into())
    }
}
