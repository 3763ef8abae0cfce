//! Readers: a bounded set of connections, each used by one read at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::{Error, Options, open};

/// Connections are opened when first needed and kept.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    options: Options,
    free: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, options: Options) -> Self {
        let turns = Arc::new(Semaphore::new(options.readers.max(1)));
        Readers { path, options, free: Mutex::new(Vec::new()), turns }
    }

    /// Runs `work` on a snapshot: all its statements see the same state.
    pub(crate) async fn read<F, T, E>(self: &Arc<Self>, work: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return Err(E::from(Error::Closed));
        };
        let readers = Arc::clone(self);
        let done = spawn_blocking(move || {
            let connection = readers.take()?;
            let result = snapshot(&connection, work);
            readers.give_back(connection);
            drop(turn);
            result
        });
        // Fails only when the runtime shuts down under the read.
        done.await.unwrap_or_else(|_| Err(E::from(Error::Closed)))
    }

    /// Waits for running reads, lets no more begin, and closes the connections.
    pub(crate) async fn close(&self) {
        let all = u32::try_from(self.options.readers.max(1)).unwrap_or(u32::MAX);
        // Fails only if it was closed before.
        drop(self.turns.acquire_many(all).await);
        self.turns.close();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn take(&self) -> Result<Connection, Error> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(connection) => Ok(connection),
            None => Ok(open::open_reader(&self.path, &self.options)?),
        }
    }

    fn give_back(&self, connection: Connection) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

fn snapshot<F, T, E>(connection: &Connection, work: F) -> Result<T, E>
where
    F: FnOnce(&Connection) -> Result<T, E>,
    E: From<Error>,
{
    let begin = || -> Result<_, Error> { Ok(connection.unchecked_transaction()?) };
    // Rolled back on drop: a snapshot has nothing to commit.
    let transaction = begin().map_err(E::from)?;
    catch_unwind(AssertUnwindSafe(|| work(&transaction)))
        .unwrap_or_else(|_| Err(E::from(Error::Panicked)))
}
