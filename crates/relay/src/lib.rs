//! Outbox to broker: read what is due, publish it, settle it.
//!
//! The shards of a store are spread over a few lanes. Each lane is leased by one relay at a time and
//! has one publisher name, so that whoever takes a lane over fences whoever had it before. In
//! [`Mode::ExactlyOnce`] every transaction carries, beside its records, a marker with the ids it
//! publishes: the last marker of a lane says what has been published and perhaps not been settled. A
//! consumer that reads committed records sees each message once and the messages of an ordering key in
//! the order they were staged, whatever is killed or paused and when.
//!
//! **Invariants**
//! - Nothing is published before the lane's publisher name was taken, the lease looked at again, and
//!   the last marker settled, in this order.
//! - Nothing is published while what was published before is not settled.
//! - Of the messages of an ordering key only a prefix of what is due is ever published.
//! - A broker or store that is away costs no message an attempt.
//!
//! ```
//! use helenus_broker::contract::Broker;
//! # use helenus_broker::embedded::{self, EmbeddedBroker};
//! # use helenus_model::{ChannelId, Message, MessageId, Payload, Timestamp};
//! use helenus_relay::{Options, Relay};
//! use helenus_store::Ports;
//! use helenus_store::contract::Outbox;
//! # use helenus_store::sqlite::{self, SqliteStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let components = [&sqlite::COMPONENT, &embedded::COMPONENT];
//! # let path = dir.path().join("shop.db");
//! # let engine = helenus_sqlite::Engine::open(path, Default::default(), &components).await?;
//! # let ports = Ports::system();
//! # let store = SqliteStore::on(engine.clone(), ports.clone());
//! # let broker = EmbeddedBroker::on(engine);
//! # let (id, orders) = (MessageId::new("m-1")?, ChannelId::new("orders")?);
//! # let message = Message::new(id, orders, "order.placed", Payload::json(&1.into()), Timestamp::EPOCH);
//! broker.create_topic("orders", 1).await?;
//! store.enqueue(message).await?;
//! let relay = Relay::new(store, broker, Options::default(), ports);
//! let totals = relay.run_until_empty(Default::default()).await?;
//! assert_eq!(totals.published, 1);
//! # Ok(())
//! # }
//! ```

mod error;
mod health;
mod hints;
mod lane;
mod marker;
mod options;
mod plan;
mod record;
mod relay;
mod share;
mod status;
mod totals;

pub use error::RelayError;
pub use health::{DOWN_AFTER, Health, UpOrDown};
pub use helenus_model::Backoff;
pub use options::{Mode, Options, Ordering, Polling};
pub use record::record;
pub use relay::Relay;
pub use status::{ShardStatus, Status, status};
pub use totals::{Profile, Totals};
