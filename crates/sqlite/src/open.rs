//! Opening the file: is it ours, can it be written, and with which settings.
//!
//! Everything that could refuse the file looks at its header first, through a connection that takes it
//! for immutable: an ordinary one may write to a file merely by reading it. It is never opened without
//! SQLite: a process that closes a file loses all locks it has on it, those of its engines too.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use helenus_model::limits;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::{Component, OpenError, schema};

/// Marks the file as ours (offset 68 of the SQLite header): "HLNS".
pub const APPLICATION_ID: i32 = 0x484C_4E53;

/// The version of what is not a component's: header fields, journal mode, this file's rules.
const FORMAT: i64 = 1;

/// How long to wait before asking again for a lock that SQLite does not wait for by itself.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// How the engine uses the file.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections for reading.
    pub readers: usize,
    /// How long to wait for another process's lock.
    pub busy_timeout: Duration,
    /// The file grows to this size and no further; writes then fail as on a full disk.
    pub file_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            readers: limits::READERS,
            busy_timeout: limits::BUSY_TIMEOUT,
            file_bytes_max: None,
        }
    }
}

/// Opens or creates the file and returns its writing connection.
pub(crate) fn open(
    path: &Path,
    options: &Options,
    components: &[&Component],
) -> Result<Connection, OpenError> {
    refuse_unusable(path)?;
    let sqlite = |error: rusqlite::Error| OpenError::from_sqlite(path.to_owned(), &error);

    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(plain(path), flags).map_err(sqlite)?;
    connection.busy_timeout(options.busy_timeout).map_err(sqlite)?;
    // SQLite opens a file it may not write for reading, without a word.
    if connection.is_readonly("main").map_err(sqlite)? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    // To read it empties a file whose maker was killed in the first commit, mark and all.
    let found = refuse_newer(&connection, path)?;
    if found < FORMAT {
        // Before the switch to WAL, so that the mark is in the file itself from the first commit.
        connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
    }
    configure_writer(&connection, options).map_err(sqlite)?;
    if found < FORMAT {
        connection.pragma_update(None, "user_version", FORMAT).map_err(sqlite)?;
    }
    schema::migrate(&mut connection, path, components)?;
    Ok(connection)
}

fn configure_writer(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    switch_to_wal(connection, options.busy_timeout)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    // Moving the log into the file costs two more syncs and a write of every page that changed since
    // the last time: the larger the log, the fewer pages are written twice.
    connection.pragma_update(None, "wal_autocheckpoint", 8_192)?;
    // A long reader can keep the log from shrinking; once it ends, the file is cut to this.
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    if let Some(bytes) = options.file_bytes_max {
        let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(bytes / u64::from(page.max(1))).unwrap_or(i64::MAX);
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    connection.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// Two who switch a new file at once both hold it for reading; SQLite then refuses one of them at once,
/// whatever the busy time-out. The next attempt finds the file switched. For whoever only reads the file
/// SQLite waits at each attempt, so it is told not to wait long.
fn switch_to_wal(connection: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    let is_busy = |error: &rusqlite::Error| {
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
    };
    connection.busy_timeout(LOCK_PAUSE)?;
    let mut left = timeout;
    let switched = loop {
        let switched = connection.pragma_update(None, "journal_mode", "WAL");
        if left.is_zero() || !switched.as_ref().is_err_and(is_busy) {
            break switched;
        }
        std::thread::sleep(LOCK_PAUSE);
        left = left.saturating_sub(LOCK_PAUSE * 2);
    };
    connection.busy_timeout(timeout)?;
    switched
}

/// A connection for reading; the file has been opened by [`open`] before.
pub(crate) fn open_reader(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    // Opened for writing, because WAL keeps its index in a file that readers write too;
    // `query_only` is what keeps it from changing data.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(plain(path), flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Refuses what is not a store, by looking at it from outside; says whether the file is yet to be
/// created.
pub(crate) fn refuse_unusable(path: &Path) -> Result<bool, OpenError> {
    refuse_network_file_system(path)?;
    refuse_foreign(path)
}

/// Refuses a format this release does not know; returns the one found.
pub(crate) fn refuse_newer(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    let found = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| OpenError::from_sqlite(path.to_owned(), &error))?;
    if found > FORMAT {
        let (path, part) = (path.to_owned(), "file".to_owned());
        return Err(OpenError::Newer { path, part, found, known: FORMAT });
    }
    Ok(found)
}

/// Looks at the header; says whether the file is yet to be created.
fn refuse_foreign(path: &Path) -> Result<bool, OpenError> {
    let unreachable = |source| OpenError::Unreachable { path: path.to_owned(), source };
    let not_ours = |reason| Err(OpenError::NotOurs { path: path.to_owned(), reason });
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return not_ours("it is a folder"),
        Ok(metadata) if metadata.len() == 0 => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = parent(path);
            let metadata = std::fs::metadata(&folder).map_err(unreachable)?;
            if !metadata.is_dir() {
                return Err(unreachable(ErrorKind::NotADirectory.into()));
            }
            return Ok(true);
        }
        Err(error) => return Err(unreachable(error)),
    }
    let mark =
        mark_of(path).map_err(|error| match OpenError::from_sqlite(path.to_owned(), &error) {
            // The file is there, and nothing was to be written.
            OpenError::ReadOnly { .. } => unreachable(io::Error::other(error)),
            other => other,
        })?;
    if mark != APPLICATION_ID {
        return not_ours("it is the SQLite file of another program");
    }
    Ok(false)
}

