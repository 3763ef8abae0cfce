//! Clustering values that are equal without being the same: 1.0 and 1.00 name one row. Which of them a
//! node prints, in a memtable and once it has flushed.

use std::collections::BTreeSet;

use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

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
async fn equal_decimals_are_one_row_and_flushes_decide_how_it_is_spelled() {
    let _alone = serial().unwrap();
    let spec = Spec::cassandra().name("spellings").heap("512M").quick_compiler();
    let node = Instance::start(spec).unwrap();
    let address = node.endpoint().to_string();
    let session = SessionBuilder::new().known_node(address).build().await.unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (p int, c decimal, v int, PRIMARY KEY (p, c)) WITH cdc = true",
    ] {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    // In a memtable the first spelling stays, and a flush of it alone keeps it.
    for (value, spelling) in (0..).zip(INSERTS) {
        insert(&session, 0, spelling, value).await;
        assert_eq!(row(&session, 0).await, (INSERTS[0].to_owned(), value));
    }
    node.nodetool(&["flush"]).unwrap();
    assert_eq!(row(&session, 0).await, (INSERTS[0].to_owned(), 2));
    // In several places it is still one row with the last value, and no spelling is the node's own.
    let mut seen = BTreeSet::new();
    for (value, spelling) in (0..).zip(INSERTS) {
        insert(&session, 1, spelling, value).await;
        for flushes in [false, true] {
            if flushes {
                node.nodetool(&["flush"]).unwrap();
            }
            let (shown, last) = row(&session, 1).await;
            assert_eq!(last, value);
            assert!(INSERTS.contains(&shown.as_str()), "{shown}");
            seen.insert(shown);
        }
    }
    assert!(seen.len() > 1, "flushes decide what is shown: {seen:?}");
    node.nodetool(&["compact", "ks"]).unwrap();
    assert_eq!(row(&session, 1).await.1, 2);
}
