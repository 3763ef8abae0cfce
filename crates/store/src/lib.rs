//! Outbox, inbox, dispatch store and event store: one contract, a folder per backend behind it.
//!
//! [`contract`] says what every backend promises and knows no driver; `tests/it` runs one
//! conformance suite over all of them. Applications reach this through the `helenus` crate.

pub mod aggregate;
#[cfg(feature = "cassandra")]
pub mod cassandra;
pub mod contract;
pub mod lanes;
pub mod once;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod subscription;
pub mod tending;
pub mod typed;

#[cfg(any(feature = "sqlite", feature = "cassandra"))]
mod append;
mod ports;
#[cfg(any(feature = "sqlite", feature = "cassandra"))]
mod retention;
mod shard;
#[cfg(any(feature = "sqlite", feature = "cassandra"))]
mod snapshots;

#[cfg(any(feature = "sqlite", feature = "cassandra"))]
pub use append::Bounds;
pub use ports::Ports;
pub use shard::shard_of;
