//! The agent over recorded segments, in a folder that fills as a node fills it; and over real nodes.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and asks the clock that its node asks"
)]

mod agent;
mod folder;
#[cfg(feature = "service-tests")]
mod generator;
mod leftovers;
mod mishaps;
#[cfg(feature = "service-tests")]
mod oracle;
mod passed_over;
#[cfg(feature = "service-tests")]
mod spellings;
