//! Promises of the feed of all events.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use helenus_model::limits::EVENT_PAGE_MAX;
use helenus_model::{Expected, Failure, Kind};
use helenus_store::contract::{
    Cut, EventStore, Feed, FeedItem, Position, ReadFeed, Retention, Retire, Snapshots,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Fixture;
use super::events::{append, stream_id, version};
use super::retention::finish;
use super::snapshots::save;

pub(super) async fn positions<S: Feed>(store: &S, read: ReadFeed) -> Vec<(Position, String, i64)> {
    let items: Vec<FeedItem> = store.feed(read).try_collect().await.unwrap();
    let events = items.into_iter().filter_map(|item| match item {
        FeedItem::Event { position, event } => {
            Some((position, event.stream_id.to_string(), event.version.as_i64()))
        }
        FeedItem::Dropped { .. } | FeedItem::CaughtUp => None,
    });
    events.collect()
}

pub(super) async fn every_event_is_given_once_with_nothing_between<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Clone + 'static,
{
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = fixture.store.clone();
        writers.spawn(async move {
            for turn in 0..20_usize {
                // Half of them conflict, and leave no hole.
                let expected = if turn % 2 == 0 { Expected::Any } else { Expected::NoStream };
                let stream = format!("s{}", (writer + turn) % 3);
                drop(store.append(append(&stream, expected, turn % 4 + 1)).await);
            }
        });
    }
    writers.join_all().await;
    let many = usize::try_from(EVENT_PAGE_MAX).unwrap() + 10;
    fixture.store.append(append("many", Expected::NoStream, many)).await.unwrap();
    let items: Vec<FeedItem> = fixture.store.feed(ReadFeed::default()).try_collect().await.unwrap();
    assert_eq!(items.last(), Some(&FeedItem::CaughtUp));
    let given = positions(&fixture.store, ReadFeed::default()).await;
    let mut next: BTreeMap<&str, i64> = BTreeMap::new();
    for (index, (position, stream, version)) in given.iter().enumerate() {
        assert_eq!(position.to_string(), (index + 1).to_string());
        let next = next.entry(stream).or_insert(1);
        assert_eq!(version, next, "{stream}");
        *next += 1;
    }
    let heads = fixture.store.streams().map(|head| head.unwrap().version.as_i64());
    let stored: i64 = heads.collect::<Vec<i64>>().await.into_iter().sum();
    assert_eq!(i64::try_from(given.len()).unwrap(), stored);
}

pub(super) async fn a_feed_goes_on_after_a_position<S: EventStore + Feed>(fixture: &Fixture<S>) {
    for stream in ["a", "b", "a"] {
        fixture.store.append(append(stream, Expected::Any, 2)).await.unwrap();
    }
    let whole = positions(&fixture.store, ReadFeed::default()).await;
    assert_eq!(whole.len(), 6);
    let two = positions(&fixture.store, ReadFeed::default().limit(2)).await;
    assert_eq!(two, whole[..2]);
    for (index, (position, ..)) in whole.iter().enumerate() {
        let rest = positions(&fixture.store, ReadFeed::after(Some(position.clone()))).await;
        assert_eq!(rest, whole[index + 1..]);
    }
}

pub(super) async fn a_follower_gets_what_is_appended_later<S: EventStore + Feed>(
    fixture: &Fixture<S>,
) {
    fixture.store.append(append("a", Expected::NoStream, 1)).await.unwrap();
    let mut feed = Box::pin(fixture.store.feed(ReadFeed::default().follow().limit(3)));
    let patience = Duration::from_secs(20);
    let mut next = async || timeout(patience, feed.next()).await.unwrap().transpose().unwrap();
    assert!(matches!(next().await, Some(FeedItem::Event { .. })));
    assert_eq!(next().await, Some(FeedItem::CaughtUp));
    for version in 2..=3 {
        let append = append("a", Expected::Any, 1);
        let (appended, item) = tokio::join!(fixture.store.append(append), next());
        assert_eq!(appended.unwrap().last().as_i64(), version);
        let Some(FeedItem::Event { event, .. }) = item else { panic!("{item:?}") };
        assert_eq!(event.version.as_i64(), version);
        if version == 2 {
            assert_eq!(next().await, Some(FeedItem::CaughtUp));
        }
    }
    assert_eq!(next().await, None);
}

pub(super) async fn a_position_of_nowhere_is_refused<S: Feed>(fixture: &Fixture<S>) {
    for text in ["", "x", "-1", "1.5"] {
        let read = ReadFeed::after(Some(text.parse().unwrap()));
        let error = fixture.store.feed(read).try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!((error.code(), error.kind()), ("invalid", Kind::Invalid), "{text}");
    }
}

/// Appends to `a` and `b` in turn, one event each, with a snapshot of the last.
async fn two_streams<S: EventStore + Snapshots>(store: &S, turns: i64) {
    for turn in 1..=turns {
        for stream in ["a", "b"] {
            store.append(append(stream, Expected::Any, 1)).await.unwrap();
            if turn == turns {
                save(store, stream, turn).await;
            }
        }
    }
}

pub(super) async fn archived_events_are_given_like_others<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Retention + Snapshots,
{
    let store = &fixture.store;
    two_streams(store, 4).await;
    let before: Vec<FeedItem> = store.feed(ReadFeed::default()).try_collect().await.unwrap();
    for cut in [2, 5] {
        let retire = Retire::archive(stream_id("a"), Cut::Before(version(cut)));
        finish(store, retire).await.unwrap();
        let after: Vec<FeedItem> = store.feed(ReadFeed::default()).try_collect().await.unwrap();
        assert_eq!(after, before);
    }
}

pub(super) async fn dropped_events_are_told_of_and_numbered<S>(fixture: &Fixture<S>)
where
    S: EventStore + Feed + Retention + Snapshots,
{
    let store = &fixture.store;
    two_streams(store, 4).await;
    // Some of them archived before they are dropped.
    finish(store, Retire::archive(stream_id("a"), Cut::Before(version(3)))).await.unwrap();
    let told = async || {
        let items: Vec<FeedItem> = store.feed(ReadFeed::default()).try_collect().await.unwrap();
        let told = items.iter().map(|item| match item {
            FeedItem::Event { position, event } => format!("{position}:{}", event.stream_id),
            FeedItem::Dropped { position, count } => format!("{position}-{count}"),
            FeedItem::CaughtUp => ".".to_owned(),
        });
        told.collect::<Vec<_>>().join(" ")
    };
    finish(store, Retire::drop(stream_id("a"), Cut::Before(version(4)))).await.unwrap();
    assert_eq!(told().await, "1-1 2:b 3-1 4:b 5-1 6:b 7:a 8:b .");
    finish(store, Retire::drop(stream_id("b"), Cut::KeepLast(1))).await.unwrap();
    assert_eq!(told().await, "6-6 7:a 8:b .");
    // From the middle of what was dropped.
    let rest = ReadFeed::after(Some(Position::new("4")));
    let items: Vec<FeedItem> = store.feed(rest).try_collect().await.unwrap();
    assert_eq!(items[0], FeedItem::Dropped { position: Position::new("6"), count: 2 });
    // All of it, and then something new.
    for stream in ["a", "b"] {
        finish(store, Retire::drop(stream_id(stream), Cut::KeepLast(0))).await.unwrap();
    }
    assert_eq!(told().await, "8-8 .");
    store.append(append("a", Expected::Exact(version(4)), 1)).await.unwrap();
    assert_eq!(told().await, "8-8 9:a .");
}
