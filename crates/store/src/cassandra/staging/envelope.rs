//! What is kept of something that was begun, as JSON beside the payload.

use std::collections::BTreeMap;

use helenus_model::{ChannelId, Message, MessageId, OperationId, Payload, Timestamp};
use serde::{Deserialize, Serialize};

use super::Mark;
use crate::cassandra::Error;

/// A row's key: each column with its value as Cassandra's JSON has it.
pub(in crate::cassandra) type Key = Vec<(String, serde_json::Value)>;

/// A message without its payload's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cassandra) struct Envelope {
    message_id: MessageId,
    channel_id: ChannelId,
    message_type: String,
    content_type: String,
    ordering_key: Option<String>,
    correlation_id: Option<String>,
    tenant_id: Option<String>,
    occurred_at: Timestamp,
    deliver_at: Option<Timestamp>,
    headers: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
}

impl Envelope {
    pub(in crate::cassandra) fn of(message: &Message) -> Self {
        let message = message.clone();
        Envelope {
            message_id: message.message_id,
            channel_id: message.channel_id,
            message_type: message.message_type,
            content_type: message.payload.content_type,
            ordering_key: message.ordering_key,
            correlation_id: message.correlation_id,
            tenant_id: message.tenant_id,
            occurred_at: message.occurred_at,
            deliver_at: message.deliver_at,
            headers: message.headers,
            metadata: message.metadata,
        }
    }

    pub(in crate::cassandra) fn into_message(self, bytes: Vec<u8>) -> Message {
        Message {
            message_id: self.message_id,
            channel_id: self.channel_id,
            message_type: self.message_type,
            payload: Payload { content_type: self.content_type, bytes },
            ordering_key: self.ordering_key,
            correlation_id: self.correlation_id,
            tenant_id: self.tenant_id,
            occurred_at: self.occurred_at,
            deliver_at: self.deliver_at,
            headers: self.headers,
            metadata: self.metadata,
        }
    }

    pub(in crate::cassandra) fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(|error| Error::corrupt(error.to_string()))
    }

    pub(in crate::cassandra) fn from_json(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|error| Error::corrupt(format!("an envelope: {error}")))
    }
}

/// What the detail of an index row says that is not a message's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(in crate::cassandra) enum Begun {
    /// A message that is to be staged if the entity carries the operation.
    Intent {
        envelope: Envelope,
        table: String,
        key: Key,
        mark: Mark,
        operation_id: OperationId,
        deadline_ms: i64,
    },
    /// A partition of an entity's outbox in which there may be something new.
    Dirty { outbox: String, key: Key },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_envelope() {
        let message = Message {
            ordering_key: Some("order-1".to_owned()),
            deliver_at: Some(Timestamp::from_millis(7)),
            headers: [("a".to_owned(), "ü".to_owned())].into(),
            ..Message::new(
                MessageId::new("m-1").unwrap(),
                ChannelId::new("orders").unwrap(),
                "order.placed",
                Payload { content_type: "x/y".to_owned(), bytes: vec![0, 255] },
                Timestamp::from_millis(5),
            )
        };
        let json = Envelope::of(&message).to_json().unwrap();
        let back = Envelope::from_json(&json).unwrap().into_message(vec![0, 255]);
        assert_eq!(back, message);
    }
}
