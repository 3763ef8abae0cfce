//! Where a node's answer depends on its flushes and compactions, of which a log says nothing: how a
//! clustering value is spelled that has several spellings (1.0 and 1.00 name one row), how an element
//! of a set that was written twice at one time, whether an expired cell still loses to the one it
//! lost to, and whether a counter that was deleted counts again. And when a column was dropped, of which
//! a log tells the millisecond only.

use std::collections::BTreeSet;
use std::time::Duration;

use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::Counter;

const INSERTS: [&str; 3] = ["1.0", "1.00", "1"];

async fn insert(session: &Session, partition: i32, spelling: &str, value: i32) {
    let statement = format!("INSERT INTO ks.t (p, c, v) VALUES ({partition}, {spelling}, {value})");
    session.query_unpaged(statement, ()).await.unwrap();
}

/// The spelling and the value of the one row of a partition.
async fn row(session: &Session, partition: i32) -> (String, i32) {
    let query = format!("SELECT CAST(c AS text), v FROM ks.t WHERE p = {partition}");
    let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
    rows.single_row().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn flushes_and_compactions_decide_what_a_node_shows() {
    let _alone = serial().unwrap();
    let spec = Spec::cassandra().name("spellings").heap("512M").quick_compiler();
    let node = Instance::start(spec).unwrap();
    let address = node.endpoint().to_string();
    let session = SessionBuilder::new().known_node(address).build().await.unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (p int, c decimal, v int, PRIMARY KEY (p, c)) WITH cdc = true",
        "CREATE TABLE ks.sets (p int PRIMARY KEY, s set<decimal>) WITH cdc = true",
        "CREATE TABLE ks.ties (p int PRIMARY KEY, v int) WITH cdc = true",
        "CREATE TABLE ks.counters (p int, c int, n counter, PRIMARY KEY (p, c)) WITH cdc = true",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    equal_decimals_are_one_row(&node, &session).await;
    equal_decimals_are_one_element(&node, &session).await;
    what_expired_wins_ties_once_it_is_compacted(&node, &session).await;
    deleted_counters_count_again_once_they_are_flushed(&node, &session).await;
    columns_are_dropped_in_the_middle_of_a_millisecond(&session).await;
}

async fn equal_decimals_are_one_row(node: &Instance, session: &Session) {
    // In a memtable the first spelling stays, and a flush of it alone keeps it.
    for (value, spelling) in (0..).zip(INSERTS) {
        insert(session, 0, spelling, value).await;
        assert_eq!(row(session, 0).await, (INSERTS[0].to_owned(), value));
    }
    node.nodetool(&["flush"]).unwrap();
    assert_eq!(row(session, 0).await, (INSERTS[0].to_owned(), 2));
    // In several places it is still one row with the last value, and no spelling is the node's own.
    let mut seen = BTreeSet::new();
    for (value, spelling) in (0..).zip(INSERTS) {
        insert(session, 1, spelling, value).await;
        for flushes in [false, true] {
            if flushes {
                node.nodetool(&["flush"]).unwrap();
            }
            let (shown, last) = row(session, 1).await;
            assert_eq!(last, value);
            assert!(INSERTS.contains(&shown.as_str()), "{shown}");
            seen.insert(shown);
        }
    }
    assert!(seen.len() > 1, "flushes decide what is shown: {seen:?}");
    node.nodetool(&["compact", "ks"]).unwrap();
    assert_eq!(row(session, 1).await.1, 2);
}

async fn equal_decimals_are_one_element(node: &Instance, session: &Session) {
    let add = async |partition: i32, timestamp: i64, spelling: &str| {
        let statement = format!(
            "UPDATE ks.sets USING TIMESTAMP {timestamp} SET s = s + {{{spelling}}} WHERE p = {partition}"
        );
        session.query_unpaged(statement, ()).await.unwrap();
    };
    let set = async |partition: i32| -> String {
        let query = format!("SELECT JSON s FROM ks.sets WHERE p = {partition}");
        let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
        rows.single_row::<(String,)>().unwrap().0
    };
    // The later write is shown as it was spelled; of two at one time the first, in a memtable.
    for (timestamp, spelling, shown) in [(1, "1.0", "1.0"), (1, "1", "1.0"), (2, "1.00", "1.00")] {
        add(0, timestamp, spelling).await;
        assert_eq!(set(0).await, format!("{{\"s\": [{shown}]}}"));
    }
    node.nodetool(&["flush"]).unwrap();
    add(0, 3, "1").await;
    assert_eq!(set(0).await, "{\"s\": [1]}");
    // With a flush between the two it is the last.
    add(1, 1, "1.0").await;
    node.nodetool(&["flush"]).unwrap();
    add(1, 1, "1").await;
    assert_eq!(set(1).await, "{\"s\": [1]}");
    // A change of the table's columns is a flush.
    add(2, 1, "1.0").await;
    session.query_unpaged("ALTER TABLE ks.sets ADD x int", ()).await.unwrap();
    add(2, 1, "1").await;
    // The node may still be at it when it answers; until then the first spelling is in memory too.
    let flushed = async {
        while set(2).await != "{\"s\": [1]}" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), flushed).await.unwrap();
}

