//! The event store against a model that fits on a page: any interleaving of appends, repeats,
//! cancellations and reads gives the same answers as a map of vectors.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use helenus_model::{Expected, Failure, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::Ports;
use helenus_store::contract::{
    Append, AppendError, Appended, Direction, EventStore, ReadEvents, Resolved,
};
use helenus_store::sqlite::SqliteStore;
use proptest::prelude::*;
use uuid::Uuid;

#[derive(Clone, Debug)]
enum Step {
    Append { stream: u8, expected: Expected, operation: u8, events: Vec<u8> },
    Resolve { stream: u8, operation: u8 },
    Read { stream: u8, backward: bool, from: Option<i64>, limit: Option<u64> },
}

fn step() -> impl Strategy<Value = Step> {
    let expected = prop_oneof![
        3 => (1..9_i64).prop_map(|number| Expected::Exact(Version::new(number).unwrap())),
        1 => Just(Expected::NoStream),
        1 => Just(Expected::Exists),
        3 => Just(Expected::Any),
    ];
    let events = prop::collection::vec(0..3_u8, 1..4);
    let from = prop::option::of(1..9_i64);
    prop_oneof![
        5 => (0..2_u8, expected, 0..12_u8, events).prop_map(|(stream, expected, operation, events)| {
            Step::Append { stream, expected, operation, events }
        }),
        1 => (0..2_u8, 0..12_u8).prop_map(|(stream, operation)| Step::Resolve { stream, operation }),
        2 => (0..2_u8, any::<bool>(), from, prop::option::of(0..5_u64)).prop_map(
            |(stream, backward, from, limit)| Step::Read { stream, backward, from, limit }
        ),
    ]
}

/// What the store should hold: for each stream the type of every event, and its operations.
#[derive(Default)]
struct Model {
    events: BTreeMap<u8, Vec<u8>>,
    operations: BTreeMap<(u8, u8), Remembered>,
}

enum Remembered {
    Applied { before: usize, events: Vec<u8> },
    Cancelled,
}

impl Model {
    fn append(&mut self, stream: u8, expected: Expected, operation: u8, new: &[u8]) -> String {
        match self.operations.get(&(stream, operation)) {
            Some(Remembered::Applied { before, events }) if events == new => {
                return format!("already {} {}", before + 1, before + new.len());
            }
            Some(Remembered::Applied { .. }) => return "operation_mismatch".to_owned(),
            Some(Remembered::Cancelled) => return "cancelled".to_owned(),
            None => {}
        }
        let events = self.events.entry(stream).or_default();
        let before = events.len();
        let accepted = match expected {
            Expected::Exact(version) => i64::try_from(before) == Ok(version.as_i64()),
            Expected::NoStream => before == 0,
            Expected::Exists => before > 0,
            Expected::Any => true,
        };
        if !accepted {
            return format!("conflict {before}");
        }
        events.extend(new);
        let remembered = Remembered::Applied { before, events: new.to_vec() };
        self.operations.insert((stream, operation), remembered);
        format!("applied {} {}", before + 1, before + new.len())
    }

    fn resolve(&mut self, stream: u8, operation: u8) -> String {
        let remembered = self.operations.entry((stream, operation));
        match remembered.or_insert(Remembered::Cancelled) {
            Remembered::Applied { before, events } => {
                format!("applied {} {}", *before + 1, *before + events.len())
            }
            Remembered::Cancelled => "cancelled".to_owned(),
        }
    }

    fn read(&self, stream: u8, backward: bool, from: Option<i64>, limit: Option<u64>) -> String {
        let stored = self.events.get(&stream).map(Vec::as_slice).unwrap_or_default();
        let mut events: Vec<(i64, u8)> = (1..).zip(stored.iter().copied()).collect();
        if backward {
            events.reverse();
            events.retain(|(version, _)| from.is_none_or(|from| *version <= from));
        } else {
            events.retain(|(version, _)| from.is_none_or(|from| *version >= from));
        }
        events.truncate(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()));
        format!("{events:?}")
    }
}

fn stream_id(stream: u8) -> StreamId {
    StreamId::new(format!("s{stream}")).unwrap()
}

fn operation_id(operation: u8) -> OperationId {
    OperationId::from(Uuid::from_u128(operation.into()))
}

async fn run(store: &SqliteStore, step: &Step) -> String {
    match step {
        Step::Append { stream, expected, operation, events } => {
            let payload = Payload::json(&serde_json::json!({}));
            let named = |kind: &u8| NewEvent::new(kind.to_string(), payload.clone());
            let request = Append {
                operation_id: Some(operation_id(*operation)),
                ..Append::new(stream_id(*stream), *expected, events.iter().map(named).collect())
            };
            match store.append(request).await {
                Ok(Appended::Applied { first, last }) => format!("applied {first} {last}"),
                Ok(Appended::AlreadyApplied { first, last }) => format!("already {first} {last}"),
                Err(AppendError::Conflict { actual, .. }) => {
                    format!("conflict {}", actual.map_or(0, Version::as_i64))
                }
                Err(error) => error.code().to_owned(),
            }
        }
        Step::Resolve { stream, operation } => {
            match store.resolve(&stream_id(*stream), operation_id(*operation)).await.unwrap() {
                Resolved::Applied { first, last } => format!("applied {first} {last}"),
                Resolved::Cancelled => "cancelled".to_owned(),
            }
        }
        Step::Read { stream, backward, from, limit } => {
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let from = from.and_then(Version::new);
            let read = ReadEvents { stream_id: stream_id(*stream), direction, from, limit: *limit };
            let found = store.read(read).map(|event| {
                let event = event.unwrap();
                (event.version.as_i64(), event.event_type.parse::<u8>().unwrap())
            });
            format!("{:?}", found.collect::<Vec<_>>().await)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_gives_what_the_model_gives(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let store = SqliteStore::open(dir.path().join("s.db"), Ports::system()).await.unwrap();
            let mut model = Model::default();
            for step in &steps {
                let wanted = match step {
                    Step::Append { stream, expected, operation, events } => {
                        model.append(*stream, *expected, *operation, events)
                    }
                    Step::Resolve { stream, operation } => model.resolve(*stream, *operation),
                    Step::Read { stream, backward, from, limit } => {
                        model.read(*stream, *backward, *from, *limit)
                    }
                };
                assert_eq!(run(&store, step).await, wanted, "{step:?}");
            }
        });
    }
}
