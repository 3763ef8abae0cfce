//! A file that cannot be used is refused with its reason, and left as it was.

use std::fs;
use std::path::Path;

use helenus_model::Failure;
use helenus_sqlite::rusqlite::Connection;
use helenus_sqlite::{APPLICATION_ID, Component, Engine, Inspection, OpenError, Options, inspect};

use super::{PAIRS, count, insert_pair, open};

async fn refused(path: &Path) -> OpenError {
    let options =
        Options { busy_timeout: std::time::Duration::from_millis(50), ..Options::default() };
    let before = fs::read(path).ok();
    let error = Engine::open(path, options, &[&PAIRS]).await.expect_err("refused");
    assert_eq!(fs::read(path).ok(), before, "the file was touched");
    assert_eq!(error.applied(), Some(false));
    assert!(error.remedy().is_some());
    if !matches!(error, OpenError::Locked { .. }) {
        let seen = inspect(path, &[&PAIRS]).await.expect_err("refused by inspection too");
        assert_eq!(seen.to_string(), error.to_string());
    }
    error
}

#[tokio::test]
async fn an_inspection_changes_nothing_and_finds_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    assert_eq!(inspect(&path, &[&PAIRS]).await.unwrap(), Inspection::Absent);
    assert!(!path.try_exists().unwrap(), "an inspection created the file");

    let engine = open(&path).await;
    for id in 0..2_000 {
        insert_pair(&engine, id).await.unwrap();
    }
    engine.close().await;
    let sound = fs::read(&path).unwrap();
    let bytes = sound.len() as u64;
    assert_eq!(inspect(&path, &[&PAIRS]).await.unwrap(), Inspection::Sound { bytes });
    assert_eq!(fs::read(&path).unwrap(), sound, "an inspection changed the file");

    let mut damaged = sound;
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xFF);
    fs::write(&path, damaged).unwrap();
    let error = inspect(&path, &[&PAIRS]).await.unwrap_err();
    assert_eq!(error.code(), "corrupt", "{error}");
}

#[tokio::test]
async fn a_store_keeps_what_was_written_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let engine = open(&path).await;
    insert_pair(&engine, 1).await.unwrap();
    engine.close().await;

    let engine = open(&path).await;
    assert_eq!(count(&engine).await, 2);
    assert_eq!(engine.path(), path);
    engine.close().await;
    let wal = dir.path().join("store.db-wal");
    assert!(!wal.try_exists().unwrap(), "a closed store is one file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_is_one_file_however_much_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = dir.path().join(format!("{round}.db"));
        let engine = open(&path).await;
        for id in 0..20 {
            let (written, _, _) =
                tokio::join!(insert_pair(&engine, id), count(&engine), count(&engine));
            written.unwrap();
        }
        engine.close().await;
        let log = dir.path().join(format!("{round}.db-wal"));
        assert!(!log.try_exists().unwrap(), "round {round} left its log behind");
    }
}

#[tokio::test]
async fn a_file_that_is_not_sqlite_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    for bytes in [b"hello".as_slice(), &[0; 4096]] {
        fs::write(&path, bytes).unwrap();
        let error = refused(&path).await.to_string();
        assert!(error.ends_with("is not a Helenus store: it is not a SQLite file"), "{error}");
    }
}

#[tokio::test]
async fn another_programs_sqlite_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let error = refused(&path).await.to_string();
    assert!(error.ends_with("it is the SQLite file of another program"), "{error}");
}

#[tokio::test]
async fn a_newer_file_is_refused_by_format_and_by_part() {
    static LATER: Component =
        Component { name: "pairs", migrations: &[PAIRS.migrations[0], "CREATE TABLE more (x)"] };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    Engine::open(&path, Options::default(), &[&LATER]).await.unwrap().close().await;
    let error = refused(&path).await.to_string();
    assert!(error.contains("its pairs has format 2, this release knows 1"), "{error}");

    let path = dir.path().join("format.db");
    open(&path).await.close().await;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
    // WAL: the new number may be in the log only, and must be seen there too.
    let error = refused(&path).await.to_string();
    assert!(error.contains("its file has format 9, this release knows 1"), "{error}");
}

