//! Readers through the driver, while versions come and go under them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::Failure;
use helenus_versions::cassandra::{CassandraVersions, RoutedSession};
use helenus_versions::publish::publish;
use helenus_versions::{
    Catalog, Progress, RecycleOptions, Status, include, pin, recycle, rollback, unpin,
};
use tokio::task::JoinSet;

use crate::conformance::{Fixture, open_cassandra};

const REFRESH: Duration = Duration::from_millis(100);
const ROWS: usize = 20;

async fn client(fixture: &Fixture<CassandraVersions>) -> RoutedSession {
    let keyspace = Some(fixture.table.keyspace().to_owned());
    RoutedSession::new(fixture.backend.clone(), keyspace, REFRESH).await.unwrap()
}

fn at_once() -> RecycleOptions {
    RecycleOptions { keep: 1, drain: REFRESH * 3, ..RecycleOptions::default() }
}

async fn drop_old(fixture: &Fixture<CassandraVersions>, options: RecycleOptions) {
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    recycle(backend, ports, table, options, &mut |_| ()).await.unwrap();
}

/// Which days the rows of one query are of.
async fn days(client: &RoutedSession) -> (usize, BTreeSet<String>) {
    let all = client.prepare("SELECT name FROM features").await.unwrap();
    let rows = client.execute_unpaged(&all, ()).await.unwrap().into_rows_result().unwrap();
    let names: Vec<String> = rows.rows::<(String,)>().unwrap().map(|row| row.unwrap().0).collect();
    (names.len(), names.into_iter().collect())
}

