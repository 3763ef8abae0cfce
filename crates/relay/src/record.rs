//! What a staged message looks like in a topic.

use std::mem;
use std::sync::Arc;

use helenus_broker::contract::NewRecord;
use helenus_model::Message;

use crate::Options;

/// Where a message goes.
pub(crate) fn topic<'a>(message: &'a Message, options: &'a Options) -> &'a str {
    let channel = message.channel_id.as_str();
    options.topics.get(channel).map_or(channel, String::as_str)
}

/// What decides the partition of a message.
pub(crate) fn key(message: &Message) -> &str {
    message.ordering_key.as_deref().unwrap_or(message.message_id.as_str())
}

/// The record of a message: its topic is the channel unless it is mapped, its key the ordering key (else the id), its
/// headers the message's own after those that name it. They are named as the CloudEvents binding
/// for Kafka names them where that has a name.
pub fn record(message: &Message, options: &Options) -> NewRecord {
    take_record(&mut message.clone(), topic(message, options).into())
}

/// The same, with what only a record needs taken out of the message: type, payload and headers.
pub(crate) fn take_record(message: &mut Message, topic: Arc<str>) -> NewRecord {
    let text = |text: &str| text.as_bytes().to_vec().into();
    let take = |text: &mut String| mem::take(text).into_bytes().into();
    let key = Some(key(message).as_bytes().to_vec());
    let own = mem::take(&mut message.headers);
    // Eight of the relay's and some of the message's: the list is made once.
    let mut headers = Vec::with_capacity(8 + own.len());
    headers.extend([
        ("ce_specversion".into(), b"1.0".as_slice().into()),
        ("ce_id".into(), text(message.message_id.as_str())),
        ("ce_type".into(), take(&mut message.message_type)),
        (
            "ce_source".into(),
            ["helenus/", message.channel_id.as_str()].concat().into_bytes().into(),
        ),
        ("ce_time".into(), message.occurred_at.to_string().into_bytes().into()),
        ("content-type".into(), take(&mut message.payload.content_type)),
    ]);
    let optional =
        [("correlation_id", &mut message.correlation_id), ("tenant_id", &mut message.tenant_id)];
    for (name, value) in optional {
        headers.extend(value.take().map(|value| (name.into(), value.into_bytes().into())));
    }
    headers.extend(own.into_iter().map(|(name, value)| (name.into(), value.into_bytes().into())));
    let payload = mem::take(&mut message.payload.bytes);
    NewRecord { topic, key, headers, payload, timestamp: message.occurred_at }
}

#[cfg(test)]
mod tests {
    use helenus_model::{ChannelId, MessageId, Payload, Timestamp};

    use super::*;

    #[test]
    fn a_record_names_its_message() {
        let message = Message {
            correlation_id: Some("request-1".to_owned()),
            headers: [("traceparent".to_owned(), "00-1-2-01".to_owned())].into(),
            ..Message::new(
                MessageId::new("m-1").unwrap(),
                ChannelId::new("orders").unwrap(),
                "order.placed",
                Payload::json(&serde_json::json!(1)),
                Timestamp::EPOCH,
            )
        };
        let plain = record(&message, &Options::default());
        assert_eq!((&*plain.topic, plain.key.as_deref()), ("orders", Some(&b"m-1"[..])));
        let header = |name: &str| {
            let found = plain.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap())
        };
        for (name, value) in [
            ("ce_id", "m-1"),
            ("ce_type", "order.placed"),
            ("ce_time", "1970-01-01T00:00:00Z"),
            ("content-type", "application/json"),
            ("correlation_id", "request-1"),
            ("traceparent", "00-1-2-01"),
        ] {
            assert_eq!(header(name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(header("tenant_id"), None);

        let keyed = Message { ordering_key: Some("order-1".to_owned()), ..message };
        assert_eq!(record(&keyed, &Options::default()).key.as_deref(), Some(&b"order-1"[..]));
    }
}