#[tokio::test]
async fn an_older_file_is_brought_up_to_date_once() {
    static LATER: Component = Component {
        name: "pairs",
        migrations: &[PAIRS.migrations[0], "CREATE TABLE more (x); INSERT INTO more VALUES (1)"],
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let engine = open(&path).await;
    insert_pair(&engine, 1).await.unwrap();
    engine.close().await;
    for _ in 0..2 {
        let engine = Engine::open(&path, Options::default(), &[&LATER]).await.unwrap();
        assert_eq!(count(&engine).await, 2);
        engine.close().await;
    }
    let rows: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM more", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn a_locked_file_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    open(&path).await.close().await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let error = refused(&path).await;
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_file_that_is_read_cannot_be_switched_to_wal_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    open(&path).await.close().await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA journal_mode = DELETE; BEGIN; SELECT * FROM pairs").unwrap();
    let error = refused(&path).await;
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    drop(other);
    open(&path).await.close().await;
}

#[tokio::test]
async fn a_missing_folder_or_a_folder_instead_of_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&dir.path().join("no/such/store.db")).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    let error = refused(dir.path()).await;
    assert!(error.to_string().ends_with("it is a folder"), "{error}");
}

#[tokio::test]
async fn two_engines_open_a_new_file_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let (a, b) = tokio::join!(open(&path), open(&path));
    let (first, second) = tokio::join!(insert_pair(&a, 1), insert_pair(&b, 2));
    first.unwrap();
    second.unwrap();
    assert_eq!(count(&a).await, 4);
}

/// Set for a process that opens a file and closes it.
const VISITOR: &str = "HELENUS_OPENING_VISITOR";

#[tokio::test]
async fn a_file_stays_locked_while_its_own_process_looks_at_it() {
    if let Some(path) = std::env::var_os(VISITOR) {
        open(Path::new(&path)).await.close().await;
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let engine = open(&path).await;
    insert_pair(&engine, 1).await.unwrap();
    inspect(&path, &[&PAIRS]).await.unwrap();
    open(&path).await.close().await;

    // The last one to close a file removes its log, and what is written to it from then on is lost.
    let visitor = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["opening::a_file_stays_locked_while_its_own_process_looks_at_it", "--exact"])
        .env(VISITOR, &path)
        .output()
        .unwrap();
    assert!(visitor.status.success(), "{visitor:?}");
    assert!(String::from_utf8_lossy(&visitor.stdout).contains("1 passed"), "{visitor:?}");
    insert_pair(&engine, 2).await.unwrap();
    assert_eq!(count(&open(&path).await).await, 4);
}

#[tokio::test]
async fn every_name_of_a_file_is_taken_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    // What begins so is a URI to SQLite.
    let beside = tempfile::Builder::new().prefix("file:").tempdir_in(".").unwrap();
    let relative = Path::new(beside.path().file_name().unwrap());
    for name in ["a?b#c.db", "100%25.db", "ä b.db", "?immutable=0"] {
        for path in [dir.path().join(name), relative.join(name)] {
            for id in [1, 2] {
                let engine = open(&path).await;
                insert_pair(&engine, id).await.unwrap();
                engine.close().await;
            }
            assert_eq!(count(&open(&path).await).await, 4, "{name}");
            let metadata = fs::metadata(&path).unwrap();
            assert!(metadata.len() > 0, "{name}");
        }
    }
}

#[tokio::test]
async fn a_file_whose_maker_was_killed_in_its_first_commit_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let maker = Connection::open(&path).unwrap();
    maker.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    let page_bytes: u32 = maker.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    maker.close().unwrap();
    // The journal that was to be deleted last: before this commit the file had no page.
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let (pages, nonce, pages_before, sector_bytes) = (0, 0, 0, 512_u32);
    let numbers = [pages, nonce, pages_before, sector_bytes, page_bytes];
    let mut journal = [&magic[..], &numbers.map(u32::to_be_bytes).concat()].concat();
    journal.resize(512, 0);
    fs::write(dir.path().join("store.db-journal"), journal).unwrap();

    for id in [1, 2] {
        let engine = open(&path).await;
        insert_pair(&engine, id).await.unwrap();
        engine.close().await;
    }
    assert_eq!(count(&open(&path).await).await, 4);
}

#[tokio::test]
async fn a_file_whose_log_was_half_moved_into_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (path, killed) = (dir.path().join("store.db"), dir.path().join("killed.db"));
    let engine = open(&path).await;
    for id in 0..500 {
        insert_pair(&engine, id).await.unwrap();
    }
    fs::copy(dir.path().join("store.db-wal"), dir.path().join("killed.db-wal")).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    engine.close().await;
    let moved = fs::read(&path).unwrap();
    // The first page, which tells how many there are, goes before the others.
    assert!(moved.len() > bytes.len());
    bytes[..4096].copy_from_slice(&moved[..4096]);
    fs::write(&killed, bytes).unwrap();

    assert_eq!(count(&open(&killed).await).await, 1_000);
}
