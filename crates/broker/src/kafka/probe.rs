//! Whether a cluster is there: what `helenus doctor` asks.

use std::collections::BTreeMap;
use std::time::Duration;

use helenus_model::backend::{Endpoint, Reached, Unreachable};
use rdkafka::consumer::Consumer;
use tokio::task::spawn_blocking;

use super::clients::{Clients, Options};
use super::read::Readers;

const REMEDY: &str = "check that a broker runs there and that broker.url names its listener";

/// Asks the cluster for its brokers and topics, within `timeout`.
pub async fn probe(
    endpoint: &Endpoint,
    settings: BTreeMap<String, String>,
    timeout: Duration,
) -> Result<Reached, Unreachable> {
    let url = format!("kafka:{endpoint}");
    let options = Options { timeout, settings, ..Options::default() };
    let clients = Clients::new(endpoint, options);
    let asked = spawn_blocking(move || {
        Readers::default().with(&clients, |reader| {
            let metadata = reader.consumer.fetch_metadata(None, timeout);
            let metadata = metadata
                .map_err(|source| reader.failed(&clients, "list topics".to_owned(), source))?;
            Ok((metadata.brokers().len(), metadata.topics().len()))
        })
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
