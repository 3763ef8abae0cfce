//! The store on Cassandra.
//!
//! So far it keeps streams of events; the outbox comes later. Building a [`CassandraStore`] opens
//! no socket: the first use opens one session, makes what is missing of keyspace and tables and
//! prepares the statements, once, however many callers arrive together.
//!
//! An append is one conditional batch in one partition, one Paxos round: all of it or nothing.
//! The driver's own retries are off for it; what an error leaves open is decided in `classify`
//! and settled by sending the same operation again or by cancelling it.

mod annex;
mod append;
mod archive;
mod classify;
mod conditional;
mod error;
mod events;
mod group;
mod messages;
mod options;
mod probe;
mod read;
mod resolve;
mod retention;
mod routing;
mod rows;
mod session;
mod snapshots;
pub mod staging;
mod statements;
mod tables;
mod values;

pub use error::Error;
pub use options::{ClientCertificate, Consistency, Options, Replication, SerialConsistency};
pub use probe::probe;
/// The driver's session, for hosts that have one of their own.
pub use scylla::client::session::Session;
pub use session::CassandraStore;

/// What other parts that talk to a cluster share with the store.
pub mod link {
    pub use super::classify::{prepare_error, read_error, request_error};
    pub use super::session::connect;
    pub use super::tables::{change_schema, ensure_keyspace};
}
