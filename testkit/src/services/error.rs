//! One error for everything that can go wrong around a service: a sentence for the person at the
//! terminal. Nobody branches on it, so it has no kinds.

use std::fmt;

/// A sentence that says what failed, why, and what to do where that is known.
#[derive(Debug, Clone)]
pub struct Error(String);

/// The result of every operation on services.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Says which step an error interrupted.
pub trait Context<T> {
    /// Turns an error into "cannot STEP: CAUSE".
    fn or_fail(self, step: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn or_fail(self, step: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error(format!("cannot {}: {cause}", step())))
    }
}
