//! Copying events into the archive, one partition of it at a time, and comparing what arrived.
//!
//! Rows are copied column by column as they are stored, whatever is in them.

use futures_util::stream::{FuturesUnordered, StreamExt, TryStreamExt};
use helenus_model::limits::{ARCHIVE_REQUESTS_MAX, EVENT_PAGE_MAX};
use helenus_model::{ContentHash, Fingerprint, StreamId, Version};
use scylla::client::pager::TypedRowStream;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, MaybeUnset, Row};

use super::super::archive::{self, chunk_of, versions_of};
use super::super::classify::{page_error, request_error};
use super::super::read::row_error;
use super::super::{CassandraStore, Error};
use crate::contract::{Extent, RetireError, RetirePlan};

/// What came of copying.
pub(super) enum Copied {
    /// Events before this have their copies.
    Before(Version),
    /// Some had left the stream meanwhile: this is where its events are now.
    Moved(Extent),
}

/// A version, and what tells its row from another.
type Print = (i64, ContentHash);

/// Copies what `plan` wants of the partition that `from` belongs to, unless the copies are there.
pub(super) async fn chunk(
    store: &CassandraStore,
    plan: &RetirePlan,
    from: Version,
) -> Result<Copied, RetireError> {
    let stream_id = &plan.stream_id;
    let (low, high) = (from.as_i64(), versions_of(chunk_of(from)).end.min(plan.before.as_i64()));
    let count = usize::try_from(high - low).unwrap_or(usize::MAX);
    let before = copies(store, stream_id, low, high).await?;
    // As many as there should be: an earlier attempt may have come so far, or all the way.
    let write = before.len() != count;
    let originals = originals(store, stream_id, low, high, write).await?;
    let copies = if write { copies(store, stream_id, low, high).await? } else { before };
    let differing = (low..high).zip(0..).find(|(_, index)| {
        let original = originals.get(*index);
        original.is_none() || original != copies.get(*index)
    });
    let Some((number, index)) = differing else {
        return Version::new(high).map(Copied::Before).ok_or(RetireError::Contended);
    };
    // Others may have retired them meanwhile, and deleted even the copies if they were to be dropped.
    let head = archive::head(store, stream_id).await?.ok_or(RetireError::NoStream)?;
    if head.extent.truncated_before > from {
        return Ok(Copied::Moved(head.extent));
    }
    match originals.get(index).and_then(|(number, _)| Version::new(*number)) {
        Some(version) => Err(RetireError::CopyDiffers { version }),
        None => {
            let message = format!("stream {stream_id}: version {number} is missing");
            Err(Error::corrupt(message).into())
        }
    }
}

/// Prints of the events, each written to the archive on the way if `write` says so. Ends where
/// one is missing.
async fn originals(
    store: &CassandraStore,
    stream_id: &StreamId,
    low: i64,
    high: i64,
    write: bool,
) -> Result<Vec<Print>, Error> {
    let (_, annex) = store.annex().await?;
    let values = (stream_id.as_str(), low, high);
    let mut rows = open(store, &annex.originals, values).await?;
    let mut under_way = FuturesUnordered::new();
    let mut prints = Vec::new();
    let mut next = low;
    while let Some(row) = rows.try_next().await.map_err(row_error)? {
        let print = print(&row)?;
        if print.0 != next {
            break;
        }
        next += 1;
        prints.push(print);
        if write {
            if under_way.len() >= ARCHIVE_REQUESTS_MAX {
                under_way.next().await.transpose()?;
            }
            under_way.push(Box::pin(copy(store, stream_id, row)));
        }
    }
    while under_way.next().await.transpose()?.is_some() {}
    Ok(prints)
}

/// Prints of the copies that are in the archive.
async fn copies(
    store: &CassandraStore,
    stream_id: &StreamId,
    low: i64,
    high: i64,
) -> Result<Vec<Print>, Error> {
    let (_, annex) = store.annex().await?;
    let chunk = Version::new(low).map_or(0, chunk_of);
    let values = (stream_id.as_str(), chunk, low, high);
    let mut rows = open(store, &annex.copies, values).await?;
    let mut prints = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(row_error)? {
        prints.push(print(&row)?);
    }
    Ok(prints)
}

async fn open(
    store: &CassandraStore,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<TypedRowStream<Row>, Error> {
    let (link, _) = store.annex().await?;
    let mut statement = statement.clone();
    // Two pages are held at a time, and an event may be large.
    statement.set_page_size(i32::try_from(EVENT_PAGE_MAX / 5).unwrap_or(1));
    let pager = Box::pin(link.session.execute_iter(statement, values)).await.map_err(page_error)?;
    pager.rows_stream().map_err(|error| Error::corrupt(error.to_string()))
}

fn print(row: &Row) -> Result<Print, Error> {
    let Some(Some(CqlValue::BigInt(version))) = row.columns.first() else {
        return Err(Error::corrupt("a row of the archive without a version"));
    };
    Ok((*version, Fingerprint::new().text(&format!("{:?}", row.columns)).hash()))
}

/// Writes one row to the archive. Written twice it is the same row.
async fn copy(store: &CassandraStore, stream_id: &StreamId, row: Row) -> Result<(), Error> {
    let (link, annex) = store.annex().await?;
    let Some(Some(CqlValue::BigInt(number))) = row.columns.first() else {
        return Err(Error::corrupt("a row of the archive without a version"));
    };
    let chunk = Version::new(*number).map_or(0, chunk_of);
    let key = [CqlValue::Text(stream_id.to_string()), CqlValue::BigInt(chunk)];
    // What is absent stays unset: a null would be a tombstone.
    let columns =
        row.columns.into_iter().map(|value| value.map_or(MaybeUnset::Unset, MaybeUnset::Set));
    let values: Vec<_> = key.into_iter().map(MaybeUnset::Set).chain(columns).collect();
    let sent = link.session.execute_unpaged(&annex.copy, values).await;
    sent.map(drop).map_err(|error| request_error("copy an event", error))
}
