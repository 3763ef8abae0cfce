//! What only the embedded broker does: it removes old records when it is told to.

use std::time::Duration;

use helenus_broker::contract::{Broker, NewRecord, Offset, Position};
use helenus_broker::embedded::{COMPONENT, EmbeddedBroker};
use helenus_model::Timestamp;
use helenus_model::limits::TOPIC_EXPIRE_MAX;

/// A record whose time is so many milliseconds after the epoch.
fn record(topic: &str, key: &str, at: i64) -> NewRecord {
    NewRecord {
        topic: topic.into(),
        key: Some(key.as_bytes().to_vec()),
        headers: vec![],
        payload: b"{}".to_vec(),
        timestamp: Timestamp::from_millis(at),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_records_go_and_offsets_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let options = helenus_sqlite::Options::default();
    let engine = helenus_sqlite::Engine::open(path, options, &[&COMPONENT]).await.unwrap();
    let broker = EmbeddedBroker::on(engine);
    broker.create_topic("orders", 1).await.unwrap();
    broker.create_compacted_topic("tables", 1).await.unwrap();
    broker.publish(&[record("tables", "k", 0)]).await.unwrap();
    // More than one look takes.
    let old = (0..TOPIC_EXPIRE_MAX + 7).map(|_| record("orders", "k", 999));
    let kept = [record("orders", "k", 1_000), record("orders", "k", 2_000)];
    broker.publish(&old.chain(kept).collect::<Vec<_>>()).await.unwrap();

    let before = Timestamp::EPOCH.plus(Duration::from_secs(1));
    assert_eq!(broker.expire(before).await.unwrap(), TOPIC_EXPIRE_MAX + 7);
    assert_eq!(broker.expire(before).await.unwrap(), 0);
    let read = async |topic: &str| {
        let start = Position { topic: topic.into(), partition: 0, offset: Offset::START };
        let found = broker.read(start, 10).await.unwrap();
        found.into_iter().map(|record| record.position.offset.0).collect::<Vec<_>>()
    };
    let first = i64::try_from(TOPIC_EXPIRE_MAX).unwrap() + 7;
    assert_eq!(read("orders").await, [first, first + 1]);
    assert_eq!(read("tables").await.len(), 1, "a compacted topic keeps its records");
    let next = broker.publish(&[record("orders", "k", 3_000)]).await.unwrap();
    assert_eq!(next[0].offset, Offset(first + 2));
}
