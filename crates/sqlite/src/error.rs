//! What can go wrong with the file, in words that say where and what to do.

use std::borrow::Cow;
use std::path::PathBuf;

use helenus_model::{BackendError, Failure, Kind};
use rusqlite::ffi;

/// Why a file cannot be used as a store. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is no SQLite file, or another program's.
    #[error("{} is not a Helenus store: {reason}", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        reason: &'static str,
    },
    /// A later release wrote it.
    #[error(
        "{} was written by a newer release: its {part} has format {found}, this release knows {known}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The part of the file that is newer.
        part: String,
        /// The format found.
        found: i64,
        /// The latest format known here.
        known: i64,
    },
    /// Another process holds it.
    #[error("{} is locked by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It or its folder cannot be written.
    #[error("{} cannot be written", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be reached: a folder that is missing, a permission, a full disk.
    #[error("{} cannot be opened", path.display())]
    Unreachable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is on a file system whose locks cannot be trusted.
    #[error("{} is on a network file system ({kind}), where SQLite's locks are not reliable", path.display())]
    NetworkFileSystem {
        /// The file.
        path: PathBuf,
        /// The file system's name.
        kind: String,
    },
    /// SQLite refused it.
    #[error("{} cannot be opened", path.display())]
    Engine {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: Error,
    },
}

impl OpenError {
    pub(crate) fn from_sqlite(path: PathBuf, error: &rusqlite::Error) -> Self {
        match Error::from_sqlite(error) {
            Error::Locked => OpenError::Locked { path },
            Error::ReadOnly => OpenError::ReadOnly { path },
            // The folder has been seen to exist: what is left is that nothing may be made in it.
            Error::CannotOpen { .. } => OpenError::ReadOnly { path },
            Error::NotADatabase => OpenError::NotOurs { path, reason: "it is not a SQLite file" },
            source => OpenError::Engine { path, source },
        }
    }
}

impl Failure for OpenError {
    fn kind(&self) -> Kind {
        match self {
            OpenError::Locked { .. } => Kind::Unavailable,
            OpenError::Engine { source, .. } => source.kind(),
            _ => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            OpenError::NotOurs { .. } => "not_ours",
            OpenError::Newer { .. } => "newer",
            OpenError::Locked { .. } => "locked",
            OpenError::ReadOnly { .. } => "read_only",
            OpenError::Unreachable { .. } => "unreachable",
            OpenError::NetworkFileSystem { .. } => "network_file_system",
            OpenError::Engine { source, .. } => source.code(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            OpenError::NotOurs { .. } => "name another file; a new one is created where none is",
            OpenError::Newer { .. } => "use the release that wrote it, or a later one",
            OpenError::Locked { .. } => "wait for the other process, or stop it, and try again",
            OpenError::ReadOnly { .. } => {
                "make the file and its folder writable for this user, or name another file"
            }
            OpenError::Unreachable { .. } => {
                "check that its folder exists, and that this user may read both"
            }
            OpenError::NetworkFileSystem { .. } => "put the file on a local disk",
            OpenError::Engine { source, .. } => return source.remedy(),
        };
        Some(text.into())
    }
}

/// Why a read or a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk, or the limit set for the file, is full.
    #[error("the disk is full, or the store file has reached its size limit")]
    Full,
    /// Another process held the write lock for longer than the busy time-out.
    #[error("the store file is locked by another process")]
    Locked,
    /// The file became read-only.
    #[error("the store file cannot be written")]
    ReadOnly,
    /// The file's bytes are not what was written.
    #[error("the store file is damaged: {message}")]
    Corrupt {
        /// What SQLite said.
        message: String,
    },
    /// The file is not a SQLite file.
    #[error("the store file is not a SQLite file")]
    NotADatabase,
    /// The file, or one that SQLite keeps beside it, cannot be opened or made.
    #[error("the store file cannot be opened: {message}")]
    CannotOpen {
        /// What SQLite said.
        message: String,
    },
    /// The disk failed during a read, or before anything was committed.
    #[error("the disk failed: {message}")]
    Io {
        /// What SQLite said.
        message: String,
    },
    /// The disk failed during the commit: whether it took place shows when the file is reopened.
    #[error("the disk failed while committing: {message}")]
    CommitLost {
        /// What SQLite said.
        message: String,
    },
    /// Another write of the same commit met a full or failing disk, and all were undone.
    #[error("the commit was undone because another write in it met a full or failing disk")]
    Undone,
    /// A failed commit stopped the writer earlier; nothing was tried.
    #[error("writing has stopped after a failed commit")]
    Stopped,
    /// The engine is closed; nothing was tried.
    #[error("the store is closed")]
    Closed,
    /// A bug: the closure panicked. What it had written was rolled back.
    #[error("a store operation panicked")]
    Panicked,
    /// A bug or a constraint: SQLite refused a statement.
    #[error("SQLite refused a statement: {message}")]
    Statement {
        /// What SQLite said.
        message: String,
    },
}

impl Error {
    /// What an error of SQLite means.
    pub fn from_sqlite(error: &rusqlite::Error) -> Self {
        let message = error.to_string();
        let rusqlite::Error::SqliteFailure(code, _) = error else {
            return Error::Statement { message };
        };
        match code.code {
            ffi::ErrorCode::DiskFull => Error::Full,
            ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked => Error::Locked,
            ffi::ErrorCode::ReadOnly => Error::ReadOnly,
            ffi::ErrorCode::DatabaseCorrupt => Error::Corrupt { message },
            ffi::ErrorCode::NotADatabase => Error::NotADatabase,
            ffi::ErrorCode::CannotOpen => Error::CannotOpen { message },
            ffi::ErrorCode::SystemIoFailure => Error::Io { message },
            _ => Error::Statement { message },
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::from_sqlite(&error)
    }
}

impl From<Error> for BackendError {
    fn from(error: Error) -> Self {
        BackendError::new(error)
    }
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::Full
            | Error::Locked
            | Error::ReadOnly
            | Error::CannotOpen { .. }
            | Error::Io { .. }
            | Error::Undone
            | Error::Closed => Kind::Unavailable,
            Error::CommitLost { .. } => Kind::OutcomeUnknown,
            Error::Corrupt { .. } | Error::NotADatabase => Kind::Corrupt,
            Error::Stopped | Error::Panicked | Error::Statement { .. } => Kind::Fatal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::Full => "full",
            Error::Locked => "locked",
            Error::ReadOnly => "read_only",
            Error::Corrupt { .. } | Error::NotADatabase => "corrupt",
            Error::CannotOpen { .. } => "cannot_open",
            Error::Io { .. } => "io",
            Error::CommitLost { .. } => "commit_lost",
            Error::Undone => "undone",
            Error::Stopped => "stopped",
            Error::Closed => "closed",
            Error::Panicked => "panicked",
            Error::Statement { .. } => "statement",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            Error::Full | Error::Undone => "free some space, then try again",
            Error::Locked => "wait for the other process, or stop it, and try again",
            Error::ReadOnly | Error::CannotOpen { .. } => {
                "make the file and its folder writable for this user"
            }
            Error::Corrupt { .. } | Error::NotADatabase => {
                "restore the file from a backup; `helenus doctor` shows what is damaged"
            }
            Error::Io { .. } => "check the disk and the system's log",
            Error::CommitLost { .. } | Error::Stopped => {
                "check the disk, start again, and resolve or repeat the operation by its id"
            }
            Error::Closed | Error::Panicked | Error::Statement { .. } => return None,
        };
        Some(text.into())
    }
}
