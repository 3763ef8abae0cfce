//! Rebuilding beside the live tables, and swapping.

use helenus_model::{Failure, Kind};
use helenus_store::contract::{SubscriptionStatus, Subscriptions};
use helenus_store::sqlite::{ProjectionError, SqliteStore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Digests, append, is_whole, leftovers, name, never, open, projector, rows, store_lag};

fn version(version: u32) -> Digests {
    Digests { version, ..Digests::default() }
}

async fn fill(store: &SqliteStore) {
    for turn in 0..20 {
        append(store, &format!("s{}", turn % 3), &["plain"; 5]).await;
    }
}

/// A store with version 1 of the projection live, version 2 half built beside it.
async fn half_rebuilt(dir: &tempfile::TempDir) -> SqliteStore {
    let store = open(dir).await;
    fill(&store).await;
    projector(&store, &version(1)).catch_up(&never()).await.unwrap();
    let stop = CancellationToken::new();
    let stopped = Digests { stop: Some((40, stop.clone())), ..version(2) };
    projector(&store, &stopped).rebuild(&stop).await.unwrap();
    store
}

/// The build that is not live.
async fn building(store: &SqliteStore) -> Option<SubscriptionStatus> {
    let all = store.subscriptions().await.unwrap();
    all.into_iter().find(|one| one.projection.as_ref().is_some_and(|build| !build.is_live))
}

async fn live_version(store: &SqliteStore) -> String {
    store.subscription(&name()).await.unwrap().projection.unwrap().version
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_needs_a_rebuild_which_swaps() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    fill(&store).await;
    projector(&store, &version(1)).catch_up(&never()).await.unwrap();
    let error = projector(&store, &version(2)).catch_up(&never()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "projection_differs"));
    assert!(error.remedy().unwrap().contains("rebuild"));
    let done = projector(&store, &version(2)).rebuild(&never()).await.unwrap();
    assert_eq!(done.handled, 100);
    is_whole(&store).await;
    assert_eq!(live_version(&store).await, "2");
    // A table, its index (a primary key's has SQLite's name) and the view.
    assert_eq!((leftovers(&store).await, store.subscriptions().await.unwrap().len()), (3, 1));
    let error = projector(&store, &version(1)).catch_up(&never()).await.unwrap_err();
    assert!(matches!(error, ProjectionError::VersionDiffers { .. }), "{error}");
    // The same version may be rebuilt too, and a projection that never was.
    assert_eq!(projector(&store, &version(2)).rebuild(&never()).await.unwrap().handled, 100);
    is_whole(&store).await;
    store.unsubscribe(&name()).await.unwrap();
    assert_eq!(projector(&store, &version(3)).rebuild(&never()).await.unwrap().handled, 100);
    is_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_is_stopped_goes_on_later_while_the_old_tables_serve_and_follow() {
    let dir = tempfile::tempdir().unwrap();
    let store = half_rebuilt(&dir).await;
    let beside = building(&store).await.expect("it is not finished");
    let reached: u64 = beside.lanes[0].position.as_str().parse().unwrap();
    assert!((40..100).contains(&reached), "{reached}");
    assert_eq!(live_version(&store).await, "1");

    append(&store, "s7", &["plain"; 3]).await;
    projector(&store, &version(1)).catch_up(&never()).await.unwrap();
    is_whole(&store).await;

    let done = projector(&store, &version(2)).rebuild(&never()).await.unwrap();
    assert_eq!(done.handled, 103 - reached, "nothing is done twice");
    is_whole(&store).await;
    assert_eq!((live_version(&store).await.as_str(), leftovers(&store).await), ("2", 3));
    assert_eq!(building(&store).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_of_another_version_replaces_one_that_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let store = half_rebuilt(&dir).await;
    assert_eq!(projector(&store, &version(3)).rebuild(&never()).await.unwrap().handled, 100);
    is_whole(&store).await;
    assert_eq!((live_version(&store).await.as_str(), leftovers(&store).await), ("3", 3));
}

/// Readers see the old tables or the new ones, whole, and never go back; the follower goes over to
/// the new tables by itself.
#[tokio::test(flavor = "multi_thread")]
async fn readers_and_followers_go_over_to_the_new_tables() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    fill(&store).await;
    let stop = CancellationToken::new();
    let (mut follower, mut writer) = (JoinSet::new(), JoinSet::new());
    let (following, stopping) = (projector(&store, &version(1)), stop.clone());
    follower.spawn(async move { following.run(&stopping).await });
    let (writing, stopping) = (store.clone(), stop.clone());
    writer.spawn(async move {
        while !stopping.is_cancelled() {
            append(&writing, "busy", &["plain"]).await;
        }
    });
    while store_lag(&store).await.is_none() {
        tokio::task::yield_now().await;
    }
    let mut last = 0;
    for _ in 0..3 {
        let rebuilding = projector(&store, &version(1));
        let mut rebuild = JoinSet::new();
        rebuild.spawn(async move { rebuilding.rebuild(&never()).await });
        while rebuild.try_join_next().is_none() {
            let seen = rows(&store, "digests").await.values().map(|(events, _)| *events).sum();
            assert!(last <= seen, "readers went back from {last} to {seen}");
            last = seen;
        }
    }
    stop.cancel();
    writer.join_next().await.unwrap().unwrap();
    follower.join_next().await.unwrap().unwrap().unwrap();
    projector(&store, &version(1)).catch_up(&never()).await.unwrap();
    is_whole(&store).await;
    assert_eq!(leftovers(&store).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_another_version_ends_when_it_is_swapped_away() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    fill(&store).await;
    projector(&store, &version(1)).catch_up(&never()).await.unwrap();
    let mut follower = JoinSet::new();
    let following = projector(&store, &version(1));
    follower.spawn(async move { following.run(&never()).await });
    projector(&store, &version(2)).rebuild(&never()).await.unwrap();
    let error = follower.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), "projection_differs");
    is_whole(&store).await;
}
