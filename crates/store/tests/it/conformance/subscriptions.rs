//! Promises of subscriptions: who may move a checkpoint, and what becomes of parked events.

use std::time::Duration;

use helenus_model::{Expected, Failure, Kind, StreamId};
use helenus_store::contract::{
    Acquired, Cut, EventStore, Feed, Hold, NewSubscription, OnPoison, Parking, Position, Reason,
    Retention, Retire, Settlement, Snapshots, Start, SubscriptionError, SubscriptionName,
    Subscriptions, Which,
};

use super::Fixture;
use super::events::{append, stream_id};
use super::feed::positions;
use super::retention::finish;
use super::snapshots::save;

const TTL: Duration = Duration::from_secs(10);

fn name(text: &str) -> SubscriptionName {
    text.parse().unwrap()
}

pub(super) fn subscription(text: &str, lanes: u32) -> NewSubscription {
    NewSubscription { lanes, ..NewSubscription::new(name(text)) }
}

async fn hold<S: Subscriptions>(store: &S, text: &str, lane: u32, owner: &str) -> Hold {
    let subscription = name(text);
    let lease = Hold::lease_name(&subscription, lane);
    match store.acquire(&lease, owner, TTL).await.unwrap() {
        Acquired::Held(lease) => Hold { subscription, lane, lease },
        Acquired::Taken(lease) => panic!("{owner} wanted what {lease:?} has"),
    }
}

/// Appends one event to each of the streams, in their order; all positions of the feed.
async fn appended<S: EventStore + Feed>(store: &S, streams: &[&str]) -> Vec<Position> {
    for stream in streams {
        store.append(append(stream, Expected::Any, 1)).await.unwrap();
    }
    let given = positions(store, helenus_store::contract::ReadFeed::default()).await;
    given.into_iter().map(|(position, ..)| position).collect()
}

fn ahead(from: &Position, to: &Position) -> Settlement {
    Settlement::Ahead { from: from.clone(), to: to.clone() }
}

fn parking(from: &Position, position: &Position, stream: &str, error: Option<&str>) -> Parking {
    let reason = match error {
        Some(error) => Reason::Failed { error: error.to_owned() },
        None => Reason::Behind,
    };
    let stream_id = StreamId::new(stream).unwrap();
    Parking { from: from.clone(), position: position.clone(), stream_id, reason }
}

pub(super) async fn a_subscription_keeps_its_shape<S: Subscriptions>(fixture: &Fixture<S>) {
    let store = &fixture.store;
    let new = subscription("mail", 4);
    for _ in 0..2 {
        store.subscribe(new.clone()).await.unwrap();
    }
    let lanes = NewSubscription { lanes: 5, ..new.clone() };
    let policy = NewSubscription { on_poison: OnPoison::GoOn, ..new.clone() };
    for (other, what) in [(lanes, "lanes"), (policy, "on_poison")] {
        let error = store.subscribe(other).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Conflict, "subscription_differs"));
        assert_eq!(error.details()["what"], what);
    }
    for lanes in [0, 257] {
        let error = store.subscribe(subscription("wide", lanes)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{lanes}");
    }
    let all = store.subscriptions().await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].name.clone(), all[0].lanes.len()), (name("mail"), 4));
}

pub(super) async fn a_subscription_begins_where_it_is_told<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    let all = appended(store, &["a", "b", "a"]).await;
    for (text, start, lag) in [
        ("first", Start::Beginning, 3),
        ("last", Start::End, 0),
        ("middle", Start::After(all[0].clone()), 2),
    ] {
        let new = NewSubscription { start, ..subscription(text, 1) };
        store.subscribe(new).await.unwrap();
        assert_eq!(store.subscription(&name(text)).await.unwrap().lag_events, lag, "{text}");
    }
    for nowhere in ["x", "-1", "99"] {
        let start = Start::After(nowhere.parse().unwrap());
        let new = NewSubscription { start, ..subscription("nowhere", 1) };
        assert_eq!(store.subscribe(new).await.unwrap_err().kind(), Kind::Invalid, "{nowhere}");
    }
    let error = store.subscription(&name("nowhere")).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::NotFound, "unknown_subscription"));
}

