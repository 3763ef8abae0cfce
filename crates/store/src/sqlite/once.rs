//! Effect and receipt in one transaction.

use helenus_model::{ContentHash, Timestamp};
use rusqlite::Connection;

use super::{SqliteStore, inbox};
use crate::contract::{Error, Received};
use crate::once::{ExactlyOnce, OnceError, begun_or_else};

impl SqliteStore {
    /// Runs `handler` on a message nobody has processed, in the transaction that records it.
    ///
    /// Exactly once: what the handler writes to the file and the receipt are both there or neither.
    /// It may be run a second time after what it wrote was undone (see [`helenus_sqlite`]), so it
    /// must do nothing that the file does not undo.
    pub async fn once<E>(
        &self,
        received: Received,
        content_hash: Option<ContentHash>,
        handler: impl Fn(&Connection) -> Result<Vec<u8>, E> + Send + 'static,
    ) -> Result<ExactlyOnce, OnceError<E>>
    where
        E: std::error::Error + Send + 'static,
    {
        let now = self.now();
        self.engine.write(move |db| once(db, &received, content_hash, now, &handler)).await
    }
}

/// The same in the caller's own transaction: the message is processed if and only if that commits.
pub fn once<E: std::error::Error + 'static>(
    transaction: &Connection,
    received: &Received,
    content_hash: Option<ContentHash>,
    now: Timestamp,
    handler: impl FnOnce(&Connection) -> Result<Vec<u8>, E>,
) -> Result<ExactlyOnce, OnceError<E>> {
    // Whoever writes is alone, so the attempt needs no name and no time.
    let begun = inbox::begin(transaction, received, content_hash, "transaction", now, now)?;
    let work = match begun_or_else(begun, received.message_id.clone())? {
        Ok(work) => work,
        Err(result) => return Ok(ExactlyOnce { result, repeated: true }),
    };
    let result = handler(transaction).map_err(OnceError::Handler)?;
    if !inbox::finish(transaction, &work, &result, now)? {
        return Err(OnceError::PassedOn { message_id: work.message_id });
    }
    Ok(ExactlyOnce { result, repeated: false })
}

impl<E: std::error::Error + 'static> From<helenus_sqlite::Error> for OnceError<E> {
    fn from(error: helenus_sqlite::Error) -> Self {
        OnceError::Backend(Error::from(error))
    }
}
