//! The promises.

use std::time::Duration;

use helenus_broker::contract::{Broker, Marker, NewRecord, Publisher, Transaction};
use helenus_model::{ChannelId, Failure, Hint, Message, MessageId, Payload, hints_topic};
use helenus_relay::{Mode, Options, Ordering, Polling, RelayError, status};
use helenus_sqlite::rusqlite::Connection;
use helenus_store::contract::{Acquired, AfterParking, Dispatch, Leases, Outbox};
use helenus_store::lanes::lease_name;
use tokio_util::sync::CancellationToken;

use crate::shop::{LONG_AGO, Shop, quick};

pub(crate) trait Any: Broker<Publisher: 'static> + Clone + 'static {}
impl<B: Broker<Publisher: 'static> + Clone + 'static> Any for B {}

/// Stages `0..count` in turn under `keys` keys; then what must be published under each.
async fn stage_all<B: Any>(shop: &Shop<B>, channel: &str, keys: usize, count: usize) {
    for number in 0..count {
        shop.stage(channel, &format!("key-{}", number % keys), number).await;
    }
}

async fn check_all<B: Any>(shop: &Shop<B>, channel: &str, keys: usize, count: usize) {
    let published = shop.published(channel).await;
    assert_eq!(published.len(), keys.min(count));
    for (key, numbers) in published {
        let first: usize = key.trim_start_matches("key-").parse().unwrap();
        assert_eq!(numbers, (first..count).step_by(keys).collect::<Vec<_>>(), "{key}");
    }
}

pub(crate) async fn everything_due_is_published_once_and_in_order_per_key<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 3).await;
    stage_all(shop, "orders", 7, 100).await;
    let totals = shop.drain(Options { batch: 7, catch_up_batch: 11, ..quick() }).await;
    assert_eq!((totals.published, totals.failed, totals.outages), (100, 0, 0));
    assert_eq!(shop.drain(quick()).await.published, 0);
    check_all(shop, "orders", 7, 100).await;
    assert_eq!(shop.states().await, [("dispatched".to_owned(), 100)].into());
}

pub(crate) async fn at_least_once_publishes_everything_in_order_per_key<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 3).await;
    stage_all(shop, "orders", 7, 100).await;
    let options = Options { mode: Mode::AtLeastOnce, batch: 7, ..quick() };
    assert_eq!(shop.drain(options).await.published, 100);
    check_all(shop, "orders", 7, 100).await;
}

pub(crate) async fn a_key_waits_for_its_refused_message_and_others_flow<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 2).await;
    let missing = ChannelId::new(shop.topic("missing")).unwrap();
    let poison = Message { channel_id: missing, ..shop.message("orders", "key-0", 1_000) };
    shop.store.enqueue(poison).await.unwrap();
    stage_all(shop, "orders", 3, 30).await;
    // The topic is made while the relay keeps trying.
    let relay = shop.relay(Options { max_attempts: 1_000, ..quick() });
    let stop = CancellationToken::new();
    let making = async {
        while relay.totals().published < 20 || relay.totals().failed < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let published = shop.published("orders").await;
        assert_eq!(published.keys().collect::<Vec<_>>(), ["key-1", "key-2"]);
        shop.create("missing", 1).await;
    };
    let (done, ()) = tokio::join!(relay.run_until_empty(stop), making);
    assert_eq!(done.unwrap().published, 31);
    check_all(shop, "orders", 3, 30).await;
    let waited = shop.records("missing").await;
    let released = shop.records("orders").await;
    assert_eq!(waited.len(), 1);
    assert!(released.iter().any(|record| record.key.as_deref() == Some(b"key-0")));
}

pub(crate) async fn what_can_never_be_published_is_parked_and_holds_its_key<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 2).await;
    // With its headers it is over what a topic takes; the outbox takes it.
    let payload = Payload { content_type: "x/y".to_owned(), bytes: vec![b'1'; 1024 * 1024] };
    let large = Message { payload, ..shop.message("orders", "key-0", 1_000) };
    shop.store.enqueue(large).await.unwrap();
    stage_all(shop, "orders", 3, 30).await;
    let totals = shop.drain(quick()).await;
    assert_eq!((totals.published, totals.failed, totals.parked), (20, 1, 1));
    let states =
        [("dispatched".to_owned(), 20), ("parked".to_owned(), 1), ("pending".to_owned(), 10)];
    assert_eq!(shop.states().await, states.into());
}