/// The mark in the header of a SQLite file, whatever stands in the log beside it.
fn mark_of(path: &Path) -> rusqlite::Result<i32> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(immutable(path), flags)?;
    // Otherwise a header that tells of more pages than there are is damage. It does while the log is being
    // moved into the file, and after whoever moved it was killed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// A path that SQLite does not take for a URI: one that begins with `file:` would be.
fn plain(path: &Path) -> PathBuf {
    Path::new(".").join(path)
}

/// The URI of a file that is looked at and left alone.
fn immutable(path: &Path) -> OsString {
    let mut uri = if path.is_absolute() { b"file://".to_vec() } else { b"file:".to_vec() };
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => uri.extend(b"%25"),
            b'?' => uri.extend(b"%3f"),
            b'#' => uri.extend(b"%23"),
            byte => uri.push(*byte),
        }
    }
    uri.extend(b"?immutable=1");
    OsString::from_vec(uri)
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn refuse_network_file_system(path: &Path) -> Result<(), OpenError> {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else {
        return Ok(()); // not Linux: nothing to ask
    };
    let Ok(folder) = std::fs::canonicalize(parent(path)) else {
        return Ok(()); // a missing folder is reported where the file is opened
    };
    match file_system_of(&folder, &mounts) {
        Some(kind) if is_network(kind) => {
            let (path, kind) = (path.to_owned(), kind.to_owned());
            Err(OpenError::NetworkFileSystem { path, kind })
        }
        _ => Ok(()),
    }
}

fn is_network(kind: &str) -> bool {
    ["nfs", "cifs", "smb", "afs", "ceph", "glusterfs", "fuse.sshfs"]
        .iter()
        .any(|network| kind.starts_with(network))
}

/// The type of the file system that holds `folder`: the mount with the longest matching path,
/// the later one where two are equal.
fn file_system_of<'a>(folder: &Path, mounts: &'a str) -> Option<&'a str> {
    let entries = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        // Spaces in mount points are written as \040.
        let point = fields.next()?.replace("\\040", " ");
        folder.starts_with(&point).then_some((point.len(), fields.next()?))
    });
    entries.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_decides_about_a_folder() {
        let mounts = "/dev/a / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\n\
                      tmpfs /data/local tmpfs rw 0 0\nhost:/y /my\\040share cifs rw 0 0\n";
        let check = |folder: &str, kind| {
            assert_eq!(file_system_of(Path::new(folder), mounts), Some(kind), "{folder}");
        };
        check("/home", "ext4");
        check("/data/store", "nfs4");
        check("/data/local/store", "tmpfs");
        check("/database", "ext4");
        check("/my share/store", "cifs");
        assert!(is_network("nfs4") && is_network("cifs") && !is_network("ext4"));
    }
}
