//! What every error of the project can be asked: what kind it is, whether anything was applied,
//! whether trying again makes sense, and what to do next.

use std::borrow::Cow;
use std::error::Error;

use serde::Serialize;

/// The classes of failure that callers tell apart. Retry, stop or dead-letter is decided on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request is wrong in itself; the same request will fail again.
    Invalid,
    /// What was asked for is not there.
    NotFound,
    /// The stored state is not the expected one; reading it again may help.
    Conflict,
    /// A service cannot be reached or refuses work for now. Nothing was applied.
    Unavailable,
    /// A deadline passed before anything was sent. Nothing was applied.
    Timeout,
    /// The answer was lost: it may or may not have been applied. Resolve it, never guess.
    OutcomeUnknown,
    /// Stored bytes are not what was written. Stops the part that met it.
    Corrupt,
    /// The part cannot go on.
    Fatal,
}

/// The questions every error answers.
///
/// ```
/// use helenus_model::{Failure, Kind, StreamId};
///
/// let error = StreamId::new("").unwrap_err();
/// assert_eq!((error.kind(), error.applied()), (Kind::Invalid, Some(false)));
/// assert!(!error.is_retryable());
/// ```
pub trait Failure: Error {
    /// The class of the failure.
    fn kind(&self) -> Kind;

    /// The failure's own name in snake case, stable for scripts: `conflict`, `too_large`.
    fn code(&self) -> &'static str;

    /// Whether anything was written: `None` when that is not known.
    fn applied(&self) -> Option<bool> {
        match self.kind() {
            Kind::OutcomeUnknown => None,
            _ => Some(false),
        }
    }

    /// Whether the same request may succeed later.
    fn is_retryable(&self) -> bool {
        matches!(self.kind(), Kind::Unavailable | Kind::Timeout | Kind::OutcomeUnknown)
    }

    /// What the failure knows in numbers and names, for programs: `expected`, `actual`, `limit`.
    fn details(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }

    /// What the caller can do about it, as a sentence without a full stop.
    fn remedy(&self) -> Option<Cow<'static, str>> {
        None
    }
}

/// What an error was caused by, each told once and on one line: some libraries repeat their cause in
/// their own words.
///
/// ```
/// #[derive(Debug, thiserror::Error)]
/// #[error("cannot save")]
/// struct Unsaved(#[source] std::io::Error);
///
/// let error = Unsaved(std::io::Error::other("the disk is full"));
/// assert_eq!(helenus_model::causes(&error), ["the disk is full"]);
/// assert_eq!(helenus_model::told(&error), "cannot save: the disk is full");
/// ```
#[must_use]
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut told = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let lines = cause.to_string();
        let text = lines.split_whitespace().collect::<Vec<_>>().join(" ");
        if !told.iter().any(|told| told.contains(&text)) {
            told.push(text);
        }
        next = cause.source();
    }
    told.remove(0);
    told
}

/// An error with its [`causes`], in one line.
#[must_use]
pub fn told(error: &dyn Error) -> String {
    let mut told = vec![error.to_string()];
    told.extend(causes(error));
    told.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Link(&'static str, #[source] Option<Box<Link>>);

    #[test]
    fn each_cause_is_told_once_and_on_one_line() {
        let words = ["no leader", "refused: no\n  leader", "cannot publish"];
        let chain = words.into_iter().fold(None, |cause, word| Some(Box::new(Link(word, cause))));
        assert_eq!(told(&*chain.unwrap()), "cannot publish: refused: no leader");
    }
}
