//! The event store against a model that fits on a page: any interleaving of appends, repeats,
//! cancellations, retirements and reads gives the same answers as a map of vectors.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt};
use helenus_model::{Expected, Failure, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::Ports;
use helenus_store::contract::{
    Append, AppendError, Appended, Cut, Direction, Disposal, EventStore, ReadError, ReadEvents,
    Resolved, Retention, Retire,
};
use helenus_store::sqlite::SqliteStore;
use proptest::prelude::*;
use uuid::Uuid;

#[derive(Clone, Debug)]
enum Step {
    Append { stream: u8, expected: Expected, operation: u8, events: Vec<u8> },
    Resolve { stream: u8, operation: u8 },
    Read { stream: u8, backward: bool, from: Option<i64>, limit: Option<u64> },
    Retire { stream: u8, cut: Cut, disposal: Disposal },
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
    let cut = prop_oneof![
        (1..9_i64).prop_map(|number| Cut::Before(Version::new(number).unwrap())),
        (0..4_u64).prop_map(Cut::KeepLast),
    ];
    let disposal = prop_oneof![3 => Just(Disposal::Archive), 1 => Just(Disposal::Drop)];
    prop_oneof![
        5 => (0..2_u8, expected, 0..12_u8, events).prop_map(|(stream, expected, operation, events)| {
            Step::Append { stream, expected, operation, events }
        }),
        1 => (0..2_u8, 0..12_u8).prop_map(|(stream, operation)| Step::Resolve { stream, operation }),
        2 => (0..2_u8, any::<bool>(), from, prop::option::of(0..5_u64)).prop_map(
            |(stream, backward, from, limit)| Step::Read { stream, backward, from, limit }
        ),
        1 => (0..2_u8, cut, disposal)
            .prop_map(|(stream, cut, disposal)| Step::Retire { stream, cut, disposal }),
    ]
}

/// What the store should hold: for each stream the type of every event there ever was, how many of
/// them were dropped, and its operations. Where an event is archived makes no difference.
#[derive(Default)]
struct Model {
    events: BTreeMap<u8, Vec<u8>>,
    dropped: BTreeMap<u8, usize>,
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
        let dropped = self.dropped(stream);
        let events = self.events.entry(stream).or_default();
        let before = events.len();
        // These ids do not say how old they are.
        let at = match expected {
            Expected::Exact(version) => usize::try_from(version.as_i64()).unwrap(),
            Expected::NoStream => 0,
            Expected::Exists | Expected::Any => before,
        };
        if at < dropped {
            return "operation_expired".to_owned();
        }
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

    fn dropped(&self, stream: u8) -> usize {
        self.dropped.get(&stream).copied().unwrap_or(0)
    }

    fn retire(&mut self, stream: u8, cut: Cut, disposal: Disposal) -> String {
        let head = self.events.get(&stream).map_or(0, Vec::len);
        if head == 0 {
            return "no_stream".to_owned();
        }
        let retired = match cut {
            Cut::Before(version) => usize::try_from(version.as_i64()).unwrap() - 1,
            Cut::KeepLast(count) => head.saturating_sub(usize::try_from(count).unwrap()),
            Cut::OlderThan(_) => 0,
        };
        if retired > head {
            return "beyond_head".to_owned();
        }
        if disposal == Disposal::Drop {
            self.dropped.insert(stream, retired.max(self.dropped(stream)));
        }
        "retired".to_owned()
    }

    fn resolve(&mut self, stream: u8, operation: u8) -> String {
        let is_known = self.operations.contains_key(&(stream, operation));
        if !is_known && self.dropped(stream) > 0 {
            return "operation_expired".to_owned();
        }
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
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
        let dropped = i64::try_from(self.dropped(stream)).unwrap();
        let missing = events.iter().position(|(version, _)| *version <= dropped);
        events.truncate(missing.unwrap_or(usize::MAX).min(limit));
        let end = match missing {
            Some(missing) if missing < limit => format!(" truncated {}", dropped + 1),
            _ => String::new(),
        };
        format!("{events:?}{end}")
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
            match store.resolve(&stream_id(*stream), operation_id(*operation)).await {
                Ok(Resolved::Applied { first, last }) => format!("applied {first} {last}"),
                Ok(Resolved::Cancelled) => "cancelled".to_owned(),
                Err(error) => error.code().to_owned(),
            }
        }
        Step::Read { stream, backward, from, limit } => {
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let from = from.and_then(Version::new);
            let read = ReadEvents { stream_id: stream_id(*stream), direction, from, limit: *limit };
            let (mut found, mut end) = (Vec::new(), String::new());
            let mut events = Box::pin(store.read(read));
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        found.push((event.version.as_i64(), event.event_type.parse::<u8>().unwrap()));
                    }
                    Err(ReadError::Truncated { first }) => end = format!(" truncated {first}"),
                    Err(error) => panic!("{error:?}"),
                }
            }
            format!("{found:?}{end}")
        }
        Step::Retire { stream, cut, disposal } => {
            let (stream_id, cut, disposal) = (stream_id(*stream), *cut, *disposal);
            let steps = store.retire(Retire { stream_id, cut, disposal, forced: true });
            match steps.try_collect::<Vec<_>>().await {
                Ok(_) => "retired".to_owned(),
                Err(error) => error.code().to_owned(),
            }
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
                    Step::Retire { stream, cut, disposal } => {
                        model.retire(*stream, *cut, *disposal)
                    }
                };
                assert_eq!(run(&store, step).await, wanted, "{step:?}");
            }
        });
    }
}
