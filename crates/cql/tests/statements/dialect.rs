//! CQL that must be understood, and CQL that must not be.
//!
//! The parser of Cassandra 5.0.9 accepts every statement of the first kind.

use expect_test::{Expect, expect};

use crate::outline::outline;

fn check(cql: &str, expect: Expect) {
    expect.assert_eq(&outline(cql).unwrap_or_else(|error| format!("{error}\n")));
}

#[test]
fn selections() {
    check(
        "SELECT * FROM t",
        expect![[r#"
        (select SELECT (selection *) FROM (table t))
    "#]],
    );
    check(
        "select Json distinct a, \"B\" as c from ks.\"T\";",
        expect![[r#"
        (select select (selection Json distinct a , "B" as c) from (table ks . "T")) ;
    "#]],
    );
    check(
        "SELECT json, distinct AS x FROM t",
        expect![[r#"
        (select SELECT (selection json , distinct AS x) FROM (table t))
    "#]],
    );
    check(
        "SELECT DISTINCT distinct FROM t",
        expect![[r#"
        (select SELECT (selection DISTINCT distinct) FROM (table t))
    "#]],
    );
    check(
        "SELECT COUNT(*), count(1) AS n, max(ks.f(a, 'x')) FROM t",
        expect![[r#"
        (select SELECT (selection (expression COUNT (arguments ( * ))) , (expression count (arguments ( 1 ))) AS n , (expression max (arguments ( (expression ks . f (arguments ( a , 'x' ))) )))) FROM (table t))
    "#]],
    );
    check(
        "SELECT m['k'], m['a'..'b'], l[..3], u.f, u.f.g FROM t",
        expect![[r#"
        (select SELECT (selection (expression m (subscript [ 'k' ])) , (expression m (subscript [ 'a' .. 'b' ])) , (expression l (subscript [ .. 3 ])) , (expression u . f) , (expression u . f . g)) FROM (table t))
    "#]],
    );
    check(
        "SELECT WRITETIME(a), TTL(m['k']), MAXWRITETIME(u.f), ttl, writetime FROM t",
        expect![[r#"
            (select SELECT (selection (expression WRITETIME (arguments ( a ))) , (expression TTL (arguments ( (expression m (subscript [ 'k' ])) ))) , (expression MAXWRITETIME (arguments ( (expression u . f) ))) , ttl , writetime) FROM (table t))
        "#]],
    );
    check(
        "SELECT CAST(a AS text), cast(b + 1 AS double) / 2 FROM t",
        expect![[r#"
        (select SELECT (selection (expression CAST (arguments ( a AS (type text) ))) , (expression cast (arguments ( (expression b + 1) AS (type double) )) / 2)) FROM (table t))
    "#]],
    );
    check(
        "SELECT -a, (a + b) * 2 % 3, (int)? + 1, (a, b) FROM t",
        expect![[r#"
        (select SELECT (selection (expression - a) , (expression (parentheses ( (expression a + b) )) * 2 % 3) , (expression ( (type int) ) ? + 1) , (parentheses ( a , b ))) FROM (table t))
    "#]],
    );
    check(
        "SELECT (frozen<map<text, set<int>>>){'a': {1}}, (vector<float, 3>)[1, 2.0, -3e1] FROM t",
        expect![[r#"
            (select SELECT (selection (expression ( (type frozen < (type map < (type text) , (type set < (type int) >) >) >) ) (braces { 'a' : (braces { 1 }) })) , (expression ( (type vector < (type float) , (type 3) >) ) (list [ 1 , 2.0 , (expression - 3e1) ]))) FROM (table t))
        "#]],
    );
    check(
        "SELECT token(a, b), key, type, timestamp, ks.token(a) FROM t",
        expect![[r#"
        (select SELECT (selection (expression token (arguments ( a , b ))) , key , type , timestamp , (expression ks . token (arguments ( a )))) FROM (table t))
    "#]],
    );
    check(
        "SELECT (a) AS b, similarity_cosine(v, [0.1, NaN, -Infinity]) FROM t",
        expect![[r#"
        (select SELECT (selection (parentheses ( a )) AS b , (expression similarity_cosine (arguments ( v , (list [ 0.1 , NaN , (expression - Infinity) ]) )))) FROM (table t))
    "#]],
    );
}

#[test]
fn conditions() {
    check(
        "SELECT * FROM t WHERE m['a'] = 3 AND b != ? AND c >= :c AND d < :\"D\"",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (where WHERE (relation (expression m (subscript [ 'a' ])) = 3) AND (relation b != ?) AND (relation c >= (marker : c)) AND (relation d < (marker : "D"))))
    "#]],
    );
    check(
        "SELECT * FROM t WHERE pk IN ? AND a IN () AND b IN (1, ?, :x) AND c IN :c",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation pk IN ?) AND (relation a IN (parentheses ( ))) AND (relation b IN (parentheses ( 1 , ? , (marker : x) ))) AND (relation c IN (marker : c))))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE (a, b) > (1, 'x') AND (c, d) IN ((1, 2), (?, ?)) AND (e, f) IN ?",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation (parentheses ( a , b )) > (parentheses ( 1 , 'x' ))) AND (relation (parentheses ( c , d )) IN (parentheses ( (parentheses ( 1 , 2 )) , (parentheses ( ? , ? )) ))) AND (relation (parentheses ( e , f )) IN ?)))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE token(pk) > token(?) AND token(pk) <= 9223372036854775807",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation (expression token (arguments ( pk ))) > (expression token (arguments ( ? )))) AND (relation (expression token (arguments ( pk ))) <= 9223372036854775807)))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE s CONTAINS 'x' AND m CONTAINS KEY ? AND n LIKE '%from t%'",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation s CONTAINS 'x') AND (relation m CONTAINS KEY ?) AND (relation n LIKE '%from t%')))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE a IS NOT NULL AND (b = 1) AND expr(idx, 'q')",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (where WHERE (relation a IS NOT NULL) AND (relation (parentheses ( b = 1 ))) AND (relation (expression expr (arguments ( idx , 'q' ))))))
    "#]],
    );
    check(
        "SELECT * FROM t WHERE d = 1h30m AND e = P1Y2M AND i = -2mo",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (where WHERE (relation d = 1h30m) AND (relation e = P1Y2M) AND (relation i = (expression - 2mo))))
    "#]],
    );
    check(
        "SELECT * FROM t WHERE u = abcdefab-cdef-abcd-efab-cdefabcdefab AND b = 0xCAFE",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation u = abcdefab-cdef-abcd-efab-cdefabcdefab) AND (relation b = 0xCAFE)))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE f = {street: 'x', \"No\": 1, at: now(), n: :n} AND g = {}",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation f = (braces { street : 'x' , "No" : 1 , at : (expression now (arguments ( ))) , n : (marker : n) })) AND (relation g = (braces { }))))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE f = [{1: {'a', 'b'}}, {}] AND g = (1, (2, null))",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (where WHERE (relation f = (list [ (braces { 1 : (braces { 'a' , 'b' }) }) , (braces { }) ])) AND (relation g = (parentheses ( 1 , (parentheses ( 2 , null )) )))))
    "#]],
    );
    check(
        "SELECT * FROM t WHERE a = true AND b = $$it's$$ AND c = '' -- a comment\n",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (where WHERE (relation a = true) AND (relation b = $$it's$$) AND (relation c = '')))
        "#]],
    );
}

#[test]
fn clauses_after_where() {
    check(
        "SELECT * FROM t GROUP BY a, floor(b, 1h)",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (groupby GROUP BY a , (expression floor (arguments ( b , 1h )))))
    "#]],
    );
    check(
        "SELECT * FROM t ORDER BY a DESC, b ASC, c PER PARTITION LIMIT 2 LIMIT ? ALLOW FILTERING",
        expect![[r#"
            (select SELECT (selection *) FROM (table t)
              (orderby ORDER BY a DESC , b ASC , c)
              (perpartitionlimit PER PARTITION LIMIT 2)
              (limit LIMIT ?)
              (allowfiltering ALLOW FILTERING))
        "#]],
    );
    check(
        "SELECT * FROM t WHERE a = 1 ORDER BY v ANN OF [1.0, 2] LIMIT :n",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (where WHERE (relation a = 1))
          (orderby ORDER BY v ANN OF (list [ 1.0 , 2 ]))
          (limit LIMIT (marker : n)))
    "#]],
    );
    check(
        "SELECT * FROM t LIMIT 1;;",
        expect![[r#"
        (select SELECT (selection *) FROM (table t)
          (limit LIMIT 1)) ; ;
    "#]],
    );
}

#[test]
fn writes() {
    check(
        "INSERT INTO ks.t (a, \"B\", key) VALUES (1, ?, {1: 2}) IF NOT EXISTS USING TTL ? AND TIMESTAMP 5",
        expect![[r#"
            (insert INSERT INTO (table ks . t)
              (columns ( a , "B" , key ))
              (values VALUES ( 1 , ? , (braces { 1 : 2 }) ))
              (if IF NOT EXISTS)
              (using USING TTL ? AND TIMESTAMP 5))
        "#]],
    );
    check(
        "INSERT INTO t JSON ? DEFAULT UNSET",
        expect![[r#"
        (insert INSERT INTO (table t)
          (values JSON ? DEFAULT UNSET))
    "#]],
    );
    check(
        "INSERT INTO t JSON '{\"a\": 1}' DEFAULT NULL IF NOT EXISTS USING TIMESTAMP :ts",
        expect![[r#"
            (insert INSERT INTO (table t)
              (values JSON '{"a": 1}' DEFAULT NULL)
              (if IF NOT EXISTS)
              (using USING TIMESTAMP (marker : ts)))
        "#]],
    );
    check(
        "UPDATE t USING TTL ? SET a = 1, m['a'] = 3, l = l + [1], c += 1, u.f = ? WHERE k = 1",
        expect![[r#"
            (update UPDATE (table t)
              (using USING TTL ?)
              (set SET a = 1 , (expression m (subscript [ 'a' ])) = 3 , l = (expression l + (list [ 1 ])) , c += 1 , (expression u . f) = ?)
              (where WHERE (relation k = 1)))
        "#]],
    );
    check(
        "UPDATE t SET s = s - {'x'}, l = [?] + l, l[0] = null WHERE k = 1 IF b != null AND m['k'] IN (1)",
        expect![[r#"
            (update UPDATE (table t)
              (set SET s = (expression s - (braces { 'x' })) , l = (expression (list [ ? ]) + l) , (expression l (subscript [ 0 ])) = null)
              (where WHERE (relation k = 1))
              (if IF (relation b != null) AND (relation (expression m (subscript [ 'k' ])) IN (parentheses ( 1 )))))
        "#]],
    );
    check(
        "UPDATE t SET c -= 1 WHERE k IN (1, 2) IF EXISTS",
        expect![[r#"
        (update UPDATE (table t)
          (set SET c -= 1)
          (where WHERE (relation k IN (parentheses ( 1 , 2 ))))
          (if IF EXISTS))
    "#]],
    );
    check(
        "UPDATE t SET a = 1 WHERE k = 1 IF exists = 2",
        expect![[r#"
        (update UPDATE (table t)
          (set SET a = 1)
          (where WHERE (relation k = 1))
          (if IF (relation exists = 2)))
    "#]],
    );
    check(
        "DELETE FROM t WHERE k = 1 AND c > 2",
        expect![[r#"
        (delete DELETE FROM (table t)
          (where WHERE (relation k = 1) AND (relation c > 2)))
    "#]],
    );
    check(
        "DELETE a, m['k'], u.f FROM t USING TIMESTAMP 1 WHERE k = 1 IF a = 2",
        expect![[r#"
        (delete DELETE (selection a , (expression m (subscript [ 'k' ])) , (expression u . f)) FROM (table t)
          (using USING TIMESTAMP 1)
          (where WHERE (relation k = 1))
          (if IF (relation a = 2)))
    "#]],
    );
    check(
        "TRUNCATE t",
        expect![[r#"
        (truncate TRUNCATE (table t))
    "#]],
    );
    check(
        "TRUNCATE TABLE ks.t;",
        expect![[r#"
        (truncate TRUNCATE TABLE (table ks . t)) ;
    "#]],
    );
    check(
        "USE \"Ks\"",
        expect![[r#"
        (use USE "Ks")
    "#]],
    );
}

#[test]
fn batches() {
    check(
        "BEGIN BATCH INSERT INTO t (a) VALUES (1); UPDATE u SET a = 1 WHERE k = 1 DELETE FROM v WHERE k = 1; APPLY BATCH;",
        expect![[r#"
            (batch BEGIN BATCH
              (insert INSERT INTO (table t)
              (columns ( a ))
              (values VALUES ( 1 ))) ;
              (update UPDATE (table u)
              (set SET a = 1)
              (where WHERE (relation k = 1)))
              (delete DELETE FROM (table v)
              (where WHERE (relation k = 1))) ; APPLY BATCH) ;
        "#]],
    );
    check(
        "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t JSON ? APPLY BATCH",
        expect![[r#"
        (batch BEGIN UNLOGGED BATCH
          (using USING TIMESTAMP ?)
          (insert INSERT INTO (table t)
          (values JSON ?)) APPLY BATCH)
    "#]],
    );
    check(
        "BEGIN COUNTER BATCH UPDATE t SET c = c + 1 WHERE k = 1 IF EXISTS UPDATE t SET c = c + 1 WHERE k = 2 APPLY BATCH",
        expect![[r#"
            (batch BEGIN COUNTER BATCH
              (update UPDATE (table t)
              (set SET c = (expression c + 1))
              (where WHERE (relation k = 1))
              (if IF EXISTS))
              (update UPDATE (table t)
              (set SET c = (expression c + 1))
              (where WHERE (relation k = 2))) APPLY BATCH)
        "#]],
    );
    check(
        "BEGIN BATCH APPLY BATCH",
        expect![[r#"
        (batch BEGIN BATCH APPLY BATCH)
    "#]],
    );
}

#[test]
fn schema() {
    check(
        "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v vector<float, 3>) WITH comment = 'from x'",
        expect![[r#"
            (schema CREATE TABLE IF NOT EXISTS (table ks . t)
              (skimmed ( k int PRIMARY KEY , v vector < float , 3 > ) WITH comment = 'from x'))
        "#]],
    );
    check(
        "CREATE CUSTOM INDEX IF NOT EXISTS i ON ks.t (v) USING 'sai'",
        expect![[r#"
        (schema CREATE CUSTOM INDEX IF NOT EXISTS i ON (table ks . t)
          (skimmed ( v ) USING 'sai'))
    "#]],
    );
    check(
        "CREATE INDEX ON t (entries(m))",
        expect![[r#"
        (schema CREATE INDEX ON (table t)
          (skimmed ( entries ( m ) )))
    "#]],
    );
    check(
        "CREATE MATERIALIZED VIEW ks.v AS SELECT a, b FROM ks.t WHERE a IS NOT NULL PRIMARY KEY (a, b)",
        expect![[r#"
            (schema CREATE MATERIALIZED VIEW (table ks . v) AS SELECT (selection a , b) FROM (table ks . t)
              (skimmed WHERE a IS NOT NULL PRIMARY KEY ( a , b )))
        "#]],
    );
    check(
        "CREATE OR REPLACE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return a;$$",
        expect![[r#"
            (schema CREATE OR REPLACE FUNCTION
              (skimmed f ( a int ) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return a;$$))
        "#]],
    );
    check(
        "CREATE TYPE ks.u (a int)",
        expect![[r#"
        (schema CREATE TYPE
          (skimmed ks . u ( a int )))
    "#]],
    );
    check(
        "ALTER TABLE t ADD c int",
        expect![[r#"
        (schema ALTER TABLE (table t)
          (skimmed ADD c int))
    "#]],
    );
    check(
        "DROP TABLE IF EXISTS ks.t",
        expect![[r#"
        (schema DROP TABLE IF EXISTS (table ks . t)
          (skimmed))
    "#]],
    );
    check(
        "DROP INDEX ks.i",
        expect![[r#"
        (schema DROP INDEX
          (skimmed ks . i))
    "#]],
    );
    check(
        "DROP TRIGGER x ON ks.t",
        expect![[r#"
        (schema DROP TRIGGER x ON (table ks . t)
          (skimmed))
    "#]],
    );
    check(
        "GRANT SELECT ON ks.t TO r",
        expect![[r#"
        (schema GRANT SELECT ON (table ks . t)
          (skimmed TO r))
    "#]],
    );
    check(
        "GRANT ALL PERMISSIONS ON TABLE t TO r",
        expect![[r#"
        (schema GRANT ALL PERMISSIONS ON TABLE (table t)
          (skimmed TO r))
    "#]],
    );
    check(
        "GRANT EXECUTE ON FUNCTION ks.f(int) TO r",
        expect![[r#"
        (schema GRANT EXECUTE ON
          (skimmed FUNCTION ks . f ( int ) TO r))
    "#]],
    );
    check(
        "REVOKE MODIFY ON ALL KEYSPACES FROM r",
        expect![[r#"
        (schema REVOKE MODIFY ON
          (skimmed ALL KEYSPACES FROM r))
    "#]],
    );
    check(
        "GRANT reader TO bob",
        expect![[r#"
        (schema GRANT reader TO bob
          (skimmed))
    "#]],
    );
    check(
        "LIST ALL PERMISSIONS ON all OF r",
        expect![[r#"
        (schema LIST ALL PERMISSIONS ON (table all)
          (skimmed OF r))
    "#]],
    );
    check(
        "DESCRIBE TABLE ks.t WITH INTERNALS",
        expect![[r#"
        (describe DESCRIBE TABLE (table ks . t)
          (skimmed WITH INTERNALS))
    "#]],
    );
    check(
        "DESC KEYSPACES",
        expect![[r#"
        (describe DESC
          (skimmed KEYSPACES))
    "#]],
    );
}

#[test]
fn what_is_not_understood() {
    check(
        "",
        expect![[r#"
        expected a statement at byte 0
    "#]],
    );
    check(
        "-- nothing\n",
        expect![[r#"
        expected a statement at byte 11
    "#]],
    );
    check(
        "SELECT a from",
        expect![[r#"
        expected a table at byte 13
    "#]],
    );
    check(
        "SELECT from FROM t",
        expect![[r#"
        expected a value at byte 7
    "#]],
    );
    check(
        "SELECT a FROM ?",
        expect![[r#"
        expected a table at byte 14
    "#]],
    );
    check(
        "SELECT a FROM ks.t.x",
        expect![[r#"
        expected the end at byte 18
    "#]],
    );
    check(
        "SELECT a FROM P1D",
        expect![[r#"
        expected a table at byte 14
    "#]],
    );
    check(
        "SELECT a FROM t, u",
        expect![[r#"
        expected the end at byte 15
    "#]],
    );
    check(
        "SELECT a FROM t u",
        expect![[r#"
        expected the end at byte 16
    "#]],
    );
    check(
        "SELECT a FROM t; SELECT b FROM u",
        expect![[r#"
        expected the end at byte 17
    "#]],
    );
    check(
        "SELECT a FROM t WHERE b",
        expect![[r#"
        expected an operator at byte 23
    "#]],
    );
    check(
        "SELECT a FROM t WHERE b = 'open",
        expect![[r#"
        string is never closed at byte 26
    "#]],
    );
    check(
        "SELECT a /* open",
        expect![[r#"
        comment is never closed at byte 9
    "#]],
    );
    check(
        "INSERT INTO t VALUES (1)",
        expect![[r#"
        expected `(` or JSON at byte 14
    "#]],
    );
    check(
        "BEGIN TRANSACTION SELECT a FROM t; COMMIT TRANSACTION",
        expect![[r#"
        expected BATCH at byte 6
    "#]],
    );
    check(
        "BEGIN BATCH SELECT a FROM t APPLY BATCH",
        expect![[r#"
        expected INSERT, UPDATE, DELETE or APPLY BATCH at byte 12
    "#]],
    );
    check(
        "CREATE GRAPH g",
        expect![[r#"
        expected TABLE, INDEX, KEYSPACE, TYPE or the like at byte 7
    "#]],
    );
    check(
        "DESCRIBE t",
        expect![[r#"
        expected TABLE or another thing to describe at byte 9
    "#]],
    );
    check(
        &format!("SELECT {}1{} FROM t", "(".repeat(200), ")".repeat(200)),
        expect![[r#"
        nested more than 100 levels deep at byte 107
    "#]],
    );
}

#[test]
fn depth_and_length_have_an_end() {
    let deepest = format!("SELECT {}1{} FROM t", "(".repeat(99), ")".repeat(99));
    assert!(outline(&deepest).is_ok());
    let many = 20_000;
    for piece in ["(", "[", "{", "f(", "a[", "{1:", "(list<", "CAST(a AS list<", "-", "- "] {
        let text = format!("SELECT {} FROM t", piece.repeat(many));
        assert!(outline(&text).is_err(), "{piece}");
    }
    for piece in ["a+", "a,", "/**/", "a.b.", "+", "a[1].", "(int)", "json "] {
        let text = format!("SELECT {}f() FROM t", piece.repeat(many));
        assert_eq!(outline(&text).is_ok(), piece != "json ", "{piece}");
    }
}
