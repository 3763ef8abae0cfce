//! Publishing without a transaction: an idempotent producer that keeps the order of each key.
//!
//! It never gives up on a record by itself (a record given up and one behind it delivered would be out
//! of order): when the time of a request is up, everything it has not sent is thrown away and the
//! producer is replaced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, PurgeConfig};
use rdkafka::util::IntoOpaque;
use tokio::time::Instant;

use super::Placed;
use super::clients::{Clients, Context};
use super::deliveries::{Deliveries, Outcome, Place, Receipt};
use super::error::{Error as KafkaFailure, code_of};
use crate::contract::{Error, NewRecord, Offset, Position};

/// Settings of every producer.
pub(super) const SETTINGS: [(&str, &str); 7] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Batches form while earlier ones are under way; waiting for more would only add to the delay.
    ("linger.ms", "1"),
    ("batch.num.messages", "10000"),
    // The topic's own limit decides, not the library's.
    ("message.max.bytes", "100000000"),
    ("queue.buffering.max.messages", "500000"),
    ("queue.buffering.max.kbytes", "1048576"),
];

/// The largest batch, unless a topic takes smaller ones only: the setting `batch.size`.
pub(super) const BATCH_BYTES: usize = 1_000_000;

/// How long a full queue is given to drain.
const QUEUE_WAIT: Duration = Duration::from_millis(1);

/// How long the thread that takes deliveries waits at a time. A wait ends with a millisecond of spinning,
/// which the library's own thread, waiting for a tenth of a second, is busy with for a hundredth of all time.
const WAIT: Duration = Duration::from_secs(1);

/// The producer that all requests share, until it fails.
#[derive(Default)]
pub(super) struct Producers {
    current: Mutex<Option<Arc<Producer>>>,
    /// Those whose batches were too large for somebody, as long as something is under way with them.
    retired: Mutex<Vec<Arc<Producer>>>,
}

struct Producer {
    client: Arc<BaseProducer<Context>>,
    context: Context,
    batch_bytes: usize,
}

impl Producers {
    /// A producer whose batches have `batch_bytes` at most. One that makes larger batches is left to those
    /// who publish with it at the moment.
    fn current(&self, clients: &Clients, batch_bytes: usize) -> Result<Arc<Producer>, Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = current.as_ref()
            && producer.batch_bytes <= batch_bytes
            && !producer.context.has_given_up()
        {
            return Ok(Arc::clone(producer));
        }
        // Whoever published small batches will do so again.
        let before = current.as_ref().map_or(BATCH_BYTES, |producer| producer.batch_bytes);
        let batch_bytes = batch_bytes.min(before);
        let size = batch_bytes.to_string();
        let own = [
            ("batch.size", size.as_str()),
            ("message.timeout.ms", "0"),
            ("enable.gapless.guarantee", "true"),
        ];
        let (client, context) = clients.make(&[SETTINGS.as_slice(), &own].concat())?;
        let client = Arc::new(client);
        let taken = Arc::downgrade(&client);
        std::thread::spawn(move || take_deliveries(&taken));
        let producer = Arc::new(Producer { client, context, batch_bytes });
        // With one that has given up nothing is under way.
        if let Some(retired) = current.replace(Arc::clone(&producer))
            && !retired.context.has_given_up()
        {
            self.retired().push(retired);
        }
        Ok(producer)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<Producer>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is under way with a retired producer: of what nobody waits for any more some may
    /// be, and must not arrive behind later records of its key.
    async fn after_the_retired(&self, deadline: Instant) {
        loop {
            {
                let mut retired = self.retired();
                retired.retain(|producer| producer.client.in_flight_count() > 0);
                if retired.is_empty() {
                    return;
                }
                if Instant::now() >= deadline {
                    // To be dropped throws away what is not sent.
                    retired.clear();
                }
            }
            tokio::time::sleep(QUEUE_WAIT).await;
        }
    }

