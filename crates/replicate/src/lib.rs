//! Change events to a target that equals Cassandra cell for cell.
//!
//! So far the services it will write to can be asked whether they are there.

pub mod metadata;
pub mod target;
