//! Projections on real files: their tables are the fold of the feed, whatever happens in between.

mod crash;
mod rebuild;
mod sql;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{
    Backoff, Expected, Failure, Kind, ManualClock, NewEvent, Payload, RecordedEvent, StreamId,
    SystemRandom, Timestamp,
};
use helenus_sqlite::Error;
use helenus_store::Ports;
use helenus_store::contract::{
    Append, EventStore, Feed, FeedItem, NewSubscription, ReadFeed, SubscriptionName, Subscriptions,
    Which,
};
use helenus_store::sqlite::{
    Output, Projection, ProjectionError, Projector, ProjectorOptions, SqliteStore,
};
use helenus_store::subscription::{BoxError, ConsumerOptions};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A table that tells lost, doubled and swapped events: a running number of each stream that depends
/// on the order of its events and on their places in the feed.
#[derive(Clone, Default)]
struct Digests {
    version: u32,
    /// Whether events of type `poison` cannot be applied.
    is_ill: Arc<AtomicBool>,
    /// Cancelled once so many events were applied.
    stop: Option<(u64, CancellationToken)>,
    /// An application's bug: whether `poison` panics.
    panics: bool,
}

fn digest(before: i64, position: i64) -> i64 {
    (before * 31 + position) % 1_000_003
}

fn name() -> SubscriptionName {
    "digests".parse().unwrap()
}

impl Projection for Digests {
    fn name(&self) -> SubscriptionName {
        name()
    }

    fn version(&self) -> String {
        self.version.to_string()
    }

    fn create(&self, output: &Output<'_>) -> Result<(), BoxError> {
        let (table, index) = (output.table("digests"), output.table("digests_by_events"));
        output.connection().execute_batch(&format!(
            "CREATE TABLE {table} (stream TEXT PRIMARY KEY, events INTEGER NOT NULL,
                                   digest INTEGER NOT NULL, version INTEGER NOT NULL) STRICT;
             CREATE INDEX {index} ON {table} (events)"
        ))?;
        Ok(())
    }

    fn apply(&self, output: &Output<'_>, event: &RecordedEvent) -> Result<(), BoxError> {
        let upsert = format!(
            "INSERT INTO {} VALUES (?1, 1, ?2 % 1000003, ?3)
             ON CONFLICT DO UPDATE SET events = events + 1, digest = (digest * 31 + ?2) % 1000003",
            output.table("digests")
        );
        // Written before it fails: what is undone must be undone whole.
        let row = (event.stream_id.as_str(), output.position(), self.version);
        output.connection().prepare_cached(&upsert)?.execute(row)?;
        if event.event_type == "poison" {
            assert!(!self.panics, "a bug of the application");
            if self.is_ill.load(Ordering::SeqCst) {
                return Err("no ink".into());
            }
        }
        if let Some((after, stop)) = &self.stop
            && u64::try_from(output.position()).unwrap() >= *after
        {
            stop.cancel();
        }
        Ok(())
    }
}

type Rows = BTreeMap<String, (i64, i64)>;

/// What the table must contain once every event up to `through` is applied.
async fn fold(store: &SqliteStore, through: i64) -> Rows {
    let items: Vec<FeedItem> = store.feed(ReadFeed::default()).try_collect().await.unwrap();
    let mut rows = Rows::new();
    for item in items {
        let FeedItem::Event { position, event } = item else { continue };
        let position: i64 = position.as_str().parse().unwrap();
        if position <= through {
            let row = rows.entry(event.stream_id.to_string()).or_insert((0, 0));
            *row = (row.0 + 1, digest(row.1, position));
        }
    }
    rows
}

/// What a table contains.
async fn rows(store: &SqliteStore, table: &str) -> Rows {
    let query = format!("SELECT stream, events, digest FROM \"{table}\"");
    let rows = store.engine().read(move |db| -> Result<Rows, Error> {
        let mut query = db.prepare(&query)?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    });
    rows.await.unwrap()
}

async fn head(store: &SqliteStore) -> i64 {
    fold(store, i64::MAX).await.values().map(|(events, _)| events).sum()
}

/// The live table is the fold of the whole feed.
async fn is_whole(store: &SqliteStore) {
    assert_eq!(rows(store, "digests").await, fold(store, i64::MAX).await);
}

async fn append(store: &SqliteStore, stream: &str, types: &[&str]) {
    let event = |event_type: &&str| {
        let body = serde_json::json!({ "cents": 5 });
        NewEvent::new(*event_type, Payload::json(&body))
    };
    let stream = StreamId::new(stream).unwrap();
    let events = types.iter().map(event).collect();
    store.append(Append::new(stream, Expected::Any, events)).await.unwrap();
}

fn options() -> ProjectorOptions {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    let lease_ttl = Duration::from_millis(300);
    let consumer = ConsumerOptions { lease_ttl, batch: 7, attempts_max: 2, backoff };
    ProjectorOptions { consumer, ..ProjectorOptions::default() }
}

fn projector(store: &SqliteStore, digests: &Digests) -> Projector<Digests> {
    Projector::new(store.clone(), digests.clone()).with(options())
}

