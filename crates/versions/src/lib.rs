//! Versioned tables: whole data sets published side by side, one of them read.
//!
//! * [`TableSchema`], [`infer`], [`row`]: what a table is and how records become its rows, pure;
//! * [`source`]: where records come from;
//! * [`Catalog`] and what changes it: [`rollback`], [`include()`], [`pin`], [`unpin`];
//! * [`Tables`]: the tables that hold versions;
//! * [`publish`], [`recycle`]: a version's way in and out;
//! * [`route`]: the rule that picks the version readers get.
//!
//! `sqlite` and `cassandra` keep both contracts; `tests/it` runs one conformance suite over them.

#[cfg(feature = "cassandra")]
pub mod cassandra;
mod catalog;
pub mod infer;
pub mod publish;
mod query;
mod recycle;
pub mod row;
mod schema;
pub mod source;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod tables;

pub use catalog::{
    Catalog, ChangeError, CheckResult, Edit, Forced, Heartbeat, Snapshot, Status, Story,
    TableVersion, ViewLease, include, pin, rollback, route, unpin,
};
pub use helenus_cql::rewrite::TableName;
pub use recycle::{RecycleOptions, Recycled, recycle};
pub use schema::{Column, SchemaError, TableSchema};
pub use tables::{Chunk, Created, LoadOptions, Mark, Progress, Tables, Target};