pub(super) async fn only_the_owner_of_a_lane_moves_its_checkpoint<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    let all = appended(store, &["a", "a", "a"]).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let paused = hold(store, "mail", 0, "a").await;
    let start = store.lane(&paused).await.unwrap().position;
    store.settle(&paused, ahead(&start, &all[0])).await.unwrap();
    fixture.later(TTL);
    let owner = hold(store, "mail", 0, "b").await;
    let fenced = |error: SubscriptionError| {
        assert_eq!((error.code(), error.applied()), ("fenced", Some(false)));
    };
    fenced(store.settle(&paused, ahead(&all[0], &all[2])).await.unwrap_err());
    store.settle(&owner, ahead(&all[0], &all[1])).await.unwrap();
    fenced(store.settle(&paused, ahead(&all[1], &all[2])).await.unwrap_err());
    fenced(store.settle(&paused, ahead(&all[1], &all[0])).await.unwrap_err());
    fenced(store.fail(&paused, None, "late").await.unwrap_err());
    fenced(store.park(&paused, parking(&all[1], &all[2], "a", Some("late"))).await.unwrap_err());
    fenced(store.park_again(&paused, &all[0], "late").await.unwrap_err());
    assert_eq!(store.lane(&owner).await.unwrap().position, all[1]);
    // A lease of one lane is none of another.
    let other = Hold { lane: 1, ..owner.clone() };
    fenced(store.settle(&other, ahead(&all[1], &all[2])).await.unwrap_err());
    let status = store.subscription(&name("mail")).await.unwrap();
    assert_eq!((status.lanes[0].owner.as_deref(), status.parked), (Some("b"), 0));
    assert_eq!((status.lanes[0].attempts, status.lag_events), (0, 1));
}

pub(super) async fn a_checkpoint_moves_from_where_it_is_or_not_at_all<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    let all = appended(store, &["a", "a", "a"]).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let owner = hold(store, "mail", 0, "a").await;
    let start = store.lane(&owner).await.unwrap().position;
    store.settle(&owner, ahead(&start, &all[1])).await.unwrap();
    for (from, to) in [(&start, &all[1]), (&start, &all[2]), (&all[1], &all[0])] {
        let error = store.settle(&owner, ahead(from, to)).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("moved", Some(false)), "{from} → {to}");
    }
    let error = store.park(&owner, parking(&start, &all[0], "a", Some("no"))).await.unwrap_err();
    assert_eq!(error.code(), "moved");
    assert_eq!(store.lane(&owner).await.unwrap().position, all[1]);
    assert_eq!(store.subscription(&name("mail")).await.unwrap().parked, 0);
}

pub(super) async fn the_slowest_is_whoever_has_most_to_read<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    assert_eq!(store.slowest().await.unwrap(), None);
    let all = appended(store, &["a", "a", "a", "a"]).await;
    for text in ["fast", "slow"] {
        store.subscribe(subscription(text, 1)).await.unwrap();
    }
    let fast = hold(store, "fast", 0, "a").await;
    let slow = hold(store, "slow", 0, "a").await;
    let start = store.lane(&fast).await.unwrap().position;
    store.settle(&fast, ahead(&start, &all[3])).await.unwrap();
    assert_eq!(store.slowest().await.unwrap(), Some((name("slow"), start.clone())));
    store.settle(&slow, ahead(&start, &all[1])).await.unwrap();
    assert_eq!(store.slowest().await.unwrap(), Some((name("slow"), all[1].clone())));
    // A parked event is yet to be read.
    store.park(&slow, parking(&all[1], &all[2], "a", Some("no"))).await.unwrap();
    store.settle(&slow, ahead(&all[2], &all[3])).await.unwrap();
    assert_eq!(store.slowest().await.unwrap(), Some((name("slow"), all[1].clone())));
    store.discard(&name("slow"), Which::All).await.unwrap();
    assert_eq!(store.slowest().await.unwrap(), Some((name("fast"), all[3].clone())));
}

