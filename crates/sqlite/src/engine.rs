//! The handle everything else holds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use helenus_model::limits::WRITE_QUEUE_MAX;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;

use crate::readers::Readers;
use crate::writer::{self, Request, Write};
use crate::{Component, Error, OpenError, Options, open};

/// An open store file. Cheap to clone; the file closes when the last clone is gone.
///
/// See the crate's documentation for an example.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    queue: mpsc::Sender<Request>,
    commits: watch::Receiver<u64>,
    readers: Arc<Readers>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Opens the file, creates it where there is none, and brings `components` up to date.
    pub async fn open(
        path: impl AsRef<Path>,
        options: Options,
        components: &[&'static Component],
    ) -> Result<Engine, OpenError> {
        let path = path.as_ref().to_owned();
        let components = components.to_vec();
        let opening = spawn_blocking(move || {
            let connection = open::open(&path, &options, &components)?;
            Self::start(path, options, connection)
        });
        match opening.await {
            Ok(engine) => engine,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    fn start(path: PathBuf, options: Options, connection: Connection) -> Result<Engine, OpenError> {
        let (queue, jobs) = mpsc::channel(WRITE_QUEUE_MAX);
        let (committed, commits) = watch::channel(0);
        let writer = std::thread::Builder::new()
            .name("helenus-writer".to_owned())
            .spawn(move || writer::run(connection, jobs, &committed))
            .map_err(|source| OpenError::Unreachable { path: path.clone(), source })?;
        let readers = Arc::new(Readers::new(path.clone(), options));
        let writer = Mutex::new(Some(writer));
        Ok(Engine { shared: Arc::new(Shared { path, queue, commits, readers, writer }) })
    }

    /// Runs `work` in a transaction and answers once it is on the disk.
    ///
    /// Writes that wait at the same time share a commit. If `work` returns an error, what it wrote
    /// is undone and the others are not affected; `work` may be run a second time for that, so it
    /// must depend on nothing but the file and its own values. One that changes the schema changes a
    /// row before it does, or a failure would leave the schema behind. A caller that stops waiting
    /// does not stop the write.
    pub async fn write<F, T, E>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let request = Request::Write(Box::new(Write::new(work, reply)));
        if self.shared.queue.send(request).await.is_err() {
            return Err(E::from(Error::Closed));
        }
        answer.await.unwrap_or_else(|_| Err(E::from(Error::Closed)))
    }

    /// Runs `work` on a snapshot of the file, beside other reads and the writer.
    pub async fn read<F, T, E>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.shared.readers.read(work).await
    }

    /// Changes with every commit of this process: what a tail or a relay waits on.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.shared.commits.clone()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Finishes what is queued, closes the file and waits until it is closed.
    ///
    /// Other clones of this handle get [`Error::Closed`] from then on.
    pub async fn close(&self) {
        // Readers first: the last connection to close moves the log into the file, and only the
        // writer's may write.
        self.shared.readers.close().await;
        // Fails only if the writer has ended already.
        drop(self.shared.queue.send(Request::Close).await);
        let writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let joined = spawn_blocking(move || writer.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the store's writer thread panicked");
            }
        }
    }
}
