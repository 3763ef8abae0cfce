//! CQL without I/O: types, values, schema, and Cassandra's merge.
//!
//! * [`datatype`], [`value`], [`compare`], [`json`]: what a type is, how its values are read from
//!   bytes, ordered, and printed as `SELECT JSON` prints them;
//! * [`schema`]: tables by id, with the columns that are gone;
//! * [`update`]: what one mutation does to one partition;
//! * [`reconcile`]: many updates, in any order, become the rows at a moment;
//! * [`token`], [`wire`]: the ring's hash, and the cursor below everything that reads bytes.
//!
//! Nothing here panics on any input or trusts a length that the input claims. Where the bytes
//! come from is the caller's affair.
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
