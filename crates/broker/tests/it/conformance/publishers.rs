//! Promises of publishers: all or nothing, one of a name at a time.

use helenus_broker::contract::{Broker, Error, Marker, Publisher, Transaction};
use helenus_model::Failure;

use super::Fixture;
use super::topics::{read, record};

fn marker(topic: &str, value: &str) -> Option<Marker> {
    let (topic, value) = (topic.to_owned(), value.as_bytes().to_vec());
    Some(Marker { topic, partition: 1, key: b"1".to_vec(), value })
}

async fn payloads<B: Broker>(broker: &B, topic: &str, partition: u32) -> Vec<String> {
    let records = read(broker, topic, partition).await;
    let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).unwrap();
    records.iter().map(|record| text(&record.payload)).collect()
}

pub(super) async fn a_transaction_is_published_whole<B: Broker>(fixture: &Fixture<B>) {
    let (orders, markers) = (fixture.topic("orders"), fixture.topic("markers"));
    fixture.broker.create_topic(&orders, 1).await.unwrap();
    fixture.broker.create_compacted_topic(&markers, 2).await.unwrap();
    let mut publisher = fixture.broker.publisher(&fixture.topic("relay")).await.unwrap();
    for round in 0..3 {
        let records = (0..10).map(|n| record(&orders, "k", &format!("{round}-{n}"))).collect();
        let marker = marker(&markers, &round.to_string());
        publisher.publish(Transaction { records, marker }).await.unwrap();
    }
    publisher.finish().await.unwrap();
    let expected: Vec<_> =
        (0..3).flat_map(|round| (0..10).map(move |n| format!("{round}-{n}"))).collect();
    assert_eq!(payloads(&fixture.broker, &orders, 0).await, expected);
    assert_eq!(payloads(&fixture.broker, &markers, 0).await, Vec::<String>::new());
    assert_eq!(payloads(&fixture.broker, &markers, 1).await.last().unwrap(), "2");
}

pub(super) async fn a_transaction_with_a_record_that_is_refused_is_not_published<B: Broker>(
    fixture: &Fixture<B>,
) {
    let orders = fixture.topic("orders");
    fixture.broker.create_topic(&orders, 1).await.unwrap();
    let mut publisher = fixture.broker.publisher(&fixture.topic("relay")).await.unwrap();
    let records = vec![record(&orders, "k", "1"), record(&fixture.topic("missing"), "k", "2")];
    let refused = publisher.publish(Transaction { records, marker: None }).await.unwrap_err();
    assert!(matches!(refused, Error::UnknownTopic { .. }), "{refused}");
    assert_eq!(refused.applied(), Some(false));
    assert_eq!(read(&fixture.broker, &orders, 0).await, []);
}

pub(super) async fn a_later_publisher_of_a_name_fences_an_earlier_one<B: Broker>(
    fixture: &Fixture<B>,
) {
    let (orders, name) = (fixture.topic("orders"), fixture.topic("relay"));
    fixture.broker.create_topic(&orders, 1).await.unwrap();
    let one = |payload| Transaction { records: vec![record(&orders, "k", payload)], marker: None };
    let mut earlier = fixture.broker.publisher(&name).await.unwrap();
    earlier.publish(one("1")).await.unwrap();
    let mut later = fixture.broker.publisher(&name).await.unwrap();
    let fenced = earlier.publish(one("never")).await.unwrap_err();
    assert!(matches!(fenced, Error::Fenced { .. }), "{fenced}");
    later.publish(one("2")).await.unwrap();
    assert!(earlier.publish(one("never")).await.is_err());
    later.publish(one("3")).await.unwrap();
    later.finish().await.unwrap();
    assert_eq!(payloads(&fixture.broker, &orders, 0).await, ["1", "2", "3"]);
}

pub(super) async fn the_last_marker_is_that_of_the_last_transaction<B: Broker>(
    fixture: &Fixture<B>,
) {
    let (orders, markers) = (fixture.topic("orders"), fixture.topic("markers"));
    fixture.broker.create_topic(&orders, 1).await.unwrap();
    fixture.broker.create_compacted_topic(&markers, 2).await.unwrap();
    assert_eq!(fixture.broker.last(&markers, 1).await.unwrap(), None);
    for round in 0..20 {
        let mut publisher = fixture.broker.publisher(&fixture.topic("relay")).await.unwrap();
        let marker = marker(&markers, &round.to_string());
        let records = vec![record(&orders, "k", "x")];
        publisher.publish(Transaction { records, marker }).await.unwrap();
        // Whoever takes over looks after it has taken the name.
        drop(fixture.broker.publisher(&fixture.topic("relay")).await.unwrap());
        let last = fixture.broker.last(&markers, 1).await.unwrap().unwrap();
        assert_eq!(last.payload, round.to_string().into_bytes());
        assert_eq!(last.key.as_deref(), Some(b"1".as_slice()));
    }
    assert_eq!(fixture.broker.last(&markers, 0).await.unwrap(), None);
}

pub(super) async fn publishers_of_other_names_do_not_disturb_each_other<B: Broker>(
    fixture: &Fixture<B>,
) {
    let orders = fixture.topic("orders");
    fixture.broker.create_topic(&orders, 1).await.unwrap();
    let mut one = fixture.broker.publisher(&fixture.topic("relay-1")).await.unwrap();
    let mut other = fixture.broker.publisher(&fixture.topic("relay-2")).await.unwrap();
    for round in 0..3 {
        for (publisher, name) in [(&mut one, "one"), (&mut other, "other")] {
            let records = vec![record(&orders, name, &format!("{name}-{round}"))];
            publisher.publish(Transaction { records, marker: None }).await.unwrap();
        }
    }
    one.finish().await.unwrap();
    other.finish().await.unwrap();
    assert_eq!(payloads(&fixture.broker, &orders, 0).await.len(), 6);
}
