//! Where an agent's records go: topics are made when they are first needed, and what concerns a whole
//! table goes to all of its partitions.

use std::collections::HashMap;
use std::sync::Arc;

use helenus_broker::contract::{Broker, Error, NewRecord};
use helenus_broker::partition::of_key;

use crate::options::Options;

/// The broker, and what is known of its topics.
#[derive(Debug)]
pub(crate) struct Outlet<B> {
    pub(crate) broker: B,
    options: Arc<Options>,
    /// Partitions by topic.
    topics: HashMap<String, u32>,
    /// Topics that the broker will never make, and why: those of two tables may collide.
    refused: HashMap<String, String>,
}

impl<B: Broker> Outlet<B> {
    pub(crate) fn new(broker: B, options: Arc<Options>) -> Self {
        Outlet { broker, options, topics: HashMap::new(), refused: HashMap::new() }
    }

    /// Looks at topics again before it uses them.
    pub(crate) fn forget(&mut self) {
        self.topics.clear();
    }

    /// Why the broker will never make a topic; nothing if it may.
    pub(crate) fn refuses(&self, topic: &str) -> Option<&String> {
        self.refused.get(topic)
    }

    /// Publishes; what has no key is for everybody who reads a part of the topic.
    pub(crate) async fn publish(&mut self, records: &[NewRecord]) -> Result<(), Error> {
        let (mut for_all, mut last) = (false, None);
        // A topic may have got more partitions since it was looked at.
        for record in records.iter().filter(|record| record.key.is_none()) {
            self.topics.remove(&*record.topic);
        }
        for record in records {
            // Mostly one topic follows itself.
            if last != Some(&record.topic) && !self.topics.contains_key(&*record.topic) {
                self.make_topic(&record.topic).await?;
            }
            last = Some(&record.topic);
            for_all |= record.key.is_none();
        }
        if for_all {
            let copies: Vec<NewRecord> =
                records.iter().flat_map(|record| self.copies(record)).collect();
            return self.broker.publish(&copies).await.map(drop);
        }
        self.broker.publish(records).await.map(drop)
    }

    /// A record as it is sent: once, or to every partition.
    fn copies(&self, record: &NewRecord) -> Vec<NewRecord> {
        if record.key.is_some() {
            return vec![record.clone()];
        }
        let partitions = self.topics.get(&*record.topic).copied().unwrap_or(1);
        let copy = |key| NewRecord { key: Some(key), ..record.clone() };
        one_key_a_partition(partitions).into_iter().map(copy).collect()
    }

    /// Makes a topic, unless it is there: then it keeps the partitions it was made with, and nobody needs
    /// the right to make topics.
    async fn make_topic(&mut self, topic: &str) -> Result<(), Error> {
        let is_hints = self.options.hints.iter().any(|outbox| outbox.topic == topic);
        let wanted = if is_hints { 1 } else { self.options.partitions };
        let partitions = match self.partitions(topic).await? {
            Some(partitions) => partitions,
            None => {
                let made = if is_hints {
                    self.broker.create_compacted_topic(topic, wanted).await
                } else {
                    self.broker.create_topic(topic, wanted).await
                };
                match made {
                    Ok(()) => wanted,
                    // Somebody else may have made it meanwhile.
                    Err(error @ Error::InvalidTopic { .. }) => {
                        let found = self.partitions(topic).await?;
                        if found.is_none() {
                            self.refused.insert(topic.to_owned(), error.to_string());
                        }
                        found.ok_or(error)?
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        self.refused.remove(topic);
        self.topics.insert(topic.to_owned(), partitions);
        Ok(())
    }

    async fn partitions(&self, topic: &str) -> Result<Option<u32>, Error> {
        let topics = self.broker.topics().await?;
        // One that is being made, or deleted, has no partitions, and takes no record.
        let known = topics.iter().find(|known| known.name == topic && known.partitions > 0);
        Ok(known.map(|known| known.partitions))
    }
}

/// For each partition a key that leads to it: the smallest number that does, in decimal digits.
fn one_key_a_partition(partitions: u32) -> Vec<Vec<u8>> {
    let mut keys: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut numbers = 0u64..;
    while keys.len() < partitions as usize
        && let Some(number) = numbers.next()
    {
        let key = number.to_string().into_bytes();
        keys.entry(of_key(&key, partitions)).or_insert(key);
    }
    (0..partitions).filter_map(|partition| keys.remove(&partition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_has_its_key() {
        for partitions in [1, 2, 7, 64, 1_000] {
            let keys = one_key_a_partition(partitions);
            let places: Vec<u32> = keys.iter().map(|key| of_key(key, partitions)).collect();
            assert_eq!(places, (0..partitions).collect::<Vec<_>>());
        }
    }
}