pub(crate) async fn a_parked_message_lets_its_key_go_on_where_the_policy_says_so<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 2).await;
    let missing = ChannelId::new(shop.topic("missing")).unwrap();
    let poison = Message { channel_id: missing, ..shop.message("orders", "key-0", 1_000) };
    shop.store.enqueue(poison).await.unwrap();
    stage_all(shop, "orders", 3, 30).await;
    let options = Options { max_attempts: 3, after_parking: AfterParking::GoOn, ..quick() };
    let totals = shop.drain(options).await;
    assert_eq!((totals.published, totals.failed, totals.parked), (30, 3, 1));
    check_all(shop, "orders", 3, 30).await;
}

pub(crate) async fn of_many_poison_messages_only_their_keys_wait<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 2).await;
    for number in 0..100 {
        let key = format!("poison-{number}");
        let missing = ChannelId::new(shop.topic("missing")).unwrap();
        let poison = Message { channel_id: missing, ..shop.message("orders", &key, 1_000) };
        shop.store.enqueue(poison).await.unwrap();
        shop.stage("orders", &key, number).await;
        shop.stage("orders", "key-0", number).await;
    }
    let totals = shop.drain(Options { max_attempts: 2, ..quick() }).await;
    assert_eq!((totals.published, totals.failed, totals.parked), (100, 200, 100));
    check_all(shop, "orders", 1, 100).await;
}

pub(crate) async fn a_delayed_message_holds_nobody<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 1).await;
    let tomorrow = shop.ports.clock.now().plus(Duration::from_secs(86_400));
    let delayed = Message { deliver_at: Some(tomorrow), ..shop.message("orders", "key-0", 1_000) };
    shop.store.enqueue(delayed).await.unwrap();
    stage_all(shop, "orders", 1, 5).await;
    assert_eq!(shop.drain(quick()).await.published, 5);
    check_all(shop, "orders", 1, 5).await;
}

pub(crate) async fn an_event_that_two_messages_tell_of_is_published_once<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 1).await;
    for number in 0..4 {
        let mut message = shop.message("orders", "order-1", number);
        message.metadata.insert("aggregate_type".to_owned(), "order".to_owned());
        message.metadata.insert("event_id".to_owned(), format!("event-{}", number / 2));
        shop.store.enqueue(message).await.unwrap();
    }
    let totals = shop.drain(quick()).await;
    assert_eq!((totals.published, totals.duplicates_suppressed), (2, 2));
    assert_eq!(shop.published("orders").await["order-1"], [0, 2]);
    let states = [("dispatched".to_owned(), 2), ("skipped".to_owned(), 2)];
    assert_eq!(shop.states().await, states.into());
}

pub(crate) async fn a_channel_can_have_a_topic_of_another_name<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 1).await;
    shop.stage("checkout", "key-0", 0).await;
    let topics = [(shop.topic("checkout"), shop.topic("orders"))].into();
    assert_eq!(shop.drain(Options { topics, ..quick() }).await.published, 1);
    check_all(shop, "orders", 1, 1).await;
}

pub(crate) async fn in_global_order_everything_waits_for_a_refused_message<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 1).await;
    stage_all(shop, "orders", 2, 10).await;
    shop.stage("missing", "key-9", 0).await;
    shop.stage("orders", "key-0", 1_000).await;
    let options = Options { ordering: Ordering::Global, max_attempts: 1_000, ..quick() };
    let relay = shop.relay(options);
    let stop = CancellationToken::new();
    let making = async {
        while relay.totals().failed < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(shop.records("orders").await.len(), 10);
        shop.create("missing", 1).await;
    };
    let (done, ()) = tokio::join!(relay.run_until_empty(stop), making);
    assert_eq!(done.unwrap().published, 12);
    let records = shop.records("orders").await;
    let numbers = records.iter().map(|record| serde_json::from_slice(&record.payload).unwrap());
    assert_eq!(numbers.collect::<Vec<usize>>(), (0..10).chain([1_000]).collect::<Vec<_>>());
}

pub(crate) async fn in_partition_order_a_partition_waits_for_a_refused_message<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 1).await;
    for number in 0..10 {
        shop.stage("missing", &format!("key-{number}"), number).await;
        shop.stage("orders", &format!("key-{number}"), number).await;
    }
    let options = Options { ordering: Ordering::Partition, max_attempts: 1_000, ..quick() };
    let relay = shop.relay(options);
    let making = async {
        while relay.totals().failed < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Each waits for its own key, whatever the topic; the first of all holds its partition.
        shop.create("missing", 1).await;
    };
    let (done, ()) = tokio::join!(relay.run_until_empty(CancellationToken::new()), making);
    assert_eq!(done.unwrap().published, 20);
    let records = shop.records("missing").await;
    let numbers = records.iter().map(|record| serde_json::from_slice(&record.payload).unwrap());
    assert_eq!(numbers.collect::<Vec<usize>>(), (0..10).collect::<Vec<_>>());
}

