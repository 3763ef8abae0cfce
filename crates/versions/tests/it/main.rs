//! One conformance suite over every backend of versioned tables, and what only a cluster can show.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and a proof prints what it found"
)]

mod conformance;
#[cfg(feature = "service-tests")]
mod faults;
#[cfg(feature = "service-tests")]
mod readers;
mod sources;
