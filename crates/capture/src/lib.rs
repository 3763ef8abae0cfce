//! `cdc_raw` to change events to topics.
//!
//! * [`segments`]: which segments a node has left to be read;
//! * [`reader`]: one of them, section by section, in bounded memory;
//! * [`schema`]: the schema that goes with them;
//! * [`offline`]: every record of segments at rest.

pub mod offline;
pub mod reader;
pub mod schema;
pub mod segments;

/// Headers, records and what can be wrong with them.
pub use helenus_commitlog as commitlog;
/// Tables, updates, change events and Cassandra's merge.
pub use helenus_cql as cql;
