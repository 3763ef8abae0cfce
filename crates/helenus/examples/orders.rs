//! An order as an aggregate: decided from its events, appended at the version it was decided at.
//!
//! `cargo run --example orders -- sqlite:orders.db`, or `cassandra://127.0.0.1:9042/shop`.

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use helenus::aggregate::{Aggregate, Aggregates};
use helenus::store::{Append, EventStore};
use helenus::typed::{Registry, TypedEvent, encode};
use helenus::{Ports, Store, StreamId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Happened {
    Placed { total: u64 },
    Paid,
}

impl TypedEvent for Happened {
    const TYPE: &'static str = "order.happened";
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Order {
    total: u64,
    paid: bool,
}

impl Aggregate for Order {
    type Event = Happened;
    const SNAPSHOT_TYPE: &'static str = "order";

    fn apply(&mut self, event: Happened) {
        match event {
            Happened::Placed { total } => self.total = total,
            Happened::Paid => self.paid = true,
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:orders.db".to_owned());
    let store = Store::open(&url.parse()?, Ports::system()).await?;
    let orders = Aggregates::<Order>::new(Registry::new().event(|event: Happened| event));
    let id = StreamId::new("order-1")?;
    for happened in [Happened::Placed { total: 12 }, Happened::Paid] {
        let mut order = orders.load(&store, &id).await?;
        if order.version.is_none() || matches!(happened, Happened::Paid) && !order.state.paid {
            let append = Append::new(id.clone(), order.expected(), vec![encode(&happened)?]);
            store.append(append).await?; // a conflict if somebody decided meanwhile
        }
        orders.save_if_due(&store, &mut order).await?;
    }
    println!("{:?}", orders.load(&store, &id).await?.state);
    store.close().await;
    Ok(())
}
