//! Appends as data: what is assigned, what is refused, what a remembered operation means.

use std::sync::Arc;
use std::time::Duration;

use helenus_model::{
    ContentHash, EventId, Expected, Failure, ManualClock, NewEvent, OperationId, Payload,
    SeededRandom, StreamId, Timestamp, Version,
};
use uuid::Uuid;

use super::*;
use crate::Ports;
use crate::contract::{Append, AppendError, Appended};

const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

fn ports() -> Ports {
    Ports { clock: Arc::new(ManualClock::at(NOW)), random: Arc::new(SeededRandom::new(1)) }
}

fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

fn event(name: &str) -> NewEvent {
    NewEvent::new(name, Payload::json(&serde_json::json!({})))
}

fn operation(number: u128) -> OperationId {
    OperationId::from(Uuid::from_u128(number))
}

fn made_at(time: Timestamp) -> OperationId {
    OperationId::generate(&ManualClock::at(time), &SeededRandom::new(2))
}

fn append(expected: Expected, events: Vec<NewEvent>) -> Append {
    let stream_id = StreamId::new("order-1").unwrap();
    Append { operation_id: Some(operation(1)), ..Append::new(stream_id, expected, events) }
}

fn plan(append: Append) -> Result<Plan, AppendError> {
    Plan::new(append, Bounds::default(), &ports())
}

fn hash(append: Append) -> ContentHash {
    plan(append).unwrap().content_hash
}

#[test]
fn what_the_caller_leaves_out_is_filled_in() {
    let own = EventId::from(Uuid::from_u128(9));
    let given = NewEvent { event_id: Some(own), occurred_at: Some(NOW.minus(HOUR)), ..event("a") };
    let plan = plan(append(Expected::Any, vec![given, event("b")])).unwrap();
    assert_eq!((plan.events[0].event_id, plan.events[0].occurred_at), (own, NOW.minus(HOUR)));
    assert_eq!(plan.events[1].event_id, EventId::derived(operation(1), 1));
    assert_eq!((plan.events[1].occurred_at, plan.appended_at), (NOW, NOW));
    let fresh = Append { operation_id: None, ..append(Expected::Any, vec![event("a")]) };
    let plan = super::Plan::new(fresh, Bounds::default(), &ports()).unwrap();
    assert_eq!(plan.operation_id.created_at(), Some(NOW));
}

#[test]
fn versions_follow_the_head() {
    let plan = plan(append(Expected::Any, vec![event("a"), event("b")])).unwrap();
    let span = |first, last| Span { first: version(first), last: version(last) };
    assert_eq!(plan.place(None).unwrap(), span(1, 2));
    assert_eq!(plan.place(Version::new(7)).unwrap(), span(8, 9));
    assert_eq!(plan.place(Version::new(i64::MAX - 1)).unwrap_err().code(), "invalid");
}

#[test]
fn expectations_meet_heads() {
    for (expected, head, accepted) in [
        (Expected::Exact(version(3)), Some(3), true),
        (Expected::Exact(version(3)), Some(4), false),
        (Expected::Exact(version(3)), None, false),
        (Expected::NoStream, None, true),
        (Expected::NoStream, Some(1), false),
        (Expected::Exists, Some(1), true),
        (Expected::Exists, None, false),
        (Expected::Any, Some(1), true),
        (Expected::Any, None, true),
    ] {
        let plan = plan(append(expected, vec![event("a")])).unwrap();
        let head = head.and_then(Version::new);
        assert_eq!(plan.accepts(head).is_ok(), accepted, "{expected} {head:?}");
    }
}

#[test]
fn what_is_wrong_in_itself_is_refused() {
    let long = "x".repeat(513);
    let declared = |number| NewEvent { declared_version: Version::new(number), ..event("b") };
    let elsewhere = StreamId::new("order-2").unwrap();
    let at_one = Expected::Exact(version(1));
    for (expected, events, code) in [
        (Expected::Any, vec![], "invalid"),
        (Expected::Any, vec![event("")], "invalid"),
        (Expected::Any, vec![event(&long)], "invalid"),
        (Expected::Any, vec![NewEvent { schema_version: 0, ..event("a") }], "invalid"),
        (Expected::Any, vec![NewEvent { tenant_id: Some(String::new()), ..event("a") }], "invalid"),
        (
            Expected::Any,
            vec![event("a"), NewEvent { declared_stream: Some(elsewhere), ..event("b") }],
            "stream_mismatch",
        ),
        (Expected::NoStream, vec![event("a"), declared(1)], "version_mismatch"),
        (at_one, vec![event("a"), declared(4)], "version_mismatch"),
        (Expected::Exact(version(i64::MAX)), vec![event("a")], "invalid"),
    ] {
        let error = plan(append(expected, events)).unwrap_err();
        assert_eq!((error.code(), error.applied()), (code, Some(false)), "{error}");
    }
    assert!(plan(append(at_one, vec![event("a"), declared(3)])).is_ok());
    // Nothing is known yet of the version this one gets.
    assert!(plan(append(Expected::Any, vec![declared(9)])).is_ok());
}

