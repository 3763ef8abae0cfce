//! A message as it is printed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::broker::{Offset, Record};
use helenus::{Payload, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::body::Body;

/// Key, headers and payload as what they are; bytes that are no text as base64.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    topic: &'a str,
    partition: u32,
    offset: Offset,
    timestamp_utc: Timestamp,
    #[serde(flatten)]
    key: Key<'a>,
    headers: Value,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Key<'a> {
    Text { key: Option<&'a str> },
    Bytes { key_base64: String },
}

impl<'a> Message<'a> {
    /// With the payload that [`payload`] makes of the record.
    pub(super) fn of(record: &'a Record, payload: &'a Payload) -> Self {
        Message {
            topic: &record.position.topic,
            partition: record.position.partition,
            offset: record.position.offset,
            timestamp_utc: record.timestamp,
            key: Key::of(record.key.as_deref()),
            headers: headers(record),
            body: Body::of(payload),
        }
    }
}

impl<'a> Key<'a> {
    fn of(key: Option<&'a [u8]>) -> Self {
        match key.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
            None => Key::Text { key: None },
            Some((Ok(text), _)) => Key::Text { key: Some(text) },
            Some((Err(_), bytes)) => Key::Bytes { key_base64: STANDARD.encode(bytes) },
        }
    }
}

/// The body with what the headers say of it. What says nothing of itself is shown as JSON if it is.
pub(super) fn payload(record: &Record) -> Payload {
    let content_type =
        header(record, "content-type").or_else(|| header(record, "ce_datacontenttype"));
    let content_type = content_type.unwrap_or_else(|| Payload::JSON.to_owned());
    Payload { content_type, bytes: record.payload.clone() }
}

fn header(record: &Record, name: &str) -> Option<String> {
    let found = record.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name))?;
    String::from_utf8(found.1.to_vec()).ok()
}

/// By name; those that come more than once as a list.
fn headers(record: &Record) -> Value {
    let mut headers = Map::new();
    for (name, value) in &record.headers {
        let shown = match std::str::from_utf8(value) {
            Ok(text) => json!(text),
            Err(_) => json!({ "base64": STANDARD.encode(value) }),
        };
        match headers.get_mut(name.as_ref()) {
            None => drop(headers.insert(name.to_string(), shown)),
            Some(Value::Array(several)) => several.push(shown),
            Some(first) => *first = json!([first.take(), shown]),
        }
    }
    Value::Object(headers)
}
