//! Publishing without a transaction: an idempotent producer that keeps the order of each key.
//!
//! It never gives up on a record by itself (a record given up and one behind it delivered would be out
//! of order): when the time of a request is up, everything it has not sent is thrown away and the
//! producer is replaced.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::{Delivery, DeliveryFuture};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _, PurgeConfig};
use tokio::time::Instant;

use super::clients::{Clients, Context};
use super::error::{Error as KafkaFailure, code_of, is_refusal};
use crate::contract::{Error, NewRecord, Offset, Position};

/// Settings of every producer.
pub(super) const SETTINGS: [(&str, &str); 8] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Batches form while earlier ones are under way; waiting for more would only add to the delay.
    ("linger.ms", "1"),
    ("batch.num.messages", "10000"),
    ("batch.size", "1000000"),
    // The topic's own limit decides, not the library's.
    ("message.max.bytes", "100000000"),
    ("queue.buffering.max.messages", "500000"),
    ("queue.buffering.max.kbytes", "1048576"),
];

/// How long a full queue is given to drain.
const QUEUE_WAIT: Duration = Duration::from_millis(1);

/// The producer that all requests share, until it fails.
#[derive(Default)]
pub(super) struct Producers {
    current: Mutex<Option<Arc<Producer>>>,
}

struct Producer {
    client: FutureProducer<Context>,
    context: Context,
}

impl Producers {
    fn current(&self, clients: &Clients) -> Result<Arc<Producer>, Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = current.as_ref()
            && !producer.context.has_given_up()
        {
            return Ok(Arc::clone(producer));
        }
        let own = [("message.timeout.ms", "0"), ("enable.gapless.guarantee", "true")];
        let (client, context) = clients.make(&[SETTINGS.as_slice(), &own].concat())?;
        let producer = Arc::new(Producer { client, context });
        *current = Some(Arc::clone(&producer));
        Ok(producer)
    }

    /// Throws away what `producer` has not sent, so that nothing of it arrives late.
    fn discard(&self, producer: &Arc<Producer>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, producer)) {
            *current = None;
        }
        producer.client.purge(PurgeConfig::default().queue().inflight());
    }

    /// Publishes records, each to its partition.
    pub(super) async fn publish(
        &self,
        clients: &Clients,
        records: &[NewRecord],
        partitions: &[i32],
    ) -> Result<Vec<Position>, Error> {
        let producer = self.current(clients)?;
        let deadline = Instant::now() + clients.options.timeout;
        let mut sent = Vec::with_capacity(records.len());
        let mut failure = None;
        for (record, partition) in records.iter().zip(partitions) {
            match producer.send(record, *partition, deadline).await {
                Ok(delivery) => sent.push(delivery),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let mut positions = Vec::with_capacity(sent.len());
        let mut may_arrive = false;
        // One alarm for all of them: setting it anew would cost as much as the delivery.
        let mut late = pin!(tokio::time::sleep_until(deadline));
        for (record, delivery) in records.iter().zip(sent) {
            let delivered = tokio::select! {
                biased;
                delivered = delivery => match delivered {
                    Ok(Ok(delivered)) => Ok(delivered),
                    Ok(Err((error, _))) => Err(error),
                    Err(_) => Err(KafkaError::Canceled),
                },
                () = &mut late => {
                    self.discard(&producer);
                    Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut))
                }
            };
            match delivered {
                Ok(delivered) => positions.push(position(record, &delivered)),
                Err(error) => {
                    may_arrive |= !code_of(&error).is_some_and(is_refusal);
                    failure.get_or_insert(error);
                }
            }
        }
        let Some(source) = failure else { return Ok(positions) };
        // A refused batch must not be followed by what stands behind it.
        self.discard(&producer);
        if positions.is_empty() && !may_arrive {
            let what = "publish the records".to_owned();
            return Err(clients.failed(&producer.context, what, source).into());
        }
        let (confirmed, of) = (positions.len(), records.len());
        Err(KafkaFailure::Unconfirmed { what: "publish them", confirmed, of, source }.into())
    }
}

impl Producer {
    /// Hands a record to the client; waits while its queue is full.
    async fn send(
        &self,
        record: &NewRecord,
        partition: i32,
        deadline: Instant,
    ) -> Result<DeliveryFuture, KafkaError> {
        let mut next = FutureRecord::to(&record.topic)
            .partition(partition)
            .payload(record.payload.as_slice())
            .timestamp(timestamp(record))
            .headers(headers(record));
        next.key = record.key.as_deref();
        loop {
            match self.client.send_result(next) {
                Ok(delivery) => return Ok(delivery),
                Err((error, back)) => {
                    let is_full = code_of(&error) == Some(RDKafkaErrorCode::QueueFull);
                    if !is_full || Instant::now() >= deadline {
                        return Err(error);
                    }
                    next = back;
                    tokio::time::sleep(QUEUE_WAIT).await;
                }
            }
        }
    }
}

fn position(record: &NewRecord, delivered: &Delivery) -> Position {
    let partition = u32::try_from(delivered.partition).unwrap_or_default();
    Position { topic: record.topic.clone(), partition, offset: Offset(delivered.offset) }
}

/// The time of a record. To the library 0 means now, and a broker takes nothing from before 1970: such
/// a record gets the first moment there is.
pub(super) fn timestamp(record: &NewRecord) -> i64 {
    record.timestamp.as_millis().max(1)
}

pub(super) fn headers(record: &NewRecord) -> OwnedHeaders {
    let empty = OwnedHeaders::new_with_capacity(record.headers.len());
    record
        .headers
        .iter()
        .fold(empty, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}
