//! Promises of appending to a stream and reading it.

use futures_util::{StreamExt, TryStreamExt};
use helenus_model::limits::{APPEND_BYTES_MAX, APPEND_EVENTS_MAX, EVENT_PAGE_MAX};
use helenus_model::{
    EventId, Expected, Failure, Kind, NewEvent, OperationId, Payload, RecordedEvent, StreamId,
    Timestamp, Version,
};
use helenus_store::contract::{Append, AppendError, Appended, EventStore, ReadEvents};
use uuid::Uuid;

use super::{Fixture, START};

pub(super) fn stream_id(text: &str) -> StreamId {
    StreamId::new(text).unwrap()
}

pub(super) fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

pub(super) fn event(event_type: &str) -> NewEvent {
    NewEvent::new(event_type, Payload::json(&serde_json::json!({ "type": event_type })))
}

pub(super) fn events(count: usize) -> Vec<NewEvent> {
    (0..count).map(|index| event(&format!("e{index}"))).collect()
}

pub(super) fn append(stream: &str, expected: Expected, count: usize) -> Append {
    Append::new(stream_id(stream), expected, events(count))
}

pub(super) fn applied(first: i64, last: i64) -> Appended {
    Appended::Applied { first: version(first), last: version(last) }
}

pub(super) async fn all<S: EventStore>(store: &S, stream: &str) -> Vec<RecordedEvent> {
    store.read(ReadEvents::forward(stream_id(stream))).try_collect().await.unwrap()
}

pub(super) async fn versions<S: EventStore>(store: &S, read: ReadEvents) -> Vec<i64> {
    store.read(read).map(|event| event.unwrap().version.as_i64()).collect().await
}

pub(super) async fn an_event_reads_back_with_all_its_fields<S: EventStore>(fixture: &Fixture<S>) {
    let (own, operation_id) = (EventId::from(Uuid::from_u128(7)), OperationId::from(Uuid::max()));
    let metadata = serde_json::json!({"who": "wert ü", "n": [1, null]});
    let full = NewEvent {
        event_id: Some(own),
        schema_version: 3,
        occurred_at: Some(Timestamp::from_millis(-5)),
        correlation_id: Some("request-1".to_owned()),
        causation_id: Some("command-1".to_owned()),
        tenant_id: Some("tenant-1".to_owned()),
        metadata: metadata.as_object().cloned(),
        declared_stream: Some(stream_id("order-1")),
        declared_version: Some(Version::FIRST),
        ..event("order.placed")
    };
    let given = Append {
        operation_id: Some(operation_id),
        ..Append::new(stream_id("order-1"), Expected::NoStream, vec![full, event("order.paid")])
    };
    assert_eq!(fixture.store.append(given).await.unwrap(), applied(1, 2));
    let read = all(&fixture.store, "order-1").await;
    let first = RecordedEvent {
        stream_id: stream_id("order-1"),
        version: Version::FIRST,
        event_id: own,
        event_type: "order.placed".to_owned(),
        schema_version: 3,
        payload: event("order.placed").payload,
        occurred_at: Timestamp::from_millis(-5),
        appended_at: START,
        correlation_id: Some("request-1".to_owned()),
        causation_id: Some("command-1".to_owned()),
        tenant_id: Some("tenant-1".to_owned()),
        metadata: metadata.as_object().cloned(),
        operation_id,
    };
    let second = RecordedEvent {
        version: version(2),
        event_id: EventId::derived(operation_id, 1),
        event_type: "order.paid".to_owned(),
        schema_version: 1,
        payload: event("order.paid").payload,
        occurred_at: START,
        correlation_id: None,
        causation_id: None,
        tenant_id: None,
        metadata: None,
        ..first.clone()
    };
    assert_eq!(read, [first, second]);
}

pub(super) async fn payloads_of_any_kind_read_back<S: EventStore>(fixture: &Fixture<S>) {
    let payload = |content_type: &str, bytes: &[u8]| Payload {
        content_type: content_type.to_owned(),
        bytes: bytes.to_vec(),
    };
    let payloads = [
        payload("application/json", b"{ \"spaces\": 1 }"),
        payload("application/json", b"\xff not UTF-8"),
        payload("text/plain; charset=utf-8", "grüße\0".as_bytes()),
        payload("text/plain", b""),
        payload("application/octet-stream", b""),
        payload("application/octet-stream", &[0, 159, 146, 150]),
    ];
    let events = payloads.iter().map(|payload| NewEvent::new("e", payload.clone())).collect();
    let all_of_them = Append::new(stream_id("s"), Expected::NoStream, events);
    fixture.store.append(all_of_them).await.unwrap();
    let read: Vec<Payload> =
        all(&fixture.store, "s").await.into_iter().map(|event| event.payload).collect();
    assert_eq!(read, payloads);
}

