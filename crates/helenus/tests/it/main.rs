//! The façade on real services, and its examples.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(all(feature = "sqlite", feature = "cassandra"))]
mod examples;
#[cfg(feature = "service-tests")]
mod probes;
