//! Kafka, through librdkafka.
//!
//! So far it can be asked whether it is there; publishing comes with the relay.

use std::time::Duration;

use helenus_model::backend::{Endpoint, Reached, Unreachable};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::task::spawn_blocking;

const REMEDY: &str = "check that a broker runs there and that broker.url names its listener";

/// Asks the cluster for its brokers and topics, within `timeout`.
pub async fn probe(endpoint: &Endpoint, timeout: Duration) -> Result<Reached, Unreachable> {
    let url = format!("kafka:{endpoint}");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", endpoint.addresses().join(","));
    // librdkafka reports each failed attempt by itself; the caller gets one error instead.
    config.set("log_level", "0");
    if endpoint.tls {
        config.set("security.protocol", "ssl");
        if let Some(file) = &endpoint.ca_file {
            config.set("ssl.ca.location", file.display().to_string());
        }
    }
    let asked = spawn_blocking(move || {
        let consumer: BaseConsumer = config.create()?;
        let metadata = consumer.fetch_metadata(None, timeout)?;
        Ok::<_, rdkafka::error::KafkaError>((metadata.brokers().len(), metadata.topics().len()))
    });
    match asked.await {
        Ok(Ok((brokers, topics))) => Ok(Reached {
            product: "Kafka".to_owned(),
            detail: format!("{brokers} brokers, {topics} topics"),
        }),
        Ok(Err(error)) => Err(Unreachable::new(url, REMEDY, error)),
        Err(error) => Err(Unreachable::new(url, REMEDY, error)),
    }
}