pub(super) async fn an_expectation_decides<S: EventStore>(fixture: &Fixture<S>) {
    let at = |number| Expected::Exact(version(number));
    for (expected, count, outcome) in [
        (Expected::Exists, 1, Err(None)),
        (at(1), 1, Err(None)),
        (Expected::NoStream, 1, Ok((1, 1))),
        (Expected::NoStream, 1, Err(Some(1))),
        (at(1), 2, Ok((2, 3))),
        (at(1), 1, Err(Some(3))),
        (at(2), 1, Err(Some(3))),
        (at(4), 1, Err(Some(3))),
        (Expected::Exists, 1, Ok((4, 4))),
        (Expected::Any, 3, Ok((5, 7))),
        (at(7), 1, Ok((8, 8))),
    ] {
        let found = match fixture.store.append(append("s", expected, count)).await {
            Ok(Appended::Applied { first, last }) => Ok((first.as_i64(), last.as_i64())),
            Err(AppendError::Conflict { actual, .. }) => Err(actual.map(Version::as_i64)),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, outcome, "{expected}");
    }
    // A stream that nobody has written to may also be made by an append that expects nothing.
    let made = fixture.store.append(append("new", Expected::Any, 1)).await.unwrap();
    assert_eq!(made, applied(1, 1));
}

pub(super) async fn a_conflict_names_the_actual_version_and_writes_nothing<S: EventStore>(
    fixture: &Fixture<S>,
) {
    fixture.store.append(append("s", Expected::NoStream, 2)).await.unwrap();
    let before = all(&fixture.store, "s").await;
    let expected = Expected::Exact(Version::FIRST);
    let error = fixture.store.append(append("s", expected, 3)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.kind(), error.applied()),
        ("conflict", Kind::Conflict, Some(false))
    );
    assert_eq!(error.to_string(), "expected version 1, found version 2");
    assert_eq!(all(&fixture.store, "s").await, before);
    assert_eq!(fixture.store.version(&stream_id("s")).await.unwrap(), Version::new(2));
}

pub(super) async fn many_events_are_all_or_nothing<S: EventStore>(fixture: &Fixture<S>) {
    let many = append("s", Expected::NoStream, 300);
    assert_eq!(fixture.store.append(many).await.unwrap(), applied(1, 300));
    fixture.store.append(append("s", Expected::NoStream, 300)).await.unwrap_err();
    let read = all(&fixture.store, "s").await;
    assert_eq!(read.len(), 300);
    assert!(read.iter().enumerate().all(|(index, event)| event.event_type == format!("e{index}")));
}

pub(super) async fn reads_begin_and_end_where_they_are_told<S: EventStore>(fixture: &Fixture<S>) {
    fixture.store.append(append("s", Expected::NoStream, 5)).await.unwrap();
    // Neighbours and remembered operations are not events of this stream.
    fixture.store.append(append("r", Expected::NoStream, 1)).await.unwrap();
    fixture.store.append(append("t", Expected::NoStream, 1)).await.unwrap();
    let lost = OperationId::from(Uuid::from_u128(3));
    fixture.store.resolve(&stream_id("s"), lost).await.unwrap();
    let (forward, backward) =
        (ReadEvents::forward(stream_id("s")), ReadEvents::backward(stream_id("s")));
    for (read, found) in [
        (forward.clone(), [1, 2, 3, 4, 5].as_slice()),
        (forward.clone().starting_at(version(3)), &[3, 4, 5]),
        (forward.clone().starting_at(version(3)).limit(2), &[3, 4]),
        (forward.clone().limit(0), &[]),
        (forward.clone().limit(9), &[1, 2, 3, 4, 5]),
        (forward.clone().starting_at(version(6)), &[]),
        (backward.clone(), &[5, 4, 3, 2, 1]),
        (backward.clone().starting_at(version(3)), &[3, 2, 1]),
        (backward.clone().starting_at(version(9)).limit(1), &[5]),
        (backward.clone().limit(2), &[5, 4]),
        (backward.clone().starting_at(version(1)), &[1]),
    ] {
        assert_eq!(versions(&fixture.store, read.clone()).await, found, "{read:?}");
    }
}

pub(super) async fn a_stream_longer_than_a_page_reads_whole<S: EventStore>(fixture: &Fixture<S>) {
    let page = i64::from(EVENT_PAGE_MAX);
    let half = usize::try_from(page / 2).unwrap();
    for _ in 0..5 {
        fixture.store.append(append("s", Expected::Any, half)).await.unwrap();
    }
    let forward: Vec<i64> = (1..=page / 2 * 5).collect();
    let backward: Vec<i64> = forward.iter().rev().copied().collect();
    let read = |read| versions(&fixture.store, read);
    assert_eq!(read(ReadEvents::forward(stream_id("s"))).await, forward);
    assert_eq!(read(ReadEvents::backward(stream_id("s"))).await, backward);
    let limited =
        ReadEvents::forward(stream_id("s")).starting_at(version(2)).limit(EVENT_PAGE_MAX.into());
    assert_eq!(read(limited).await, (2..=page + 1).collect::<Vec<i64>>());
}

