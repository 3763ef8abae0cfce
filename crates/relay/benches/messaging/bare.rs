//! A producer with nothing around it: the measure of the relay's throughput.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::Result;
use crate::throughput::BATCH;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Publishes `messages` in transactions as the relay's, with the same headers; messages a second.
pub(crate) fn publish(address: &str, topic: &str, messages: usize) -> Result<f64> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("transactional.id", topic)
        .set("linger.ms", "1")
        .set("batch.num.messages", "10000")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "500000")
        .create()?;
    producer.init_transactions(TIMEOUT)?;
    let started = Instant::now();
    for first in (0..messages).step_by(BATCH) {
        producer.begin_transaction()?;
        for number in first..(first + BATCH).min(messages) {
            send(&producer, topic, number)?;
        }
        // The library's flush looks every 100 ms only.
        while producer.in_flight_count() > 0 {
            producer.poll(Duration::ZERO);
            std::thread::sleep(Duration::from_micros(250));
        }
        producer.commit_transaction(TIMEOUT)?;
    }
    Ok(messages as f64 / started.elapsed().as_secs_f64())
}

fn send(producer: &BaseProducer, topic: &str, number: usize) -> Result<()> {
    let (id, key) = (format!("{topic}-{number}"), format!("order-{}", number % 1_000));
    let source = format!("helenus/{topic}");
    let headers = [
        ("ce_specversion", "1.0"),
        ("ce_id", id.as_str()),
        ("ce_type", "order.placed"),
        ("ce_source", source.as_str()),
        ("ce_time", "2026-11-15T12:00:00Z"),
        ("content-type", "application/json"),
        ("correlation_id", "request-1"),
        ("tenant_id", "shop"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ];
    let empty = OwnedHeaders::new_with_capacity(headers.len());
    let headers = headers
        .into_iter()
        .fold(empty, |all, (key, value)| all.insert(Header { key, value: Some(value) }));
    let payload = [b'7'; 256];
    let mut record =
        BaseRecord::to(topic).key(key.as_bytes()).payload(payload.as_slice()).headers(headers);
    while let Err((error, back)) = producer.send(record) {
        if error.rdkafka_error_code() != Some(rdkafka::types::RDKafkaErrorCode::QueueFull) {
            return Err(error.into());
        }
        producer.poll(Duration::from_millis(1));
        record = back;
    }
    Ok(())
}
