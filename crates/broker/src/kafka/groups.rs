//! Where consumer groups go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset as At, TopicPartitionList};

use super::clients::{Clients, Context};
use super::read::partition_number;
use crate::contract::{Error, Offset, Position};

/// Groups whose consumer is kept.
const GROUPS_MAX: usize = 64;

/// A consumer of each group, member of none: it asks and commits.
#[derive(Default)]
pub(super) struct Groups {
    consumers: Mutex<HashMap<String, Arc<Group>>>,
}

pub(super) struct Group {
    consumer: BaseConsumer<Context>,
    context: Context,
    name: String,
}

impl Groups {
    pub(super) fn get(&self, clients: &Clients, name: &str) -> Result<Arc<Group>, Error> {
        let mut consumers = self.consumers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = consumers.get(name) {
            return Ok(Arc::clone(group));
        }
        if consumers.len() >= GROUPS_MAX {
            consumers.clear();
        }
        let settings = [("group.id", name), ("enable.auto.commit", "false")];
        let (consumer, context) = clients.make(&settings)?;
        let group = Arc::new(Group { consumer, context, name: name.to_owned() });
        consumers.insert(name.to_owned(), Arc::clone(&group));
        Ok(group)
    }
}

impl Group {
    fn failed(&self, clients: &Clients, source: KafkaError) -> Error {
        // What the client complains about is heard by polling only.
        drop(self.consumer.poll(std::time::Duration::ZERO));
        let what = format!("keep offsets of group '{}'", self.name);
        clients.failed(&self.context, what, source).into()
    }

    /// May block.
    pub(super) fn committed(
        &self,
        clients: &Clients,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Offset>, Error> {
        let mut place = TopicPartitionList::new();
        place.add_partition(topic, partition_number(partition));
        let found = self
            .consumer
            .committed_offsets(place, clients.options.timeout)
            .map_err(|source| self.failed(clients, source))?;
        let offset = found.elements().first().map(|element| element.offset());
        Ok(match offset {
            Some(At::Offset(offset)) => Some(Offset(offset)),
            _ => None,
        })
    }

    /// May block.
    pub(super) fn commit(&self, clients: &Clients, next: &Position) -> Result<(), Error> {
        let partition = partition_number(next.partition);
        let mut place = TopicPartitionList::new();
        place
            .add_partition_offset(&next.topic, partition, At::Offset(next.offset.0))
            .and_then(|()| self.consumer.commit(&place, CommitMode::Sync))
            .map_err(|source| self.failed(clients, source))
    }
}
