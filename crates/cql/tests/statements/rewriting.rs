//! What is replaced, what is refused, and what is left alone.

use std::borrow::Cow;

use expect_test::{Expect, expect};
use helenus_cql::rewrite::{Error, caret, rewrite};

/// `shop.features` and `shop."Mixed Case"` are versioned, nothing else.
fn route(keyspace: &str, table: &str) -> Option<&'static str> {
    match (keyspace, table) {
        ("shop", "features") => Some("features_v7"),
        ("shop", "Mixed Case") => Some("Mixed Case_v2"),
        ("shop", "upper") => Some("UPPER_v1"),
        _ => None,
    }
}

/// With `shop` as the session's keyspace: the new text, `untouched`, or the error and its caret.
fn check(cql: &str, expect: Expect) {
    check_in(Some("shop"), cql, expect);
}

fn check_in(keyspace: Option<&str>, cql: &str, expect: Expect) {
    expect.assert_eq(&match rewrite(cql, keyspace, route) {
        Ok(rewritten) => match rewritten.text {
            Cow::Borrowed(text) => {
                assert_eq!(text, cql);
                "untouched\n".to_owned()
            }
            Cow::Owned(text) => format!("{text}\n"),
        },
        Err(error) => format!("{error}\n{}\n", caret(cql, error.position())),
    });
}

