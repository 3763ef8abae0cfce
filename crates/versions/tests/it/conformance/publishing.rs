//! Promises of publishing.

use std::time::Duration;

use helenus_model::Failure;
use helenus_versions::publish::{CheckOptions, Publish, PublishError, SchemaFrom, publish};
use helenus_versions::{Catalog, Heartbeat, LoadOptions, Progress, Status, TableSchema, Tables};

use super::{Fixture, Query};

async fn all<B: Catalog + Tables + Query>(fixture: &Fixture<B>) -> Vec<String> {
    let mut rows = fixture.backend.rows(&format!("SELECT * FROM {}", fixture.table)).await;
    rows.sort();
    rows
}

async fn error<B: Catalog + Tables>(fixture: &Fixture<B>, run: Publish) -> PublishError {
    let progress = Progress::default();
    publish(&fixture.backend, &fixture.ports, run, &progress).await.unwrap_err()
}

pub(super) async fn readers_get_what_was_published<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let first = fixture.day(1).await;
    assert_eq!((first.rows, first.bad_rows, first.routed), (20, 0, true), "{first:?}");
    assert_eq!((first.status, first.version_name.as_str()), (Status::Completed, "features_v1"));
    assert!(first.checks.iter().all(|check| check.ok) && first.checks.len() >= 5);
    fixture.day(2).await;
    let one = format!("SELECT id, name, score FROM {} WHERE id = 7", fixture.table);
    let rows = fixture.backend.rows(&one).await;
    assert_eq!(rows, [r#"{"id": 7, "name": "day 2", "score": 7.5}"#]);
    assert_eq!(all(fixture).await.len(), 20);
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let story = &snapshot.routed().unwrap().story;
    assert_eq!((story.rows, story.who.as_str()), (20, "tester"));
    assert!(story.source.contains("day-2-20.csv"), "{}", story.source);
    assert_ne!(story.checksum, 0);
}

pub(super) async fn the_same_run_twice_is_one_version<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let first = fixture.day(1).await;
    let again = fixture.day(1).await;
    assert_eq!((again.version_name, again.rows), (first.version_name, first.rows));
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    assert_eq!((snapshot.versions.len(), snapshot.next_version), (1, 2));
}

pub(super) async fn a_vetoed_run_stays_pending_and_readers_notice_nothing<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    fixture.day(1).await;
    let few = fixture.run("few", 2, fixture.file(2, 10));
    let checks = CheckOptions { max_drop: Some(0.2), ..CheckOptions::default() };
    let vetoed = fixture.publish(Publish { checks, ..few }).await;
    assert_eq!((vetoed.status, vetoed.routed), (Status::Pending, false));
    let failed: Vec<&str> =
        vetoed.checks.iter().filter(|check| !check.ok).map(|check| check.name.as_str()).collect();
    assert_eq!(failed, ["max_drop"]);
    let path = fixture.folder.path().join("bad.csv");
    std::fs::write(&path, "id,name,score\n1,a,1\n2,b,high\nx,c\n3,\"d\",\n").unwrap();
    let report = fixture.folder.path().join("bad-rows.jsonl");
    let bad = Publish { bad_rows: Some(report.clone()), ..fixture.run("bad", 3, path.clone()) };
    let vetoed = fixture.publish(bad).await;
    assert_eq!((vetoed.status, vetoed.bad_rows), (Status::Pending, 1), "it stops at the first");
    let lines = std::fs::read_to_string(&report).unwrap();
    assert!(lines.contains("column score: 'high' is not a double"), "{lines}");
    let checks = CheckOptions { max_bad_rows: 2, ..CheckOptions::default() };
    let tolerant =
        Publish { bad_rows: Some(report.clone()), checks, ..fixture.run("tolerant", 1, path) };
    let published = fixture.publish(tolerant).await;
    assert_eq!((published.rows, published.bad_rows), (2, 2));
    assert_eq!(std::fs::read_to_string(&report).unwrap().lines().count(), 2);
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let failure = snapshot.run("few").unwrap().story.failure.clone();
    assert_eq!(failure.as_deref(), Some("vetoed by max_drop"));
}

pub(super) async fn who_forces_is_recorded<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let path = fixture.folder.path().join("twice.csv");
    std::fs::write(&path, "id,name,score\n1,a,1\n1,b,2\n").unwrap();
    let vetoed = fixture.publish(fixture.run("a", 1, path.clone())).await;
    assert_eq!(vetoed.status, Status::Pending, "a key comes twice");
    let forced = Publish { force: true, ..fixture.run("b", 1, path) };
    assert_eq!(fixture.publish(forced).await.status, Status::Completed);
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let forced = snapshot.run("b").unwrap().story.forced.clone().unwrap();
    assert_eq!(forced.by, "tester");
    assert!(forced.checks.contains(&"unique_keys".to_owned()), "{forced:?}");
}

pub(super) async fn older_data_is_complete_but_not_routed<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    fixture.day(5).await;
    let late = fixture.day(4).await;
    assert_eq!((late.status, late.routed), (Status::Completed, false));
    assert!(late.note.unwrap().contains("whose data is later"));
    assert_eq!(fixture.routed().await, Some(1));
    let tomorrow = fixture.ports.clock.now().plus(Duration::from_secs(2 * 86_400));
    let run = fixture.run("ahead", 6, fixture.file(6, 3));
    let ahead = Publish { data_ts: tomorrow, ..run };
    assert_eq!(error(fixture, ahead.clone()).await.code(), "ahead");
    let forced = fixture.publish(Publish { force: true, ..ahead }).await;
    assert!(forced.routed);
}

