//! Promises of topics.

use std::collections::HashSet;

use helenus_broker::contract::{Bounds, Broker, Error, NewRecord, Offset, Position, Record};
use helenus_broker::partition;
use helenus_model::{Failure, Timestamp};

use super::Fixture;

pub(super) fn record(topic: &str, key: &str, payload: &str) -> NewRecord {
    NewRecord {
        topic: topic.into(),
        key: Some(key.as_bytes().to_vec()),
        headers: vec![],
        payload: payload.as_bytes().to_vec(),
        timestamp: Timestamp::from_millis(1_794_744_000_000),
    }
}

pub(super) async fn read<B: Broker>(broker: &B, topic: &str, partition: u32) -> Vec<Record> {
    let from = Position { topic: topic.into(), partition, offset: Offset::START };
    broker.read(from, 10_000).await.unwrap()
}

pub(super) async fn records_come_back_in_order_with_all_their_fields<B: Broker>(
    fixture: &Fixture<B>,
) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 1).await.unwrap();
    let headers = vec![("a".into(), vec![0, 255].into()), ("a".into(), vec![].into())];
    let first = NewRecord { headers: headers.clone(), ..record(&topic, "k", "1") };
    let keyless = NewRecord { key: None, ..record(&topic, "", "2") };
    let positions = fixture.broker.publish(&[first.clone(), keyless]).await.unwrap();
    assert_eq!(positions.iter().map(|p| p.offset.0).collect::<Vec<_>>(), [0, 1]);

    let found = read(&fixture.broker, &topic, 0).await;
    assert_eq!(found.len(), 2);
    let Record { position, key, headers: found_headers, payload, timestamp } = &found[0];
    assert_eq!(*position, positions[0]);
    assert_eq!((key, payload, timestamp), (&first.key, &first.payload, &first.timestamp));
    assert_eq!(*found_headers, headers);
    assert_eq!((found[1].key.as_deref(), found[1].payload.as_slice()), (None, b"2".as_slice()));

    let from = Position { offset: Offset(1), ..positions[0].clone() };
    assert_eq!(fixture.broker.read(from, 10).await.unwrap().len(), 1);
    let end = Position { offset: Offset(2), ..positions[0].clone() };
    assert_eq!(fixture.broker.read(end, 10).await.unwrap(), []);
}

pub(super) async fn a_key_has_one_partition<B: Broker>(fixture: &Fixture<B>) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 4).await.unwrap();
    let mut used = HashSet::new();
    for number in 0..40 {
        let key = format!("order-{number}");
        let twice = vec![record(&topic, &key, "1"), record(&topic, &key, "2")];
        let positions = fixture.broker.publish(&twice).await.unwrap();
        let expected = partition::of_key(key.as_bytes(), 4);
        assert_eq!((positions[0].partition, positions[1].partition), (expected, expected));
        used.insert(expected);
    }
    assert_eq!(used.len(), 4);
}

pub(super) async fn offsets_rise<B: Broker>(fixture: &Fixture<B>) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 2).await.unwrap();
    for number in 0..50 {
        let key = number.to_string();
        fixture.broker.publish(&[record(&topic, &key, &key)]).await.unwrap();
    }
    let mut total = 0;
    for partition in 0..2 {
        let records = read(&fixture.broker, &topic, partition).await;
        assert!(records.is_sorted_by_key(|record| record.position.offset));
        total += records.len();
    }
    assert_eq!(total, 50);
}

pub(super) async fn a_batch_with_a_record_that_is_refused_is_not_published<B: Broker>(
    fixture: &Fixture<B>,
) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 1).await.unwrap();
    let batch = vec![record(&topic, "k", "1"), record(&fixture.topic("missing"), "k", "2")];
    let error = fixture.broker.publish(&batch).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error}");
    assert_eq!(error.applied(), Some(false));
    assert_eq!(read(&fixture.broker, &topic, 0).await, []);
    let positions = fixture.broker.publish(&[record(&topic, "k", "3")]).await.unwrap();
    assert_eq!(positions[0].offset, Offset::START);
}

pub(super) async fn a_record_over_the_limit_is_refused<B: Broker>(fixture: &Fixture<B>) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 1).await.unwrap();
    let large = record(&topic, "k", &"x".repeat(1_100_000));
    let error = fixture.broker.publish(&[large]).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 1_048_588, .. }), "{error}");
    assert_eq!((error.code(), error.applied()), ("too_large", Some(false)));
    assert_eq!(read(&fixture.broker, &topic, 0).await, []);
    let fits = record(&topic, "k", &"x".repeat(1_000_000));
    fixture.broker.publish(&[fits]).await.unwrap();
}

pub(super) async fn what_would_be_refused_is_told_beforehand<B: Broker>(fixture: &Fixture<B>) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 1).await.unwrap();
    let records = [
        record(&topic, "k", "1"),
        record(&fixture.topic("missing"), "k", "2"),
        record(&topic, "k", &"x".repeat(1_100_000)),
        record(&topic, "k", "4"),
    ];
    let refusals = fixture.broker.refusals(&records).await.unwrap();
    assert_eq!(refusals.iter().map(|refusal| refusal.index).collect::<Vec<_>>(), [1, 2]);
    assert!(matches!(refusals[0].error, Error::UnknownTopic { .. }));
    assert!(matches!(refusals[1].error, Error::TooLarge { .. }));
    assert_eq!(read(&fixture.broker, &topic, 0).await, []);
}

