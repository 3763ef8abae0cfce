//! Which topics there are, how many partitions they have and what they take.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, NewTopic, OwnedResourceSpecifier, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataTopic;
use tokio::time::Instant;

use super::clients::{Clients, Context};
use super::read::Reader;
use crate::contract::{Error, Retention, Topic};

/// How long what is known of a topic is believed; partitions are added and limits raised.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// How long a topic that was not there is not asked for again.
const MISSING_FOR: Duration = Duration::from_millis(500);
/// What a topic takes where this client may not ask or gets no answer: whatever the library takes. A
/// guess would refuse records for good that the broker would have taken.
const RECORD_BYTES: usize = 100_000_000;
/// How long a cluster that makes topics by itself may take to show one.
const MADE_WITHIN: Duration = Duration::from_secs(3);
/// Topics whose settings are asked for with one request.
const ASKED_AT_ONCE: usize = 200;
/// How often a topic that has just been made is looked for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What matters of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) partitions: u32,
    pub(super) record_bytes_max: usize,
}

/// What is known of topics, and of those that are not there.
#[derive(Debug, Default)]
pub(super) struct Topics {
    known: Mutex<HashMap<String, (Option<Known>, Instant)>>,
}

impl Topics {
    /// What is remembered: `None` if nothing is, `Some(None)` if the topic is not there.
    pub(super) fn remembered(&self, topic: &str) -> Option<Option<Known>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, at) = known.get(topic)?;
        let believed = if found.is_some() { KNOWN_FOR } else { MISSING_FOR };
        (at.elapsed() < believed).then_some(*found)
    }

    pub(super) fn forget(&self, topic: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    pub(super) fn remember(&self, topic: &str, found: Option<Known>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(topic.to_owned(), (found, Instant::now()));
    }
}