pub(super) async fn consumers_count_while_they_say_so<S: Subscriptions>(fixture: &Fixture<S>) {
    let store = &fixture.store;
    store.subscribe(subscription("mail", 2)).await.unwrap();
    let mail = name("mail");
    assert_eq!(store.join(&mail, "a", TTL).await.unwrap(), 1);
    assert_eq!(store.join(&mail, "b", TTL).await.unwrap(), 2);
    fixture.later(TTL / 2);
    assert_eq!(store.join(&mail, "a", TTL).await.unwrap(), 2);
    fixture.later(TTL / 2);
    assert_eq!(store.join(&mail, "a", TTL).await.unwrap(), 1, "b has been silent for too long");
    assert_eq!(store.join(&mail, "c", TTL).await.unwrap(), 2);
    store.leave(&mail, "c").await.unwrap();
    assert_eq!(store.join(&mail, "a", TTL).await.unwrap(), 1);
    let error = store.join(&name("other"), "a", TTL).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

pub(super) async fn a_parked_event_keeps_its_place_in_the_stream<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    let all = appended(store, &["a", "b", "a"]).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let owner = hold(store, "mail", 0, "x").await;
    let start = store.lane(&owner).await.unwrap().position;
    assert!(!store.park(&owner, parking(&start, &all[0], "a", None)).await.unwrap());
    assert_eq!(store.lane(&owner).await.unwrap().position, start, "nothing to wait behind");
    for attempts in 1..=2 {
        assert_eq!(store.fail(&owner, None, "no ink").await.unwrap(), attempts);
    }
    let lane = store.subscription(&name("mail")).await.unwrap().lanes.remove(0);
    assert_eq!((lane.attempts, lane.error.as_deref()), (2, Some("no ink")));
    assert!(store.park(&owner, parking(&start, &all[0], "a", Some("no ink"))).await.unwrap());
    store.settle(&owner, ahead(&all[0], &all[1])).await.unwrap();
    assert!(store.park(&owner, parking(&all[1], &all[2], "a", None)).await.unwrap());
    let state = store.lane(&owner).await.unwrap();
    assert_eq!(state.position, all[2]);
    assert_eq!(state.stopped, [StreamId::new("a").unwrap()]);
    let parked = store.parked(&name("mail"), 10).await.unwrap();
    let told: Vec<_> = parked.iter().map(|one| (one.error.as_deref(), one.attempts)).collect();
    assert_eq!(told, [(Some("no ink"), 2), (None, 0)]);
    let versions = parked.iter().map(|one| one.event.as_ref().unwrap().version.as_i64());
    assert_eq!(versions.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(store.parked(&name("mail"), 1).await.unwrap(), parked[..1]);
}

pub(super) async fn parked_events_are_replayed_in_order_or_discarded<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    let all = appended(store, &["a", "a", "b", "a"]).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let (mail, owner) = (name("mail"), hold(store, "mail", 0, "x").await);
    let mut from = store.lane(&owner).await.unwrap().position;
    let events = [("a", Some("no")), ("a", None), ("b", Some("no")), ("a", None)];
    for ((stream, error), position) in events.into_iter().zip(&all) {
        assert!(store.park(&owner, parking(&from, position, stream, error)).await.unwrap());
        from = position.clone();
    }
    let due = async || {
        let due = store.replays(&owner, 10).await.unwrap();
        due.into_iter().map(|parked| parked.position).collect::<Vec<_>>()
    };
    assert_eq!(due().await, []);
    let error = store.replay(&mail, Which::One(all[1].clone())).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "not_first"));
    assert_eq!(store.replay(&mail, Which::One(all[0].clone())).await.unwrap(), 1);
    assert_eq!(due().await, all[..1]);
    let replayed = Settlement::Replayed { position: all[0].clone() };
    store.settle(&owner, replayed.clone()).await.unwrap();
    assert_eq!(store.settle(&owner, replayed).await.unwrap_err().code(), "not_parked");
    assert_eq!(store.replay(&mail, Which::Stream(StreamId::new("a").unwrap())).await.unwrap(), 2);
    assert_eq!(due().await, [all[1].clone(), all[3].clone()]);
    // What fails again takes the rest of its stream with it.
    assert_eq!(store.fail(&owner, Some(&all[1]), "still no").await.unwrap(), 1);
    store.park_again(&owner, &all[1], "still no").await.unwrap();
    assert_eq!(due().await, []);
    assert_eq!(store.discard(&mail, Which::One(all[1].clone())).await.unwrap(), 1);
    let error = store.discard(&mail, Which::One(all[1].clone())).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::NotFound, "not_parked"));
    assert_eq!(store.replay(&mail, Which::All).await.unwrap(), 2);
    assert_eq!(due().await, all[2..]);
    assert_eq!(store.discard(&mail, Which::All).await.unwrap(), 2);
    assert_eq!(due().await, []);
    assert_eq!(store.lane(&owner).await.unwrap().stopped, []);
}