pub(super) async fn bounds_are_where_reading_begins_and_ends<B: Broker>(fixture: &Fixture<B>) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 2).await.unwrap();
    let bounds = fixture.broker.bounds(&topic).await.unwrap();
    assert_eq!(bounds, [Bounds { start: Offset(0), end: Offset(0) }; 2]);
    let published = fixture.broker.publish(&[record(&topic, "k", "1")]).await.unwrap();
    let bounds = fixture.broker.bounds(&topic).await.unwrap();
    let of_key = usize::try_from(published[0].partition).unwrap();
    assert_eq!(bounds[of_key], Bounds { start: Offset(0), end: Offset(1) });
    assert_eq!(bounds[1 - of_key], Bounds { start: Offset(0), end: Offset(0) });
    let error = fixture.broker.bounds(&fixture.topic("missing")).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error}");
}

pub(super) async fn a_compacted_topic_is_told_from_others<B: Broker>(fixture: &Fixture<B>) {
    let (plain, compacted) = (fixture.topic("plain"), fixture.topic("compacted"));
    fixture.broker.create_topic(&plain, 2).await.unwrap();
    let error = fixture.broker.create_compacted_topic(&plain, 2).await.unwrap_err();
    assert!(error.to_string().contains("it exists and is not compacted"), "{error}");
    for _ in 0..2 {
        fixture.broker.create_compacted_topic(&compacted, 2).await.unwrap();
    }
    let error = fixture.broker.create_compacted_topic(&compacted, 3).await.unwrap_err();
    assert!(error.to_string().contains("it exists with 2 partitions, not 3"), "{error}");
}

pub(super) async fn creating_a_topic_twice_is_fine_with_the_same_partitions<B: Broker>(
    fixture: &Fixture<B>,
) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 3).await.unwrap();
    fixture.broker.create_topic(&topic, 3).await.unwrap();
    let error = fixture.broker.create_topic(&topic, 4).await.unwrap_err().to_string();
    assert!(error.contains("it exists with 3 partitions, not 4"), "{error}");
    let topics = fixture.broker.topics().await.unwrap();
    let found: Vec<_> = topics.iter().filter(|found| found.name == topic).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].partitions, 3);
    for (name, partitions) in [("", 1), (topic.as_str(), 0)] {
        let error = fixture.broker.create_topic(name, partitions).await.unwrap_err();
        assert!(matches!(error, Error::InvalidTopic { .. }), "{error}");
    }
}

pub(super) async fn a_topic_or_partition_that_is_not_there_is_named<B: Broker>(
    fixture: &Fixture<B>,
) {
    let topic = fixture.topic("orders");
    let position = Position { topic: topic.as_str().into(), partition: 2, offset: Offset::START };
    let error = fixture.broker.read(position.clone(), 1).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error}");
    fixture.broker.create_topic(&topic, 2).await.unwrap();
    let error = fixture.broker.read(position.clone(), 1).await.unwrap_err();
    assert!(matches!(error, Error::UnknownPartition { partition: 2, .. }), "{error}");
    let error = fixture.broker.commit("g", position).await.unwrap_err();
    assert!(matches!(error, Error::UnknownPartition { partition: 2, .. }), "{error}");
}

pub(super) async fn a_group_goes_on_where_it_committed<B: Broker>(fixture: &Fixture<B>) {
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 1).await.unwrap();
    let (billing, shipping) = (fixture.topic("billing"), fixture.topic("shipping"));
    let committed = || fixture.broker.committed(&billing, &topic, 0);
    assert_eq!(committed().await.unwrap(), None);
    for offset in [3, 7] {
        let next = Position { topic: topic.as_str().into(), partition: 0, offset: Offset(offset) };
        fixture.broker.commit(&billing, next).await.unwrap();
        assert_eq!(committed().await.unwrap(), Some(Offset(offset)));
    }
    assert_eq!(fixture.broker.committed(&shipping, &topic, 0).await.unwrap(), None);
}

pub(super) async fn many_publishers_share_a_partition<B>(fixture: &Fixture<B>)
where
    B: Broker + Clone + 'static,
{
    let topic = fixture.topic("orders");
    fixture.broker.create_topic(&topic, 1).await.unwrap();
    let mut publishers = tokio::task::JoinSet::new();
    for publisher in 0..16 {
        let (broker, topic) = (fixture.broker.clone(), topic.clone());
        publishers.spawn(async move {
            for number in 0..20 {
                let key = publisher.to_string();
                broker.publish(&[record(&topic, &key, &number.to_string())]).await.unwrap();
            }
        });
    }
    publishers.join_all().await;
    let records = read(&fixture.broker, &topic, 0).await;
    assert_eq!(records.len(), 320);
    for publisher in 0..16 {
        let key = publisher.to_string().into_bytes();
        let own = records.iter().filter(|record| record.key.as_ref() == Some(&key));
        let payloads: Vec<_> = own.map(|record| record.payload.clone()).collect();
        let expected: Vec<_> = (0..20).map(|number: i32| number.to_string().into_bytes()).collect();
        assert_eq!(payloads, expected, "publisher {publisher}");
    }
}
