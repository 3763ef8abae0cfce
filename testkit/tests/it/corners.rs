//! Two corners of one service do not see each other: the smoke test of every client the project
//! speaks through.

use std::time::Duration;

use helenus_testkit::isolated::{Database, Keyspace, RedisDatabase, Topics};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use redis::AsyncCommands;

#[tokio::test]
async fn keyspaces_are_apart() {
    let (mine, other) = tokio::join!(Keyspace::create(), Keyspace::create());
    for keyspace in [&mine, &other] {
        let create = "CREATE TABLE notes (id int PRIMARY KEY, text text)";
        keyspace.session.query_unpaged(create, ()).await.expect("creates");
    }
    let insert = "INSERT INTO notes (id, text) VALUES (?, ?)";
    mine.session.query_unpaged(insert, (1, "mine")).await.expect("inserts");
    assert_eq!(mine.rows_as_json("notes").await, [r#"{"id": 1, "text": "mine"}"#]);
    assert_eq!(other.rows_as_json("notes").await, [""; 0]);
}

#[tokio::test]
async fn databases_are_apart() {
    for text in ["mine", "other"] {
        let (client, work) = Database::create().await.connect().await;
        let asked = async move {
            client.batch_execute("CREATE TABLE notes (text text)").await?;
            client.execute("INSERT INTO notes VALUES ($1)", &[&text]).await?;
            client.query_one("SELECT string_agg(text, ',') FROM notes", &[]).await
        };
        let (row, ended) = tokio::join!(asked, work);
        ended.expect("the connection ends in peace");
        assert_eq!(row.expect("answers").get::<_, String>(0), text);
    }
}

#[tokio::test]
async fn redis_databases_are_apart() {
    let (mine, other) = (RedisDatabase::take().await, RedisDatabase::take().await);
    assert_ne!(mine.number, other.number);
    let () = mine.connect().await.set("note", "mine").await.expect("sets");
    let seen: Option<String> = mine.connect().await.get("note").await.expect("gets");
    assert_eq!(seen.as_deref(), Some("mine"));
    let seen: Option<String> = other.connect().await.get("note").await.expect("gets");
    assert_eq!(seen, None);
}

#[tokio::test]
async fn topics_are_apart_and_records_come_back() {
    let (mine, other) = (Topics::reserve(), Topics::reserve());
    let topic = mine.name("notes");
    assert_ne!(topic, other.name("notes"));
    let mut config = mine.config();
    let producer: FutureProducer =
        config.set("enable.idempotence", "true").create().expect("a producer");
    let record = FutureRecord::to(&topic).key("key").payload("mine");
    producer.send(record, Duration::from_secs(30)).await.expect("delivered");

    let mut config = mine.config();
    config.set("group.id", mine.name("readers")).set("auto.offset.reset", "earliest");
    config
        .set("isolation.level", "read_committed")
        .set("topic.metadata.refresh.interval.ms", "500");
    let consumer: StreamConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[&topic]).expect("subscribes");
    let received = tokio::time::timeout(Duration::from_secs(60), consumer.recv());
    let received = received.await.expect("in time").expect("a record");
    assert_eq!(received.payload(), Some(&b"mine"[..]));
}
