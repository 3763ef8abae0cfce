//! Reading streams page by page; the driver fetches the next page while this one is read.
//!
//! Each version must follow the one before. Where it does not, events were retired under the
//! reader: the head says whether it goes on from the archive or has to end.

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use helenus_model::limits::EVENT_PAGE_MAX;
use helenus_model::{RecordedEvent, StreamId, Version};
use scylla::client::pager::{NextRowError, TypedRowStream};

use super::append::pause;
use super::archive::{self, Head};
use super::classify::page_error;
use super::rows::EventRow;
use super::{CassandraStore, Error};
use crate::contract::{self, Direction, Extent, ReadError, ReadEvents, StreamHead};
use crate::retention::Place;

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

/// Times a version that should be there is looked for again.
const LOOKS_MAX: u32 = 5;

struct Reader {
    store: CassandraStore,
    read: ReadEvents,
    /// The version that comes next; backward it is not known before the first was found.
    next: Option<Version>,
    remaining: u64,
    source: Source,
    looks: u32,
}

/// Where the next event comes from.
enum Source {
    /// The stream, which is to be opened at the next version.
    Stream,
    Rows(TypedRowStream<EventRow>),
    /// One partition of the archive.
    Archive(TypedRowStream<EventRow>, Opened),
    End,
}

/// A partition of the archive that was opened.
#[derive(Clone, Copy)]
struct Opened {
    /// The version that was to come first.
    at: Version,
    /// Where the stream's events were then.
    extent: Extent,
}

impl Reader {
    fn new(store: CassandraStore, read: ReadEvents) -> Self {
        let next = match read.direction {
            Direction::Forward => Some(read.from.unwrap_or(Version::FIRST)),
            Direction::Backward => None,
        };
        let remaining = read.limit.unwrap_or(u64::MAX);
        Reader { store, read, next, remaining, source: Source::Stream, looks: 0 }
    }

    async fn next(&mut self) -> Result<Option<RecordedEvent>, ReadError> {
        while self.remaining > 0 {
            let row = match &mut self.source {
                Source::End => return Ok(None),
                Source::Stream => {
                    let rows = Box::pin(open(&self.store, &self.read, self.next)).await;
                    self.source = Source::Rows(rows.map_err(backend)?);
                    continue;
                }
                Source::Rows(rows) | Source::Archive(rows, _) => rows.try_next().await,
            };
            match row.map_err(|error| backend(row_error(error)))? {
                Some(row) if self.is_next(&row) => return self.give(row).map(Some),
                Some(row) => {
                    // Backward, the first row found says where the stream ends.
                    self.next = self.next.or(Version::new(row.number()));
                    Box::pin(self.look()).await?;
                }
                None => Box::pin(self.rows_ended()).await?,
            }
        }
        Ok(None)
    }

    fn is_next(&self, row: &EventRow) -> bool {
        !row.is_emptied() && self.next.is_none_or(|next| next.as_i64() == row.number())
    }

    fn give(&mut self, row: EventRow) -> Result<RecordedEvent, ReadError> {
        let event = row.into_event(&self.read.stream_id).map_err(backend)?;
        self.looks = 0;
        self.remaining -= 1;
        self.next = match self.read.direction {
            Direction::Forward => Some(event.version.next()),
            Direction::Backward => Version::new(event.version.as_i64() - 1),
        };
        if self.next.is_none() {
            self.source = Source::End;
        }
        Ok(event)
    }

    /// There are no more rows where they came from.
    async fn rows_ended(&mut self) -> Result<(), ReadError> {
        match (&self.source, self.read.direction) {
            // The last event's row is always there: behind the last row nothing was truncated.
            (Source::Rows(_), Direction::Forward) => self.source = Source::End,
            (Source::Archive(_, opened), direction) => {
                let (Opened { at, extent }, next) = (*opened, self.next.unwrap_or(Version::FIRST));
                match (extent.place(next), direction) {
                    // Nothing came from it: what was there is somewhere else by now.
                    _ if next == at => self.look().await?,
                    (Place::Archived, _) => self.open_archive(next, extent).await?,
                    (Place::Live | Place::Beyond, Direction::Forward) => {
                        self.source = Source::Stream;
                    }
                    _ => self.look().await?,
                }
            }
            _ => self.look().await?,
        }
        Ok(())
    }

    /// The next version is not where it was looked for: asks the head where it is.
    async fn look(&mut self) -> Result<(), ReadError> {
        self.looks += 1;
        let head = archive::head(&self.store, &self.read.stream_id).await.map_err(backend)?;
        let Some(Head { extent, .. }) = head else {
            self.source = Source::End;
            return Ok(());
        };
        let wanted = self.next.or(self.read.from).unwrap_or(extent.head);
        let next = match self.read.direction {
            Direction::Forward => wanted,
            Direction::Backward => wanted.min(extent.head),
        };
        self.next = Some(next);
        match extent.place(next) {
            Place::Dropped => return Err(ReadError::Truncated { first: extent.archived_from }),
            Place::Beyond => self.source = Source::End,
            Place::Archived if self.looks <= LOOKS_MAX => self.open_archive(next, extent).await?,
            Place::Live if self.looks <= LOOKS_MAX => self.source = Source::Stream,
            Place::Archived | Place::Live => {
                let stream_id = &self.read.stream_id;
                let message = format!("stream {stream_id}: version {next} is missing");
                return Err(backend(Error::corrupt(message)));
            }
        }
        if self.looks > 1 {
            pause(&self.store.ports, self.looks).await;
        }
        Ok(())
    }

    async fn open_archive(&mut self, next: Version, extent: Extent) -> Result<(), ReadError> {
        let (stream_id, direction) = (&self.read.stream_id, self.read.direction);
        let rows = archive::events(&self.store, stream_id, direction, next, extent).await;
        self.source = Source::Archive(rows.map_err(backend)?, Opened { at: next, extent });
        Ok(())
    }
}

async fn open(
    store: &CassandraStore,
    read: &ReadEvents,
    next: Option<Version>,
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
    let values = (read.stream_id.as_str(), next.or(read.from).map_or(end, Version::as_i64));
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
