//! The event store against a model that fits on a page, a map of vectors: whatever is appended,
//! repeated, cancelled, retired and read, by however many at once, the answers are those the model
//! gives in some order that agrees with when each was asked and answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt, TryStreamExt};
use helenus_model::{Expected, Failure, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::contract::{
    Append, AppendError, Appended, Cut, Direction, Disposal, EventStore, ReadError, ReadEvents,
    Resolved, Retention, Retire,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use tokio::task::JoinSet;
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
#[derive(Clone, Default)]
struct Model {
    events: BTreeMap<u8, Vec<u8>>,
    dropped: BTreeMap<u8, usize>,
    operations: BTreeMap<(u8, u8), Remembered>,
}

#[derive(Clone)]
enum Remembered {
    Applied { before: usize, events: Vec<u8> },
    Cancelled,
}

impl Model {
    fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Append { stream, expected, operation, events } => {
                self.append(*stream, *expected, *operation, events)
            }
            Step::Resolve { stream, operation } => self.resolve(*stream, *operation),
            Step::Read { stream, backward, from, limit } => {
                self.read(*stream, *backward, *from, *limit)
            }
            Step::Retire { stream, cut, disposal } => self.retire(*stream, *cut, *disposal),
        }
    }

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
        let has_dropped = self.dropped(stream) > 0;
        let remembered = self.operations.entry((stream, operation));
        match remembered.or_insert(Remembered::Cancelled) {
            Remembered::Applied { before, events } => {
                format!("applied {} {}", *before + 1, *before + events.len())
            }
            // It may have been applied, and its events dropped.
            Remembered::Cancelled if has_dropped => "operation_expired".to_owned(),
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

/// Streams of one case: a store may be used for many.
fn stream_id(case: u64, stream: u8) -> StreamId {
    StreamId::new(format!("case-{case}-{stream}")).unwrap()
}

fn operation_id(operation: u8) -> OperationId {
    OperationId::from(Uuid::from_u128(operation.into()))
}

async fn run(store: &(impl EventStore + Retention), case: u64, step: &Step) -> String {
    match step {
        Step::Append { stream, expected, operation, events } => {
            let payload = Payload::json(&serde_json::json!({}));
            let named = |kind: &u8| NewEvent::new(kind.to_string(), payload.clone());
            let request = Append {
                operation_id: Some(operation_id(*operation)),
                ..Append::new(
                    stream_id(case, *stream),
                    *expected,
                    events.iter().map(named).collect(),
                )
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
            match store.resolve(&stream_id(case, *stream), operation_id(*operation)).await {
                Ok(Resolved::Applied { first, last }) => format!("applied {first} {last}"),
                Ok(Resolved::Cancelled) => "cancelled".to_owned(),
                Err(error) => error.code().to_owned(),
            }
        }
        Step::Read { stream, backward, from, limit } => {
            let direction = if *backward { Direction::Backward } else { Direction::Forward };
            let from = from.and_then(Version::new);
            let read =
                ReadEvents { stream_id: stream_id(case, *stream), direction, from, limit: *limit };
            read_all(store, read).await
        }
        Step::Retire { stream, cut, disposal } => {
            let (stream_id, cut, disposal) = (stream_id(case, *stream), *cut, *disposal);
            let steps = store.retire(Retire { stream_id, cut, disposal, forced: true });
            match steps.try_collect::<Vec<_>>().await {
                Ok(_) => "retired".to_owned(),
                Err(error) => error.code().to_owned(),
            }
        }
    }
}

async fn read_all(store: &impl EventStore, read: ReadEvents) -> String {
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

/// A step somebody took: when it was asked for, when it was answered, and with what.
#[derive(Clone, Debug)]
struct Call {
    step: Step,
    asked: u64,
    answered: u64,
    told: String,
}

/// Runs each client's steps one after another, the clients at the same time.
async fn record<S>(store: &S, case: u64, clients: Vec<Vec<Step>>) -> Vec<Call>
where
    S: EventStore + Retention + Clone + 'static,
{
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    let mut running = JoinSet::new();
    for steps in clients {
        let store = store.clone();
        running.spawn(async move {
            let mut calls = Vec::new();
            for step in steps {
                let asked = CLOCK.fetch_add(1, Ordering::SeqCst);
                let told = run(&store, case, &step).await;
                let answered = CLOCK.fetch_add(1, Ordering::SeqCst);
                calls.push(Call { step, asked, answered, told });
            }
            calls
        });
    }
    running.join_all().await.concat()
}

/// Whether the calls can be put in an order in which the model gives the same answers; one that
/// was answered before another was asked comes before it.
fn is_explained(model: &Model, calls: &[Call]) -> bool {
    let Some(first_answer) = calls.iter().map(|call| call.answered).min() else { return true };
    (0..calls.len()).any(|index| {
        let mut model = model.clone();
        calls[index].asked < first_answer
            && model.step(&calls[index].step) == calls[index].told
            && {
                let mut rest = calls.to_vec();
                rest.swap_remove(index);
                is_explained(&model, &rest)
            }
    })
}

/// A read that goes on from the archive is not of one moment. Archiving does not show in it, nor do
/// appends, but dropping does: that is left to histories of one client.
fn undisturbed(mut clients: Vec<Vec<Step>>) -> Vec<Vec<Step>> {
    let is_alone = clients.len() == 1;
    for step in clients.iter_mut().flatten() {
        if let Step::Retire { disposal, .. } = step
            && !is_alone
        {
            *disposal = Disposal::Archive;
        }
    }
    clients
}

fn is_full_size() -> bool {
    std::env::var_os("HELENUS_PROOF").is_some()
}

/// Tries as many histories as `cases` says; gives the number of steps that were explained.
fn explain_histories<S>(runtime: &tokio::runtime::Runtime, store: &S, cases: u32) -> u64
where
    S: EventStore + Retention + Clone + 'static,
{
    let case = AtomicU64::new(0);
    let explained = AtomicU64::new(0);
    let clients = prop::collection::vec(prop::collection::vec(step(), 1..6), 1..4);
    let clients = clients.prop_map(undisturbed);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&clients, |clients| {
        let case = case.fetch_add(1, Ordering::Relaxed);
        let calls = runtime.block_on(record(store, case, clients));
        prop_assert!(is_explained(&Model::default(), &calls), "{calls:#?}");
        explained.fetch_add(calls.len() as u64, Ordering::Relaxed);
        Ok(())
    });
    match ran {
        Ok(()) => explained.into_inner(),
        Err(TestError::Fail(reason, steps)) => panic!("{reason}\n{steps:#?}"),
        Err(error) => panic!("{error}"),
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn any_interleaving_on_sqlite_is_explained_by_the_model() {
    let cases = if is_full_size() { 5_000 } else { 100 };
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let path = dir.path().join("s.db");
    let opened = helenus_store::sqlite::SqliteStore::open(path, helenus_store::Ports::system());
    let store = runtime.block_on(opened).unwrap();
    let steps = explain_histories(&runtime, &store, cases);
    println!(
        "proof: event store on SQLite, {cases} histories of up to 3 clients, {steps} steps: all explained by the model"
    );
}

#[cfg(feature = "service-tests")]
#[test]
fn any_interleaving_on_cassandra_is_explained_by_the_model() {
    let cases = if is_full_size() { 1_000 } else { 30 };
    let keyspace = crate::cassandra::Keyspace::new();
    let options = helenus_store::cassandra::Options::default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = keyspace.store(options, helenus_store::Ports::system());
    let steps = explain_histories(&runtime, &store, cases);
    println!(
        "proof: event store on Cassandra, {cases} histories of up to 3 clients, {steps} steps: all explained by the model"
    );
}

#[test]
fn a_wrong_history_is_not_explained() {
    let append = |operation, expected, told: &str, [asked, answered]: [u64; 2]| {
        let step = Step::Append { stream: 0, expected, operation, events: vec![1] };
        Call { step, asked, answered, told: told.to_owned() }
    };
    let both = |second: &str, times| {
        let first = append(1, Expected::NoStream, "applied 1 1", [0, 2]);
        is_explained(&Model::default(), &[first, append(2, Expected::Any, second, times)])
    };
    assert!(both("applied 2 2", [1, 3]) && both("applied 2 2", [3, 4]));
    // Both at the first version; one that came later and is before; a gap.
    assert!(!both("applied 1 1", [1, 3]) && !both("conflict 0", [3, 4]));
    assert!(!both("applied 3 3", [1, 3]));
}
