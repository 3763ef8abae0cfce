//! CQL without I/O: types, values, schema, Cassandra's merge, and its statements.
//!
//! * [`datatype`], [`value`], [`compare`], [`json`]: what a type is, how its values are read from
//!   bytes, ordered, and printed as `SELECT JSON` prints them;
//! * [`exact`]: values as JSON that gives their bytes back;
//! * [`schema`]: tables by id, with the columns that are gone;
//! * [`update`]: what one mutation does to one partition;
//! * [`change`]: that as change events, and their JSON;
//! * [`reconcile`]: many updates, in any order, become the rows at a moment;
//! * [`lexer`], [`parser`], [`rewrite`]: statements, and routing the tables they name;
//! * [`token`], [`wire`]: the ring's hash, and the cursor below everything that reads bytes.
//!
//! Nothing here panics on any input or trusts a length that the input claims. Where the bytes
//! come from is the caller's affair.

#![deny(clippy::indexing_slicing)]

pub mod change;
pub mod compare;
pub mod datatype;
pub mod exact;
mod hex;
pub mod json;
pub mod lexer;
pub mod parser;
pub mod reconcile;
pub mod rewrite;
pub mod schema;
pub mod token;
pub mod update;
pub mod value;
pub mod wire;
