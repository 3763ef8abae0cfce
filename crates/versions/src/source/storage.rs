//! Where the bytes of sources lie.

use std::io::{Error, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place that holds files; an object store can be one.
pub trait Storage: Send + Sync {
    /// The file at `path`, or all files below it, each with what tells one content from another.
    fn list(&self, path: &Path) -> Result<Vec<Entry>, Error>;

    /// Opens a file.
    fn open(&self, entry: &Entry) -> Result<Blob, Error>;
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
}

/// An open file, read at any place.
#[derive(Clone)]
pub struct Blob {
    bytes: u64,
    at: Arc<dyn ReadAt>,
}

/// Reads bytes at a place; fewer than asked for only at the end.
pub trait ReadAt: Send + Sync {
    /// How many bytes from `offset` on are in `buffer` now.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error>;
}

impl ReadAt for std::fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Blob {
    /// A file of so many bytes.
    pub fn new(bytes: u64, at: Arc<dyn ReadAt>) -> Self {
        Blob { bytes, at }
    }

    /// How long it is.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads it from the start.
    pub fn into_reader(self) -> BlobReader {
        self.reader_at(0)
    }

    /// Reads it from `offset` on.
    pub fn reader_at(self, offset: u64) -> BlobReader {
        BlobReader { blob: self, offset }
    }
}

/// Reads a file from some place on.
#[derive(Debug)]
pub struct BlobReader {
    blob: Blob,
    offset: u64,
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let count = self.blob.at.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A storage that counts what is read from it: how far a run is.
pub(crate) struct Counted<'a> {
    storage: &'a dyn Storage,
    read: Arc<AtomicU64>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(storage: &'a dyn Storage) -> Self {
        Counted { storage, read: Arc::default() }
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl Storage for Counted<'_> {
    fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        self.storage.list(path)
    }

    fn open(&self, entry: &Entry) -> Result<Blob, Error> {
        let Blob { bytes, at } = self.storage.open(entry)?;
        Ok(Blob::new(bytes, Arc::new(CountedBytes { at, read: Arc::clone(&self.read) })))
    }
}

struct CountedBytes {
    at: Arc<dyn ReadAt>,
    read: Arc<AtomicU64>,
}

impl ReadAt for CountedBytes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let count = self.at.read_at(buffer, offset)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

impl Storage for LocalFiles {
    fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        let mut found = Vec::new();
        walk(path, &mut found)?;
        found.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(found)
    }

    fn open(&self, entry: &Entry) -> Result<Blob, Error> {
        let file = std::fs::File::open(&entry.path)?;
        Ok(Blob::new(file.metadata()?.len(), Arc::new(file)))
    }
}

/// Collects files; what begins with a dot or an underline is somebody's marker, not data.
fn walk(path: &Path, found: &mut Vec<Entry>) -> Result<(), Error> {
    let about = std::fs::metadata(path)?;
    if !about.is_dir() {
        found.push(Entry { path: path.to_owned(), bytes: about.len() });
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(['.', '_']) {
            walk(&entry.path(), found)?;
        }
    }
    Ok(())
}
