//! Real services under `target/services/`, started as plain processes.
//!
//! Three ways in:
//! * [`up`] and [`down`] manage the *shared* services of a checkout, for `cargo xtask`;
//! * [`Registry`] finds the shared services that are up, for tests;
//! * [`Instance`] is a *private* service of one test, which may kill, pause or fill it.
//!
//! Invariants: a process is signalled only by a recorded pid whose start time still matches; a
//! port is bound once by us before a service is told to use it; whatever is killed at whatever
//! moment, the next `up` finds what was left (the child writes its own pid file before it becomes
//! the service) and starts over.
//!
//! Linux only: process identity is read from `/proc`.

mod cassandra;
mod debezium;
mod error;
mod files;
mod instance;
mod java;
mod kafka;
mod lookup;
mod maven;
mod peers;
mod ports;
mod postgres;
mod privileges;
mod probe;
mod process;
mod redis;
mod schema_registry;
mod shared;
mod spec;
mod start;
mod state;
pub mod versions;
mod wheels;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use cassandra::certificates::{CA_FILE, CLIENT_FILES};
pub use debezium::Debezium;
pub use error::{Context, Error, Result};
pub use instance::{Instance, clear_failed, sweep_private};
pub use java::java17;
pub use lookup::{Endpoint, Registry, chromium};
pub use peers::{cqlsh, dsbulk};
pub use postgres::bin_directory as postgres_bin_directory;
pub use process::ProcessId;
pub use shared::{Status, Stopped, Up, down, status, up};
pub use spec::{Service, Spec};
pub use state::{Node, Record, StartedBy};

/// The environment variable that points tests at another services directory.
pub const DIRECTORY_VARIABLE: &str = "HELENUS_SERVICES";

/// The root of this workspace.
///
/// Cargo tells every program it runs where its package is, and that is believed first: what was
/// compiled in may be another checkout's, when two of them share a target directory.
#[must_use]
pub fn workspace() -> &'static Path {
    static WORKSPACE: OnceLock<PathBuf> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let compiled_in = Path::new(env!("CARGO_MANIFEST_DIR"));
        let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let is_root = |directory: &&Path| directory.join("testkit/src/services").is_dir();
        let root = told.as_deref().and_then(|package| package.ancestors().find(is_root));
        root.or(compiled_in.parent()).unwrap_or(compiled_in).to_owned()
    })
}

/// Where services live: `$HELENUS_SERVICES`, else `target/services` of this workspace.
#[must_use]
pub fn root() -> PathBuf {
    match std::env::var_os(DIRECTORY_VARIABLE) {
        // Services run in directories of their own, where a relative path would mean another.
        Some(path) if !path.is_empty() => std::path::absolute(&path).unwrap_or(path.into()),
        _ => workspace().join("target/services"),
    }
}

/// Downloads that outlive `down`: classpaths, runtimes, unpacked archives.
fn cache() -> PathBuf {
    root().join("cache")
}

/// The first program of that name on `PATH`.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
