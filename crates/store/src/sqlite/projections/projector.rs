//! Running a projection: following the feed, catching up, rebuilding.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::effect::Apply;
use super::generation::{Build, State, Swap, SwapError, begin, drop_build, find, swap};
use super::{Projection, ProjectionError};
use crate::contract::{Acquired, Hold, Leases, OnPoison, SubscriptionError, SubscriptionName};
use crate::sqlite::SqliteStore;
use crate::subscription::{CaughtUp, ConsumeError, Consumer, ConsumerOptions};

/// How a projection is run.
#[derive(Clone, Debug)]
pub struct ProjectorOptions {
    /// How it reads the feed.
    pub consumer: ConsumerOptions,
    /// What follows when an event cannot be applied; recorded when its tables are created.
    pub on_poison: OnPoison,
}

impl Default for ProjectorOptions {
    fn default() -> Self {
        let on_poison = OnPoison::StopStream;
        ProjectorOptions { consumer: ConsumerOptions::default(), on_poison }
    }
}

/// Runs a projection on a store's file.
///
/// Its output and its checkpoint are one transaction: whatever is killed and when, the tables are the
/// fold of the feed up to the checkpoint, each event in it once.
///
/// ```
/// use helenus_model::{Expected, NewEvent, Payload, RecordedEvent, StreamId};
/// use helenus_store::Ports;
/// use helenus_store::contract::{Append, EventStore, SubscriptionName};
/// use helenus_store::sqlite::{Output, Projection, Projector, SqliteStore};
/// use helenus_store::subscription::BoxError;
///
/// struct Lengths;
///
/// impl Projection for Lengths {
///     fn name(&self) -> SubscriptionName {
///         "lengths".parse().unwrap()
///     }
///
///     fn version(&self) -> String {
///         "1".to_owned()
///     }
///
///     fn create(&self, output: &Output<'_>) -> Result<(), BoxError> {
///         let table = output.table("lengths"); // readers call it lengths
///         let sql = format!("CREATE TABLE {table} (stream TEXT PRIMARY KEY, events INTEGER)");
///         Ok(output.connection().execute_batch(&sql)?)
///     }
///
///     fn apply(&self, output: &Output<'_>, event: &RecordedEvent) -> Result<(), BoxError> {
///         let table = output.table("lengths");
///         let sql = format!("INSERT INTO {table} VALUES (?1, 1)
///                            ON CONFLICT DO UPDATE SET events = events + 1");
///         output.connection().prepare_cached(&sql)?.execute([event.stream_id.as_str()])?;
///         Ok(())
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.db");
/// let store = SqliteStore::open(&path, Ports::system()).await?;
/// let placed = NewEvent::new("order.placed", Payload::json(&serde_json::json!({})));
/// store.append(Append::new(StreamId::new("order-1")?, Expected::NoStream, vec![placed])).await?;
/// let projector = Projector::new(store, Lengths);
/// assert_eq!(projector.catch_up(&Default::default()).await?.handled, 1);
/// # Ok(())
/// # }
/// ```
pub struct Projector<P> {
    store: SqliteStore,
    projection: Arc<P>,
    options: ProjectorOptions,
}

