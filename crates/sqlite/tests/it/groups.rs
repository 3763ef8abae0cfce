//! Writes that share a commit: each has its own fate, and none is answered early.

use std::time::Duration;

use futures::all;
use helenus_model::{Failure, Kind};
use helenus_sqlite::rusqlite::Connection;
use helenus_sqlite::{Engine, Error, Options};

use super::{PAIRS, count, insert_pair, open};

/// Runs many futures at once and collects what they give.
mod futures {
    use std::future::Future;
    use tokio::task::JoinSet;

    pub(super) async fn all<T: Send + 'static>(
        tasks: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        tasks.into_iter().collect::<JoinSet<_>>().join_all().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_write_is_undone_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir.path().join("store.db")).await;
    let writes = (0..500).map(|id| {
        let engine = engine.clone();
        async move {
            // Every third write fails after its first half is in.
            let done = engine
                .write(move |db| -> Result<(), Error> {
                    db.execute("INSERT INTO pairs VALUES (?1, 'left')", [id])?;
                    if id % 3 == 0 {
                        db.execute("INSERT INTO no_such_table VALUES (1)", [])?;
                    }
                    db.execute("INSERT INTO pairs VALUES (?1, 'right')", [id])?;
                    Ok(())
                })
                .await;
            assert_eq!(done.is_err(), id % 3 == 0, "{done:?}");
            usize::from(done.is_ok())
        }
    });
    let applied: usize = all(writes).await.into_iter().sum();
    assert_eq!(count(&engine).await, i64::try_from(applied * 2).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_writes_share_commits() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir.path().join("store.db")).await;
    all((0..1_000).map(|id| {
        let engine = engine.clone();
        async move { insert_pair(&engine, id).await.unwrap() }
    }))
    .await;
    let commits = *engine.commits().borrow();
    assert!(commits < 1_000, "1000 writes took {commits} commits");
    assert_eq!(count(&engine).await, 2_000);
}

#[tokio::test]
async fn an_answer_means_another_connection_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let engine = open(&path).await;
    let other = Connection::open(&path).unwrap();
    for id in 0..50 {
        insert_pair(&engine, id).await.unwrap();
        let seen: i64 = other
            .query_row("SELECT count(*) FROM pairs WHERE id = ?1", [id], |row| row.get(0))
            .unwrap();
        assert_eq!(seen, 2);
    }
}

#[tokio::test]
async fn a_commit_wakes_whoever_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir.path().join("store.db")).await;
    let mut commits = engine.commits();
    commits.mark_unchanged();
    let (woken, written) = tokio::join!(commits.changed(), insert_pair(&engine, 1));
    woken.unwrap();
    written.unwrap();
}

#[tokio::test]
async fn a_panic_is_undone_and_the_engine_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir.path().join("store.db")).await;
    let panicked = engine
        .write(|db| -> Result<(), Error> {
            db.execute("INSERT INTO pairs VALUES (1, 'left')", [])?;
            panic!("on purpose");
        })
        .await;
    assert_eq!(panicked, Err(Error::Panicked));
    let panicked = engine.read(|_| -> Result<(), Error> { panic!("on purpose") }).await;
    assert_eq!(panicked, Err(Error::Panicked));
    insert_pair(&engine, 2).await.unwrap();
    assert_eq!(count(&engine).await, 2);
}

#[tokio::test]
async fn a_read_sees_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let engine = open(&path).await;
    let writer = Connection::open(&path).unwrap();
    let counts = engine
        .read(move |db| -> Result<(i64, i64), Error> {
            let count = || db.query_row("SELECT count(*) FROM pairs", [], |row| row.get(0));
            let before = count()?;
            writer.execute("INSERT INTO pairs VALUES (7, 'left')", [])?;
            Ok((before, count()?))
        })
        .await;
    assert_eq!(counts, Ok((0, 0)));
    assert_eq!(count(&engine).await, 1);
}

#[tokio::test]
async fn a_read_cannot_write() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir.path().join("store.db")).await;
    let wrote = engine.read(|db| -> Result<usize, Error> {
        Ok(db.execute("INSERT INTO pairs VALUES (1, 'left')", [])?)
    });
    assert_eq!(wrote.await, Err(Error::ReadOnly));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_the_writes_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let options = Options { file_bytes_max: Some(256 * 1024), ..Options::default() };
    let engine = Engine::open(&path, options, &[&PAIRS]).await.unwrap();
    let outcomes = all((0..20_000).map(|id| {
        let engine = engine.clone();
        async move { insert_pair(&engine, id).await }
    }))
    .await;
    let applied = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((1..20_000).contains(&applied), "{applied}");
    for error in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(error, Error::Full | Error::Undone), "{error}");
        assert_eq!((error.kind(), error.applied()), (Kind::Unavailable, Some(false)));
    }
    assert_eq!(count(&engine).await, i64::try_from(applied * 2).unwrap());
    engine.close().await;

    // With room again, the same file goes on.
    let engine = open(&path).await;
    insert_pair(&engine, 30_000).await.unwrap();
    assert_eq!(count(&engine).await, i64::try_from(applied * 2 + 2).unwrap());
}

#[tokio::test]
async fn another_process_holding_the_lock_fails_the_write_and_not_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let options = Options { busy_timeout: Duration::from_millis(20), ..Options::default() };
    let engine = Engine::open(&path, options, &[&PAIRS]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(insert_pair(&engine, 1).await, Err(Error::Locked));
    assert_eq!(count(&engine).await, 0, "readers are not held up");
    other.execute_batch("COMMIT").unwrap();
    insert_pair(&engine, 1).await.unwrap();
}

#[tokio::test]
async fn a_closed_engine_finishes_what_was_queued_and_takes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let engine = open(&path).await;
    let kept = engine.clone();
    let writes = all((0..100).map(move |id| {
        let engine = kept.clone();
        async move { insert_pair(&engine, id).await }
    }));
    let (outcomes, ()) = tokio::join!(writes, engine.close());
    let applied = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(()) | Err(Error::Closed)), "{outcome:?}");
    }
    assert_eq!(insert_pair(&engine, 1_000).await, Err(Error::Closed));
    let read = engine.read(|_| -> Result<(), Error> { Ok(()) }).await;
    assert_eq!(read, Err(Error::Closed));
    engine.close().await;
    let engine = open(&path).await;
    assert_eq!(count(&engine).await, i64::try_from(applied * 2).unwrap());
}
