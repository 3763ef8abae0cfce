//! Promises of snapshots.

use std::num::NonZeroU32;
use std::sync::Arc;

use futures_util::TryStreamExt;
use helenus_model::limits::APPEND_BYTES_MAX;
use helenus_model::{Expected, Failure, Kind, Payload};
use helenus_store::contract::{EventStore, NewSnapshot, Saved, Snapshot, SnapshotError, Snapshots};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::events::{append, stream_id, version};
use super::{Fixture, START};

fn snapshot(stream: &str, number: i64) -> NewSnapshot {
    let payload = Payload::json(&serde_json::json!({ "version": number }));
    NewSnapshot::new(stream_id(stream), version(number), "order", payload)
}

/// Saves a snapshot of a version the stream has.
pub(super) async fn save<S: Snapshots>(store: &S, stream: &str, number: i64) {
    store.save_snapshot(snapshot(stream, number)).await.unwrap();
}

async fn listed<S: Snapshots>(store: &S, stream: &str) -> Vec<i64> {
    let list = store.snapshots(&stream_id(stream)).map_ok(|info| info.version.as_i64());
    list.try_collect().await.unwrap()
}

pub(super) async fn the_newest_snapshot_is_loaded_with_all_its_fields<S>(fixture: &Fixture<S>)
where
    S: EventStore + Snapshots,
{
    let store = &fixture.store;
    let load = async |at_most: Option<i64>| {
        store.load_snapshot(&stream_id("s"), at_most.map(version)).await.unwrap()
    };
    assert_eq!(load(None).await, None);
    store.append(append("s", Expected::NoStream, 9)).await.unwrap();
    store.append(append("t", Expected::NoStream, 9)).await.unwrap();
    save(store, "s", 3).await;
    save(store, "t", 9).await;
    let metadata = serde_json::json!({"by": "ü"});
    let full = NewSnapshot {
        schema_version: 4,
        payload: Payload { content_type: "application/x-state".to_owned(), bytes: vec![0, 255] },
        metadata: metadata.as_object().cloned(),
        ..snapshot("s", 7)
    };
    assert_eq!(store.save_snapshot(full.clone()).await.unwrap(), Saved::Saved);
    let stored = Snapshot {
        stream_id: full.stream_id,
        version: full.version,
        snapshot_type: full.snapshot_type,
        schema_version: full.schema_version,
        payload: full.payload,
        metadata: full.metadata,
        saved_at: START,
    };
    for at_most in [None, Some(7), Some(9)] {
        assert_eq!(load(at_most).await, Some(stored.clone()));
    }
    for (at_most, found) in [(6, Some(3)), (3, Some(3)), (2, None)] {
        let loaded = load(Some(at_most)).await.map(|snapshot| snapshot.version.as_i64());
        assert_eq!(loaded, found, "{at_most}");
    }
    assert_eq!(load(Some(3)).await.unwrap().payload, snapshot("s", 3).payload);
    let infos: Vec<_> = store.snapshots(&stream_id("s")).try_collect().await.unwrap();
    let shapes: Vec<_> = infos.iter().map(|info| (info.version, info.schema_version)).collect();
    assert_eq!(shapes, [(version(7), 4), (version(3), 1)]);
    assert!(infos.iter().all(|info| info.snapshot_type == "order" && info.saved_at == START));
}

pub(super) async fn a_snapshot_never_changes<S: EventStore + Snapshots>(fixture: &Fixture<S>) {
    let store = &fixture.store;
    store.append(append("s", Expected::NoStream, 2)).await.unwrap();
    save(store, "s", 2).await;
    assert_eq!(store.save_snapshot(snapshot("s", 2)).await.unwrap(), Saved::AlreadySaved);
    let metadata = serde_json::json!({}).as_object().cloned();
    for other in [
        NewSnapshot { payload: Payload::json(&1.into()), ..snapshot("s", 2) },
        NewSnapshot { schema_version: 2, ..snapshot("s", 2) },
        NewSnapshot { snapshot_type: "cart".to_owned(), ..snapshot("s", 2) },
        NewSnapshot { metadata, ..snapshot("s", 2) },
    ] {
        let error = store.save_snapshot(other).await.unwrap_err();
        assert_eq!((error.code(), error.kind()), ("content_mismatch", Kind::Conflict), "{error}");
        assert_eq!(error.applied(), Some(false));
    }
    let stored = store.load_snapshot(&stream_id("s"), None).await.unwrap().unwrap();
    assert_eq!((stored.payload, stored.schema_version), (snapshot("s", 2).payload, 1));
}

