//! Clustering values that are equal without being the same: 1.0 and 1.00 name one row. What a node
//! prints for it, as long as nothing is flushed and afterwards.

use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

const INSERTS: [&str; 3] = ["1.0", "1.00", "1"];

async fn insert(session: &Session, partition: usize, spelling: &str, value: usize) {
    let statement = format!("INSERT INTO ks.t (p, c, v) VALUES ({partition}, {spelling}, {value})");
    session.query_unpaged(statement, ()).await.unwrap();
}

/// The spelling and the value of the one row of a partition.
async fn row(session: &Session, partition: usize) -> (String, i32) {
    let query = format!("SELECT CAST(c AS text), v FROM ks.t WHERE p = {partition}");
    let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
    rows.single_row().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_decimals_are_one_row_under_the_first_spelling_until_it_is_flushed() {
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
    // Partition 0 in a memtable alone; partition 1 with a flush after each write.
    for (value, spelling) in INSERTS.iter().enumerate() {
        insert(&session, 0, spelling, value).await;
    }
    println!("memtable: {:?}", row(&session, 0).await);
    node.nodetool(&["flush"]).unwrap();
    println!("flushed: {:?}", row(&session, 0).await);
    for partition in [1, 2] {
        let mut spellings = INSERTS.to_vec();
        if partition == 2 {
            spellings.reverse();
        }
        for (value, spelling) in spellings.iter().enumerate() {
            insert(&session, partition, spelling, value).await;
            println!("{partition} {spelling} beside: {:?}", row(&session, partition).await);
            node.nodetool(&["flush"]).unwrap();
            println!("{partition} {spelling} flushed: {:?}", row(&session, partition).await);
        }
    }
    node.nodetool(&["compact", "ks"]).unwrap();
    for partition in [0, 1, 2] {
        println!("{partition} compacted: {:?}", row(&session, partition).await);
    }
}
