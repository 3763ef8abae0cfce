//! A consumer with an inbox: whatever arrives twice is booked once.
//!
//! `cargo run --example order_consumer -- sqlite:shop.db embedded:`, or
//! `cassandra://127.0.0.1:9042/shop kafka://127.0.0.1:9092`, after `order_service`.

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use helenus::backend::{BrokerUrl, StoreUrl};
use helenus::broker::{Broker as _, Offset, Position, Record};
use helenus::once::once;
use helenus::store::Received;
use helenus::{Broker, ChannelId, MessageId, Ports, Store};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const GROUP: &str = "billing";
const LEASE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let store = words.next().unwrap_or_else(|| "sqlite:shop.db".to_owned());
    let broker = words.next().unwrap_or_else(|| "embedded:".to_owned());
    let booked = run(&store.parse()?, &broker.parse()?, "orders", false).await?;
    println!("booked {}: {booked:?}", booked.iter().sum::<u64>());
    Ok(())
}

/// Reads the topic to its end and books each order; what was booked now. `again` reads from the start,
/// as a consumer does that died before it could say how far it was.
pub(crate) async fn run(
    store: &StoreUrl,
    broker: &BrokerUrl,
    topic: &str,
    again: bool,
) -> Result<Vec<u64>> {
    let ports = Ports::system();
    let store = Store::open(store, ports.clone()).await?;
    let broker = Broker::open(broker, &store)?;
    let mut booked = Vec::new();
    for partition in 0..u32::try_from(broker.bounds(topic).await?.len())? {
        let known = broker.committed(GROUP, topic, partition).await?.filter(|_| !again);
        let offset = known.unwrap_or(Offset::START);
        let mut next = Position { topic: topic.into(), partition, offset };
        loop {
            let records = broker.read(next.clone(), 100).await?;
            let Some(last) = records.last() else { break };
            next.offset = last.position.offset.next();
            for record in &records {
                booked.extend(book(&store, &ports, record).await?);
            }
            // After the effect: whoever dies in between reads these again, and books nothing.
            broker.commit(GROUP, next.clone()).await?;
        }
    }
    store.close().await;
    Ok(booked)
}

/// Books an order unless it was booked before. The effect may come twice if the process dies within the
/// handler; where it is in the store's own file, `interop::rusqlite::once` makes both one transaction.
async fn book(store: &Store, ports: &Ports, record: &Record) -> Result<Option<u64>> {
    let header = |name: &str| {
        let found = record.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let received = Received {
        message_id: MessageId::new(format!("{GROUP}/{}", header("ce_id").unwrap_or_default()))?,
        channel_id: ChannelId::new(&*record.position.topic)?,
        message_type: header("ce_type").unwrap_or_default(),
        correlation_id: header("correlation_id"),
        tenant_id: header("tenant_id"),
        received_at: ports.clock.now(),
    };
    let order: serde_json::Value = serde_json::from_slice(&record.payload)?;
    let total = order.get("total").ok_or("an order has a total")?.to_string();
    let handler = |_| async move { Ok::<_, Infallible>(total.into_bytes()) };
    let done = once(store, ports, received, None, LEASE, handler).await?;
    let total = String::from_utf8_lossy(&done.result).parse()?;
    Ok((!done.repeated).then_some(total))
}
