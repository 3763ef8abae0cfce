//! Looking into the archive: partitions of so many versions each, found by division.

use std::ops::Range;

use helenus_model::limits::ARCHIVE_CHUNK;
use helenus_model::{OperationId, StreamId, Version};
use scylla::client::pager::TypedRowStream;

use super::classify::{page_error, read_error};
use super::resolve::span_of;
use super::rows::{ConditionRow, EventRow, condition_rows};
use super::{CassandraStore, Error};
use crate::append::Span;
use crate::contract::{Direction, Extent};

/// The partition of the archive that a version belongs to.
pub(super) fn chunk_of(version: Version) -> i64 {
    (version.as_i64() - 1) / i64::from(ARCHIVE_CHUNK)
}

/// The versions of a partition.
pub(super) fn versions_of(chunk: i64) -> Range<i64> {
    let size = i64::from(ARCHIVE_CHUNK);
    let first = chunk.saturating_mul(size).saturating_add(1);
    first..first.saturating_add(size)
}

/// A stream's head, as it stands once everything under way in its partition is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) extent: Extent,
    /// As they are stored, for conditions: absent before anything was retired.
    pub(super) truncated_before: Option<i64>,
    pub(super) archived_from: Option<i64>,
}

/// The head, by a serial read. A truncation that is seen in the rows of a stream is seen here,
/// even if its coordinator has not told all replicas yet.
pub(super) async fn head(
    store: &CassandraStore,
    stream_id: &StreamId,
) -> Result<Option<Head>, Error> {
    let (link, annex) = store.annex().await?;
    let asked = link.session.execute_unpaged(&annex.head, (stream_id.as_str(),));
    let rows = condition_rows(Box::pin(asked).await.map_err(read_error)?)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Head {
        extent: row.extent()?,
        truncated_before: row.truncated_before,
        archived_from: row.archived_from,
    }))
}

/// Events of one partition of the archive.
pub(super) async fn events(
    store: &CassandraStore,
    stream_id: &StreamId,
    direction: Direction,
    from: Version,
    extent: Extent,
) -> Result<TypedRowStream<EventRow>, Error> {
    let (link, annex) = store.annex().await?;
    let chunk = chunk_of(from);
    let within = versions_of(chunk);
    let (statement, low, high) = match direction {
        Direction::Forward => {
            let high = within.end.min(extent.truncated_before.as_i64());
            (&annex.forward, from.as_i64(), high)
        }
        Direction::Backward => {
            let low = within.start.max(extent.archived_from.as_i64());
            (&annex.backward, low, from.next().as_i64())
        }
    };
    let values = (stream_id.as_str(), chunk, low, high);
    let pager = Box::pin(link.session.execute_iter(statement.clone(), values)).await;
    pager.map_err(page_error)?.rows_stream().map_err(|error| Error::corrupt(error.to_string()))
}

/// The operation that wrote an archived event.
pub(super) async fn operation_at(
    store: &CassandraStore,
    stream_id: &StreamId,
    version: Version,
) -> Result<Vec<ConditionRow>, Error> {
    let (link, annex) = store.annex().await?;
    let values = (stream_id.as_str(), chunk_of(version), version.as_i64());
    let asked = link.session.execute_unpaged(&annex.operation_at, values);
    condition_rows(Box::pin(asked).await.map_err(read_error)?)
}

/// The versions of an operation's archived events, found by looking at every one.
pub(super) async fn events_of(
    store: &CassandraStore,
    stream_id: &StreamId,
    operation_id: OperationId,
    extent: Extent,
) -> Result<Option<Span>, Error> {
    if extent.archived_from == extent.truncated_before {
        return Ok(None);
    }
    let (link, annex) = store.annex().await?;
    let mut found: Option<Span> = None;
    let last = Version::new(extent.truncated_before.as_i64() - 1).unwrap_or(Version::FIRST);
    for chunk in chunk_of(extent.archived_from)..=chunk_of(last) {
        let values = (stream_id.as_str(), chunk, operation_id.as_uuid());
        let pager = link.session.execute_iter(annex.operation_events.clone(), values);
        let pager = Box::pin(pager).await.map_err(page_error)?;
        let rows = pager.rows_stream().map_err(|error| Error::corrupt(error.to_string()))?;
        if let Some(span) = span_of(rows).await? {
            let first = found.map_or(span.first, |found| found.first);
            found = Some(Span { first, last: span.last });
        } else if found.is_some() {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_one_partition() {
        for number in [1, 2, 499, 500, 501, 1_000, 1_001, i64::MAX] {
            let version = Version::new(number).unwrap();
            let within = versions_of(chunk_of(version));
            assert!(within.contains(&number) || number == i64::MAX, "{number} {within:?}");
        }
        assert_eq!(chunk_of(Version::FIRST), 0);
        assert_eq!(versions_of(1), 501..1_001);
    }
}
