//! An order as an aggregate: decided from its events, appended at the version it was decided at.
//!
//! `cargo run --example orders -- sqlite:orders.db`, or `cassandra://127.0.0.1:9042/shop`.

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use futures_util::TryStreamExt;
use helenus::store::{Append, AppendError, EventStore, ReadEvents};
use helenus::{Expected, NewEvent, Payload, Ports, RecordedEvent, Store, StreamId, Version};

#[derive(Debug, Default)]
struct Order {
    version: Option<Version>,
    total: u64,
    paid: bool,
}

impl Order {
    fn apply(mut self, event: &RecordedEvent) -> Self {
        self.version = Some(event.version);
        match event.event_type.as_str() {
            "order.placed" => self.total = number(&event.payload),
            _ => self.paid |= event.event_type == "order.paid",
        }
        self
    }

    fn pay(&self) -> Option<NewEvent> {
        (!self.paid).then(|| NewEvent::new("order.paid", Payload::json(&self.total.into())))
    }
}

fn number(payload: &Payload) -> u64 {
    payload.text().and_then(|json| json.parse().ok()).unwrap_or_default()
}

async fn load(store: &Store, id: &StreamId) -> Result<Order, Box<dyn std::error::Error>> {
    let events = store.read(ReadEvents::forward(id.clone()));
    Ok(events.try_fold(Order::default(), async |order, event| Ok(order.apply(&event))).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:orders.db".to_owned());
    let store = Store::open(&url.parse()?, Ports::system()).await?;
    let id = StreamId::new("order-1")?;
    let placed = NewEvent::new("order.placed", Payload::json(&12.into()));
    match store.append(Append::new(id.clone(), Expected::NoStream, vec![placed])).await {
        Ok(_) | Err(AppendError::Conflict { .. }) => {} // placed now, or by an earlier run
        Err(error) => return Err(error.into()),
    }
    let order = load(&store, &id).await?;
    if let (Some(version), Some(paid)) = (order.version, order.pay()) {
        store.append(Append::new(id.clone(), Expected::Exact(version), vec![paid])).await?;
    }
    println!("{:?}", load(&store, &id).await?);
    store.close().await;
    Ok(())
}
