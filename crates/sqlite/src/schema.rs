//! Tables of the parts that share the file, and how they are brought up to date.
//!
//! Each part counts its own migrations, so a program built without some part can still use the
//! file. A part that is newer in the file than here stops the opening.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::OpenError;

/// A part's tables: what it has to run, in order, to get from nothing to today.
///
/// A migration that has been released is never changed; a change is a further entry.
#[derive(Debug)]
pub struct Component {
    /// The part's name, unique in the file.
    pub name: &'static str,
    /// Statements separated by semicolons, one entry a version.
    pub migrations: &'static [&'static str],
}

impl Component {
    fn version(&self) -> i64 {
        i64::try_from(self.migrations.len()).unwrap_or(i64::MAX)
    }
}

/// Brings every part of `components` up to date, in one transaction; writes nothing if all are.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    components: &[&Component],
) -> Result<(), OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path.to_owned(), &error);
    if pending(connection, path, components)?.is_empty() {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
    transaction
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS helenus_components (
                 component TEXT PRIMARY KEY NOT NULL,
                 version   INTEGER NOT NULL
             ) STRICT, WITHOUT ROWID",
        )
        .map_err(sqlite)?;
    // Asked again under the lock: another process may have migrated meanwhile.
    for (component, done) in pending(&transaction, path, components)? {
        for migration in component.migrations.iter().skip(usize::try_from(done).unwrap_or(0)) {
            transaction.execute_batch(migration).map_err(sqlite)?;
        }
        transaction
            .execute(
                "INSERT INTO helenus_components VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET version = excluded.version",
                (component.name, component.version()),
            )
            .map_err(sqlite)?;
    }
    transaction.commit().map_err(sqlite)
}

/// Refuses a file in which a part is newer than here.
pub(crate) fn refuse_newer(
    connection: &Connection,
    path: &Path,
    components: &[&Component],
) -> Result<(), OpenError> {
    pending(connection, path, components).map(drop)
}

/// The parts with migrations to run, each with the number already run.
fn pending<'a>(
    connection: &Connection,
    path: &Path,
    components: &[&'a Component],
) -> Result<Vec<(&'a Component, i64)>, OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path.to_owned(), &error);
    let known: bool = connection
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'helenus_components')",
            [],
            |row| row.get(0),
        )
        .map_err(sqlite)?;
    let mut pending = Vec::new();
    for component in components {
        let mut done = 0;
        if known {
            let query = "SELECT version FROM helenus_components WHERE component = ?1";
            let found = connection.query_row(query, [component.name], |row| row.get(0));
            done = found.optional().map_err(sqlite)?.unwrap_or(0);
        }
        let newest = component.version();
        if done > newest {
            let (path, part) = (path.to_owned(), component.name.to_owned());
            return Err(OpenError::Newer { path, part, found: done, known: newest });
        }
        if done < newest {
            pending.push((*component, done));
        }
    }
    Ok(pending)
}
