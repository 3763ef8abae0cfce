//! The event store's contract, kept by the modules beside this one.

use std::sync::Arc;

use futures_util::Stream;
use helenus_model::{OperationId, RecordedEvent, StreamId, Version};

use super::{CassandraStore, append, read, resolve};
use crate::append::Plan;
use crate::contract::{
    Append, AppendError, Appended, Error, EventStore, ReadError, ReadEvents, Resolved, StreamHead,
};

impl EventStore for CassandraStore {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        let plan = Plan::new(append, self.bounds(), &self.ports)?;
        append::append(self, &Arc::new(plan)).await
    }

    fn read(
        &self,
        read: ReadEvents,
    ) -> impl Stream<Item = Result<RecordedEvent, ReadError>> + Send + use<> {
        read::events(self.clone(), read)
    }

    async fn version(&self, stream_id: &StreamId) -> Result<Option<Version>, Error> {
        Ok(append::head(self.link().await?, stream_id).await?)
    }

    async fn resolve(
        &self,
        stream_id: &StreamId,
        operation_id: OperationId,
    ) -> Result<Resolved, AppendError> {
        resolve::resolve(self, stream_id, operation_id).await
    }

    fn streams(&self) -> impl Stream<Item = Result<StreamHead, Error>> + Send + use<> {
        read::streams(self.clone())
    }
}
