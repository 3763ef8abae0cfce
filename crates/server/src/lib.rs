//! What an operator runs and sees: supervised tasks, health, metrics and a live page over HTTP.
//!
//! [`supervisor`] keeps the tasks of a service running, [`Overview`] says whether they do what they are
//! for, [`Meters`] what they did, and [`operate`] answers whoever asks.
//!
//! The live page is drawn on the server; a small script swaps in new drawings as they arrive, and
//! without it the page is as complete, only not live. No library is loaded, nothing is inline, and
//! the content security policy says so.

mod access;
mod board;
mod http;
pub mod manifest;
pub mod meters;
mod operations;
mod overview;
pub mod supervisor;

pub use access::{TOKEN_CHARACTERS_MIN, Tokens, TokensError, Unprotected, check_address};
pub use board::{Board, Check, Figure};
pub use http::serve;
pub use meters::{Meters, MetersError};
pub use operations::{Condition, Operations, operate};
pub use overview::{Expectations, Overview, Readiness};
