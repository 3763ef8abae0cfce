//! What an agent asks its node.

use std::future::Future;

use helenus_cql::schema::TableId;
use helenus_model::BackendError;

use crate::offline::Truncation;

/// What a node is asked again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Another one where the schema is another, or other tables are captured.
    pub schema_version: Option<String>,
    /// Where tables were last emptied.
    pub truncations: Vec<(TableId, Truncation)>,
}

/// Where the schema comes from.
pub trait SchemaSource: Send + Sync {
    /// The schema now, as a document.
    fn fetch(&self) -> impl Future<Output = Result<String, BackendError>> + Send;

    /// What has changed since; a source that does not know says the same each time.
    fn pulse(&self) -> impl Future<Output = Result<Pulse, BackendError>> + Send {
        std::future::ready(Ok(Pulse::default()))
    }

    /// Bytes that `cdc_raw` may hold, if the source knows.
    fn total_space(&self) -> impl Future<Output = Option<u64>> + Send;

    /// Whether the source says that nothing is logged for readers.
    fn is_cdc_off(&self) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }
}

/// A document that does not change: for tests and for reading without a node.
impl SchemaSource for String {
    async fn fetch(&self) -> Result<String, BackendError> {
        Ok(self.clone())
    }

    async fn total_space(&self) -> Option<u64> {
        None
    }
}