#[test]
fn the_name_alone_is_replaced() {
    check(
        "SELECT * FROM features",
        expect![[r#"
        SELECT * FROM features_v7
    "#]],
    );
    check(
        "select features from FEATURES where features = 'features'",
        expect![[r#"
        select features from features_v7 where features = 'features'
    "#]],
    );
    check(
        "SELECT features.features AS features FROM shop.features -- features\n",
        expect![[r#"
        SELECT features.features AS features FROM shop.features_v7 -- features

    "#]],
    );
    check(
        "SELECT m['features'] FROM Shop . /* features */ Features;",
        expect![[r#"
        SELECT m['features'] FROM Shop . /* features */ features_v7;
    "#]],
    );
    check(
        "SELECT * FROM  features\nWHERE id = $$features$$",
        expect![[r#"
        SELECT * FROM  features_v7
        WHERE id = $$features$$
    "#]],
    );
    check(
        "SELECT JSON * FROM features WHERE id = :features",
        expect![[r#"
        SELECT JSON * FROM features_v7 WHERE id = :features
    "#]],
    );
    check(
        "SELECT shop.features(a) FROM shop.features",
        expect![[r#"
        SELECT shop.features(a) FROM shop.features_v7
    "#]],
    );
    check(
        "DESCRIBE TABLE features",
        expect![[r#"
        DESCRIBE TABLE features_v7
    "#]],
    );
}

#[test]
fn quotes_stay_or_come() {
    check(
        "SELECT * FROM \"features\"",
        expect![[r#"
        SELECT * FROM "features_v7"
    "#]],
    );
    check(
        "SELECT * FROM\"features\"WHERE\"id\"=1",
        expect![[r#"
        SELECT * FROM"features_v7"WHERE"id"=1
    "#]],
    );
    check(
        "SELECT * FROM \"shop\".\"Mixed Case\" LIMIT 1",
        expect![[r#"
        SELECT * FROM "shop"."Mixed Case_v2" LIMIT 1
    "#]],
    );
    check(
        "SELECT * FROM Upper",
        expect![[r#"
        SELECT * FROM "UPPER_v1"
    "#]],
    );
    check(
        "SELECT * FROM \"Features\"",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "SELECT * FROM \"Shop\".features",
        expect![[r#"
        untouched
    "#]],
    );
}

#[test]
fn other_tables_are_untouched() {
    check(
        "SELECT features FROM other",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "SELECT * FROM lab.features",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "INSERT INTO lab.features (features) VALUES ('features')",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "CREATE TABLE other (features text PRIMARY KEY)",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "CREATE INDEX features ON other (features)",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "GRANT features TO bob",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "GRANT SELECT ON KEYSPACE features TO bob",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "USE features",
        expect![[r#"
        untouched
    "#]],
    );
    check_in(
        None,
        "SELECT * FROM features",
        expect![[r#"
        untouched
    "#]],
    );
    check_in(
        None,
        "DROP TABLE features",
        expect![[r#"
        untouched
    "#]],
    );
    check_in(
        None,
        "SELECT * FROM shop.features",
        expect![[r#"
        SELECT * FROM shop.features_v7
    "#]],
    );
    check_in(
        Some("lab"),
        "SELECT * FROM features",
        expect![[r#"
        untouched
    "#]],
    );
}

#[test]
fn changes_are_refused() {
    check(
        "INSERT INTO features (a) VALUES (1)",
        expect![[r#"
        INSERT on versioned table shop.features is refused: a version is never changed, publish a new one with `helenus versions publish`
        INSERT INTO features (a) VALUES (1)
                    ^
    "#]],
    );
    check(
        "UPDATE shop.\"features\" SET a = 1 WHERE k = 1",
        expect![[r#"
        UPDATE on versioned table shop.features is refused: a version is never changed, publish a new one with `helenus versions publish`
        UPDATE shop."features" SET a = 1 WHERE k = 1
                    ^
    "#]],
    );
    check(
        "DELETE FROM \"Mixed Case\" WHERE k = 1",
        expect![[r#"
        DELETE on versioned table shop."Mixed Case" is refused: a version is never changed, publish a new one with `helenus versions publish`
        DELETE FROM "Mixed Case" WHERE k = 1
                    ^
    "#]],
    );
    check(
        "BEGIN BATCH INSERT INTO other (a) VALUES (1);\n  DELETE a FROM features WHERE k = 1; APPLY BATCH",
        expect![[r#"
            DELETE on versioned table shop.features is refused: a version is never changed, publish a new one with `helenus versions publish`
              DELETE a FROM features WHERE k = 1; APPLY BATCH
                            ^
        "#]],
    );
    // Whatever comes after the table, that it would be written is certain.
    check(
        "INSERT INTO features garbage",
        expect![[r#"
        INSERT on versioned table shop.features is refused: a version is never changed, publish a new one with `helenus versions publish`
        INSERT INTO features garbage
                    ^
    "#]],
    );
}

#[test]
fn changes_of_the_schema_are_refused() {
    check(
        "TRUNCATE features",
        expect![[r#"
        TRUNCATE on versioned table shop.features is refused: go back with `helenus versions rollback`, or drop old versions with `helenus versions recycle`
        TRUNCATE features
                 ^
    "#]],
    );
    check(
        "DROP TABLE IF EXISTS features",
        expect![[r#"
        DROP TABLE on versioned table shop.features is refused: go back with `helenus versions rollback`, or drop old versions with `helenus versions recycle`
        DROP TABLE IF EXISTS features
                             ^
    "#]],
    );
    check(
        "ALTER TABLE features ADD a int",
        expect![[r#"
        ALTER TABLE on versioned table shop.features is refused: publish a version with the new schema, `helenus versions publish --schema`
        ALTER TABLE features ADD a int
                    ^
    "#]],
    );
    check(
        "CREATE TABLE features (k int PRIMARY KEY)",
        expect![[r#"
        CREATE TABLE on versioned table shop.features is refused: the name is taken, and no reader would see a table created under it
        CREATE TABLE features (k int PRIMARY KEY)
                     ^
    "#]],
    );
    check(
        "CREATE TABLE other LIKE features",
        expect![[r#"
        CREATE TABLE LIKE on versioned table shop.features is refused: name the table of a version instead, now shop.features_v7
        CREATE TABLE other LIKE features
                                ^
    "#]],
    );
    check(
        "CREATE INDEX ON features (a)",
        expect![[r#"
        CREATE INDEX on versioned table shop.features is refused: name the table of a version instead, now shop.features_v7
        CREATE INDEX ON features (a)
                        ^
    "#]],
    );
    check(
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM features WHERE a IS NOT NULL PRIMARY KEY (a)",
        expect![[r#"
            CREATE MATERIALIZED VIEW on versioned table shop.features is refused: name the table of a version instead, now shop.features_v7
            CREATE MATERIALIZED VIEW v AS SELECT a FROM features WHERE a IS NOT NULL PRIMARY KEY (a)
                                                        ^
        "#]],
    );
    check(
        "GRANT SELECT ON Upper TO bob",
        expect![[r#"
        GRANT on versioned table shop.upper is refused: name the table of a version instead, now shop."UPPER_v1"
        GRANT SELECT ON Upper TO bob
                        ^
    "#]],
    );
}

#[test]
fn nothing_is_guessed() {
    check(
        "BEGIN TRANSACTION SELECT a FROM features; COMMIT TRANSACTION",
        expect![[r#"
        the statement names versioned table shop.features but is not understood: expected BATCH at byte 6
        BEGIN TRANSACTION SELECT a FROM features; COMMIT TRANSACTION
              ^
    "#]],
    );
    check(
        "SELECT * FROM features JOIN other",
        expect![[r#"
        the statement names versioned table shop.features but is not understood: expected the end at byte 23
        SELECT * FROM features JOIN other
                               ^
    "#]],
    );
    check(
        "EXPLAIN SELECT * FROM \"shop\" . features",
        expect![[r#"
        the statement names versioned table shop.features but is not understood: expected a statement at byte 0
        EXPLAIN SELECT * FROM "shop" . features
        ^
    "#]],
    );
    check(
        "SELECT * FROM features WHERE a = 'open",
        expect![[r#"
        the statement names versioned table shop.features but is not understood: string is never closed at byte 33
        SELECT * FROM features WHERE a = 'open
                                         ^
    "#]],
    );
    check(
        "DESCRIBE features",
        expect![[r#"
        the statement names versioned table shop.features but is not understood: expected TABLE or another thing to describe at byte 9
        DESCRIBE features
                 ^
    "#]],
    );
    // No name in these is that of a versioned table.
    check(
        "EXPLAIN SELECT features.a, 'features' FROM lab.features -- features",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "SELECT * FROM other WHERE a = 'open features",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "größer",
        expect![[r#"
        untouched
    "#]],
    );
    check(
        "",
        expect![[r#"
        untouched
    "#]],
    );
}

#[test]
fn identity_is_a_version_too() {
    let identity = |_: &str, table: &str| Some(table.to_owned());
    let read = rewrite("SELECT * FROM Shop.FEATURES", None, identity).unwrap();
    assert!(matches!(read.text, Cow::Borrowed(_)));
    assert_eq!(read.tables.len(), 1);
    assert!(rewrite("TRUNCATE Shop.FEATURES", None, identity).is_err());
}

#[test]
fn routed_tables_are_reported() {
    let cql = "SELECT * FROM Features";
    let read = rewrite(cql, Some("shop"), route).unwrap();
    expect![[r#"
        (
            Some(
                Select,
            ),
            [
                Routed {
                    table: TableName {
                        keyspace: "shop",
                        table: "features",
                    },
                    version: "features_v7",
                    span: 14..22,
                },
            ],
        )
    "#]]
    .assert_debug_eq(&(read.kind, &read.tables));
}

#[test]
fn the_next_keyspace_is_reported() {
    let keyspace = |cql| rewrite(cql, Some("shop"), route).unwrap().use_keyspace;
    assert_eq!(keyspace("USE Lab;").as_deref(), Some("lab"));
    assert_eq!(keyspace("use \"Lab\"").as_deref(), Some("Lab"));
    assert_eq!(keyspace("USE Lab too"), None);
    assert_eq!(keyspace("SELECT * FROM features"), None);
}

#[test]
fn a_trait_object_can_route() {
    let route: &dyn Fn(&str, &str) -> Option<String> = &|_, _| Some("t_v1".to_owned());
    assert_eq!(rewrite("SELECT * FROM t", Some("k"), route).unwrap().text, "SELECT * FROM t_v1");
}

#[test]
fn errors_are_small() {
    assert!(size_of::<Error>() <= 64, "{}", size_of::<Error>());
}

#[test]
fn carets() {
    let shown = |statement: &str, position| caret(statement, position) + "\n";
    expect![[r#"
        SELECT a
               ^
    "#]]
    .assert_eq(&shown("SELECT\ta", 7));
    expect![[r#"
        öö b
           ^
    "#]]
    .assert_eq(&shown("a\nöö b\nc", 7));
    expect![[r#"
        abc
           ^
    "#]]
    .assert_eq(&shown("abc", 99));
    expect![[r#"

        ^
    "#]]
    .assert_eq(&shown("", 0));
    let long = format!("{}x{}", "a".repeat(100), "b".repeat(100));
    expect![[r#"
        …aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaxbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…
                                                                     ^
    "#]].assert_eq(&shown(&long, 100));
}