#[test]
fn an_append_over_the_limit_says_how_large_it_is() {
    let bounds = Bounds { append_bytes_max: 2_000, ..Bounds::default() };
    let payload = Payload { content_type: "text/plain".to_owned(), bytes: vec![b'x'; 2_000] };
    let too_large = append(Expected::Any, vec![NewEvent::new("a", payload)]);
    let error = Plan::new(too_large, bounds, &ports()).unwrap_err();
    let AppendError::TooLarge { bytes, limit } = error else { panic!("{error}") };
    assert!(bytes > 2_000 && limit == 2_000);
}

#[test]
fn the_hash_covers_what_the_caller_gave_and_nothing_else() {
    let base = || append(Expected::Any, vec![event("a")]);
    let with = |event| hash(append(Expected::Any, vec![event]));
    let text = |text: &str| Some(text.to_owned());
    let payload = Payload { content_type: "text/plain".to_owned(), bytes: b"{}".to_vec() };
    let other_stream = StreamId::new("order-2").unwrap();
    let metadata = serde_json::json!({"k": 1}).as_object().cloned();
    let others = [
        hash(Append { stream_id: other_stream, ..base() }),
        hash(append(Expected::Any, vec![event("a"), event("a")])),
        with(event("b")),
        with(NewEvent { schema_version: 2, ..event("a") }),
        with(NewEvent { payload, ..event("a") }),
        with(NewEvent { correlation_id: text("x"), ..event("a") }),
        with(NewEvent { causation_id: text("x"), ..event("a") }),
        with(NewEvent { tenant_id: text("x"), ..event("a") }),
        with(NewEvent { metadata, ..event("a") }),
        with(NewEvent { event_id: Some(EventId::from(Uuid::nil())), ..event("a") }),
        with(NewEvent { occurred_at: Some(NOW), ..event("a") }),
    ];
    for (index, other) in others.iter().enumerate() {
        assert_ne!(hash(base()), *other, "{index}");
        assert_eq!(others.iter().filter(|same| *same == other).count(), 1, "{index}");
    }
    let resent =
        Append { operation_id: Some(operation(2)), expected: Expected::NoStream, ..base() };
    assert_eq!(hash(base()), hash(resent));
}

#[test]
fn the_age_of_an_operation_is_in_its_id() {
    let age = |id| Age::of(id, NOW, 24 * HOUR);
    assert_eq!(age(made_at(NOW)), Age::Fresh);
    assert_eq!(age(made_at(NOW.minus(12 * HOUR))), Age::Fresh);
    assert_eq!(age(made_at(NOW.minus(13 * HOUR))), Age::Old);
    assert_eq!(age(made_at(NOW.plus(11 * HOUR))), Age::Fresh);
    assert_eq!(age(made_at(NOW.plus(13 * HOUR))), Age::Undated);
    assert_eq!(age(operation(1)), Age::Undated);
}

#[test]
fn a_remembered_operation_settles_an_append() {
    let plan = plan(append(Expected::Any, vec![event("a"), event("b")])).unwrap();
    let same = Some(plan.content_hash);
    let other = Some(hash(append(Expected::Any, vec![event("c")])));
    let span = Span { first: version(4), last: version(5) };
    let applied = |content_hash| State::Applied { span, content_hash };
    let settle = |number, state| {
        let memory = Memory { operation_id: operation(number), state };
        plan.settle(&memory).map_err(|error| error.to_string())
    };
    let already = Appended::AlreadyApplied { first: version(4), last: version(5) };
    assert_eq!(settle(1, applied(same)).unwrap(), already);
    for (number, state, words) in [
        (1, applied(other), "with other content"),
        (1, applied(None), "with other content"),
        (1, State::Cancelled, "was cancelled"),
        (2, applied(same), "cannot be told from another"),
        (2, State::Cancelled, "cannot be told from another"),
    ] {
        let error = settle(number, state).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
