//! A message on its way from an outbox to a topic.

use std::collections::BTreeMap;

use crate::limits::{HEADERS_MAX, PAYLOAD_BYTES_MAX};
use crate::{ChannelId, ContentHash, Failure, Fingerprint, Kind, MessageId, Payload, Timestamp};

/// What an application stages in the outbox.
///
/// ```
/// use helenus_model::{ChannelId, Message, MessageId, Payload, Timestamp};
///
/// let message = Message {
///     ordering_key: Some("order-1".to_owned()),
///     ..Message::new(
///         MessageId::new("m-1")?,
///         ChannelId::new("orders")?,
///         "order.placed",
///         Payload::json(&serde_json::json!({"total": 12})),
///         Timestamp::EPOCH,
///     )
/// };
/// assert!(message.check().is_ok());
/// # Ok::<(), helenus_model::InvalidId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Names the message for ever; staging the same id again stages nothing.
    pub message_id: MessageId,
    /// Where it goes.
    pub channel_id: ChannelId,
    /// What it is, by a name of the application's choice; never a type name of a language.
    pub message_type: String,
    /// Its body.
    pub payload: Payload,
    /// Messages with the same key are published in the order they were staged.
    pub ordering_key: Option<String>,
    /// What caused it, across services.
    pub correlation_id: Option<String>,
    /// Whose it is.
    pub tenant_id: Option<String>,
    /// When what it tells of happened.
    pub occurred_at: Timestamp,
    /// Not to be published before; at once where absent.
    pub deliver_at: Option<Timestamp>,
    /// Sent along with the message.
    pub headers: BTreeMap<String, String>,
    /// Kept with the message, not sent.
    pub metadata: BTreeMap<String, String>,
}

/// Why a message cannot be staged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// The type name is empty.
    #[error("message {message_id} has no type; give it a name such as order.placed")]
    NoType {
        /// The message.
        message_id: MessageId,
    },
    /// The payload is over the limit.
    #[error("the payload of message {message_id} has {bytes} bytes, {limit} are allowed")]
    TooLarge {
        /// The message.
        message_id: MessageId,
        /// Its payload's size.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// There are more headers than allowed.
    #[error("message {message_id} has {count} headers, {HEADERS_MAX} are allowed")]
    TooManyHeaders {
        /// The message.
        message_id: MessageId,
        /// How many it has.
        count: usize,
    },
    /// A header has no name.
    #[error("message {message_id} has a header without a name")]
    UnnamedHeader {
        /// The message.
        message_id: MessageId,
    },
}

impl Failure for InvalidMessage {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            InvalidMessage::TooLarge { .. } => "too_large",
            _ => "invalid",
        }
    }
}

impl Message {
    /// A message with the fields that every message has.
    pub fn new(
        message_id: MessageId,
        channel_id: ChannelId,
        message_type: impl Into<String>,
        payload: Payload,
        occurred_at: Timestamp,
    ) -> Self {
        Message {
            message_id,
            channel_id,
            message_type: message_type.into(),
            payload,
            ordering_key: None,
            correlation_id: None,
            tenant_id: None,
            occurred_at,
            deliver_at: None,
            headers: BTreeMap::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// Checks what the types cannot.
    pub fn check(&self) -> Result<(), InvalidMessage> {
        let message_id = || self.message_id.clone();
        if self.message_type.is_empty() {
            return Err(InvalidMessage::NoType { message_id: message_id() });
        }
        let bytes = self.payload.bytes.len();
        if bytes > PAYLOAD_BYTES_MAX {
            let limit = PAYLOAD_BYTES_MAX;
            return Err(InvalidMessage::TooLarge { message_id: message_id(), bytes, limit });
        }
        let count = self.headers.len();
        if count > HEADERS_MAX {
            return Err(InvalidMessage::TooManyHeaders { message_id: message_id(), count });
        }
        if self.headers.contains_key("") {
            return Err(InvalidMessage::UnnamedHeader { message_id: message_id() });
        }
        Ok(())
    }

    /// Tells this content from other content under the same id.
    pub fn content_hash(&self) -> ContentHash {
        fn pairs(map: &BTreeMap<String, String>) -> impl ExactSizeIterator<Item = (&str, &str)> {
            map.iter().map(|(key, value)| (key.as_str(), value.as_str()))
        }
        Fingerprint::new()
            .text(self.channel_id.as_str())
            .text(&self.message_type)
            .text(&self.payload.content_type)
            .bytes(&self.payload.bytes)
            .optional(self.ordering_key.as_deref())
            .optional(self.correlation_id.as_deref())
            .optional(self.tenant_id.as_deref())
            .number(self.deliver_at.map_or(i64::MIN, Timestamp::as_millis))
            .entries(pairs(&self.headers))
            .entries(pairs(&self.metadata))
            .hash()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message::new(
            MessageId::new("m-1").unwrap(),
            ChannelId::new("orders").unwrap(),
            "order.placed",
            Payload::json(&serde_json::json!(1)),
            Timestamp::EPOCH,
        )
    }

    #[test]
    fn a_message_is_checked_before_it_is_staged() {
        let check = |message: Message, words: &str| {
            assert!(message.check().unwrap_err().to_string().contains(words));
        };
        check(Message { message_type: String::new(), ..message() }, "has no type");
        let headers = BTreeMap::from([(String::new(), "x".to_owned())]);
        check(Message { headers, ..message() }, "header without a name");
        let headers = (0..=HEADERS_MAX).map(|n| (n.to_string(), String::new())).collect();
        check(Message { headers, ..message() }, "has 65 headers");
        let payload =
            Payload { content_type: "x/y".to_owned(), bytes: vec![0; PAYLOAD_BYTES_MAX + 1] };
        check(Message { payload, ..message() }, "has 1048577 bytes, 1048576 are allowed");
        message().check().unwrap();
    }

    #[test]
    fn the_content_hash_sees_every_field_but_the_id_and_when_it_happened() {
        let same = Message {
            message_id: MessageId::new("m-2").unwrap(),
            occurred_at: Timestamp::from_millis(5),
            ..message()
        };
        assert_eq!(same.content_hash(), message().content_hash());
        let some = || Some("x".to_owned());
        let pairs = || BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        let others = [
            Message { channel_id: ChannelId::new("other").unwrap(), ..message() },
            Message { message_type: "other".to_owned(), ..message() },
            Message { payload: Payload::json(&serde_json::json!(2)), ..message() },
            Message { ordering_key: some(), ..message() },
            Message { correlation_id: some(), ..message() },
            Message { tenant_id: some(), ..message() },
            Message { deliver_at: Some(Timestamp::EPOCH), ..message() },
            Message { headers: pairs(), ..message() },
            Message { metadata: pairs(), ..message() },
        ];
        let mut hashes: Vec<_> = others.iter().map(Message::content_hash).collect();
        hashes.push(message().content_hash());
        let distinct: std::collections::HashSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }
}
