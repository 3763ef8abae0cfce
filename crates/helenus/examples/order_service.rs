//! An order service: the order and the message that tells of it are written together, or neither is.
//!
//! `cargo run --example order_service -- sqlite:shop.db embedded:`, or
//! `cassandra://127.0.0.1:9042/shop kafka://127.0.0.1:9092`. `order_consumer` reads what it publishes.

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use std::error::Error;
use std::sync::Arc;

use helenus::backend::{BrokerUrl, Endpoint, StoreUrl};
use helenus::broker::Broker as _;
use helenus::cassandra::Options as CassandraOptions;
use helenus::interop::rusqlite::{Connection, stage};
use helenus::interop::scylla::staging::Bound;
use helenus::interop::scylla::{cassandra, store as store_on};
use helenus::relay::{Options, Relay};
use helenus::store::Dispatch;
use helenus::{Broker, ChannelId, Message, MessageId, Payload, Ports, Store};
use scylla::client::session_builder::SessionBuilder;
use scylla::value::CqlValue;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ORDERS: [(&str, i32); 3] = [("order-1", 12), ("order-2", 30), ("order-3", 7)];

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let store = words.next().unwrap_or_else(|| "sqlite:shop.db".to_owned());
    let broker = words.next().unwrap_or_else(|| "embedded:".to_owned());
    let published = run(&store.parse()?, &broker.parse()?, "orders").await?;
    println!("{published} messages published");
    Ok(())
}

/// Places the orders, publishes what they tell, and says how many messages that were. Running it again
/// places nothing twice.
pub(crate) async fn run(store: &StoreUrl, broker: &BrokerUrl, topic: &str) -> Result<u64> {
    let store = match store {
        StoreUrl::Sqlite(path) => {
            let opened = Store::open(store, Ports::system()).await?;
            place_in_file(&mut Connection::open(path)?, topic)?;
            opened
        }
        StoreUrl::Cassandra(endpoint) => place_in_cluster(endpoint, topic).await?,
    };
    let broker = Broker::open(broker, &store)?;
    broker.create_topic(topic, 2).await?;
    // A service would have `helenus relay run` beside it, or `relay.run(…)` in a task of its own.
    let relay = Relay::new(store.clone(), broker, Options::default(), Ports::system());
    let totals = relay.run_until_empty(Default::default()).await?;
    store.close().await;
    Ok(totals.published)
}

fn placed(order: &str, total: i32, topic: &str) -> Result<Message> {
    let payload = Payload::json(&json!({ "order": order, "total": total }));
    let now = Ports::system().clock.now();
    let message = Message::new(
        MessageId::new(format!("{topic}/{order}/placed"))?, // the same order again is the same message
        ChannelId::new(topic)?,
        "order.placed",
        payload,
        now,
    );
    Ok(Message { ordering_key: Some(order.to_owned()), ..message })
}

/// One transaction of the service's own connection.
fn place_in_file(shop: &mut Connection, topic: &str) -> Result<()> {
    shop.execute_batch("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, total INTEGER)")?;
    for (order, total) in ORDERS {
        let transaction = shop.transaction()?;
        let insert = "INSERT INTO orders VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        if transaction.execute(insert, (order, total))? == 1 {
            stage(&transaction, &placed(order, total, topic)?, Ports::system().clock.now())?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// One batch in the order's partition, on the service's own session.
async fn place_in_cluster(endpoint: &Endpoint, topic: &str) -> Result<Store> {
    let session = SessionBuilder::new().known_nodes(endpoint.addresses()).build().await?;
    let session = Arc::new(session);
    let options = CassandraOptions { keyspace: endpoint.path.clone(), ..Default::default() };
    let store = store_on(Arc::clone(&session), options, Ports::system())?;
    store.identity().await?; // makes keyspace and tables where they are missing
    let table = format!("{}.orders", endpoint.path.as_deref().unwrap_or("helenus"));
    let create = format!("CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, total int)");
    session.query_unpaged(create, ()).await?;
    let insert = format!("INSERT INTO {table} (id, total) VALUES (?, ?)");
    let insert = session.prepare(insert).await?;
    let staging = cassandra(&store).ok_or("not a cluster")?;
    let outbox = staging.entity_outbox(&table, &[("id", "text")]).await?;
    for (order, total) in ORDERS {
        let values = vec![Some(CqlValue::Text(order.to_owned())), Some(CqlValue::Int(total))];
        let insert = Bound { statement: insert.clone(), values };
        let message = placed(order, total, topic)?;
        staging.stage_beside(&outbox, &[json!(order)], message, vec![insert]).await?;
    }
    Ok(store)
}
