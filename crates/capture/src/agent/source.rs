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

/// On which terms a node keeps its log for readers; the default is what is taken for granted where nobody
/// tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// Bytes that `cdc_raw` may hold.
    pub total_space: Option<u64>,
    /// Nothing is logged for readers (`cdc_enabled: false`).
    pub is_cdc_off: bool,
    /// Where the folder is full, what nobody has read is deleted (`cdc_block_writes: false`).
    pub deletes_unread: bool,
}

/// Where the schema comes from.
pub trait SchemaSource: Send + Sync {
    /// The schema now, as a document.
    fn fetch(&self) -> impl Future<Output = Result<String, BackendError>> + Send;

    /// What has changed since; a source that does not know says the same each time.
    fn pulse(&self) -> impl Future<Output = Result<Pulse, BackendError>> + Send {
        std::future::ready(Ok(Pulse::default()))
    }

    /// How the log is kept for readers, if the source knows.
    fn terms(&self) -> impl Future<Output = Option<Terms>> + Send {
        std::future::ready(None)
    }
}

/// A document that does not change: for tests and for reading without a node.
impl SchemaSource for String {
    async fn fetch(&self) -> Result<String, BackendError> {
        Ok(self.clone())
    }
}
