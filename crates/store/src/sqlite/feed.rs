//! The feed of a file: its global sequence, which has no gaps because one writer counts it in the
//! transaction that appends.
//!
//! Events that were archived are given like the others. Where some were dropped the reader is told
//! how many; a number that is neither stored nor among the dropped ones is damage.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{Stream, stream};
use helenus_model::StreamId;
use helenus_model::limits::{EVENT_PAGE_BYTES, EVENT_PAGE_MAX};
use helenus_sqlite::{Engine, Error};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use super::SqliteStore;
use super::events::read::{COLUMNS, event};
use crate::contract::{self, Feed, FeedItem, Position, ReadError, ReadFeed};

/// How often a follower looks for what other processes wrote; its own process wakes it at once.
const POLL: Duration = Duration::from_millis(100);

impl Feed for SqliteStore {
    fn feed(
        &self,
        read: ReadFeed,
    ) -> impl Stream<Item = Result<FeedItem, ReadError>> + Send + use<> {
        let follower = Follower::new(self.engine.clone(), read);
        stream::try_unfold(follower, |mut follower| async move {
            let item = follower.next().await?;
            Ok(item.map(|item| (item, follower)))
        })
    }
}

struct Follower {
    engine: Engine,
    commits: watch::Receiver<u64>,
    read: ReadFeed,
    page: VecDeque<(i64, FeedItem)>,
    /// The last sequence number given, once it is known.
    after: Option<i64>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There may be more.
    Reading,
    /// The reader has been told that there is nothing more.
    CaughtUp,
}

impl Follower {
    fn new(engine: Engine, read: ReadFeed) -> Self {
        let commits = engine.commits();
        let page = VecDeque::new();
        Follower { engine, commits, read, page, after: None, state: State::Reading }
    }

    async fn next(&mut self) -> Result<Option<FeedItem>, ReadError> {
        if self.read.limit == Some(0) {
            return Ok(None);
        }
        while self.page.is_empty() {
            if self.state == State::CaughtUp {
                if !self.read.follow {
                    return Ok(None);
                }
                self.wait().await;
            }
            // Seen before the read: a commit during it is read again for, never missed.
            self.commits.mark_unchanged();
            self.fetch().await?;
            if self.page.is_empty() && self.state == State::Reading {
                self.state = State::CaughtUp;
                return Ok(Some(FeedItem::CaughtUp));
            }
        }
        self.state = State::Reading;
        let Some((sequence, item)) = self.page.pop_front() else { return Ok(None) };
        self.after = Some(sequence);
        if matches!(item, FeedItem::Event { .. }) {
            self.read.limit = self.read.limit.map(|limit| limit - 1);
        }
        Ok(Some(item))
    }

    /// Until something was committed here, or may have been elsewhere.
    async fn wait(&mut self) {
        let changed = tokio::time::timeout(POLL, self.commits.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            // The writer has ended: only other processes write now.
            tokio::time::sleep(POLL).await;
        }
    }

    async fn fetch(&mut self) -> Result<(), ReadError> {
        let after = match (self.after, &self.read.after) {
            (Some(after), _) => after,
            (None, None) => 0,
            (None, Some(position)) => sequence(position)
                .ok_or_else(|| ReadError::Position { position: position.clone() })?,
        };
        let page = self.engine.read(move |db| fetch(db, after)).await;
        self.page = page.map_err(contract::Error::from)?;
        Ok(())
    }
}

/// The number a position stands for.
pub(super) fn sequence(position: &Position) -> Option<i64> {
    position.as_str().parse().ok().filter(|sequence| *sequence >= 0)
}

/// The number of the last event ever appended, 0 before the first.
pub(super) fn head(db: &Connection) -> Result<i64, Error> {
    let mut query = db.prepare_cached(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'helenus_event_streams'",
    )?;
    Ok(query.query_row([], |row| row.get(0))?)
}

/// What follows `after`, each item with the number it leaves the reader at.
pub(super) fn fetch(db: &Connection, after: i64) -> Result<VecDeque<(i64, FeedItem)>, Error> {
    let mut query = db.prepare_cached(&format!(
        "SELECT global_sequence, stream_id, {COLUMNS} FROM helenus_event_streams
         WHERE global_sequence > ?1
         UNION ALL
         SELECT global_sequence, stream_id, {COLUMNS} FROM helenus_event_archive
         WHERE global_sequence > ?1
         ORDER BY global_sequence LIMIT ?2"
    ))?;
    let mut rows = query.query(params![after, EVENT_PAGE_MAX])?;
    let mut page = VecDeque::new();
    let (mut bytes, mut last) = (0, after);
    while let Some(row) = rows.next()? {
        let (sequence, text): (i64, String) = (row.get(0)?, row.get(1)?);
        let stream_id = StreamId::new(text).map_err(|error| Error::Corrupt {
            message: format!("event {sequence} of the feed: {error}"),
        })?;
        if sequence != last + 1 {
            let dropped = dropped(db, last)?.filter(|(end, _)| end + 1 == sequence);
            page.push_back(dropped.ok_or_else(|| Error::Corrupt {
                message: format!("event {} of the feed is missing", last + 1),
            })?);
        }
        last = sequence;
        let event = event(&stream_id, row)?;
        bytes += event.payload.bytes.len();
        let position = Position::new(sequence.to_string());
        page.push_back((sequence, FeedItem::Event { position, event }));
        if bytes >= EVENT_PAGE_BYTES {
            break;
        }
    }
    if page.is_empty() {
        page.extend(dropped(db, last)?);
    }
    Ok(page)
}

/// The events right after number `after` that were dropped, and the number they end with.
fn dropped(db: &Connection, after: i64) -> Result<Option<(i64, FeedItem)>, Error> {
    let last: Option<i64> = db
        .prepare_cached(
            "SELECT last_sequence FROM helenus_event_dropped
             WHERE first_sequence <= ?1 + 1 AND last_sequence > ?1
             ORDER BY first_sequence DESC LIMIT 1",
        )?
        .query_row([after], |row| row.get(0))
        .optional()?;
    Ok(last.map(|last| {
        let count = u64::try_from(last - after).unwrap_or(0);
        (last, FeedItem::Dropped { position: Position::new(last.to_string()), count })
    }))
}
