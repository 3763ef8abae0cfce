//! Streams of events in the file.
//!
//! An append is one closure for the writer: look the operation up, compare the head, write. A
//! conflict is found before anything is written, so it costs the others of its commit nothing.
//!
//! Two things differ from Cassandra's table, both because a transaction is to be had here. The
//! payload is one `BLOB`, whatever its type: nothing is gained by a second column for text when
//! `CAST(payload AS TEXT)` shows it. And an operation is remembered by the first of its own
//! events, through a partial index, instead of by a row that expires: it is settled for the life
//! of its events and costs one index entry, which ids that sort by time append at the index's end.

pub(super) mod read;
pub(super) mod write;

use futures_util::Stream;
use helenus_model::{OperationId, RecordedEvent, StreamId, Version};
use tokio::time::timeout;

use super::SqliteStore;
use crate::append::Plan;
use crate::contract::{
    Append, AppendError, Appended, Error, EventStore, ReadError, ReadEvents, Resolved, StreamHead,
};

impl EventStore for SqliteStore {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        let plan = Plan::new(append, self.bounds, &self.ports)?;
        let (operation_id, deadline) = (plan.operation_id, plan.deadline);
        let writing = self.engine.write(move |db| write::append(db, &plan));
        match timeout(deadline, writing).await {
            Ok(written) => written.map_err(|error| naming(operation_id, error)),
            // The write is in the writer's queue, or was when we stopped waiting.
            Err(_) => Err(AppendError::Unknown { operation_id, source: None }),
        }
    }

    fn read(
        &self,
        read: ReadEvents,
    ) -> impl Stream<Item = Result<RecordedEvent, ReadError>> + Send + use<> {
        read::events(self.engine.clone(), read)
    }

    async fn version(&self, stream_id: &StreamId) -> Result<Option<Version>, Error> {
        let stream_id = stream_id.clone();
        let extent = self.engine.read(move |db| write::extent(db, &stream_id)).await?;
        Ok(extent.map(|extent| extent.head))
    }

    async fn resolve(
        &self,
        stream_id: &StreamId,
        operation_id: OperationId,
    ) -> Result<Resolved, AppendError> {
        let (stream_id, now) = (stream_id.clone(), self.now());
        let window = self.bounds.operation_window;
        let resolved = self
            .engine
            .write(move |db| write::resolve(db, &stream_id, operation_id, now, window))
            .await
            .map_err(|error| naming(operation_id, error))?;
        resolved.ok_or(AppendError::OperationExpired { operation_id })
    }

    fn streams(&self) -> impl Stream<Item = Result<StreamHead, Error>> + Send + use<> {
        read::streams(self.engine.clone())
    }
}

/// An engine's error does not know the operation; whoever lost an answer needs it.
fn naming(operation_id: OperationId, error: AppendError) -> AppendError {
    match error {
        AppendError::Backend(error) => AppendError::from_backend(operation_id, error),
        error => error,
    }
}

impl From<helenus_sqlite::Error> for AppendError {
    fn from(error: helenus_sqlite::Error) -> Self {
        AppendError::Backend(error.into())
    }
}

impl From<rusqlite::Error> for AppendError {
    fn from(error: rusqlite::Error) -> Self {
        helenus_sqlite::Error::from(error).into()
    }
}
