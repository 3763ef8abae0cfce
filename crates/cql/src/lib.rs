//! CQL without I/O.
#![deny(clippy::indexing_slicing)]

pub mod compare;
pub mod datatype;
mod hex;
pub mod json;
pub mod reconcile;
pub mod schema;
pub mod token;
pub mod update;
pub mod value;
pub mod wire;
