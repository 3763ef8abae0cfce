//! `cdc_raw` to change events to topics.
//!
//! * [`segments`]: which segments a node has left to be read;
//! * [`reader`]: one of them, section by section, in bounded memory;
//! * [`schema`]: the schema that goes with them;
//! * [`offline`]: every record of segments at rest;
//! * [`tail`]: the end of a living log, batch by batch, as records for a broker;
//! * [`agent`]: publishes them, remembers how far it is, and gives segments back;
//! * [`node`]: what a node is asked, its schema and its settings.

pub mod agent;
mod announce;
mod checks;
mod current;
mod done;
mod hints;
mod knowledge;
pub mod metrics;
#[cfg(feature = "cassandra")]
pub mod node;
pub mod offline;
pub mod options;
mod outlet;
pub mod reader;
mod records;
mod release;
pub mod schema;
pub mod segments;
pub mod space;
pub mod state;
pub mod tail;

pub use checks::{check_folder, check_options};
pub use done::Done;

/// Headers, records and what can be wrong with them.
pub use helenus_commitlog as commitlog;
/// Tables, updates, change events and Cassandra's merge.
pub use helenus_cql as cql;
