//! Promises of the catalog.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use helenus_model::Timestamp;
use helenus_versions::{
    Catalog, ChangeError, Edit, RecycleOptions, Status, Story, TableVersion, Tables, ViewLease,
    include, pin, recycle, rollback, unpin,
};
use uuid::Uuid;

use super::{Fixture, Query};

pub(super) async fn of_many_beginnings_each_gets_its_own_number<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let runs = (1..=5).map(|run| fixture.day(run));
    let published = join_all(runs).await;
    let names: BTreeSet<String> = published.into_iter().map(|run| run.version_name).collect();
    let wanted: BTreeSet<String> = (1..=5).map(|number| format!("features_v{number}")).collect();
    assert_eq!(names, wanted);
    let tables = fixture.backend.tables().await.unwrap();
    assert!(tables.contains(&fixture.table), "{tables:?}");
}

pub(super) async fn a_change_on_an_old_epoch_is_refused<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let row = |run: &str| TableVersion::new("features", 1, run, Timestamp::EPOCH);
    let first =
        |run| Edit { epoch_was: None, next_version: 2, pinned: None, rows: vec![(row(run), None)] };
    assert!(fixture.backend.commit(&fixture.table, first("a")).await.unwrap());
    assert!(!fixture.backend.commit(&fixture.table, first("b")).await.unwrap(), "the epoch moved");
    let now = fixture.backend.snapshot(&fixture.table).await.unwrap();
    assert_eq!((now.epoch, now.next_version, now.versions.len()), (Some(1), 2, 1));
    let wrong_status =
        Edit { epoch_was: Some(1), rows: vec![(row("a"), Some(Status::Completed))], ..first("a") };
    assert!(!fixture.backend.commit(&fixture.table, wrong_status).await.unwrap());
    let taken = Edit { epoch_was: Some(1), ..first("a") };
    assert!(!fixture.backend.commit(&fixture.table, taken).await.unwrap(), "the run is there");
    assert_eq!(fixture.backend.snapshot(&fixture.table).await.unwrap(), now);
}

pub(super) async fn a_heartbeat_counts_for_its_publisher_alone<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let publisher = Uuid::from_u128(7);
    let row = TableVersion { publisher, ..TableVersion::new("features", 1, "a", Timestamp::EPOCH) };
    let rows = vec![(row, None)];
    let edit = Edit { epoch_was: None, next_version: 2, pinned: None, rows };
    assert!(fixture.backend.commit(&fixture.table, edit).await.unwrap());
    let story = Story { progress: 12, progress_checksum: -3, ..Story::default() };
    let beat = |publisher, run| fixture.backend.beat(&fixture.table, run, publisher, &story);
    assert!(beat(publisher, "a").await.unwrap());
    assert!(!beat(Uuid::from_u128(8), "a").await.unwrap());
    assert!(!beat(publisher, "b").await.unwrap(), "there is no such run");
    let now = fixture.backend.snapshot(&fixture.table).await.unwrap();
    assert_eq!(now.versions[0].story.progress, 12);
    assert_eq!(now.epoch, Some(1), "a heartbeat is in nobody's way");
    assert!(now.versions[0].heartbeat_ts > Timestamp::EPOCH);
}

pub(super) async fn rolling_back_excludes_and_the_next_publish_routes<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    let nothing = rollback(backend, ports, table, None).await.unwrap_err();
    assert!(matches!(nothing, ChangeError::NothingToRoute { .. }), "{nothing}");
    for day in 1..=3 {
        fixture.day(day).await;
    }
    assert_eq!(fixture.routed().await, Some(3));
    assert_eq!(rollback(backend, ports, table, None).await.unwrap().number, 2);
    assert_eq!(fixture.routed().await, Some(2));
    fixture.day(4).await;
    assert_eq!(fixture.routed().await, Some(4), "the next publish routes by itself");
    let before = backend.snapshot(table).await.unwrap().epoch.unwrap();
    let back = rollback(backend, ports, table, Some("features_v1")).await.unwrap();
    assert_eq!((back.number, fixture.routed().await), (1, Some(1)));
    let after = backend.snapshot(table).await.unwrap().epoch.unwrap();
    assert_eq!(after, before + 1, "one step, however far back");
    include(backend, ports, table, "3").await.unwrap();
    assert_eq!(fixture.routed().await, Some(3));
    let absent = include(backend, ports, table, "features_v9").await.unwrap_err();
    assert!(matches!(absent, ChangeError::NoVersion { .. }), "{absent}");
}

pub(super) async fn a_pin_holds_until_it_is_undone<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    fixture.day(1).await;
    fixture.day(2).await;
    pin(backend, ports, table, "features_v1").await.unwrap();
    pin(backend, ports, table, "features_v1").await.unwrap();
    let third = fixture.day(3).await;
    assert!(!third.routed && third.note.unwrap().contains("pinned"));
    assert_eq!(fixture.routed().await, Some(1));
    let refused = rollback(backend, ports, table, None).await.unwrap_err();
    assert!(matches!(refused, ChangeError::Pinned { .. }), "{refused}");
    unpin(backend, ports, table).await.unwrap();
    unpin(backend, ports, table).await.unwrap();
    assert_eq!(fixture.routed().await, Some(3));
}

pub(super) async fn rollback_and_recycle_agree_who_won<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    fixture.day(1).await;
    fixture.day(2).await;
    let options =
        RecycleOptions { keep: 1, drain: std::time::Duration::ZERO, ..RecycleOptions::default() };
    let recycled = async { recycle(backend, ports, table, options, &mut |_| ()).await.unwrap() };
    let rolled_back = rollback(backend, ports, table, Some("features_v1"));
    let (recycled, rolled_back) = tokio::join!(recycled, rolled_back);
    match rolled_back {
        Ok(_) => {
            assert_eq!(fixture.routed().await, Some(1));
            assert!(recycled.iter().all(|gone| gone.version_name != "features_v1"), "{recycled:?}");
        }
        Err(error) => {
            assert!(matches!(error, ChangeError::WrongStatus { .. }), "{error}");
            assert_eq!(fixture.routed().await, Some(2));
        }
    }
    let rows = backend.rows(&format!("SELECT id FROM {table}")).await;
    assert_eq!(rows.len(), 20, "what readers get is there");
}

pub(super) async fn a_hold_is_seen_until_it_is_given_back<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (backend, table) = (&fixture.backend, &fixture.table);
    let lease = |version, id, at| ViewLease {
        version,
        lease_id: Uuid::from_u128(id),
        expires_at: Timestamp::from_millis(at),
    };
    backend.hold(table, &lease(1, 1, 1_000)).await.unwrap();
    backend.hold(table, &lease(1, 2, 1_000)).await.unwrap();
    backend.hold(table, &lease(1, 1, 2_000)).await.unwrap();
    let mut found = backend.leases(table).await.unwrap();
    found.sort_by_key(|lease| lease.lease_id);
    assert_eq!(found, [lease(1, 1, 2_000), lease(1, 2, 1_000)]);
    backend.release(table, &lease(1, 1, 2_000)).await.unwrap();
    assert_eq!(backend.leases(table).await.unwrap(), [lease(1, 2, 1_000)]);
}
