//! Reading committed records with a few consumers that are lent out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use helenus_model::Timestamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset as At, TopicPartitionList};
use tokio::time::Instant;

use super::clients::{Clients, Context};
use super::error::{self, code_of, is_without_leader};
use super::topics::LOOK_AGAIN;
use crate::contract::{self, Bounds, Error, Offset, Position, Record};

/// Consumers that wait for the next read.
const IDLE_MAX: usize = 8;

/// How far back the first look for a last record goes: it and the mark of its transaction.
const LOOK_BACK: i64 = 2;

/// A consumer of no group: it reads what it is told to.
pub(super) struct Reader {
    pub(super) consumer: BaseConsumer<Context>,
    pub(super) context: Context,
}

/// Lends out readers.
#[derive(Default)]
pub(super) struct Readers {
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    /// Runs `work`, which may block, with a reader.
    pub(super) fn with<T>(
        &self,
        clients: &Clients,
        work: impl FnOnce(&Reader) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reader = match idle {
            Some(reader) => reader,
            None => Reader::new(clients)?,
        };
        let done = work(&reader);
        // One that failed may be in any state; a new one costs a connection.
        if done.is_ok() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(reader);
            }
        }
        done
    }
}

impl Reader {
    fn new(clients: &Clients) -> Result<Self, Error> {
        let create = if clients.options.create_topics { "true" } else { "false" };
        let (consumer, context) = clients.make(&[
            // The library wants a group for every consumer; nothing is committed for it.
            ("group.id", "helenus.readers"),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "error"),
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
            ("allow.auto.create.topics", create),
            // The end is found by a fetch that finds nothing: it should not wait for more.
            ("fetch.wait.max.ms", "5"),
            ("fetch.error.backoff.ms", "20"),
        ])?;
        Ok(Reader { consumer, context })
    }

    /// What a request of this reader failed with.
    pub(super) fn failed(&self, clients: &Clients, what: String, source: KafkaError) -> Error {
        // What the client complains about is heard by polling only.
        drop(self.consumer.poll(Duration::ZERO));
        clients.failed(&self.context, what, source).into()
    }

    /// The first offset that is still there, and the one after the last committed record.
    pub(super) fn bounds(
        &self,
        clients: &Clients,
        topic: &str,
        partition: i32,
    ) -> Result<Bounds, Error> {
        let timeout = clients.options.timeout;
        let deadline = Instant::now() + timeout;
        loop {
            let moving = match self.consumer.fetch_watermarks(topic, partition, timeout) {
                Ok((start, end)) => return Ok(Bounds { start: Offset(start), end: Offset(end) }),
                Err(source) => source,
            };
            // A partition that was just made, or whose broker went away, has a leader soon.
            let is_moving = code_of(&moving).is_some_and(is_without_leader);
            if !is_moving || Instant::now() >= deadline {
                return Err(self.failed(clients, format!("read topic '{topic}'"), moving));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Records from `from` on, at most `limit`, as far as the partition reaches now.
    pub(super) fn read(
        &self,
        clients: &Clients,
        from: &Position,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        let partition = partition_number(from.partition);
        let bounds = self.bounds(clients, &from.topic, partition)?;
        let start = from.offset.max(bounds.start);
        if start >= bounds.end || limit == 0 {
            return Ok(Vec::new());
        }
        let what = || format!("read topic '{}'", from.topic);
        let mut place = TopicPartitionList::new();
        let assigned = place
            .add_partition_offset(&from.topic, partition, At::Offset(start.0))
            .and_then(|()| self.consumer.assign(&place));
        assigned.map_err(|source| self.failed(clients, what(), source))?;
        let read = self.take(clients, from, bounds.end, limit);
        self.consumer.unassign().map_err(|source| self.failed(clients, what(), source))?;
        read
    }

    fn take(
        &self,
        clients: &Clients,
        from: &Position,
        end: Offset,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        let what = || format!("read topic '{}'", from.topic);
        let deadline = Instant::now() + clients.options.timeout;
        let mut records = Vec::new();
        loop {
            match self.consumer.poll(deadline.saturating_duration_since(Instant::now())) {
                Some(Ok(message)) => match record(&message, from) {
                    Ok(record) => records.push(record),
                    // What stands before it is given first.
                    Err(_) if !records.is_empty() => return Ok(records),
                    Err(unreadable) => return Err(unreadable),
                },
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(records),
                Some(Err(source)) => match error::code_of(&source) {
                    Some(code) if error::is_passing(code) && Instant::now() < deadline => {}
                    _ => return Err(self.failed(clients, what(), source)),
                },
                None => {
                    let late = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
                    return Err(self.failed(clients, what(), late));
                }
            }
            let next = records.last().map(|record: &Record| record.position.offset.next());
            if records.len() >= limit || next.is_some_and(|next| next >= end) {
                return Ok(records);
            }
        }
    }

    /// The last record: looked for from the end backwards, because marks of transactions and aborted
    /// records stand between records.
    pub(super) fn last(
        &self,
        clients: &Clients,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Record>, Error> {
        let bounds = self.bounds(clients, topic, partition_number(partition))?;
        let mut back = LOOK_BACK;
        loop {
            let start = Offset(bounds.end.0.saturating_sub(back)).max(bounds.start);
            let mut from = Position { topic: topic.into(), partition, offset: start };
            let mut last = None;
            loop {
                let records = self.read(clients, &from, 1_000)?;
                let Some(record) = records.into_iter().next_back() else { break };
                from.offset = record.position.offset.next();
                last = Some(record);
            }
            if last.is_some() || start <= bounds.start {
                return Ok(last);
            }
            back = back.saturating_mul(8);
        }
    }
}

/// Kafka counts partitions with a sign.
pub(super) fn partition_number(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

fn record(message: &BorrowedMessage<'_>, place: &Position) -> Result<Record, Error> {
    let position = Position { offset: Offset(message.offset()), ..place.clone() };
    // The client library panics on a header whose name is not UTF-8; Kafka itself allows any bytes.
    let headers = catch_unwind(AssertUnwindSafe(|| headers(message)));
    let Ok(headers) = headers else {
        let (position, reason) = (position.to_string(), "a header's name is not UTF-8");
        return Err(Error::Unreadable { position, reason });
    };
    Ok(Record {
        position,
        key: message.key().map(<[u8]>::to_vec),
        headers,
        payload: message.payload().unwrap_or_default().to_vec(),
        timestamp: Timestamp::from_millis(message.timestamp().to_millis().unwrap_or_default()),
    })
}

fn headers(message: &BorrowedMessage<'_>) -> contract::Headers {
    let Some(headers) = message.headers() else { return Vec::new() };
    let owned = |value: Option<&[u8]>| value.unwrap_or_default().to_vec().into();
    headers.iter().map(|header| (header.key.to_owned().into(), owned(header.value))).collect()
}
