//! What only a cluster can show.

use std::collections::HashSet;
use std::time::Duration;

use helenus_broker::kafka::{KafkaBroker, Options as KafkaOptions};
use helenus_model::backend::{BrokerUrl, Endpoint};
use helenus_model::{Failure, Kind, Message};
use helenus_relay::{Mode, Options, Relay};
use helenus_store::contract::{Dispatch, Outbox};
use helenus_testkit::services::Registry;

use crate::shop::{self, quick};

fn endpoint(address: &str) -> Endpoint {
    let BrokerUrl::Kafka(endpoint) = format!("kafka://{address}").parse().unwrap() else {
        panic!("{address}")
    };
    endpoint
}

pub(crate) fn shared() -> KafkaBroker {
    let address = Registry::new().kafka().unwrap().to_string();
    KafkaBroker::new(&endpoint(&address), KafkaOptions::default()).unwrap()
}

/// A record two hours ahead of time is refused by the broker, and nothing tells so before.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_refuses_in_a_transaction_is_found_and_only_it_counts_attempts() {
    for mode in [Mode::ExactlyOnce, Mode::AtLeastOnce] {
        let shop = shop::kafka().await;
        shop.create("orders", 2).await;
        for number in 0..20 {
            shop.stage("orders", &format!("key-{}", number % 4), number).await;
        }
        let ahead = shop.ports.clock.now().plus(Duration::from_secs(7_200));
        let poison = Message { occurred_at: ahead, ..shop.message("orders", "poison", 1_000) };
        shop.store.enqueue(poison).await.unwrap();
        for number in 20..40 {
            shop.stage("orders", &format!("key-{}", number % 4), number).await;
        }
        let totals = shop.drain(Options { mode, max_attempts: 2, ..quick() }).await;
        assert_eq!((totals.published, totals.failed, totals.parked), (40, 2, 1), "{mode:?}");
        for (key, mut numbers) in shop.published("orders").await {
            if mode == Mode::AtLeastOnce {
                // Those that arrived beside the refused one are published again.
                let mut seen = HashSet::new();
                numbers.retain(|number| seen.insert(*number));
            }
            let first: usize = key.trim_start_matches("key-").parse().unwrap();
            assert_eq!(numbers, (first..40).step_by(4).collect::<Vec<_>>(), "{mode:?} {key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_there_is_told_at_the_start() {
    let shop = shop::embedded().await;
    shop.stage("orders", "key-0", 0).await;
    let options = KafkaOptions { timeout: Duration::from_secs(3), ..KafkaOptions::default() };
    let broker = KafkaBroker::new(&endpoint("127.0.0.1:1"), options).unwrap();
    for mode in [Mode::ExactlyOnce, Mode::AtLeastOnce] {
        let options = Options { mode, ..quick() };
        let relay = Relay::new(shop.store.clone(), broker.clone(), options, shop.ports.clone());
        let error = relay.run(Default::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (Kind::Unavailable, Some(false)), "{error}");
    }
    let due = shop.store.read_pending(shop.ports.clock.now(), 10).await.unwrap();
    assert_eq!((due.len(), due[0].attempt_count), (1, 0));
}
