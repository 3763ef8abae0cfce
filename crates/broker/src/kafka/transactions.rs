//! Publishing in transactions, under a name that fences.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig,
};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::clients::{Clients, Context};
use super::error::{Error as KafkaFailure, code_of};
use super::publish::{BATCH_BYTES, Prepared, SETTINGS, is_full, prepared};
use super::read::partition_number;
use super::{KafkaBroker, Placed, panicked};
use crate::contract::{Error, Marker, NewRecord, Publisher, Transaction};

/// How often deliveries are looked for. The library's own flush looks every 100 ms, which would be the
/// least a transaction takes; a poll that waits spins, and looking more often costs what the broker
/// needs where the two share processors.
const LOOK: Duration = Duration::from_millis(1);

/// How long a name is waited for before it is asked for again. A client that finds no connection at
/// first, or a transaction that is still being ended, tries again by itself after 500 ms only.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// How long an open transaction of a publisher that is gone holds up readers, if nobody takes over.
const TRANSACTION_TIMEOUT_MS: &str = "60000";

/// The publisher of a name on Kafka: its `transactional.id`.
#[derive(Debug)]
pub struct KafkaPublisher {
    broker: KafkaBroker,
    producer: Arc<Producer>,
}

struct Producer {
    client: BaseProducer<Undelivered>,
    undelivered: Undelivered,
    clients: Clients,
    name: String,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KafkaPublisher {
    pub(super) async fn take(broker: KafkaBroker, name: &str) -> Result<Self, Error> {
        let (clients, name) = (broker.clients().clone(), name.to_owned());
        let producer = spawn_blocking(move || -> Result<_, Error> {
            let batch_bytes = BATCH_BYTES.to_string();
            let own = [
                ("batch.size", batch_bytes.as_str()),
                ("transactional.id", name.as_str()),
                ("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
                ("delivery.report.only.error", "true"),
            ];
            let (client, undelivered) = clients.make(&[SETTINGS.as_slice(), &own].concat())?;
            let producer = Producer { client, undelivered, clients: clients.clone(), name };
            producer.take_name()?;
            Ok(producer)
        });
        let producer = producer.await.unwrap_or_else(panicked)?;
        Ok(KafkaPublisher { broker, producer: Arc::new(producer) })
    }
}

impl Publisher for KafkaPublisher {
    async fn publish(&mut self, transaction: Transaction) -> Result<(), Error> {
        let Transaction { records, marker } = transaction;
        let placed = self.broker.place(&records).await?;
        let producer = Arc::clone(&self.producer);
        let published =
            spawn_blocking(move || producer.publish(&records, &placed, marker.as_ref()));
        published.await.unwrap_or_else(panicked)
    }

    /// A commit is answered before its marks are in every partition; the name is given out anew only
    /// when they are.
    async fn finish(self) -> Result<(), Error> {
        Self::take(self.broker.clone(), &self.producer.name).await.map(drop)
    }
}

/// What a publisher's client reports: only records that were not delivered. That the others were is
/// in the library's count of those under way, so nothing is made or called for each of them.
#[derive(Clone, Default)]
struct Undelivered {
    context: Context,
    first: Arc<Mutex<Option<KafkaError>>>,
}

impl Undelivered {
    fn first(&self) -> MutexGuard<'_, Option<KafkaError>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Undelivered {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.context.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.context.error(error, reason);
    }
}

impl ProducerContext for Undelivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.first().get_or_insert_with(|| error.clone());
        }
    }
}

/// What came of a step of a transaction.
enum Step {
    Done,
    /// Somebody else has the name.
    Fenced,
    /// The transaction cannot be committed; it can be aborted.
    Abort(KafkaError),
    /// It is not known whether it was done.
    Unknown(KafkaError),
}

impl Producer {
    fn deadline(&self) -> Instant {
        Instant::now() + self.clients.options.timeout
    }

    fn take_name(&self) -> Result<(), Error> {
        let deadline = self.deadline();
        match step(deadline, |left| self.client.init_transactions(left.min(ASK_AGAIN))) {
            Step::Done => Ok(()),
            Step::Fenced => Err(self.fenced(false)),
            Step::Abort(source) | Step::Unknown(source) => {
                self.client.poll(Duration::ZERO);
                let what = format!("publish as '{}'", self.name);
                Err(self.clients.failed(&self.undelivered.context, what, source).into())
            }
        }
    }

    fn fenced(&self, committing: bool) -> Error {
        Error::Fenced { name: self.name.clone(), committing }
    }

