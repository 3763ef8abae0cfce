//! Projections written in SQL.

use helenus_model::Failure;
use helenus_sqlite::Error;
use helenus_store::sqlite::{Projector, SqlProjection};

use super::{append, leftovers, never, open};

const BALANCES: &str = "
-- Balances, one row an account.
-- create
CREATE TABLE {balances} (
    account TEXT PRIMARY KEY,
    cents   INTEGER NOT NULL,
    last    INTEGER NOT NULL
) STRICT;
CREATE INDEX {by_cents} ON {balances} (cents);
CREATE TABLE {seen} (event_type TEXT, note TEXT);

-- on booked
INSERT INTO {balances} VALUES (:stream_id, json_extract(:payload, '$.cents'), :position)
ON CONFLICT DO UPDATE SET cents = cents + excluded.cents, last = excluded.last;

-- on closed
DELETE FROM {balances} WHERE account = :stream_id;

-- on *
-- Braces in a text stay as they are unless they hold nothing but a name.
INSERT INTO {seen} VALUES (:event_type, '{\"a\": 1}');
";

#[tokio::test(flavor = "multi_thread")]
async fn sql_fills_tables() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    append(&store, "a", &["booked", "booked"]).await;
    append(&store, "b", &["booked", "closed"]).await;
    let balances = SqlProjection::new("balances".parse().unwrap(), BALANCES).unwrap();
    let projector = Projector::new(store.clone(), balances);
    for _ in 0..2 {
        let found = store.engine().read(|db| -> Result<_, Error> {
            let balance: (String, i64, i64) =
                db.query_row("SELECT * FROM balances", [], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            let query = "SELECT count(*), min(note) FROM seen";
            let seen: (i64, String) =
                db.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok((balance, seen))
        });
        projector.catch_up(&never()).await.unwrap();
        let (balance, seen) = found.await.unwrap();
        assert_eq!(balance, ("a".to_owned(), 10, 2));
        assert_eq!(seen, (4, "{\"a\": 1}".to_owned()));
        projector.rebuild(&never()).await.unwrap();
    }
    assert_eq!(leftovers(&store).await, 5);
}

#[tokio::test]
async fn what_sql_may_not_do_is_refused_in_words() {
    let create = "-- create\nCREATE TABLE {t} (x);\n";
    for (text, words) in [
        ("", "no '-- create' part"),
        ("CREATE TABLE {t} (x);", "must begin with a '-- create' part"),
        ("-- on a\nSELECT 1;", "must begin with a '-- create' part"),
        (create, "no '-- on TYPE' part"),
        ("-- create\n-- create\n", "line 2: there is a '-- create' already"),
        ("-- create\nCREATE TABLE {t} (x);\n-- on a b\n", "line 3: write '-- on TYPE'"),
        ("-- create\nCREATE TABLE t (x);\n-- on a\nSELECT 1;", "in braces: {t}"),
        ("-- create\nCREATE TABLE {helenus_t} (x);\n-- on a\nSELECT 1;", "'helenus_t' is reserved"),
        ("-- create\nCREATE TABLE {t} (x;\n-- on a\nSELECT 1;", "the '-- create' part: "),
        ("-- create\nPRAGMA user_version = 9;\n-- on a\nSELECT 1;", "nothing else"),
        ("-- create\nATTACH 'x.db' AS x;\n-- on a\nSELECT 1;", "nothing else"),
        ("-- create\nDROP TABLE helenus_leases;\n-- on a\nSELECT 1;", "no such table"),
    ] {
        refused(text, words);
    }
    for (statement, words) in [
        ("DELETE FROM helenus_leases", "no such table: helenus_leases; a projection sees its own"),
        ("INSERT INTO {t} SELECT name FROM sqlite_schema", "'sqlite_master' is not its own table"),
        ("DROP TABLE {t}", "reads and writes rows, nothing else"),
        ("CREATE TABLE {u} (x)", "reads and writes rows, nothing else"),
        ("COMMIT", "reads and writes rows, nothing else"),
        ("INSERT INTO {t} VALUES (:total)", ":total is not one of :stream_id, "),
        ("INSERT INTO {t} VALUES (?)", "? is not one of"),
        ("INSERT INTO {t} VALUES (1); DELETE FROM {t}", "one statement a part"),
        ("INSERT INTO {t} VALUES (1, 2)", "table t has 1 columns but 2 values"),
        ("", "there is no statement"),
    ] {
        let error = refused(&format!("{create}-- on a\n{statement}"), words);
        assert!(error.starts_with("'-- on a' on line 3: "), "{error}");
    }
    let fine = "INSERT INTO {t} SELECT value FROM json_each(:payload) WHERE NOT EXISTS
                (WITH RECURSIVE n(i) AS (SELECT 1) SELECT i FROM n)";
    SqlProjection::new("t".parse().unwrap(), &format!("{create}-- on a\n{fine}")).unwrap();
}

fn refused(text: &str, words: &str) -> String {
    let error = SqlProjection::new("t".parse().unwrap(), text).unwrap_err();
    assert_eq!((error.code(), error.applied()), ("invalid", Some(false)));
    let error = error.to_string();
    assert!(error.contains(words), "{error}\n  lacks {words}");
    error
}
