//! Versioned tables in a SQLite file.
//!
//! A version of `shop.features` is the table `"shop.features_v1"` of the file; its columns keep the
//! names of their CQL types, so that a query can print them as Cassandra would.

mod catalog;
mod query;
mod tables;

use std::path::Path;

use helenus_sqlite::{Component, Engine, OpenError, Options};
use helenus_store::Ports;

/// The catalog's tables in the file.
pub static COMPONENT: Component =
    Component { name: "versions", migrations: &[include_str!("sqlite/001-versions.sql")] };

/// Versions in one file.
#[derive(Clone, Debug)]
pub struct SqliteVersions {
    engine: Engine,
    ports: Ports,
}

impl SqliteVersions {
    /// Opens the file, creates it where there is none.
    pub async fn open(path: impl AsRef<Path>, ports: Ports) -> Result<Self, OpenError> {
        let engine = Engine::open(path, Options::default(), &[&COMPONENT]).await?;
        Ok(Self::on(engine, ports))
    }

    /// Uses a file that is open already, its [`COMPONENT`] up to date.
    pub fn on(engine: Engine, ports: Ports) -> Self {
        SqliteVersions { engine, ports }
    }

    /// The file.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