async fn open(dir: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(dir.path().join("store.db"), Ports::system()).await.unwrap()
}

fn never() -> CancellationToken {
    CancellationToken::new()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_is_the_fold_of_the_feed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    for turn in 0..30 {
        append(&store, &format!("s{}", turn % 4), &["plain", "plain"]).await;
    }
    let digests = Digests::default();
    let projector = projector(&store, &digests);
    assert_eq!(projector.catch_up(&never()).await.unwrap().handled, 60);
    is_whole(&store).await;
    assert_eq!(projector.catch_up(&never()).await.unwrap().handled, 0);
    append(&store, "s9", &["plain"]).await;
    assert_eq!(projector.catch_up(&never()).await.unwrap().handled, 1);
    is_whole(&store).await;
    let status = store.subscription(&name()).await.unwrap();
    let projection = status.projection.unwrap();
    assert_eq!(
        (projection.is_live, projection.tables.as_slice()),
        (true, &["digests".to_owned()][..])
    );
    assert_eq!((status.lag_events, status.lanes[0].position.as_str()), (0, "61"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_applied_leaves_nothing_and_is_parked() {
    for panics in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir).await;
        append(&store, "a", &["plain", "plain", "poison", "plain"]).await;
        append(&store, "b", &["plain", "plain"]).await;
        let ill = Digests { is_ill: Arc::new(true.into()), panics, ..Digests::default() };
        let done = projector(&store, &ill).catch_up(&never()).await.unwrap();
        assert_eq!((done.handled, done.parked), (4, 2));
        let found = rows(&store, "digests").await;
        assert_eq!((found["a"].0, found["b"].0), (2, 2), "what failed left nothing behind");
        let parked = store.parked(&name(), 10).await.unwrap();
        let error = if panics { "the projection panicked" } else { "no ink" };
        assert_eq!((parked[0].error.as_deref(), parked[0].attempts), (Some(error), 2));
        assert_eq!(parked[1].error, None);

        let well = Digests::default();
        assert_eq!(store.replay(&name(), Which::All).await.unwrap(), 2);
        let done = projector(&store, &well).catch_up(&never()).await.unwrap();
        assert_eq!((done.handled, done.parked), (2, 0));
        is_whole(&store).await;
    }
}

/// Two processes, as good as: each has the file open by itself. Their leases expire again and again
/// under them, because the clock runs away; whoever has lost the lane writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn two_that_take_the_lane_from_each_other_apply_each_event_once() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_794_744_000_000)));
    let ports = || Ports { clock: Arc::clone(&clock) as _, random: Arc::new(SystemRandom) };
    let path = dir.path().join("store.db");
    let one = SqliteStore::open(&path, ports()).await.unwrap();
    let two = SqliteStore::open(&path, ports()).await.unwrap();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    for store in [&one, &two] {
        let (projector, stop) = (projector(store, &Digests::default()), stop.clone());
        tasks.spawn(async move { projector.run(&stop).await });
    }
    for turn in 0..60 {
        append(&one, &format!("s{}", turn % 3), &["plain"; 5]).await;
        clock.advance(options().consumer.lease_ttl);
        tokio::task::yield_now().await;
    }
    let caught_up = async {
        while store_lag(&two).await != Some(0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), caught_up).await.unwrap();
    stop.cancel();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    assert_eq!(head(&one).await, 300);
    is_whole(&one).await;
}

async fn store_lag(store: &SqliteStore) -> Option<u64> {
    store.subscription(&name()).await.ok().map(|status| status.lag_events)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_belong_to_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    let digests = Digests::default();
    store.subscribe(NewSubscription::new(name())).await.unwrap();
    let error = projector(&store, &digests).catch_up(&never()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "name_taken"));
    assert!(store.unsubscribe(&name()).await.unwrap());

    let other = rusqlite::Connection::open(store.engine().path()).unwrap();
    other.execute_batch("CREATE TABLE Digests (mine TEXT)").unwrap();
    let error = projector(&store, &digests).catch_up(&never()).await.unwrap_err();
    assert!(matches!(error, ProjectionError::TableTaken { .. }), "{error}");
    assert_eq!(store.subscriptions().await.unwrap(), [], "nothing was left behind");
    other.execute_batch("DROP TABLE Digests").unwrap();

    projector(&store, &digests).catch_up(&never()).await.unwrap();
    let error = store.subscribe(NewSubscription::new(name())).await.unwrap_err();
    assert_eq!(error.code(), "name_taken");
    assert!(store.unsubscribe(&name()).await.unwrap());
    assert_eq!(leftovers(&store).await, 0);
}

/// Tables, indexes and views that are not Helenus' own.
async fn leftovers(store: &SqliteStore) -> i64 {
    let count = store.engine().read(|db| -> Result<i64, Error> {
        let query = "SELECT count(*) FROM sqlite_schema
                     WHERE name NOT GLOB 'helenus_*' AND name NOT GLOB 'sqlite_*'";
        Ok(db.query_row(query, [], |row| row.get(0))?)
    });
    count.await.unwrap()
}
