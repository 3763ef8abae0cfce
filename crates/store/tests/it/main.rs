//! One conformance suite over every backend of the store.
//!
//! A promise is one function that takes a store; [`conformance!`](conformance::conformance) runs
//! the list for one backend. A new backend is one more line at the end of `conformance.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, a proof prints, and every task here is awaited or given up on purpose"
)]

#[cfg(feature = "service-tests")]
mod beside;
#[cfg(feature = "service-tests")]
mod cassandra;
#[cfg(any(feature = "sqlite", feature = "service-tests"))]
mod conformance;
#[cfg(feature = "service-tests")]
mod crashes;
#[cfg(feature = "service-tests")]
#[cfg(feature = "service-tests")]
mod grouping;
#[cfg(feature = "sqlite")]
mod metering;
#[cfg(any(feature = "sqlite", feature = "service-tests"))]
mod model;
#[cfg(feature = "sqlite")]
mod projections;
#[cfg(feature = "service-tests")]
mod proxy;
#[cfg(feature = "service-tests")]
mod racing;
#[cfg(feature = "service-tests")]
mod retention;
#[cfg(feature = "service-tests")]
mod special;
#[cfg(feature = "sqlite")]
mod staging;
