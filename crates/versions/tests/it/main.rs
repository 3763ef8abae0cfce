//! One conformance suite over every backend of versioned tables, and what only a cluster can show.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod conformance;
mod sources;