impl<P> fmt::Debug for Projector<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Projector").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<P: Projection> Projector<P> {
    /// Runs `projection` on the file of `store`.
    pub fn new(store: SqliteStore, projection: P) -> Self {
        let options = ProjectorOptions::default();
        Projector { store, projection: Arc::new(projection), options }
    }

    /// Runs it in this way.
    #[must_use]
    pub fn with(mut self, options: ProjectorOptions) -> Self {
        self.options = options;
        self
    }

    /// Applies what there is, up to `stop`; creates the tables where there are none.
    pub async fn catch_up(&self, stop: &CancellationToken) -> Result<CaughtUp, ProjectionError> {
        let build = self.live_or_new().await?;
        let caught_up = self.consumer(&build, self.projection.name()).catch_up(stop).await?;
        match caught_up.lanes_elsewhere {
            0 => Ok(caught_up),
            _ => Err(ProjectionError::Busy { name: self.projection.name() }),
        }
    }

    /// Follows the feed until `stop`; creates the tables where there are none.
    ///
    /// Where several do, one works and the others stand by. Once another process has rebuilt the
    /// projection with the same version, this one follows with the new tables.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ProjectionError> {
        let mut build = self.live_or_new().await?;
        loop {
            let consumer = self.consumer(&build, self.projection.name());
            match consumer.run(stop).await {
                // Its build is gone: swapped for another, or dropped.
                Err(ConsumeError::Subscription(gone @ SubscriptionError::NotFound { .. })) => {
                    build = self.live().await?.ok_or(gone)?;
                }
                ended => return Ok(ended?),
            }
        }
    }

    /// Builds the projection anew beside the live one, which goes on serving and following, then
    /// puts the new one in its place. A rebuild of this version that was cut short is taken up where
    /// it ended; one of another version is dropped. `stop` leaves it for later.
    pub async fn rebuild(&self, stop: &CancellationToken) -> Result<CaughtUp, ProjectionError> {
        let build = self.building_or_new().await?;
        let name = SubscriptionName::internal(format!("{} (rebuild)", self.projection.name()));
        let consumer = self.consumer(&build, name);
        let mut total = CaughtUp::default();
        while !stop.is_cancelled() {
            let caught_up = consumer.catch_up(stop).await?;
            total.handled += caught_up.handled;
            total.parked += caught_up.parked;
            if caught_up.lanes_elsewhere > 0 {
                return Err(ProjectionError::Busy { name: self.projection.name() });
            }
            if !stop.is_cancelled() && self.swap(&build, consumer.owner()).await? == Swap::Done {
                break;
            }
        }
        Ok(total)
    }

    fn consumer(
        &self,
        build: &Build,
        measured_as: SubscriptionName,
    ) -> Consumer<SqliteStore, Apply<P>> {
        let effect = Apply {
            engine: self.store.engine.clone(),
            projection: Arc::clone(&self.projection),
            generation: build.generation,
        };
        let (store, ports) = (self.store.clone(), self.store.ports.clone());
        Consumer::new(store, build.subscription.clone(), effect, ports)
            .with(self.options.consumer.clone())
            .measured_as(measured_as.as_str())
    }

    async fn live(&self) -> Result<Option<Build>, ProjectionError> {
        let name = self.projection.name();
        let found = self.store.engine.read(move |db| find(db, &name, State::Live));
        let found: Result<_, helenus_sqlite::Error> = found.await;
        found?.map(|build| self.same_version(build)).transpose()
    }

    fn same_version(&self, build: Build) -> Result<Build, ProjectionError> {
        if build.version == self.projection.version() {
            return Ok(build);
        }
        let (name, stored) = (self.projection.name(), build.version.into());
        Err(ProjectionError::VersionDiffers { name, stored })
    }

    async fn live_or_new(&self) -> Result<Build, ProjectionError> {
        if let Some(build) = self.live().await? {
            return Ok(build);
        }
        let (projection, now) = (Arc::clone(&self.projection), self.store.now());
        let on_poison = self.options.on_poison;
        let begun = self.store.engine.write(move |db| -> Result<Build, ProjectionError> {
            match find(db, &projection.name(), State::Live)? {
                Some(build) => Ok(build),
                None => begin(db, &*projection, State::Live, on_poison, now),
            }
        });
        self.same_version(begun.await?)
    }

    async fn building_or_new(&self) -> Result<Build, ProjectionError> {
        let (projection, now) = (Arc::clone(&self.projection), self.store.now());
        let on_poison = self.options.on_poison;
        let begun = self.store.engine.write(move |db| -> Result<Build, ProjectionError> {
            match find(db, &projection.name(), State::Building)? {
                Some(build) if build.version == projection.version() => return Ok(build),
                Some(build) => drop_build(db, &build)?,
                None => {}
            }
            begin(db, &*projection, State::Building, on_poison, now)
        });
        begun.await
    }

    async fn swap(&self, build: &Build, owner: &str) -> Result<Swap, ProjectionError> {
        let lease = Hold::lease_name(&build.subscription, 0);
        let ttl = self.options.consumer.lease_ttl;
        let taken = self.store.acquire(&lease, owner, ttl).await;
        let Acquired::Held(lease) = taken.map_err(SubscriptionError::from)? else {
            return Err(ProjectionError::Busy { name: self.projection.name() });
        };
        let hold = Hold { subscription: build.subscription.clone(), lane: 0, lease };
        let (projection, build, held) = (Arc::clone(&self.projection), build.clone(), hold.clone());
        let swapping = self.store.engine.write(move |db| swap(db, &*projection, &held, &build));
        let swapped = match swapping.await {
            Ok(swapped) => Ok(swapped),
            Err(SwapError::Behind) => Ok(Swap::Behind),
            Err(SwapError::Failed(error)) => Err(error),
        };
        self.store.release(&hold.lease).await.map_err(SubscriptionError::from)?;
        swapped
    }
}