    /// Throws away what `producer` has not sent, so that nothing of it arrives late.
    fn discard(&self, producer: &Arc<Producer>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, producer)) {
            *current = None;
        }
        producer.client.purge(PurgeConfig::default().queue().inflight());
    }

    /// Publishes records, each in its place.
    pub(super) async fn publish(
        &self,
        clients: &Clients,
        records: &[NewRecord],
        placed: &Placed,
    ) -> Result<Vec<Position>, Error> {
        let producer = self.current(clients, placed.batch_bytes)?;
        let deadline = Instant::now() + clients.options.timeout;
        self.after_the_retired(deadline).await;
        let deliveries = Deliveries::new(records.len());
        for (index, (record, partition)) in records.iter().zip(&placed.partitions).enumerate() {
            let next = prepared(record, *partition, deliveries.receipt(index));
            if let Err(why) = producer.send(next, deadline).await {
                deliveries.not_sent(index, why);
                break;
            }
        }
        let is_late = tokio::time::timeout_at(deadline, deliveries.over()).await.is_err();
        let Outcome { places, failure, may_have_arrived } = deliveries.outcome();
        let late = KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut);
        let failure = failure.or(is_late.then_some(late));
        let delivered = records.iter().zip(places);
        let positions: Vec<Position> =
            delivered.filter_map(|(record, place)| Some(position(record, place?))).collect();
        let Some(source) = failure else { return Ok(positions) };
        // A refused batch must not be followed by what stands behind it.
        self.discard(&producer);
        if positions.is_empty() && !may_have_arrived {
            let what = "publish the records".to_owned();
            return Err(clients.failed(&producer.context, what, source).into());
        }
        let (confirmed, of) = (positions.len(), records.len());
        Err(KafkaFailure::Unconfirmed { what: "publish them", confirmed, of, source }.into())
    }
}

/// Tells of deliveries as they come. Ends, with the client, soon after everybody else is done with it: to
/// close a client may take a while.
fn take_deliveries(client: &Weak<BaseProducer<Context>>) {
    while let Some(client) = client.upgrade() {
        client.poll(WAIT);
    }
}

impl Drop for Producer {
    /// What nobody waits for any more must not arrive among the records of a later producer; the client
    /// itself ends somewhat later.
    fn drop(&mut self) {
        self.client.purge(PurgeConfig::default().queue().inflight());
    }
}

impl Producer {
    /// Hands a record to the client; waits while its queue is full.
    async fn send(
        &self,
        record: Prepared<'_, Box<Receipt>>,
        deadline: Instant,
    ) -> Result<(), KafkaError> {
        let mut next = record;
        loop {
            let Err((error, back)) = self.client.send(next) else { return Ok(()) };
            if !is_full(&error) || Instant::now() >= deadline {
                return Err(error);
            }
            next = back;
            tokio::time::sleep(QUEUE_WAIT).await;
        }
    }
}

/// A record as the library takes it, with what comes back to its context.
pub(super) type Prepared<'r, D> = BaseRecord<'r, [u8], [u8], D>;

/// A record with its partition and receipt.
pub(super) fn prepared<D: IntoOpaque>(
    record: &NewRecord,
    partition: i32,
    receipt: D,
) -> Prepared<'_, D> {
    BaseRecord {
        partition: Some(partition),
        payload: Some(record.payload.as_slice()),
        key: record.key.as_deref(),
        timestamp: Some(timestamp(record)),
        headers: Some(headers(record)),
        ..BaseRecord::with_opaque_to(&record.topic, receipt)
    }
}

/// Whether the library's queue has no room for now.
pub(super) fn is_full(error: &KafkaError) -> bool {
    code_of(error) == Some(RDKafkaErrorCode::QueueFull)
}

fn position(record: &NewRecord, (partition, offset): Place) -> Position {
    let partition = u32::try_from(partition).unwrap_or_default();
    Position { topic: Arc::clone(&record.topic), partition, offset: Offset(offset) }
}

/// The time of a record. To the library 0 means now, and a broker takes nothing from before 1970: such
/// a record gets the first moment there is.
fn timestamp(record: &NewRecord) -> i64 {
    record.timestamp.as_millis().max(1)
}

fn headers(record: &NewRecord) -> OwnedHeaders {
    let empty = OwnedHeaders::new_with_capacity(record.headers.len());
    record
        .headers
        .iter()
        .fold(empty, |headers, (key, value)| headers.insert(Header { key, value: Some(&**value) }))
}
