//! Real services for tests, and the right to disturb them one test at a time.
//!
//! `isolated` (feature `clients`) gives a test a keyspace, database, topic prefix or Redis database
//! of its own on them; `gate` stands between a client and a node and loses what it is told to.
//!
//! [`services`] provisions, starts, finds and stops real Cassandra, Kafka, schema registry,
//! PostgreSQL and Redis processes. It needs nothing beyond std and serde, because `cargo xtask`
//! is built from it before anything else can be.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "test support: it owns real time, talks to a terminal and may panic on its own tables"
)]

#[cfg(feature = "clients")]
pub mod gate;
#[cfg(feature = "clients")]
pub mod isolated;
mod serial;
pub mod services;
pub mod usage;

pub use serial::{SerialGuard, serial};
