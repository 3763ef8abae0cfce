//! One conformance suite over every broker.
//!
//! A promise is one function that takes a broker; the macro runs the list for one backend.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod conformance;
#[cfg(feature = "service-tests")]
mod kafka;
#[cfg(feature = "embedded")]
mod retention;
