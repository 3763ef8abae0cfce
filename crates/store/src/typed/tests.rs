//! Shapes old, new, unknown and damaged.

use helenus_model::{EventId, OperationId, StreamId, Timestamp, Version};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Placed {
    total_cents: u64,
    currency: String,
}

impl TypedEvent for Placed {
    const TYPE: &'static str = "order.placed";
    const SCHEMA_VERSION: i32 = 3;
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Paid;

impl TypedEvent for Paid {
    const TYPE: &'static str = "order.paid";
}

#[derive(Debug, PartialEq)]
enum Order {
    Placed(Placed),
    Paid,
}

fn registry() -> Registry<Order> {
    Registry::new()
        .event(Order::Placed)
        .event(|_: Paid| Order::Paid)
        .upcast("order.placed", 2, |mut value| {
            value["currency"] = json!("EUR");
            Ok(value)
        })
        .upcast("order.placed", 1, |value| {
            let total = value["total"].as_u64().ok_or("there is no total")?;
            Ok(json!({ "total_cents": total * 100 }))
        })
}

fn recorded(event_type: &str, schema_version: i32, payload: Payload) -> RecordedEvent {
    RecordedEvent {
        stream_id: StreamId::new("order-1").unwrap(),
        version: Version::FIRST,
        event_id: EventId::from(Uuid::nil()),
        event_type: event_type.to_owned(),
        schema_version,
        payload,
        occurred_at: Timestamp::EPOCH,
        appended_at: Timestamp::EPOCH,
        correlation_id: None,
        causation_id: None,
        tenant_id: None,
        metadata: None,
        operation_id: OperationId::from(Uuid::nil()),
    }
}

fn known(schema_version: i32, value: &Value) -> Order {
    let stored = recorded("order.placed", schema_version, Payload::json(value));
    match registry().decode(stored).unwrap() {
        Decoded::Known { event, .. } => event,
        Decoded::Unresolved { reason, .. } => panic!("{reason}"),
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let placed = || Placed { total_cents: 7, currency: "CHF".to_owned() };
    let new = encode(&placed()).unwrap();
    assert_eq!((new.event_type.as_str(), new.schema_version), ("order.placed", 3));
    let stored = recorded(&new.event_type, new.schema_version, new.payload);
    let decoded = registry().decode(stored.clone()).unwrap();
    assert_eq!(decoded, Decoded::Known { event: Order::Placed(placed()), recorded: stored });
}

#[test]
fn older_shapes_climb_step_by_step() {
    let placed = |currency: &str| {
        Order::Placed(Placed { total_cents: 1_200, currency: currency.to_owned() })
    };
    assert_eq!(known(1, &json!({ "total": 12 })), placed("EUR"));
    assert_eq!(known(2, &json!({ "total_cents": 1200 })), placed("EUR"));
    assert_eq!(known(3, &json!({ "total_cents": 1200, "currency": "CHF" })), placed("CHF"));
}

#[test]
fn what_cannot_be_resolved_keeps_its_name_its_stream_and_its_bytes() {
    let text = Payload { content_type: "text/plain".to_owned(), bytes: b"{}".to_vec() };
    for (stored, reason, words) in [
        (
            recorded("order.lost", 1, Payload::json(&json!({}))),
            Unresolvable::UnknownType,
            "event 'order.lost' of shape 1 at version 1 of stream 'order-1' cannot be resolved: \
             no type has this name",
        ),
        (
            recorded("order.placed", 4, Payload::json(&json!({}))),
            Unresolvable::Newer { known: 3 },
            "its shape is newer than 3",
        ),
        (
            recorded("order.placed", 0, Payload::json(&json!({}))),
            Unresolvable::NoUpcaster { from: 0 },
            "there is no way up from shape 0",
        ),
        (recorded("order.paid", 1, text), Unresolvable::NotJson, "its payload is not JSON"),
    ] {
        let lenient = registry().decode(stored.clone()).unwrap();
        assert_eq!(lenient, Decoded::Unresolved { recorded: stored.clone(), reason });
        let error = registry().strict().decode(stored.clone()).unwrap_err();
        assert!(error.to_string().ends_with(words), "{error}");
        assert_eq!((error.code(), error.recorded()), ("unresolvable", &stored));
    }
}

#[test]
fn a_payload_that_does_not_fit_is_an_error_in_any_case() {
    for (schema_version, payload, words) in [
        (3, json!({ "total_cents": "many", "currency": "EUR" }), "invalid type"),
        (1, json!({}), "there is no total"),
    ] {
        let stored = recorded("order.placed", schema_version, Payload::json(&payload));
        let error = registry().decode(stored).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.kind(), Kind::Corrupt);
    }
    assert!(size_of::<DecodeError>() <= 64);
}