/// Of two cells of one write time the one that expires later wins, unless the other was a tombstone by
/// then; and that is what a compaction makes of an expired cell.
async fn what_expired_wins_ties_once_it_is_compacted(node: &Instance, session: &Session) {
    let write = async |partition: i32, value: i32, ttl: u32| {
        let statement = format!(
            "INSERT INTO ks.ties (p, v) VALUES ({partition}, {value}) USING TIMESTAMP 7 AND TTL {ttl}"
        );
        session.query_unpaged(statement, ()).await.unwrap();
    };
    let value = async |partition: i32| -> Option<i32> {
        let query = format!("SELECT v FROM ks.ties WHERE p = {partition}");
        let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
        rows.maybe_first_row::<(Option<i32>,)>().unwrap().and_then(|(value,)| value)
    };
    write(0, 1, 1).await;
    write(1, 1, 1).await;
    // It expires on a second's edge; what awaits it is the node's own clock.
    while value(0).await.is_some() || value(1).await.is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    write(0, 2, 1_000_000).await;
    node.nodetool(&["flush"]).unwrap();
    node.nodetool(&["compact", "ks", "ties"]).unwrap();
    write(1, 2, 1_000_000).await;
    assert_eq!((value(0).await, value(1).await), (Some(2), None));
}

/// What is counted after a counter was deleted is swallowed by its tombstone, also when a deletion of the
/// partition covers that: unless the two have been in different places.
async fn deleted_counters_count_again_once_they_are_flushed(node: &Instance, session: &Session) {
    for (partition, flushes) in [(0, false), (1, true)] {
        let run = async |what: &str| {
            let statement = what.replace('?', &partition.to_string());
            session.query_unpaged(statement, ()).await.unwrap();
        };
        run("UPDATE ks.counters SET n = n + 1 WHERE p = ? AND c = 0").await;
        run("DELETE n FROM ks.counters WHERE p = ? AND c = 0").await;
        if flushes {
            node.nodetool(&["flush"]).unwrap();
        }
        run("DELETE FROM ks.counters WHERE p = ?").await;
        run("UPDATE ks.counters SET n = n + 2 WHERE p = ? AND c = 0").await;
        let query = format!("SELECT n FROM ks.counters WHERE p = {partition}");
        let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
        let counted = rows.maybe_first_row::<(Option<Counter>,)>().unwrap();
        assert_eq!(counted.is_some_and(|(count,)| count.is_some()), flushes);
    }
}

/// A cell of the same millisecond as the drop of its column, and before it, does not come back with the
/// column.
async fn columns_are_dropped_in_the_middle_of_a_millisecond(session: &Session) {
    for statement in [
        "CREATE TABLE ks.readded (p int PRIMARY KEY, v int, x int) WITH cdc = true",
        "INSERT INTO ks.readded (p, v, x) VALUES (0, 1, 1) USING TIMESTAMP 1200",
        "ALTER TABLE ks.readded DROP x USING TIMESTAMP 1500",
        "ALTER TABLE ks.readded ADD x int",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let told = async |query: &str| -> String {
        let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
        rows.single_row::<(String,)>().unwrap().0
    };
    assert_eq!(told("SELECT JSON * FROM ks.readded").await, r#"{"p": 0, "v": 1, "x": null}"#);
    let query = "SELECT CAST(dropped_time AS text) FROM system_schema.dropped_columns \
                 WHERE keyspace_name = 'ks' AND table_name = 'readded'";
    assert!(told(query).await.contains("00:00:00.001"), "to the millisecond");
}
