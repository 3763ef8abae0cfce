//! Promises of loading aggregates and reading typed events.

use std::num::{NonZeroU32, NonZeroU64};

use futures_util::TryStreamExt;
use helenus_model::{Expected, Failure, NewEvent, Payload};
use helenus_store::aggregate::{Aggregate, Aggregates, LoadError, Loaded};
use helenus_store::contract::{
    Append, Cut, EventStore, NewSnapshot, ReadEvents, Retention, Retire, Snapshots,
};
use helenus_store::typed::{Decoded, Registry, TypedEvent, encode};
use serde::{Deserialize, Serialize};

use super::Fixture;
use super::events::{stream_id, version};
use super::retention::finish;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deposited {
    amount: u64,
}

impl TypedEvent for Deposited {
    const TYPE: &'static str = "account.deposited";
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    balance: u64,
    deposits: u64,
}

impl Aggregate for Account {
    type Event = Deposited;
    const SNAPSHOT_TYPE: &'static str = "account";
    const SNAPSHOT_SCHEMA_VERSION: i32 = 3;

    fn apply(&mut self, event: Deposited) {
        self.balance += event.amount;
        self.deposits += 1;
    }
}

fn registry() -> Registry<Deposited> {
    Registry::new().event(|event: Deposited| event)
}

pub(crate) fn accounts() -> Aggregates<Account> {
    let every = NonZeroU64::new(10).unwrap();
    Aggregates::new(registry()).snapshot_every(every).keep(NonZeroU32::new(2).unwrap())
}

pub(crate) async fn deposit<S: EventStore>(store: &S, stream: &str, amounts: &[u64]) {
    let events = amounts.iter().map(|amount| encode(&Deposited { amount: *amount }).unwrap());
    let append = Append::new(stream_id(stream), Expected::Any, events.collect());
    store.append(append).await.unwrap();
}

async fn load<S: EventStore + Snapshots>(store: &S) -> Loaded<Account> {
    accounts().load(store, &stream_id("a")).await.unwrap()
}

pub(super) async fn an_aggregate_is_its_snapshot_and_the_events_after_it<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let mut account = load(store).await;
    assert_eq!((account.version, account.expected()), (None, Expected::NoStream));
    assert!(!accounts().save_if_due(store, &mut account).await.unwrap());
    deposit(store, "a", &[1; 9]).await;
    let mut account = load(store).await;
    assert!(!accounts().save_if_due(store, &mut account).await.unwrap());
    deposit(store, "a", &[5]).await;
    let mut account = load(store).await;
    assert_eq!(account.state, Account { balance: 14, deposits: 10 });
    assert_eq!(account.expected(), Expected::Exact(version(10)));
    assert!(accounts().save_if_due(store, &mut account).await.unwrap());
    assert!(!accounts().save_if_due(store, &mut account).await.unwrap());
    // What stands before the snapshot is not needed any more.
    finish(store, Retire::drop(stream_id("a"), Cut::Before(version(11)))).await.unwrap();
    let again = load(store).await;
    assert_eq!((&again.state, again.version), (&account.state, account.version));
    assert_eq!(again.snapshot, Some(version(10)));
    deposit(store, "a", &[2, 3]).await;
    let account = load(store).await;
    assert_eq!(account.state, Account { balance: 19, deposits: 12 });
    assert_eq!((account.version, account.snapshot), (Some(version(12)), Some(version(10))));
}

pub(super) async fn snapshots_are_kept_to_their_number<S>(fixture: &Fixture<S>)
where
    S: EventStore + Snapshots,
{
    let store = &fixture.store;
    for _ in 0..4 {
        deposit(store, "a", &[1; 12]).await;
        let mut account = load(store).await;
        assert!(accounts().save_if_due(store, &mut account).await.unwrap());
    }
    let kept = store.snapshots(&stream_id("a")).map_ok(|info| info.version.as_i64());
    assert_eq!(kept.try_collect::<Vec<_>>().await.unwrap(), [48, 36]);
    // Somebody else's snapshot of the same version stands.
    deposit(store, "a", &[1; 10]).await;
    let mut account = load(store).await;
    let other = NewSnapshot::new(stream_id("a"), version(58), "other", Payload::json(&1.into()));
    store.save_snapshot(other).await.unwrap();
    assert!(!accounts().save_if_due(store, &mut account).await.unwrap());
}

pub(super) async fn a_snapshot_of_another_shape_is_passed_over<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    deposit(store, "a", &[1, 2, 3]).await;
    let wrong = Payload::json(&serde_json::json!({"balance": 1_000, "deposits": 1}));
    let other = NewSnapshot::new(stream_id("a"), version(2), "account", wrong.clone());
    store.save_snapshot(other).await.unwrap();
    let account = load(store).await;
    assert_eq!((account.state.balance, account.snapshot), (6, None));
    // Of ours, but broken.
    let broken = NewSnapshot {
        schema_version: 3,
        payload: Payload::json(&serde_json::json!({"balance": "much"})),
        ..NewSnapshot::new(stream_id("a"), version(3), "account", wrong)
    };
    store.save_snapshot(broken).await.unwrap();
    let error = accounts().load(store, &stream_id("a")).await.unwrap_err();
    assert!(matches!(error, LoadError::Snapshot { .. }), "{error}");
    assert_eq!(error.code(), "corrupt");
}

pub(super) async fn what_an_aggregate_does_not_know_is_an_error<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    deposit(store, "a", &[1]).await;
    let closed = NewEvent::new("account.closed", Payload::json(&serde_json::json!({})));
    let append = Append::new(stream_id("a"), Expected::Any, vec![closed]);
    store.append(append).await.unwrap();
    let error = accounts().load(store, &stream_id("a")).await.unwrap_err();
    let words = error.to_string();
    assert!(words.contains("'account.closed'") && words.contains("stream 'a'"), "{words}");
    // Events that are gone and in no snapshot are not made up for.
    finish(store, Retire::drop(stream_id("a"), Cut::KeepLast(0)).forced()).await.unwrap();
    let error = accounts().load(store, &stream_id("a")).await.unwrap_err();
    assert_eq!((error.code(), &error.details()["first"]), ("truncated", &3.into()));
}

pub(super) async fn typed_reads_name_what_they_cannot_resolve<S>(fixture: &Fixture<S>)
where
    S: EventStore,
{
    let store = &fixture.store;
    deposit(store, "a", &[7]).await;
    let raw = Payload { content_type: "image/png".to_owned(), bytes: vec![0, 255] };
    let signed = NewEvent::new("account.signed", raw.clone());
    store.append(Append::new(stream_id("a"), Expected::Any, vec![signed])).await.unwrap();
    deposit(store, "a", &[8]).await;
    let read = || ReadEvents::forward(stream_id("a"));
    let lenient = registry();
    let items: Vec<_> = lenient.read(store, read()).try_collect().await.unwrap();
    assert_eq!(items.len(), 3);
    assert!(matches!(&items[2], Decoded::Known { event: Deposited { amount: 8 }, .. }));
    let Decoded::Unresolved { recorded, .. } = &items[1] else { panic!("{:?}", items[1]) };
    assert_eq!((recorded.event_type.as_str(), &recorded.payload), ("account.signed", &raw));
    assert_eq!(recorded.stream_id, stream_id("a"));
    let strict = registry().strict();
    let mut events = Box::pin(strict.read(store, read()));
    assert!(events.try_next().await.unwrap().is_some());
    let error = events.try_next().await.unwrap_err();
    assert_eq!(error.code(), "unresolvable");
    let words = error.to_string();
    assert!(words.contains("'account.signed'") && words.contains("stream 'a'"), "{words}");
}
