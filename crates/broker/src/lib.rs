//! Topics: one contract, embedded topics in the SQLite file and Kafka behind it, and the schema
//! registry beside them.
//!
//! [`contract`] says what every broker promises and knows no driver; `tests/it` runs one
//! conformance suite over all of them.

pub mod contract;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod partition;
#[cfg(feature = "registry")]
pub mod registry;