pub(crate) async fn a_running_relay_publishes_what_is_staged_beside_it<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 2).await;
    let relay = shop.relay(quick());
    let shutdown = CancellationToken::new();
    let staging = async {
        for number in 0..50 {
            shop.stage("orders", &format!("key-{}", number % 3), number).await;
            while relay.totals().published <= number as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        shutdown.cancel();
    };
    let (done, ()) = tokio::join!(relay.run(shutdown.clone()), staging);
    assert_eq!(done.unwrap().published, 50);
    check_all(shop, "orders", 3, 50).await;
}

/// Told of each message three times, as by the agents of three replicas; nothing else ever wakes the
/// relay.
pub(crate) async fn a_hint_wakes_the_lane_of_its_message_and_is_believed_in_nothing_else<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 2).await;
    let never = Duration::from_secs(86_400);
    let polling = Polling { first: never, least: never, most: never };
    let options = Options { hints: true, wake_up: false, polling, lease_ttl: never, ..quick() };
    let relay = shop.relay(options);
    let topic = hints_topic(shop.store.identity().await.unwrap().store_id);
    let tell = async |payload: Vec<u8>| {
        let record = |node: &str| NewRecord {
            topic: topic.as_str().into(),
            key: Some(node.as_bytes().to_vec()),
            headers: Vec::new(),
            payload: payload.clone(),
            timestamp: shop.ports.clock.now(),
        };
        shop.broker.publish(&["n1", "n2", "n3"].map(record)).await.unwrap();
    };
    let shutdown = CancellationToken::new();
    let staging = async {
        for number in 0..30 {
            let key = format!("key-{}", number % 7);
            // The first of all are found without being told of: the relay looks when it starts.
            shop.stage("orders", &key, number).await;
            let id = MessageId::new(format!("orders/{key}/{number}")).unwrap();
            while shop.broker.bounds(&topic).await.is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tell(b"no hint".to_vec()).await;
            let gone = MessageId::new("orders/never/staged").unwrap();
            tell(Hint { id: gone, key: Some(key.clone()) }.to_bytes()).await;
            tell(Hint { id, key: Some(key) }.to_bytes()).await;
            while relay.totals().published <= number as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        shutdown.cancel();
    };
    let (done, ()) = tokio::join!(relay.run(shutdown.clone()), staging);
    assert_eq!(done.unwrap().published, 30);
    check_all(shop, "orders", 7, 30).await;
}

pub(crate) async fn relays_share_the_lanes_and_take_over_from_one_that_leaves<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 2).await;
    let options = Options { lease_ttl: Duration::from_millis(300), ..quick() };
    let (one, other) = (shop.relay(options.clone()), shop.relay(options.clone()));
    let (stop_one, stop_other) = (CancellationToken::new(), CancellationToken::new());
    let owners = async || {
        let status = status(&shop.store, &options, shop.ports.clock.now()).await.unwrap();
        let owners = |relay: &str| {
            status.shards.iter().filter(|shard| shard.owner.as_deref() == Some(relay)).count()
        };
        (owners(one.owner()), owners(other.owner()))
    };
    let watching = async {
        while owners().await != (8, 8) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stage_all(shop, "orders", 20, 100).await;
        while one.totals().published + other.totals().published < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop_one.cancel();
        while owners().await != (0, 16) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop_other.cancel();
    };
    let (first, second, ()) =
        tokio::join!(one.run(stop_one.clone()), other.run(stop_other.clone()), watching);
    assert!(first.unwrap().published > 0 && second.unwrap().published > 0);
    check_all(shop, "orders", 20, 100).await;
    assert_eq!(owners().await, (0, 0));
}