fn day(day: i64) -> (usize, BTreeSet<String>) {
    (ROWS, BTreeSet::from([format!("day {day}")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_follows_the_versions() {
    let fixture = Box::pin(open_cassandra()).await;
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    fixture.day(1).await;
    let client = client(&fixture).await;
    let one = client.prepare("SELECT name FROM Features WHERE id = ? -- features\n").await.unwrap();
    let name = async || {
        let rows = client.execute_unpaged(&one, (7,)).await.unwrap().into_rows_result().unwrap();
        rows.single_row::<(String,)>().unwrap().0
    };
    assert_eq!(name().await, "day 1");
    fixture.day(2).await;
    client.refresh().await.unwrap();
    assert_eq!(name().await, "day 2");
    rollback(backend, ports, table, None).await.unwrap();
    client.refresh().await.unwrap();
    assert_eq!(name().await, "day 1");
    include(backend, ports, table, "2").await.unwrap();
    pin(backend, ports, table, "1").await.unwrap();
    client.refresh().await.unwrap();
    assert_eq!(name().await, "day 1");
    unpin(backend, ports, table).await.unwrap();
    client.refresh().await.unwrap();
    assert_eq!(name().await, "day 2");
    let metrics = client.metrics();
    assert_eq!(metrics.versions, [(table.clone(), "features_v2".to_owned())]);
    assert!(metrics.refreshes >= 5 && metrics.prepared >= 2, "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_a_version_is_refused_and_other_tables_are_left_alone() {
    let fixture = Box::pin(open_cassandra()).await;
    fixture.day(1).await;
    let client = client(&fixture).await;
    for cql in [
        "INSERT INTO features (id) VALUES (1)",
        "UPDATE features SET name = 'x' WHERE id = 1",
        "DELETE FROM features WHERE id = 1",
        "BEGIN BATCH INSERT INTO features (id) VALUES (1); APPLY BATCH",
    ] {
        let error = client.prepare(cql).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("refused", Some(false)), "{cql}");
    }
    let keyspace = fixture.table.keyspace();
    let create = format!("CREATE TABLE {keyspace}.plain (id int PRIMARY KEY)");
    fixture.backend.session().query_unpaged(create, ()).await.unwrap();
    let insert = format!("INSERT INTO {keyspace}.plain (id) VALUES (?)");
    let insert = client.prepare(&insert).await.unwrap();
    client.execute_unpaged(&insert, (1,)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_version_is_retried_once_and_a_paged_read_says_that_it_is_gone() {
    let fixture = Box::pin(open_cassandra()).await;
    fixture.publish(fixture.run("big", 1, fixture.file(1, 30_000))).await;
    let never = Duration::from_secs(3_600);
    let keyspace = Some(fixture.table.keyspace().to_owned());
    let client = RoutedSession::new(fixture.backend.clone(), keyspace, never).await.unwrap();
    let one = client.prepare("SELECT name FROM features WHERE id = 7").await.unwrap();
    let all = client.prepare("SELECT id FROM features").await.unwrap();
    let mut paged = Box::pin(client.execute_iter::<(i32,), _>(&all, ()).await.unwrap());
    assert!(paged.try_next().await.unwrap().is_some());
    fixture.day(2).await;
    drop_old(&fixture, at_once()).await;
    let rows = client.execute_unpaged(&one, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(rows.single_row::<(String,)>().unwrap().0, "day 2");
    assert_eq!(client.metrics().retries, 1);
    let mut read = 1;
    let error = loop {
        match paged.try_next().await {
            Ok(Some(_)) => read += 1,
            Ok(None) => panic!("{read} rows of a table that is gone"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "version_gone", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_holds_its_version() {
    let fixture = Box::pin(open_cassandra()).await;
    fixture.day(1).await;
    let client = client(&fixture).await;
    let view = client.view(&fixture.table).await.unwrap();
    fixture.day(2).await;
    drop_old(&fixture, at_once()).await;
    let table = &fixture.table;
    let rows = view.query_unpaged(&format!("SELECT name FROM {table} WHERE id = 3"), ()).await;
    let rows = rows.unwrap().into_rows_result().unwrap();
    assert_eq!(rows.single_row::<(String,)>().unwrap().0, "day 1");
    view.release().await.unwrap();
    drop_old(&fixture, at_once()).await;
    client.refresh().await.unwrap();
    assert_eq!(days(&client).await, day(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_somebody_else_outlives_the_run_that_met_it() {
    let fixture = Box::pin(open_cassandra()).await;
    let (keyspace, session) = (fixture.table.keyspace(), fixture.backend.session());
    for cql in [
        format!("CREATE TABLE {keyspace}.features_v1 (id int PRIMARY KEY)"),
        format!("INSERT INTO {keyspace}.features_v1 (id) VALUES (7)"),
    ] {
        session.query_unpaged(cql, ()).await.unwrap();
    }
    let run = fixture.run("unlucky", 1, fixture.file(1, ROWS));
    let met = publish(&fixture.backend, &fixture.ports, run, &Progress::default()).await;
    assert_eq!(met.unwrap_err().code(), "name_taken");
    fixture.day(2).await;
    drop_old(&fixture, at_once()).await;
    let snapshot = fixture.backend.snapshot(&fixture.table).await.unwrap();
    assert_eq!(snapshot.run("unlucky").unwrap().status, Status::Deleted);
    let left = format!("SELECT id FROM {keyspace}.features_v1");
    let left = session.query_unpaged(left, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(left.single_row::<(i32,)>().unwrap(), (7,));
}

/// Reads as fast as it can; every read must give all rows of one version.
async fn read_on(client: RoutedSession, stop: Arc<AtomicBool>, reads: Arc<AtomicU64>) {
    let all = client.prepare("SELECT name FROM features").await.unwrap();
    while !stop.load(Ordering::Relaxed) {
        let rows = client.execute_unpaged(&all, ()).await.expect("no read fails");
        let rows = rows.into_rows_result().unwrap();
        let names = rows.rows::<(String,)>().unwrap().map(|row| row.unwrap().0);
        let names: Vec<String> = names.collect();
        assert_eq!(names.len(), ROWS, "a whole version");
        assert!(names.iter().all(|name| *name == names[0]), "of one version: {names:?}");
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Readers at full speed through publishes, rollbacks and recycles.
#[tokio::test(flavor = "multi_thread")]
async fn proof_readers_never_notice_a_switch() {
    let rounds =
        if std::env::var_os("HELENUS_PROOF").is_some_and(|size| size == "full") { 20 } else { 3 };
    let fixture = Box::pin(open_cassandra()).await;
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    fixture.day(1).await;
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let client = client(&fixture).await;
        readers.spawn(read_on(client, Arc::clone(&stop), Arc::clone(&reads)));
    }
    for round in 0..rounds {
        fixture.day(2 + round).await;
        rollback(backend, ports, table, None).await.unwrap();
        include(backend, ports, table, &format!("{}", round + 2)).await.unwrap();
        drop_old(&fixture, at_once()).await;
        assert!(readers.try_join_next().is_none(), "a reader has ended");
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = readers.join_next().await {
        ended.unwrap();
    }
    let reads = reads.load(Ordering::Relaxed);
    assert!(reads > 0);
    println!(
        "proof: {reads} reads by 4 readers through {rounds} publishes, rollbacks and recycles: \
         none failed, none empty, none of two versions"
    );
}
