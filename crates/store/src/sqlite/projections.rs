//! Projections in the file: tables that follow the feed, their checkpoint in the same transaction.
//!
//! Every build of a projection is a generation with tables of its own, `{name}__g{generation}`, and a
//! subscription of its own, `{projection}@{generation}`. Readers use views of the plain names, which
//! stand for the live generation; a rebuild fills the next one beside it and swaps the views.

mod effect;
mod error;
mod generation;
mod projector;
mod sql;

use std::fmt;

use helenus_model::RecordedEvent;
use rusqlite::Connection;

use crate::contract::SubscriptionName;
use crate::subscription::BoxError;
pub use error::ProjectionError;
pub(super) use generation::{drop_all, refuse_name, tables};
pub use projector::{Projector, ProjectorOptions};
pub use sql::SqlProjection;

/// Fills tables of the file from the feed.
///
/// Both functions run on the writer's thread, inside its transaction, and may run twice for one
/// commit: they depend on nothing but the event and their own tables, and neither begin nor end a
/// transaction.
///
/// See [`Projector`] for an example.
pub trait Projection: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> SubscriptionName;

    /// The version of this code: whoever changes what the tables contain changes it, and rebuilds.
    fn version(&self) -> String;

    /// Creates the tables and indexes, each under the name that `output` gives it.
    fn create(&self, output: &Output<'_>) -> Result<(), BoxError>;

    /// Applies the next event.
    fn apply(&self, output: &Output<'_>, event: &RecordedEvent) -> Result<(), BoxError>;
}

/// Where a projection writes: the transaction, and what its tables are called in it.
pub struct Output<'a> {
    db: &'a Connection,
    generation: i64,
    position: i64,
}

impl<'a> Output<'a> {
    /// The connection, in a transaction that also moves the projection's checkpoint.
    pub fn connection(&self) -> &'a Connection {
        self.db
    }

    /// What the table, index or trigger that readers know by `name` is called, quoted for SQL.
    pub fn table(&self, name: &str) -> String {
        physical(name, self.generation)
    }

    /// The event's place in the feed; 0 while tables are created.
    pub fn position(&self) -> i64 {
        self.position
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// A generation's own name for something, quoted.
fn physical(name: &str, generation: i64) -> String {
    quoted(&format!("{name}{}", suffix(generation)))
}

fn suffix(generation: i64) -> String {
    format!("__g{generation}")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
