//! The examples do what they say, on each pair of backends.

use helenus::backend::{BrokerUrl, StoreUrl};

#[path = "../../examples/order_consumer.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod order_consumer;
#[path = "../../examples/order_service.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod order_service;

async fn orders_are_placed_and_booked_once(store: StoreUrl, broker: BrokerUrl, topic: &str) {
    for published in [3, 0] {
        assert_eq!(order_service::run(&store, &broker, topic).await.unwrap(), published);
    }
    let mut booked = order_consumer::run(&store, &broker, topic, false).await.unwrap();
    booked.sort_unstable();
    assert_eq!(booked, [7, 12, 30]);
    // Where it left off, and once more from the start.
    for again in [false, true] {
        assert_eq!(order_consumer::run(&store, &broker, topic, again).await.unwrap(), [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_examples_run_embedded() {
    let dir = tempfile::tempdir().unwrap();
    let store = StoreUrl::Sqlite(dir.path().join("shop.db"));
    orders_are_placed_and_booked_once(store, BrokerUrl::Embedded, "orders").await;
}

#[cfg(feature = "service-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn the_order_examples_run_on_a_cluster() {
    use helenus_testkit::isolated::{Keyspace, Topics};

    let (keyspace, topics) = (Keyspace::create().await, Topics::reserve());
    let broker = format!("kafka://{}", topics.broker).parse().unwrap();
    let topic = topics.name("orders");
    orders_are_placed_and_booked_once(keyspace.url().parse().unwrap(), broker, &topic).await;
}
