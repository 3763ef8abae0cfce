//! Aggregates: what the events of a stream come to, loaded from the newest snapshot and the events
//! after it.
//!
//! A snapshot saves time and decides nothing: one of another type or shape is passed over, and all
//! events are read instead. An event that cannot be resolved is an error, in a strict registry and
//! in any other: a state without it would be a wrong one.

mod error;

use std::num::{NonZeroU32, NonZeroU64};

use futures_util::TryStreamExt;
use helenus_model::{Expected, Payload, StreamId, Version};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::contract::{EventStore, NewSnapshot, ReadEvents, Snapshot, SnapshotError, Snapshots};
use crate::typed::Registry;
pub use error::LoadError;

/// What events come to. Its snapshots are JSON.
pub trait Aggregate: Default + Serialize + DeserializeOwned + Send {
    /// What happens to it.
    type Event;
    /// Name of its snapshots in the store. It outlives the type's own name.
    const SNAPSHOT_TYPE: &'static str;
    /// Version of the type's shape, counted up when it changes.
    const SNAPSHOT_SCHEMA_VERSION: i32 = 1;

    /// Takes an event into account.
    fn apply(&mut self, event: Self::Event);
}

/// Loads aggregates and saves their snapshots.
///
/// ```
/// use std::num::NonZeroU64;
/// use helenus_model::StreamId;
/// use helenus_store::aggregate::{Aggregate, Aggregates};
/// use helenus_store::contract::{Append, EventStore};
/// use helenus_store::typed::{Registry, TypedEvent, encode};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Deposited { amount: u64 }
/// impl TypedEvent for Deposited {
///     const TYPE: &'static str = "account.deposited";
/// }
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Account { balance: u64 }
/// impl Aggregate for Account {
///     type Event = Deposited;
///     const SNAPSHOT_TYPE: &'static str = "account";
///     fn apply(&mut self, event: Deposited) {
///         self.balance += event.amount;
///     }
/// }
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = helenus_store::Ports::system();
/// # let store = helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports).await?;
/// let registry = Registry::new().event(|deposited: Deposited| deposited);
/// let accounts = Aggregates::<Account>::new(registry).snapshot_every(NonZeroU64::MIN);
/// let id = StreamId::new("account-1")?;
///
/// let account = accounts.load(&store, &id).await?;
/// let deposited = encode(&Deposited { amount: 5 })?;
/// store.append(Append::new(id.clone(), account.expected(), vec![deposited])).await?;
///
/// let mut account = accounts.load(&store, &id).await?;
/// assert_eq!(account.state.balance, 5);
/// accounts.save_if_due(&store, &mut account).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Aggregates<A: Aggregate> {
    registry: Registry<A::Event>,
    every: NonZeroU64,
    keep: NonZeroU32,
}

/// An aggregate and where its stream was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded<A> {
    /// Its stream.
    pub stream_id: StreamId,
    /// What its events come to.
    pub state: A,
    /// The last event that is in it; none if the stream does not exist.
    pub version: Option<Version>,
    /// The newest snapshot that it could be loaded from.
    pub snapshot: Option<Version>,
}

impl<A> Loaded<A> {
    /// What an append that was decided on this state expects.
    pub fn expected(&self) -> Expected {
        self.version.map_or(Expected::NoStream, Expected::Exact)
    }
}

/// Events after which a snapshot is due, unless said otherwise.
const EVERY: NonZeroU64 = NonZeroU64::new(100).unwrap();
/// Snapshots kept, unless said otherwise: the newest, and the one before for whoever reads it.
const KEEP: NonZeroU32 = NonZeroU32::new(2).unwrap();

impl<A: Aggregate> Aggregates<A> {
    /// Aggregates whose events `registry` knows, with a snapshot every 100 events.
    pub fn new(registry: Registry<A::Event>) -> Self {
        Aggregates { registry, every: EVERY, keep: KEEP }
    }

    /// A snapshot is due once there are so many events after the last one.
    #[must_use]
    pub fn snapshot_every(self, events: NonZeroU64) -> Self {
        Aggregates { every: events, ..self }
    }

    /// How many snapshots are kept.
    #[must_use]
    pub fn keep(self, snapshots: NonZeroU32) -> Self {
        Aggregates { keep: snapshots, ..self }
    }

    /// Loads an aggregate in two reads: the newest snapshot, and the events after it.
    pub async fn load<S: EventStore + Snapshots>(
        &self,
        store: &S,
        stream_id: &StreamId,
    ) -> Result<Loaded<A>, LoadError> {
        let snapshot = store.load_snapshot(stream_id, None).await?;
        let mut loaded: Loaded<A> = start(stream_id, snapshot)?;
        let from = loaded.version.map_or(Version::FIRST, Version::next);
        let tail = ReadEvents::forward(stream_id.clone()).starting_at(from);
        let mut events = Box::pin(store.read(tail));
        while let Some(event) = events.try_next().await? {
            loaded.version = Some(event.version);
            loaded.state.apply(self.registry.decode_strictly(event)?);
        }
        Ok(loaded)
    }

    /// Saves a snapshot if enough events have passed, and deletes those that are too many; says
    /// whether it saved one.
    ///
    /// Another snapshot of the same version stands: then this one is not needed.
    pub async fn save_if_due<S: Snapshots>(
        &self,
        store: &S,
        loaded: &mut Loaded<A>,
    ) -> Result<bool, SnapshotError> {
        let number = |version: Option<Version>| version.map_or(0, Version::as_i64);
        let since = number(loaded.version).saturating_sub(number(loaded.snapshot));
        let is_due = u64::try_from(since).is_ok_and(|since| since >= self.every.get());
        let Some(version) = loaded.version.filter(|_| is_due) else { return Ok(false) };
        let state = serde_json::to_value(&loaded.state).map_err(|error| {
            SnapshotError::Invalid { reason: format!("it is not JSON: {error}").into() }
        })?;
        let payload = Payload::json(&state);
        let new = NewSnapshot {
            schema_version: A::SNAPSHOT_SCHEMA_VERSION,
            ..NewSnapshot::new(loaded.stream_id.clone(), version, A::SNAPSHOT_TYPE, payload)
        };
        match store.save_snapshot(new).await {
            Ok(_) => {}
            Err(SnapshotError::Mismatch { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        loaded.snapshot = Some(version);
        store.prune_snapshots(&loaded.stream_id, self.keep).await?;
        Ok(true)
    }
}

/// The snapshot's state if it is one of ours, else the beginning.
fn start<A: Aggregate>(
    stream_id: &StreamId,
    snapshot: Option<Snapshot>,
) -> Result<Loaded<A>, LoadError> {
    let ours = snapshot.filter(|snapshot| {
        snapshot.snapshot_type == A::SNAPSHOT_TYPE
            && snapshot.schema_version == A::SNAPSHOT_SCHEMA_VERSION
            && snapshot.payload.is_json()
    });
    let stream_id = stream_id.clone();
    let Some(snapshot) = ours else {
        return Ok(Loaded { stream_id, state: A::default(), version: None, snapshot: None });
    };
    let version = Some(snapshot.version);
    let state = serde_json::from_slice(&snapshot.payload.bytes).map_err(|source| {
        LoadError::Snapshot { version: snapshot.version, source: Box::new(source) }
    })?;
    Ok(Loaded { stream_id, state, version, snapshot: version })
}
