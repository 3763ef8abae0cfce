//! What an operator sees: health and a live page over HTTP.
//!
//! The page is drawn on the server; a small script swaps in new drawings as they arrive, and
//! without it the page is as complete, only not live. No library is loaded, nothing is inline, and
//! the content security policy says so.

mod board;
mod http;

pub use board::{Board, Check, Figure};
pub use http::serve;
