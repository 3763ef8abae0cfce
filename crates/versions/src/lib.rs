//! Versioned tables: whole data sets published side by side, one of them read.
//!
//! So far the rule that picks the version readers get; see [`route`].

mod catalog;

pub use catalog::{Status, TableVersion, route};
