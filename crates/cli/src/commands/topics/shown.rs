//! A message as it is printed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::Payload;
use helenus::broker::Record;
use serde_json::{Map, Value, json};

use crate::commands::events::shown::payload;

/// Key, headers and payload as what they are; bytes that are no text as base64.
pub(super) fn record(record: &Record) -> Value {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
    set("topic", json!(record.position.topic));
    set("partition", json!(record.position.partition));
    set("offset", json!(record.position.offset));
    set("timestamp_utc", json!(record.timestamp));
    match record.key.as_ref().map(|key| (std::str::from_utf8(key), key)) {
        None => set("key", Value::Null),
        Some((Ok(text), _)) => set("key", json!(text)),
        Some((Err(_), bytes)) => set("key_base64", json!(STANDARD.encode(bytes))),
    };
    set("headers", headers(record));
    let content_type =
        header(record, "content-type").or_else(|| header(record, "ce_datacontenttype"));
    // What says nothing of itself is shown as JSON if it is.
    let content_type = content_type.unwrap_or_else(|| Payload::JSON.to_owned());
    let (name, shown) = payload(&Payload { content_type, bytes: record.payload.clone() });
    set(name, shown);
    Value::Object(object)
}

fn header(record: &Record, name: &str) -> Option<String> {
    let found = record.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name))?;
    String::from_utf8(found.1.clone()).ok()
}

/// By name; those that come more than once as a list.
fn headers(record: &Record) -> Value {
    let mut headers = Map::new();
    for (name, value) in &record.headers {
        let shown = match std::str::from_utf8(value) {
            Ok(text) => json!(text),
            Err(_) => json!({ "base64": STANDARD.encode(value) }),
        };
        match headers.get_mut(name) {
            None => drop(headers.insert(name.clone(), shown)),
            Some(Value::Array(several)) => several.push(shown),
            Some(first) => *first = json!([first.take(), shown]),
        }
    }
    Value::Object(headers)
}