/// How many partitions a topic has; `None` if it is not there. May block.
pub(super) fn partitions(
    reader: &Reader,
    clients: &Clients,
    topic: &str,
) -> Result<Option<u32>, Error> {
    if topic.is_empty() {
        return Ok(None);
    }
    let begun = Instant::now();
    let deadline = begun + clients.options.timeout;
    let patience = if clients.options.create_topics { MADE_WITHIN } else { Duration::ZERO };
    loop {
        let metadata = reader.consumer.fetch_metadata(Some(topic), clients.options.timeout);
        let what = || format!("look for topic '{topic}'");
        let metadata = metadata.map_err(|source| reader.failed(clients, what(), source))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let code = found.and_then(MetadataTopic::error).map(RDKafkaErrorCode::from);
        match (found, code) {
            (Some(found), None) if !found.partitions().is_empty() => return Ok(Some(count(found))),
            // It is being made.
            (_, Some(RDKafkaErrorCode::LeaderNotAvailable)) if Instant::now() < deadline => {}
            // A cluster that makes topics by itself answers so until it has.
            (_, Some(RDKafkaErrorCode::UnknownTopicOrPartition)) if begun.elapsed() < patience => {}
            (None, _) | (_, None | Some(RDKafkaErrorCode::UnknownTopicOrPartition)) => {
                return Ok(None);
            }
            (_, Some(RDKafkaErrorCode::InvalidTopic)) => {
                let reason = "Kafka allows letters, digits, '.', '_' and '-' in a topic's name";
                return Err(Error::InvalidTopic { topic: topic.to_owned(), reason: reason.into() });
            }
            (_, Some(code)) => {
                return Err(reader.failed(clients, what(), KafkaError::MetadataFetch(code)));
            }
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn count(topic: &MetadataTopic) -> u32 {
    u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX)
}

/// Every topic but Kafka's own. May block.
pub(super) fn list(reader: &Reader, clients: &Clients) -> Result<Vec<Topic>, Error> {
    let metadata = reader
        .consumer
        .fetch_metadata(None, clients.options.timeout)
        .map_err(|source| reader.failed(clients, "list topics".to_owned(), source))?;
    let own = metadata.topics().iter().filter(|topic| !topic.name().starts_with("__"));
    let mut topics: Vec<Topic> = own
        .map(|topic| Topic { name: topic.name().to_owned(), partitions: count(topic) })
        .collect();
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(topics)
}

/// Asks the controller.
pub(super) struct Admin {
    client: AdminClient<Context>,
    context: Context,
    options: AdminOptions,
}

impl Admin {
    pub(super) fn new(clients: &Clients) -> Result<Self, super::Error> {
        let (client, context) = clients.make(&[])?;
        let timeout = Some(clients.options.timeout);
        let options = AdminOptions::new().request_timeout(timeout).operation_timeout(timeout);
        Ok(Admin { client, context, options })
    }

    /// Makes a topic; `false` if it exists.
    pub(super) async fn create(
        &self,
        clients: &Clients,
        topic: &str,
        partitions: u32,
        settings: &[(&str, &str)],
    ) -> Result<bool, Error> {
        let count = i32::try_from(partitions).unwrap_or(i32::MAX);
        // -1: as many copies as the cluster is set to make.
        let mut new = NewTopic::new(topic, count, TopicReplication::Fixed(-1));
        for (key, value) in settings {
            new = new.set(key, value);
        }
        let what = || format!("create topic '{topic}'");
        let failed = |source| Error::from(clients.failed(&self.context, what(), source));
        let answers = self.client.create_topics([&new], &self.options).await.map_err(failed)?;
        match answers.into_iter().next() {
            Some(Ok(_)) => Ok(true),
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((
                _,
                code @ (RDKafkaErrorCode::InvalidTopic | RDKafkaErrorCode::InvalidPartitions),
            ))) => {
                let (topic, reason) = (topic.to_owned(), code.to_string());
                Err(Error::InvalidTopic { topic, reason })
            }
            Some(Err((_, code))) => Err(failed(KafkaError::AdminOp(code))),
            None => Err(failed(KafkaError::Canceled)),
        }
    }

    /// A setting of a topic; `None` if this client may not ask or the topic does not have it.
    pub(super) async fn setting(&self, topic: &str, key: &str) -> Option<String> {
        let topic = ResourceSpecifier::Topic(topic);
        let answers = self.client.describe_configs([&topic], &self.options).await.ok()?;
        let resource = answers.into_iter().next()?.ok()?;
        resource.get(key)?.value.clone()
    }

    /// How long each of these topics keeps its records. Those that are not there, or that this client
    /// may not ask about, are left out.
    pub(super) async fn retentions(
        &self,
        clients: &Clients,
        topics: &[String],
    ) -> Result<Vec<(String, Retention)>, Error> {
        let mut found = Vec::new();
        for some in topics.chunks(ASKED_AT_ONCE) {
            let asked: Vec<_> = some.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
            let answers = self.client.describe_configs(&asked, &self.options).await;
            let what = || "say how long topics keep records".to_owned();
            let answers =
                answers.map_err(|source| clients.failed(&self.context, what(), source))?;
            for settings in answers.into_iter().flatten() {
                let OwnedResourceSpecifier::Topic(topic) = &settings.specifier else { continue };
                let value = |key| settings.get(key).and_then(|entry| entry.value.as_deref());
                // Negative: for ever.
                let keeps = value("retention.ms").and_then(|ms| ms.parse().ok());
                let retention = match (value("cleanup.policy"), keeps) {
                    (Some("compact"), _) => Retention::LastOfKey,
                    (_, Some(keeps)) => Retention::For(Duration::from_millis(keeps)),
                    (_, None) => Retention::ForEver,
                };
                found.push((topic.clone(), retention));
            }
        }
        Ok(found)
    }

    /// The largest record a topic takes.
    pub(super) async fn record_bytes_max(&self, topic: &str) -> usize {
        let setting = self.setting(topic, "max.message.bytes").await;
        setting.and_then(|bytes| bytes.parse().ok()).unwrap_or(RECORD_BYTES)
    }
}
