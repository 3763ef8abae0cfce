//! The embedded engine: one SQLite file, one writer thread with group commit, readers in parallel.
//!
//! Store, broker, metadata and target share one file. They hand closures to [`Engine::write`] and
//! [`Engine::read`], so that staging, settling and publishing can be one transaction, and nothing
//! but this crate opens, configures or locks the file.
//!
//! **Invariants**
//! - A write is answered only after its commit has reached the disk (`synchronous=FULL`).
//! - A write that fails leaves nothing behind, whatever else shared its commit.
//! - A file that is not ours, is newer, or cannot be written is left exactly as it was.
//!
//! ```
//! use helenus_sqlite::{Component, Engine, Error, Options};
//!
//! static NOTES: Component =
//!     Component { name: "notes", migrations: &["CREATE TABLE notes (text TEXT NOT NULL) STRICT"] };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("notes.db");
//! let engine = Engine::open(&path, Options::default(), &[&NOTES]).await?;
//! engine
//!     .write(|db| -> Result<_, Error> { Ok(db.execute("INSERT INTO notes VALUES ('hello')", [])?) })
//!     .await?;
//! let count: i64 = engine
//!     .read(|db| -> Result<_, Error> {
//!         Ok(db.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
//!     })
//!     .await?;
//! assert_eq!(count, 1);
//! engine.close().await;
//! # Ok(())
//! # }
//! ```

mod engine;
mod error;
mod inspect;
mod open;
mod readers;
mod schema;
mod writer;

pub use engine::Engine;
pub use error::{Error, OpenError};
pub use inspect::{Inspection, inspect};
pub use open::{APPLICATION_ID, Options};
pub use rusqlite;
pub use schema::Component;