    /// Publishes records, each in its place.
    fn publish(
        &self,
        records: &[NewRecord],
        placed: &Placed,
        marker: Option<&Marker>,
    ) -> Result<(), Error> {
        let (deadline, of) = (self.deadline(), records.len());
        match step(deadline, |_| self.client.begin_transaction()) {
            Step::Done => {}
            Step::Fenced => return Err(self.fenced(false)),
            Step::Abort(source) | Step::Unknown(source) => return self.give_up(source),
        }
        if let Err(source) = self.send_all(records, placed, marker, deadline) {
            return self.give_up(source);
        }
        match step(deadline, |left| self.client.commit_transaction(left)) {
            Step::Done => Ok(()),
            Step::Fenced => Err(self.fenced(true)),
            Step::Abort(source) => self.give_up(source),
            Step::Unknown(source) => {
                let what = "commit the transaction";
                Err(KafkaFailure::Unconfirmed { what, confirmed: 0, of, source }.into())
            }
        }
    }

    /// Sends everything and waits until it is delivered. Where a topic takes smaller batches than this client
    /// makes, no more is under way than fits into one: a client with smaller batches would need the name
    /// anew, which by then may be somebody else's.
    fn send_all(
        &self,
        records: &[NewRecord],
        placed: &Placed,
        marker: Option<&Marker>,
        deadline: Instant,
    ) -> Result<(), KafkaError> {
        let mut under_way = 0;
        for (record, partition) in records.iter().zip(&placed.partitions) {
            let bytes = record.bytes_max();
            if placed.batch_bytes < BATCH_BYTES && under_way + bytes > placed.batch_bytes {
                self.delivered(deadline)?;
                under_way = 0;
            }
            under_way += bytes;
            self.send(prepared(record, *partition, ()), deadline)?;
        }
        if let Some(marker) = marker {
            let record = BaseRecord::to(&marker.topic)
                .partition(partition_number(marker.partition))
                .key(marker.key.as_slice())
                .payload(marker.value.as_slice());
            self.send(record, deadline)?;
        }
        self.delivered(deadline)
    }

    /// Waits until nothing is under way.
    fn delivered(&self, deadline: Instant) -> Result<(), KafkaError> {
        while self.client.in_flight_count() > 0 {
            std::thread::sleep(LOOK);
            self.client.poll(Duration::ZERO);
            if let Some(why) = self.undelivered.first().take() {
                return Err(why);
            }
            if Instant::now() >= deadline {
                return Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut));
            }
        }
        Ok(())
    }

    fn send(&self, record: Prepared<'_, ()>, deadline: Instant) -> Result<(), KafkaError> {
        let mut next = record;
        loop {
            let Err((error, back)) = self.client.send(next) else { return Ok(()) };
            if !is_full(&error) || Instant::now() >= deadline {
                return Err(error);
            }
            next = back;
            self.client.poll(Duration::ZERO);
            std::thread::sleep(LOOK);
        }
    }

    /// Aborts what was begun. Nothing of it was published: what is not aborted here ends with the next
    /// publisher of the name, or with the transaction's time.
    fn give_up(&self, source: KafkaError) -> Result<(), Error> {
        self.client.purge(PurgeConfig::default().queue().inflight());
        self.client.poll(Duration::ZERO);
        let aborted = step(self.deadline(), |left| self.client.abort_transaction(left));
        if matches!(aborted, Step::Fenced) || is_fenced(&source) {
            return Err(self.fenced(false));
        }
        let (context, what) = (&self.undelivered.context, "take the transaction".to_owned());
        Err(self.clients.failed(context, what, source).into())
    }
}

/// Runs a step of a transaction until it is settled or time is up.
fn step(deadline: Instant, run: impl Fn(Duration) -> Result<(), KafkaError>) -> Step {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Err(error) = run(left) else { return Step::Done };
        if is_fenced(&error) {
            return Step::Fenced;
        }
        let KafkaError::Transaction(told) = &error else { return Step::Unknown(error) };
        if told.txn_requires_abort() {
            return Step::Abort(error);
        }
        if !told.is_retriable() || Instant::now() >= deadline {
            return Step::Unknown(error);
        }
    }
}

fn is_fenced(error: &KafkaError) -> bool {
    let fenced = [
        RDKafkaErrorCode::Fenced,
        RDKafkaErrorCode::ProducerFenced,
        RDKafkaErrorCode::InvalidProducerEpoch,
    ];
    code_of(error).is_some_and(|code| fenced.contains(&code))
}