pub(super) async fn a_snapshot_beyond_the_end_is_refused<S>(fixture: &Fixture<S>)
where
    S: EventStore + Snapshots,
{
    let store = &fixture.store;
    let refused = async |number| store.save_snapshot(snapshot("s", number)).await.unwrap_err();
    let error = refused(1).await;
    assert!(matches!(error, SnapshotError::BeyondHead { head: None, .. }), "{error}");
    store.append(append("s", Expected::NoStream, 2)).await.unwrap();
    let error = refused(3).await;
    assert_eq!((error.code(), error.applied()), ("beyond_head", Some(false)));
    assert_eq!(error.details()["head"], 2);
    save(store, "s", 2).await;
    assert_eq!(listed(store, "s").await, [2]);
}

pub(super) async fn what_is_wrong_with_a_snapshot_is_said<S>(fixture: &Fixture<S>)
where
    S: EventStore + Snapshots,
{
    let store = &fixture.store;
    store.append(append("s", Expected::NoStream, 1)).await.unwrap();
    let bytes = vec![b'x'; APPEND_BYTES_MAX + 1];
    let large = Payload { content_type: "text/plain".to_owned(), bytes };
    for (wrong, code) in [
        (NewSnapshot { snapshot_type: String::new(), ..snapshot("s", 1) }, "invalid"),
        (NewSnapshot { schema_version: 0, ..snapshot("s", 1) }, "invalid"),
        (NewSnapshot { payload: large, ..snapshot("s", 1) }, "too_large"),
    ] {
        let error = store.save_snapshot(wrong).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), (code, Some(false)), "{error}");
    }
    assert_eq!(listed(store, "s").await, [0; 0]);
}

pub(super) async fn only_the_newest_are_kept<S: EventStore + Snapshots>(fixture: &Fixture<S>) {
    let store = &fixture.store;
    store.append(append("s", Expected::NoStream, 9)).await.unwrap();
    store.append(append("t", Expected::NoStream, 1)).await.unwrap();
    save(store, "t", 1).await;
    for number in [2, 9, 4, 7] {
        save(store, "s", number).await;
    }
    let keep = |count| NonZeroU32::new(count).unwrap();
    for (count, deleted, left) in [
        (5, 0, [9, 7, 4, 2].as_slice()),
        (3, 1, &[9, 7, 4]),
        (3, 0, &[9, 7, 4]),
        (1, 2, &[9]),
        (1, 0, &[9]),
    ] {
        let pruned = store.prune_snapshots(&stream_id("s"), keep(count)).await.unwrap();
        assert_eq!((pruned, listed(store, "s").await), (deleted, left.to_vec()), "{count}");
    }
    assert_eq!(listed(store, "t").await, [1]);
    // What was pruned can be saved again.
    save(store, "s", 4).await;
    assert_eq!(listed(store, "s").await, [9, 4]);
    assert_eq!(store.prune_snapshots(&stream_id("none"), keep(1)).await.unwrap(), 0);
}

pub(super) async fn savers_at_once_keep_the_newest<S>(fixture: &Fixture<S>)
where
    S: EventStore + Snapshots + Clone + 'static,
{
    const SAVERS: usize = 8;
    let store = &fixture.store;
    store.append(append("s", Expected::NoStream, 40)).await.unwrap();
    let barrier = Arc::new(Barrier::new(SAVERS));
    let mut savers = JoinSet::new();
    for saver in 0..i64::try_from(SAVERS).unwrap() {
        let (store, barrier) = (store.clone(), Arc::clone(&barrier));
        savers.spawn(async move {
            barrier.wait().await;
            for turn in 0..5 {
                // Each version by two savers, and every one prunes to the newest alone.
                let number = (saver / 2 * 5 + turn) * 2 + 2;
                store.save_snapshot(snapshot("s", number)).await.unwrap();
                let keep = NonZeroU32::MIN;
                store.prune_snapshots(&stream_id("s"), keep).await.unwrap();
                let newest = store.load_snapshot(&stream_id("s"), None).await.unwrap();
                assert!(newest.unwrap().version >= version(number));
            }
        });
    }
    while let Some(ended) = savers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(listed(store, "s").await, [40]);
}