pub(super) async fn two_publishers_at_once_both_land<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (one, two) = tokio::join!(fixture.day(1), fixture.day(2));
    assert_eq!((one.status, two.status), (Status::Completed, Status::Completed));
    assert_ne!(one.version_name, two.version_name);
    let rows = all(fixture).await;
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.contains("day 2")), "{rows:?}");
}

/// A run slow enough to be caught in the middle.
fn slow<B: Catalog + Tables>(fixture: &Fixture<B>, run: &str, rows: usize) -> Publish {
    let load = LoadOptions { rows_per_second: Some(2_000), ..LoadOptions::default() };
    let every = Duration::from_millis(50);
    let heartbeat = Heartbeat { every, ..Heartbeat::default() };
    Publish { load, heartbeat, ..fixture.run(run, 1, fixture.file(1, rows)) }
}

/// Waits until the catalog shows that some of a run is durable.
async fn under_way<B: Catalog + Tables>(fixture: &Fixture<B>, run: &str) {
    loop {
        let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
        if snapshot.run(run).is_some_and(|row| row.story.progress > 0) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub(super) async fn a_run_that_was_taken_over_stops<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let run = slow(fixture, "shared", 4_000);
    let first = error(fixture, run.clone());
    let second = async {
        under_way(fixture, "shared").await;
        let busy = error(fixture, run.clone()).await;
        assert_eq!(busy.code(), "busy", "{busy}");
        let load = LoadOptions::default();
        fixture.publish(Publish { resume: true, load, ..run.clone() }).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.code(), "fenced", "{first}");
    assert_eq!((second.status, second.rows), (Status::Completed, 4_000));
    assert_eq!(all(fixture).await.len(), 4_000);
}

pub(super) async fn a_resumed_run_equals_an_undisturbed_one<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let run = slow(fixture, "broken", 3_000);
    {
        // Dropped in the middle, as a process that is killed.
        let progress = Progress::default();
        let broken = publish(&fixture.backend, &fixture.ports, run.clone(), &progress);
        tokio::select! {
            ended = Box::pin(broken) => panic!("{ended:?}"),
            () = under_way(fixture, "broken") => {}
        }
    }
    assert_eq!(fixture.routed().await, None, "readers see nothing of it");
    let load = LoadOptions::default();
    let resumed = fixture.publish(Publish { resume: true, load, ..run.clone() }).await;
    assert_eq!((resumed.status, resumed.rows), (Status::Completed, 3_000));
    let rows = all(fixture).await;
    let undisturbed = Publish { run_id: "whole".to_owned(), load, ..run.clone() };
    assert!(fixture.publish(undisturbed).await.routed);
    assert_eq!(all(fixture).await, rows);
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let checksum = |run: &str| snapshot.run(run).unwrap().story.checksum;
    assert_eq!(checksum("broken"), checksum("whole"));
}

pub(super) async fn the_last_row_of_a_key_stands<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let path = fixture.folder.path().join("twice.csv");
    let mut text = String::from("id,name,score\n");
    for id in 0..50 {
        text.push_str(&format!("{id},first,1\n"));
    }
    for id in 0..50 {
        text.push_str(&format!("{id},last,\n"));
    }
    std::fs::write(&path, text).unwrap();
    let checks = CheckOptions { allow_duplicates: true, ..CheckOptions::default() };
    let published = fixture.publish(Publish { checks, ..fixture.run("a", 1, path) }).await;
    assert_eq!(published.status, Status::Completed, "{published:?}");
    let rows = all(fixture).await;
    assert_eq!(rows.len(), 50);
    for row in rows {
        assert!(row.contains("\"last\"") && row.contains("\"score\": null"), "{row}");
    }
}

pub(super) async fn a_schema_comes_from_the_previous_version<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let previous = |run| Publish { schema: SchemaFrom::Previous, ..run };
    let run = fixture.run("none", 1, fixture.file(1, 3));
    assert_eq!(error(fixture, previous(run)).await.code(), "no_schema");
    let key = vec!["id".to_owned()];
    let inferred = SchemaFrom::Infer { key };
    let run = Publish { schema: inferred, ..fixture.run("inferred", 1, fixture.file(1, 3)) };
    let first = fixture.publish(run).await;
    assert!(first.schema.contains("(id bigint, name text, score double, PRIMARY KEY ((id)))"));
    let second = fixture.publish(previous(fixture.run("second", 2, fixture.file(2, 3)))).await;
    assert_eq!((second.schema, second.routed), (first.schema, true));
}

pub(super) async fn what_cannot_be_published_says_why<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let empty = fixture.folder.path().join("empty.csv");
    std::fs::write(&empty, "").unwrap();
    let vetoed = fixture.publish(fixture.run("empty", 1, empty)).await;
    let failed = vetoed.checks.iter().find(|check| !check.ok).unwrap();
    assert_eq!((vetoed.status, failed.name.as_str()), (Status::Pending, "min_rows"));
    let absent = fixture.folder.path().join("absent.csv");
    let cases = [
        (fixture.run("absent", 1, absent), "source_unreadable"),
        (fixture.run("no/name", 1, fixture.file(1, 1)), "invalid"),
        (
            Publish {
                schema: SchemaFrom::Given(
                    TableSchema::parse("CREATE TABLE t (key int PRIMARY KEY)").unwrap(),
                ),
                ..fixture.run("keyless", 1, fixture.file(1, 1))
            },
            "mapping",
        ),
    ];
    for (run, code) in cases {
        let name = run.run_id.clone();
        assert_eq!(error(fixture, run).await.code(), code, "{name}");
    }
    let changed = fixture.run("empty", 1, fixture.file(1, 4));
    assert_eq!(error(fixture, changed).await.code(), "source_changed");
    assert_eq!(fixture.routed().await, None);
}
