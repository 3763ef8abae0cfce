//! The store in a SQLite file.
//!
//! A message is a row of what it says and a narrow row of what became of it, written together; what
//! the seed's pending-dispatch table is for on Cassandra, a partial index of the latter does here.

mod dispatch;
mod events;
mod feed;
mod inbox;
mod leases;
mod once;
mod outbox;
mod projections;
mod retention;
mod rows;
mod settings;
mod snapshots;
mod subscriptions;
mod upkeep;

use std::path::Path;

use helenus_model::Timestamp;
use helenus_sqlite::{Component, Engine, OpenError, Options};
use rusqlite::Connection;

use crate::contract::Error;
use crate::{Bounds, Ports};
pub use once::once;
pub use outbox::stage;
pub use projections::{
    Output, Projection, ProjectionError, Projector, ProjectorOptions, SqlProjection,
};

/// Outbox, dispatch store, inbox and event store in one file.
///
/// ```
/// use helenus_model::{ChannelId, Message, MessageId, Payload, Timestamp};
/// use helenus_store::contract::{Dispatch, Enqueued, Outbox};
/// use helenus_store::{Ports, sqlite::SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// let store = SqliteStore::open(&path, Ports::system()).await?;
/// let message = Message::new(
///     MessageId::new("order-1/placed")?,
///     ChannelId::new("orders")?,
///     "order.placed",
///     Payload::json(&serde_json::json!({"total": 12})),
///     Timestamp::EPOCH,
/// );
/// assert_eq!(store.enqueue(message.clone()).await?, Enqueued::Enqueued);
/// assert_eq!(store.enqueue(message).await?, Enqueued::Duplicate);
/// let due = store.read_pending(Timestamp::from_micros(i64::MAX), 10).await?;
/// assert_eq!(due.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteStore {
    engine: Engine,
    ports: Ports,
    bounds: Bounds,
}

/// The store's tables in the file.
pub static COMPONENT: Component = Component {
    name: "store",
    migrations: &[
        include_str!("sqlite/001-messages.sql"),
        include_str!("sqlite/002-events.sql"),
        include_str!("sqlite/003-leases.sql"),
        include_str!("sqlite/004-retention.sql"),
        include_str!("sqlite/005-subscriptions.sql"),
        include_str!("sqlite/006-dispatch.sql"),
        include_str!("sqlite/007-inbox.sql"),
        include_str!("sqlite/008-settling.sql"),
    ],
};

impl SqliteStore {
    /// Opens the file, creates it where there is none.
    pub async fn open(path: impl AsRef<Path>, ports: Ports) -> Result<Self, OpenError> {
        let engine = Engine::open(path, Options::default(), &[&COMPONENT]).await?;
        Ok(Self::on(engine, ports))
    }

    /// Uses a file that is open already, its [`COMPONENT`] up to date; this is how several parts
    /// share one file.
    pub fn on(engine: Engine, ports: Ports) -> Self {
        SqliteStore { engine, ports, bounds: Bounds::default() }
    }

    /// Takes appends of another size, or remembers operations for another time.
    #[must_use]
    pub fn with_bounds(self, bounds: Bounds) -> Self {
        SqliteStore { bounds, ..self }
    }

    /// Over how many shards messages are spread: the number that was chosen first, which is `wanted`
    /// if nobody has chosen yet. [`Upkeep::reshard`](crate::contract::Upkeep::reshard) changes it.
    pub async fn choose_shards(&self, wanted: Option<u16>) -> Result<u16, Error> {
        let look = |db: &Connection| Ok::<_, Error>(settings::chosen_shards(db)?);
        if let Some(chosen) = self.engine.read(look).await? {
            return Ok(chosen);
        }
        self.engine.write(move |db| Ok(settings::choose_shards(db, wanted)?)).await
    }

    /// The file.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }
}
