//! Move data into and out of Apache Cassandra without losing, doubling or inventing a change.
//!
//! This is the crate applications depend on. A backend is a URL; the code around it stays the
//! same. Every part and every backend is a feature, all of them on by default.
//!
//! ```
//! use helenus::store::Outbox;
//! use helenus::{Broker, ChannelId, Message, MessageId, Payload, Ports, Store};
//! use helenus::broker::Broker as _;
//! use helenus::relay::{Options, Relay};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", dir.path().join("shop.db").display());
//! let ports = Ports::system();
//! let store = Store::open(&url.parse()?, ports.clone()).await?;
//! let broker = Broker::open(&"embedded:".parse()?, &store)?;
//! broker.create_topic("orders", 4).await?;
//!
//! let placed = Message::new(
//!     MessageId::new("order-1/placed")?,
//!     ChannelId::new("orders")?,
//!     "order.placed",
//!     Payload::json(&serde_json::json!({"total": 12})),
//!     ports.clock.now(),
//! );
//! store.enqueue(placed).await?;
//! let relay = Relay::new(store, broker, Options::default(), ports);
//! let totals = relay.run_until_empty(Default::default()).await?;
//! assert_eq!(totals.published, 1);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "sqlite")]
mod brokers;
#[cfg(feature = "sqlite")]
mod contracts;
#[cfg(feature = "sqlite")]
mod open;
#[cfg(feature = "sqlite")]
mod open_versions;
#[cfg(feature = "sqlite")]
mod retention;

#[cfg(feature = "sqlite")]
mod upkeep;

#[cfg(feature = "sqlite")]
pub mod interop;
pub mod probe;

#[cfg(feature = "sqlite")]
pub use brokers::{Broker, BrokerOpenError, BrokerOptions, Publisher};
pub use helenus_model::{
    BackendError, ChannelId, Clock, EventId, Expected, Failure, InvalidId, InvalidMessage, Kind,
    ManualClock, Message, MessageId, NewEvent, OperationId, Payload, Random, RecordedEvent,
    SeededRandom, StreamId, SystemClock, SystemRandom, Timestamp, Version, backend, causes, told,
};
#[cfg(feature = "sqlite")]
pub use helenus_sqlite::{Inspection, OpenError};
#[cfg(feature = "sqlite")]
pub use helenus_store::Bounds;
pub use helenus_store::Ports;
#[cfg(all(feature = "sqlite", feature = "cassandra"))]
pub use open::NotYet;
#[cfg(feature = "sqlite")]
pub use open::{Store, StoreOpenError, StoreOptions, inspect};
#[cfg(feature = "sqlite")]
pub use open_versions::Versions;

/// How a store uses a Cassandra cluster.
#[cfg(feature = "cassandra")]
pub mod cassandra {
    pub use helenus_store::cassandra::{
        ClientCertificate, Consistency, Error, Options, Replication, SerialConsistency,
    };
}

/// What a store promises.
pub mod store {
    pub use helenus_store::contract::*;
}

/// What the events of a stream come to, with snapshots.
pub mod aggregate {
    pub use helenus_store::aggregate::*;
}

/// Looking after an outbox in the background.
pub mod tending {
    pub use helenus_store::tending::*;
}

/// Working on a message once.
pub mod once {
    pub use helenus_store::once::*;
}

/// Consumers of the feed of all events.
pub mod subscription {
    pub use helenus_store::subscription::*;
}

/// Tables that follow the feed; [`Store::projector`] runs them.
///
/// What an application writes for one, `Projection`, names the driver and is in
/// [`interop::rusqlite`].
#[cfg(feature = "sqlite")]
pub mod projection {
    pub use helenus_store::sqlite::{ProjectionError, Projector, ProjectorOptions, SqlProjection};
}

/// Events as an application's own types.
pub mod typed {
    pub use helenus_store::typed::*;
}

/// What a broker promises.
pub mod broker {
    pub use helenus_broker::contract::*;
    pub use helenus_broker::partition;
}

/// From the outbox to the broker.
pub mod relay {
    pub use helenus_relay::*;
}

/// From a node's `cdc_raw` to change events.
pub mod capture {
    pub use helenus_capture::*;
}

/// Versioned tables: whole data sets published side by side, one of them read.
pub mod versions {
    pub use helenus_versions::publish::{
        CheckOptions, DryRun, Publish, PublishError, Published, SchemaFrom,
    };
    pub use helenus_versions::row::MappingOptions;
    pub use helenus_versions::source::{Format, LocalFiles, ReadOptions, Storage};
    pub use helenus_versions::{
        Catalog, ChangeError, CheckResult, Heartbeat, LoadOptions, Progress, RecycleOptions,
        Recycled, SchemaError, Snapshot, Status, Story, TableName, TableSchema, TableVersion,
        Tables, route,
    };
}

/// The program in the README compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
