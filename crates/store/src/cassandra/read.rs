//! Reading streams page by page; the driver fetches the next page while this one is read.

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use helenus_model::limits::EVENT_PAGE_MAX;
use helenus_model::{RecordedEvent, StreamId, Version};
use scylla::client::pager::{NextRowError, TypedRowStream};

use super::classify::page_error;
use super::rows::EventRow;
use super::{CassandraStore, Error};
use crate::continuity::Continuity;
use crate::contract::{self, Direction, ReadError, ReadEvents, StreamHead};

/// The events asked for.
pub(super) fn events(
    store: CassandraStore,
    read: ReadEvents,
) -> impl Stream<Item = Result<RecordedEvent, ReadError>> + Send + use<> {
    stream::try_unfold(Reader::new(store, read), |mut reader| async move {
        let event = reader.next().await?;
        Ok(event.map(|event| (event, reader)))
    })
}

struct Reader {
    store: CassandraStore,
    rows: Option<TypedRowStream<EventRow>>,
    remaining: u64,
    continuity: Continuity,
    read: ReadEvents,
}

impl Reader {
    fn new(store: CassandraStore, read: ReadEvents) -> Self {
        let continuity = Continuity::new(read.direction, read.from);
        let remaining = read.limit.unwrap_or(u64::MAX);
        Reader { store, rows: None, remaining, continuity, read }
    }

    async fn next(&mut self) -> Result<Option<RecordedEvent>, ReadError> {
        if self.remaining == 0 {
            return Ok(None);
        }
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let opened = Box::pin(open(&self.store, &self.read)).await.map_err(backend)?;
                self.rows.insert(opened)
            }
        };
        let Some(row) = rows.try_next().await.map_err(|error| backend(row_error(error)))? else {
            self.continuity.end()?;
            return Ok(None);
        };
        let event = row.into_event(&self.read.stream_id).map_err(backend)?;
        self.continuity.step(event.version)?;
        self.remaining -= 1;
        Ok(Some(event))
    }
}

async fn open(
    store: &CassandraStore,
    read: &ReadEvents,
) -> Result<TypedRowStream<EventRow>, Error> {
    let link = store.link().await?;
    let (statement, end) = match read.direction {
        Direction::Forward => (&link.statements.forward, 1),
        Direction::Backward => (&link.statements.backward, i64::MAX),
    };
    let mut statement = statement.clone();
    let wanted = u32::try_from(read.limit.unwrap_or(u64::MAX)).unwrap_or(u32::MAX);
    let page = i32::try_from(wanted.clamp(1, EVENT_PAGE_MAX)).unwrap_or(1);
    statement.set_page_size(page);
    let values = (read.stream_id.as_str(), read.from.map_or(end, Version::as_i64));
    let pager = link.session.execute_iter(statement, values).await.map_err(page_error)?;
    pager.rows_stream().map_err(|error| Error::corrupt(error.to_string()))
}

fn backend(error: Error) -> ReadError {
    ReadError::Backend(error.into())
}

pub(super) fn row_error(error: NextRowError) -> Error {
    match error {
        NextRowError::RowDeserializationError(error) => Error::corrupt(error.to_string()),
        error => Error::Unavailable { what: "read", source: Box::new(error) },
    }
}

/// Every stream, in the order of their tokens.
pub(super) fn streams(
    store: CassandraStore,
) -> impl Stream<Item = Result<StreamHead, contract::Error>> + Send + use<> {
    let open = async move {
        let link = store.link().await?;
        let pager = link.session.execute_iter(link.statements.heads.clone(), ());
        let pager = pager.await.map_err(page_error)?;
        let rows = pager.rows_stream::<(String, Option<i64>)>();
        rows.map_err(|error| Error::corrupt(error.to_string()))
    };
    let opened = stream::once(Box::pin(open));
    let rows = opened.map_ok(|rows| rows.map(|row| row.map_err(row_error))).try_flatten();
    rows.map(|row| Ok(head(row?)?))
}

fn head((text, number): (String, Option<i64>)) -> Result<StreamHead, Error> {
    let damaged = |reason: &dyn std::fmt::Display| Error::corrupt(format!("a head: {reason}"));
    let stream_id = StreamId::new(text).map_err(|error| damaged(&error))?;
    let version = number.and_then(Version::new).ok_or_else(|| damaged(&stream_id))?;
    Ok(StreamHead { stream_id, version })
}