pub(super) async fn a_missing_stream_has_neither_version_nor_events<S: EventStore>(
    fixture: &Fixture<S>,
) {
    assert_eq!(fixture.store.version(&stream_id("nothing")).await.unwrap(), None);
    assert_eq!(all(&fixture.store, "nothing").await, []);
    let backward = ReadEvents::backward(stream_id("nothing"));
    assert_eq!(versions(&fixture.store, backward).await, [0; 0]);
    // A cancelled operation does not make a stream.
    let lost = OperationId::from(Uuid::from_u128(3));
    fixture.store.resolve(&stream_id("nothing"), lost).await.unwrap();
    assert_eq!(fixture.store.version(&stream_id("nothing")).await.unwrap(), None);
    let first = fixture.store.append(append("nothing", Expected::NoStream, 1)).await.unwrap();
    assert_eq!(first, applied(1, 1));
}

pub(super) async fn every_stream_is_listed<S: EventStore>(fixture: &Fixture<S>) {
    for (stream, count) in [("b", 2), ("a", 1), ("ü/c", 3)] {
        fixture.store.append(append(stream, Expected::NoStream, count)).await.unwrap();
    }
    let lost = OperationId::from(Uuid::from_u128(3));
    fixture.store.resolve(&stream_id("cancelled"), lost).await.unwrap();
    let heads = fixture.store.streams().map_ok(|head| (head.stream_id.to_string(), head.version));
    let mut heads: Vec<_> = heads.try_collect().await.unwrap();
    heads.sort();
    let named = [("a", 1), ("b", 2), ("ü/c", 3)];
    assert_eq!(heads, named.map(|(stream, last)| (stream.to_owned(), version(last))));
}

pub(super) async fn what_is_wrong_is_refused_and_not_written<S: EventStore>(fixture: &Fixture<S>) {
    fixture.store.append(append("s", Expected::NoStream, 1)).await.unwrap();
    let declared = |number| NewEvent { declared_version: Version::new(number), ..event("b") };
    let elsewhere = NewEvent { declared_stream: Some(stream_id("t")), ..event("b") };
    for (events, code) in [
        (vec![], "invalid"),
        (vec![event("")], "invalid"),
        (vec![event("a"), elsewhere], "stream_mismatch"),
        (vec![event("a"), declared(2)], "version_mismatch"),
        (vec![event("a"), declared(4)], "version_mismatch"),
    ] {
        for expected in [Expected::Exact(Version::FIRST), Expected::Any] {
            let wrong = Append::new(stream_id("s"), expected, events.clone());
            let error = fixture.store.append(wrong).await.unwrap_err();
            assert_eq!((error.code(), error.applied()), (code, Some(false)), "{error}");
            assert_eq!(error.kind(), Kind::Invalid);
        }
    }
    assert_eq!(all(&fixture.store, "s").await.len(), 1);
    let right = Append::new(stream_id("s"), Expected::Any, vec![event("a"), declared(3)]);
    assert_eq!(fixture.store.append(right).await.unwrap(), applied(2, 3));
}

pub(super) async fn an_append_over_the_limit_is_refused<S: EventStore>(fixture: &Fixture<S>) {
    let sized = |bytes| {
        let payload = Payload { content_type: "text/plain".to_owned(), bytes: vec![b'x'; bytes] };
        Append::new(stream_id("s"), Expected::NoStream, vec![NewEvent::new("e", payload)])
    };
    let error = fixture.store.append(sized(APPEND_BYTES_MAX)).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("too_large", Some(false)));
    assert_eq!(fixture.store.version(&stream_id("s")).await.unwrap(), None);
    // What is just below the limit is taken, by the backend too, be it one event or many.
    let error = fixture.store.append(sized(APPEND_BYTES_MAX - 4_096)).await;
    let limit = match error {
        Ok(_) => APPEND_BYTES_MAX,
        Err(AppendError::TooLarge { limit, .. }) => {
            let limit = usize::try_from(limit).unwrap();
            fixture.store.append(sized(limit - 4_096)).await.unwrap();
            limit
        }
        Err(error) => panic!("{error:?}"),
    };
    let many = append("t", Expected::NoStream, (limit / 400).min(APPEND_EVENTS_MAX));
    fixture.store.append(many).await.unwrap();
}
