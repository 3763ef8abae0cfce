//! Looking at a file without changing it: what `helenus doctor` shows.

use std::path::Path;

use tokio::task::spawn_blocking;

use crate::{Component, Error, OpenError, Options, open, schema};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing yet; a store would be created.
    Absent,
    /// A store whose every page is as it was written.
    Sound {
        /// Its size.
        bytes: u64,
    },
}

/// Examines the file at `path`, every page of it; creates and changes nothing.
pub async fn inspect(
    path: impl AsRef<Path>,
    components: &[&'static Component],
) -> Result<Inspection, OpenError> {
    let path = path.as_ref().to_owned();
    let components = components.to_vec();
    let inspecting = spawn_blocking(move || examine(&path, &components));
    match inspecting.await {
        Ok(inspection) => inspection,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

fn examine(path: &Path, components: &[&Component]) -> Result<Inspection, OpenError> {
    if open::refuse_unusable(path)? {
        return Ok(Inspection::Absent);
    }
    let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path.to_owned(), &error);
    let connection = open::open_reader(path, &Options::default()).map_err(sqlite)?;
    open::refuse_newer(&connection, path)?;
    schema::refuse_newer(&connection, path, components)?;
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
    if verdict != "ok" {
        let source = Error::Corrupt { message: verdict };
        return Err(OpenError::Engine { path: path.to_owned(), source });
    }
    let metadata = std::fs::metadata(path)
        .map_err(|source| OpenError::Unreachable { path: path.to_owned(), source })?;
    Ok(Inspection::Sound { bytes: metadata.len() })
}
