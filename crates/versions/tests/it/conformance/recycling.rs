//! Promises of recycling.

use std::sync::Arc;
use std::time::Duration;

use helenus_model::ManualClock;
use helenus_versions::publish::{CheckOptions, Publish};
use helenus_versions::{
    Catalog, RecycleOptions, Recycled, Status, Tables, ViewLease, pin, recycle,
};
use uuid::Uuid;

use super::{Fixture, Query, ports_at};

const AT_ONCE: RecycleOptions = RecycleOptions {
    keep: 1,
    drain: Duration::ZERO,
    heartbeat: helenus_versions::Heartbeat {
        every: Duration::from_secs(2),
        dead_after: Duration::from_secs(30),
    },
    dry_run: false,
    wait: true,
};

async fn run<B: Catalog + Tables>(
    fixture: &Fixture<B>,
    options: RecycleOptions,
) -> Vec<(String, String)> {
    let told = &mut |_: &Recycled| ();
    let done = recycle(&fixture.backend, &fixture.ports, &fixture.table, options, told).await;
    done.unwrap().into_iter().map(|gone| (gone.version_name, gone.outcome)).collect()
}

fn outcome(version: &str, outcome: &str) -> (String, String) {
    (version.to_owned(), outcome.to_owned())
}

pub(super) async fn old_versions_go_and_the_routed_one_stays<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    for day in 1..=4 {
        fixture.day(day).await;
    }
    let hour = Duration::from_secs(3_600);
    let not_drained = RecycleOptions { keep: 2, wait: false, drain: hour, ..AT_ONCE };
    let marked = [outcome("features_v1", "draining"), outcome("features_v2", "draining")];
    assert_eq!(run(fixture, not_drained).await, marked);
    let marked = fixture.backend.marked(&fixture.table).await.unwrap();
    assert_eq!(marked.len(), 4, "nothing is dropped before it is drained");
    let dropped = [outcome("features_v1", "dropped"), outcome("features_v2", "dropped")];
    assert_eq!(run(fixture, RecycleOptions { keep: 2, ..AT_ONCE }).await, dropped);
    assert_eq!(run(fixture, RecycleOptions { keep: 2, ..AT_ONCE }).await, []);
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let statuses: Vec<Status> = snapshot.versions.iter().map(|row| row.status).collect();
    use Status::{Completed, Deleted};
    assert_eq!(statuses, [Deleted, Deleted, Completed, Completed]);
    assert_eq!(fixture.routed().await, Some(4));
    assert_eq!(fixture.day(5).await.version_name, "features_v5", "numbers are never used again");
}

pub(super) async fn pinned_and_held_versions_stay<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    for day in 1..=3 {
        fixture.day(day).await;
    }
    pin(backend, ports, table, "features_v1").await.unwrap();
    let expires_at = ports.clock.now().plus(Duration::from_secs(60));
    let lease = ViewLease { version: 2, lease_id: Uuid::from_u128(5), expires_at };
    backend.hold(table, &lease).await.unwrap();
    assert_eq!(run(fixture, AT_ONCE).await, [outcome("features_v2", "held")]);
    assert_eq!(fixture.routed().await, Some(1));
    backend.release(table, &lease).await.unwrap();
    assert_eq!(run(fixture, AT_ONCE).await, [outcome("features_v2", "dropped")]);
}

pub(super) async fn failures_go_and_an_orphan_is_dropped<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    fixture.day(1).await;
    let checks = CheckOptions { min_rows: 100, ..CheckOptions::default() };
    let vetoed = Publish { checks, ..fixture.run("few", 2, fixture.file(2, 10)) };
    assert_eq!(fixture.publish(vetoed).await.status, Status::Pending);
    assert_eq!(run(fixture, AT_ONCE).await, [outcome("features_v2", "dropped")]);
    let again = fixture.run("few", 2, fixture.file(2, 10));
    let progress = helenus_versions::Progress::default();
    let (backend, ports) = (&fixture.backend, &fixture.ports);
    let error = helenus_versions::publish::publish(backend, ports, again, &progress).await;
    assert!(error.unwrap_err().to_string().contains("DELETED"));
    // A publisher that was paused for long makes its table when its run is gone already.
    let schema = Arc::new(helenus_versions::TableSchema::parse(super::SCHEMA).unwrap());
    let target = helenus_versions::Target {
        table: fixture.table.clone(),
        version_name: "features_v2".to_owned(),
        run_id: "few".to_owned(),
        publisher: Uuid::nil(),
        schema,
        data_ts: ports.clock.now(),
        duplicates: false,
    };
    backend.create(&target).await.unwrap();
    assert_eq!(run(fixture, AT_ONCE).await, [outcome("features_v2", "dropped")]);
    assert_eq!(backend.marked(&fixture.table).await.unwrap().len(), 1);
}

pub(super) async fn a_dry_run_drops_nothing<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    fixture.day(1).await;
    fixture.day(2).await;
    let before = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let dry = RecycleOptions { dry_run: true, ..AT_ONCE };
    assert_eq!(run(fixture, dry).await, [outcome("features_v1", "would drop")]);
    assert_eq!(fixture.backend.snapshot(&fixture.table).await.unwrap(), before);
    // A publisher that is silent for long is dead, by the clock of whoever recycles.
    let clock = Arc::new(ManualClock::at(fixture.ports.clock.now()));
    clock.advance(Duration::from_secs(3_600));
    let ports = ports_at(clock);
    let told = &mut |_: &Recycled| ();
    let done = recycle(&fixture.backend, &ports, &fixture.table, dry, told).await.unwrap();
    assert_eq!(done.len(), 1, "what is complete does not die of silence");
}