pub(super) async fn what_is_forgotten_is_gone<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Subscriptions,
{
    let store = &fixture.store;
    let all = appended(store, &["a", "a"]).await;
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let old = hold(store, "mail", 0, "x").await;
    let start = store.lane(&old).await.unwrap().position;
    store.park(&old, parking(&start, &all[0], "a", Some("no"))).await.unwrap();
    assert!(store.unsubscribe(&name("mail")).await.unwrap());
    assert!(!store.unsubscribe(&name("mail")).await.unwrap());
    assert_eq!(store.subscriptions().await.unwrap(), []);
    let error = store.settle(&old, ahead(&all[0], &all[1])).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    // Registered again it begins anew, and whoever held it before holds nothing of it.
    store.subscribe(subscription("mail", 1)).await.unwrap();
    assert_eq!(store.settle(&old, ahead(&start, &all[1])).await.unwrap_err().code(), "fenced");
    let status = store.subscription(&name("mail")).await.unwrap();
    assert_eq!((status.lag_events, status.parked), (2, 0));
}

pub(super) async fn nothing_is_dropped_that_a_subscription_has_yet_to_read<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Retention + Snapshots + Subscriptions,
{
    let store = &fixture.store;
    let at = appended(store, &["a", "b", "a", "b"]).await;
    for stream in ["a", "b"] {
        save(store, stream, 2).await;
    }
    store.subscribe(subscription("mail", 1)).await.unwrap();
    let drop = |stream| Retire::drop(stream_id(stream), Cut::KeepLast(0));
    let refused = async |stream, position: &str| {
        let error = finish(store, drop(stream)).await.unwrap_err();
        assert_eq!((error.code(), error.kind()), ("unread", Kind::Conflict), "{error}");
        assert_eq!(error.details()["subscription"], "mail");
        assert_eq!(error.details()["position"], position);
    };
    refused("a", "0").await;
    // Archived events are read like others: the subscription does not keep them.
    for stream in ["a", "b"] {
        finish(store, Retire::archive(stream_id(stream), Cut::KeepLast(0))).await.unwrap();
    }
    let hold = hold(store, "mail", 0, "me").await;
    store.settle(&hold, ahead(&Position::new("0"), &at[2])).await.unwrap();
    finish(store, drop("a")).await.unwrap();
    refused("b", "3").await;
    // Set aside is not read.
    store.park(&hold, parking(&at[2], &at[3], "b", Some("broken"))).await.unwrap();
    refused("b", "3").await;
    let parked = store.parked(&name("mail"), 10).await.unwrap();
    assert_eq!(parked[0].event.as_ref().unwrap().version.as_i64(), 2);
    finish(store, drop("b").forced()).await.unwrap();
    assert_eq!(store.parked(&name("mail"), 10).await.unwrap()[0].event, None);
}
