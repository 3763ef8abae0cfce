//! The engine on real files: opening, sharing commits, failing, crashing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

mod crash;
mod groups;
mod opening;

use helenus_sqlite::{Component, Engine, Error, Options};

/// A table of pairs: a write that puts in one half and not the other was not atomic.
static PAIRS: Component = Component {
    name: "pairs",
    migrations: &["CREATE TABLE pairs (id INTEGER NOT NULL, half TEXT NOT NULL,
                   PRIMARY KEY (id, half)) STRICT, WITHOUT ROWID"],
};

async fn open(path: &std::path::Path) -> Engine {
    Engine::open(path, Options::default(), &[&PAIRS]).await.expect("the file opens")
}

async fn insert_pair(engine: &Engine, id: i64) -> Result<(), Error> {
    engine
        .write(move |db| -> Result<(), Error> {
            for half in ["left", "right"] {
                db.prepare_cached("INSERT INTO pairs VALUES (?1, ?2)")?.execute((id, half))?;
            }
            Ok(())
        })
        .await
}

async fn count(engine: &Engine) -> i64 {
    let rows = engine.read(|db| -> Result<i64, Error> {
        Ok(db.query_row("SELECT count(*) FROM pairs", [], |row| row.get(0))?)
    });
    rows.await.expect("the file can be read")
}
