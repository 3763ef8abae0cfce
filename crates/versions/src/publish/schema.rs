//! Where the schema of a run comes from.

use std::sync::Arc;

use super::feed::infer;
use super::{Publish, PublishError, SchemaFrom};
use crate::TableSchema;
use crate::catalog::{Snapshot, Status};
use crate::row::MappingError;
use crate::source::{Input, SourceError, Standard};

/// The schema as the run asks for it, with every column that its checks name.
pub(super) async fn schema(
    publish: &Arc<Publish>,
    input: &mut Input,
    snapshot: &Snapshot,
) -> Result<TableSchema, PublishError> {
    let schema = found(publish, input, snapshot).await?;
    has_checked_columns(&schema, publish)?;
    Ok(schema)
}

/// A check of a column that is not there would hold whatever is loaded.
pub(super) fn has_checked_columns(
    schema: &TableSchema,
    publish: &Publish,
) -> Result<(), PublishError> {
    let missing = publish.checks.max_nulls.keys().find(|name| schema.place(name).is_none());
    missing.map_or(Ok(()), |name| {
        let (name, what) = (name.as_str().into(), "column");
        Err(Box::new(MappingError::Unknown { option: "--max-nulls", name, what }).into())
    })
}

async fn found(
    publish: &Arc<Publish>,
    input: &mut Input,
    snapshot: &Snapshot,
) -> Result<TableSchema, PublishError> {
    match &publish.schema {
        SchemaFrom::Given(schema) => Ok(schema.clone()),
        SchemaFrom::Previous => {
            let last = snapshot.routed().or_else(|| {
                snapshot.versions.iter().rev().find(|row| row.status == Status::Completed)
            });
            let no_schema = || PublishError::NoSchema { table: Box::new(publish.table.clone()) };
            Ok(TableSchema::parse(&last.ok_or_else(no_schema)?.story.schema)?)
        }
        SchemaFrom::Infer { key } => {
            if input.has_standard() {
                input.standard = blocking(|| Ok(Standard::peek().map_err(standard_error)?)).await?;
            }
            let shown = Input { standard: input.standard.sample(), ..input.clone() };
            let (publish, key) = (Arc::clone(publish), key.clone());
            blocking(move || infer(&publish, &shown, &key)).await
        }
    }
}

fn standard_error(source: std::io::Error) -> SourceError {
    SourceError::Io { path: "standard input".into(), source }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PublishError> + Send + 'static,
) -> Result<T, PublishError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
