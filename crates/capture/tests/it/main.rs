//! The agent over recorded segments, in a folder that fills as a node fills it; and over real nodes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod agent;
mod folder;