/// A relay that started before the shards changed, and holds no lane yet, learns of it with its first.
pub(crate) async fn a_relay_goes_on_with_another_number_of_shards<B: Any>(shop: &Shop<B>) {
    shop.create("orders", 2).await;
    let options = Options { lease_ttl: Duration::from_millis(300), ..quick() };
    let mut held = Vec::new();
    for lane in 0..options.lanes {
        let taken = shop.store.acquire(&lease_name(lane), "other", Duration::from_secs(600)).await;
        let Acquired::Held(lease) = taken.unwrap() else { panic!("lane {lane} is free") };
        held.push(lease);
    }
    let (relay, stop) = (shop.relay(options), CancellationToken::new());
    let watching = async {
        // It is there, and waits for lanes.
        while shop.store.holder("relay-member/0").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Whoever changes the shards holds all lanes meanwhile; nothing is staged yet that had to move.
        let change = |db: &Connection| -> Result<(), helenus_sqlite::Error> {
            db.execute("UPDATE helenus_settings SET value = '64' WHERE name = 'shards'", [])?;
            Ok(())
        };
        shop.store.engine().write(change).await.unwrap();
        for lease in &held {
            shop.store.release(lease).await.unwrap();
        }
        stage_all(shop, "orders", 20, 100).await;
        while relay.totals().published < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(relay.run(stop.clone()), watching);
    ended.unwrap();
    check_all(shop, "orders", 20, 100).await;
}

/// A marker of lane 0 as a relay writes it.
async fn marker<B: Any>(shop: &Shop<B>, ids: &[&str]) -> Marker {
    let store_id = shop.store.identity().await.unwrap().store_id;
    let value = serde_json::json!({ "format": 1, "ids": ids });
    Marker {
        topic: format!("helenus.{store_id}.markers"),
        partition: 0,
        key: b"0".to_vec(),
        value: value.to_string().into_bytes(),
    }
}

pub(crate) async fn what_was_published_and_not_settled_is_not_published_again<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 1).await;
    let options = || Options { lanes: 1, ..quick() };
    stage_all(shop, "orders", 2, 4).await;
    // What a relay leaves behind that is killed after its commit.
    let marker = marker(shop, &["orders/key-0/0", "orders/key-1/1"]).await;
    shop.broker.create_compacted_topic(&marker.topic, 1).await.unwrap();
    let store_id = shop.store.identity().await.unwrap().store_id;
    let mut killed = shop.broker.publisher(&format!("helenus.{store_id}.0")).await.unwrap();
    let sent = |number| {
        helenus_relay::record(
            &shop.message("orders", &format!("key-{number}"), number),
            &Options::default(),
        )
    };
    let records = vec![sent(0), sent(1)];
    killed.publish(Transaction { records, marker: Some(marker) }).await.unwrap();

    let totals = shop.drain(options()).await;
    assert_eq!((totals.published, totals.take_overs), (2, 1));
    check_all(shop, "orders", 2, 4).await;
    assert!(killed.publish(Transaction { records: vec![sent(0)], marker: None }).await.is_err());
    check_all(shop, "orders", 2, 4).await;
}

pub(crate) async fn a_relay_that_was_fenced_takes_its_lane_back_while_it_holds_the_lease<B: Any>(
    shop: &Shop<B>,
) {
    shop.create("orders", 1).await;
    let store_id = shop.store.identity().await.unwrap().store_id;
    let name = format!("helenus.{store_id}.0");
    let relay = shop.relay(Options { lanes: 1, ..quick() });
    let shutdown = CancellationToken::new();
    let disturbing = async {
        for number in 0..5 {
            shop.stage("orders", "key-0", number).await;
            while relay.totals().published <= number as u64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // An owner that was paused before it took the name comes back.
            drop(shop.broker.publisher(&name).await.unwrap());
        }
        shutdown.cancel();
    };
    let (done, ()) = tokio::join!(relay.run(shutdown.clone()), disturbing);
    assert_eq!(done.unwrap().take_overs, 5);
    check_all(shop, "orders", 1, 5).await;
}

pub(crate) async fn the_status_names_owners_and_what_is_left<B: Any>(shop: &Shop<B>) {
    shop.stage("orders", "key-0", 0).await;
    let options = quick();
    let now = shop.ports.clock.now().plus(Duration::from_secs(5));
    let status = status(&shop.store, &options, now).await.unwrap();
    assert_eq!((status.unpublished, status.shards.len()), (1, 16));
    assert!(status.lag_ms >= 4_000, "{}", status.lag_ms);
    assert!(status.shards.iter().all(|shard| shard.owner.is_none() && shard.epoch.is_none()));
    assert!(status.shards.iter().all(|shard| shard.watermark > LONG_AGO));
    // A relay that was told how many lanes there are stands by that.
    shop.create("orders", 1).await;
    shop.drain(options.clone()).await;
    let other = shop.relay(Options { lanes: 2, ..options });
    let error = other.run_until_empty(Default::default()).await.unwrap_err();
    assert!(matches!(error, RelayError::Broker(_)), "{error}");
    assert_eq!(error.applied(), Some(false));
}
