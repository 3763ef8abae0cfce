//! From the outbox into a topic, on the embedded backends.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use helenus_broker::contract::{Broker, Offset, Position};
use helenus_broker::embedded::{self, EmbeddedBroker};
use helenus_model::{
    ChannelId, Failure, ManualClock, Message, MessageId, Payload, SystemRandom, Timestamp,
};
use helenus_relay::{DrainError, Drained, drain};
use helenus_sqlite::{Engine, Options};
use helenus_store::Ports;
use helenus_store::contract::{Dispatch, Outbox};
use helenus_store::sqlite::{self, SqliteStore};

struct Shop {
    store: SqliteStore,
    broker: EmbeddedBroker,
    clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
}

async fn shop() -> Shop {
    let dir = tempfile::tempdir().unwrap();
    let components = [&sqlite::COMPONENT, &embedded::COMPONENT];
    let engine =
        Engine::open(dir.path().join("shop.db"), Options::default(), &components).await.unwrap();
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000)));
    let ports = Ports { clock: Arc::clone(&clock) as _, random: Arc::new(SystemRandom) };
    let store = SqliteStore::on(engine.clone(), ports);
    Shop { store, broker: EmbeddedBroker::on(engine), clock, _dir: dir }
}

fn message(number: usize) -> Message {
    Message {
        ordering_key: Some(format!("order-{}", number % 3)),
        ..Message::new(
            MessageId::new(format!("m-{number}")).unwrap(),
            ChannelId::new("orders").unwrap(),
            "order.placed",
            Payload::json(&serde_json::json!(number)),
            Timestamp::EPOCH,
        )
    }
}

#[tokio::test]
async fn everything_due_is_published_once_and_in_order_per_key() {
    let shop = shop().await;
    shop.broker.create_topic("orders", 2).await.unwrap();
    for number in 0..100 {
        shop.store.enqueue(message(number)).await.unwrap();
    }
    let drained = drain(&shop.store, &shop.broker, &*shop.clock, 7).await.unwrap();
    assert_eq!(drained, Drained { published: 100 });
    let again = drain(&shop.store, &shop.broker, &*shop.clock, 7).await.unwrap();
    assert_eq!(again, Drained { published: 0 });

    let mut numbers = Vec::new();
    for partition in 0..2 {
        let from = Position { topic: "orders".to_owned(), partition, offset: Offset::START };
        let records = shop.broker.read(from, 1_000).await.unwrap();
        for key in ["order-0", "order-1", "order-2"] {
            let own = records.iter().filter(|record| record.key.as_deref() == Some(key.as_bytes()));
            let own: Vec<usize> =
                own.map(|record| serde_json::from_slice(&record.payload).unwrap()).collect();
            assert!(own.is_sorted(), "{key}: {own:?}");
            numbers.extend(own);
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_cannot_be_published_stays_pending() {
    let shop = shop().await;
    shop.store.enqueue(message(1)).await.unwrap();
    let error = drain(&shop.store, &shop.broker, &*shop.clock, 10).await.unwrap_err();
    assert!(matches!(error, DrainError::Broker(_)), "{error}");
    assert_eq!(error.applied(), Some(false));
    assert_eq!(shop.store.read_pending(Timestamp::from_millis(1_000), 10).await.unwrap().len(), 1);
}
