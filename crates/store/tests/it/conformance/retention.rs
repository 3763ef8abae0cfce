//! Promises of retention: what readers, writers and settled operations see of retired events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use helenus_model::limits::ARCHIVE_CHUNK;
use helenus_model::{Clock, Expected, Failure, Kind, OperationId, RecordedEvent, StreamId};
use helenus_store::contract::{
    AppendError, Cut, Disposal, EventStore, Extent, ReadError, ReadEvents, Resolved, Retention,
    Retire, RetireError, RetireStep, Snapshots,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Fixture;
use super::events::{all, append, applied, stream_id, version, versions};
use super::operations::{HOUR, already, dated, with};
use super::snapshots::save;

/// Retires to the end; gives the steps it took.
pub(super) async fn finish<S: Retention>(
    store: &S,
    retire: Retire,
) -> Result<Vec<RetireStep>, RetireError> {
    store.retire(retire).try_collect().await
}

fn before(number: i64) -> Cut {
    Cut::Before(version(number))
}

fn forward() -> ReadEvents {
    ReadEvents::forward(stream_id("s"))
}

fn backward() -> ReadEvents {
    ReadEvents::backward(stream_id("s"))
}

/// What a read gives, and the version it ended at if that was truncated.
async fn given<S: EventStore>(store: &S, read: ReadEvents) -> (Vec<i64>, Option<i64>) {
    let mut events = Box::pin(store.read(read));
    let mut found = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => found.push(event.version.as_i64()),
            Err(ReadError::Truncated { first }) => return (found, Some(first.as_i64())),
            Err(error) => panic!("{error:?}"),
        }
    }
    (found, None)
}

async fn extent<S: Retention>(store: &S) -> (i64, i64, i64) {
    let Extent { archived_from, truncated_before, head } =
        store.extent(&stream_id("s")).await.unwrap().unwrap();
    (archived_from.as_i64(), truncated_before.as_i64(), head.as_i64())
}

/// A stream `s` of so many events, with a snapshot of the last.
async fn stream_of<S: EventStore + Snapshots>(store: &S, count: usize) -> Vec<RecordedEvent> {
    store.append(append("s", Expected::NoStream, count)).await.unwrap();
    save(store, "s", i64::try_from(count).unwrap()).await;
    all(store, "s").await
}

pub(super) async fn archived_events_read_like_others<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let events = stream_of(store, 6).await;
    assert_eq!(extent(store).await, (1, 1, 6));
    for cut in [2, 4, 4, 6, 7] {
        finish(store, Retire::archive(stream_id("s"), before(cut))).await.unwrap();
        assert_eq!(extent(store).await, (1, cut, 6));
        // Every field of every event is as it was.
        assert_eq!(all(store, "s").await, events, "{cut}");
        for (read, found) in [
            (backward(), [6, 5, 4, 3, 2, 1].as_slice()),
            (backward().starting_at(version(4)).limit(2), &[4, 3]),
            (backward().starting_at(version(9)), &[6, 5, 4, 3, 2, 1]),
            (backward().limit(1), &[6]),
            (forward().starting_at(version(3)), &[3, 4, 5, 6]),
            (forward().starting_at(version(3)).limit(2), &[3, 4]),
            (forward().starting_at(version(7)), &[]),
        ] {
            assert_eq!(versions(store, read.clone()).await, found, "{cut} {read:?}");
        }
    }
    assert_eq!(store.append(append("s", Expected::Any, 2)).await.unwrap(), applied(7, 8));
    assert_eq!(versions(store, forward()).await, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(versions(store, backward()).await, [8, 7, 6, 5, 4, 3, 2, 1]);
}

pub(super) async fn dropped_events_are_truncated_never_skipped<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    stream_of(store, 5).await;
    finish(store, Retire::drop(stream_id("s"), before(3))).await.unwrap();
    assert_eq!(extent(store).await, (3, 3, 5));
    for (read, found, first) in [
        (forward(), [].as_slice(), Some(3)),
        (forward().starting_at(version(2)), &[], Some(3)),
        (forward().starting_at(version(3)), &[3, 4, 5], None),
        (backward(), &[5, 4, 3], Some(3)),
        (backward().limit(3), &[5, 4, 3], None),
        (backward().starting_at(version(2)), &[], Some(3)),
    ] {
        assert_eq!(given(store, read.clone()).await, (found.to_vec(), first), "{read:?}");
    }
    let error = store.read(forward()).try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("truncated", Kind::NotFound));
    assert_eq!(error.details()["first"], 3);
    // Archiving goes on above what was dropped.
    finish(store, Retire::archive(stream_id("s"), before(5))).await.unwrap();
    assert_eq!(extent(store).await, (3, 5, 5));
    assert_eq!(given(store, backward()).await, (vec![5, 4, 3], Some(3)));
    assert_eq!(given(store, forward().starting_at(version(3))).await, (vec![3, 4, 5], None));
}

pub(super) async fn a_stream_without_events_keeps_its_version<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    stream_of(store, 3).await;
    finish(store, Retire::drop(stream_id("s"), Cut::KeepLast(0))).await.unwrap();
    assert_eq!(extent(store).await, (4, 4, 3));
    assert_eq!(store.version(&stream_id("s")).await.unwrap(), Some(version(3)));
    for read in [forward(), backward(), forward().starting_at(version(3))] {
        assert_eq!(given(store, read).await, (vec![], Some(4)));
    }
    assert_eq!(given(store, forward().starting_at(version(4))).await, (vec![], None));
    let error = store.append(append("s", Expected::NoStream, 1)).await.unwrap_err();
    assert!(matches!(error, AppendError::Conflict { actual: Some(_), .. }), "{error}");
    let expected = Expected::Exact(version(3));
    assert_eq!(store.append(append("s", expected, 2)).await.unwrap(), applied(4, 5));
    assert_eq!(given(store, forward()).await, (vec![], Some(4)));
    assert_eq!(given(store, forward().starting_at(version(4))).await, (vec![4, 5], None));
    assert_eq!(given(store, backward()).await, (vec![5, 4], Some(4)));
    save(store, "s", 5).await;
    finish(store, Retire::archive(stream_id("s"), Cut::KeepLast(0))).await.unwrap();
    assert_eq!(given(store, forward().starting_at(version(4))).await, (vec![4, 5], None));
    assert_eq!(store.append(append("s", Expected::Any, 1)).await.unwrap(), applied(6, 6));
    assert_eq!(given(store, backward()).await, (vec![6, 5, 4], Some(4)));
}

pub(super) async fn what_was_archived_can_be_dropped<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    stream_of(store, 6).await;
    finish(store, Retire::archive(stream_id("s"), before(5))).await.unwrap();
    for (cut, left) in [(3, [3, 4, 5, 6].as_slice()), (2, &[3, 4, 5, 6]), (6, &[6])] {
        finish(store, Retire::drop(stream_id("s"), before(cut))).await.unwrap();
        let first = version(left[0]);
        assert_eq!(given(store, forward()).await, (vec![], Some(left[0])));
        assert_eq!(given(store, forward().starting_at(first)).await, (left.to_vec(), None));
    }
    assert_eq!(extent(store).await, (6, 6, 6));
}

pub(super) async fn a_cut_is_by_version_count_or_age<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let missing = Retire::archive(stream_id("nothing"), Cut::KeepLast(1));
    let error = store.plan(&missing).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("no_stream", Kind::NotFound));
    for _ in 0..5 {
        store.append(append("s", Expected::Any, 1)).await.unwrap();
        fixture.later(HOUR);
    }
    save(store, "s", 5).await;
    let now = fixture.clock.now();
    let ago = |hours: u32| Cut::OlderThan(now.minus(hours * HOUR));
    for (cut, from, end) in [
        (before(1), 1, 1),
        (before(4), 1, 4),
        (before(6), 1, 6),
        (Cut::KeepLast(2), 1, 4),
        (Cut::KeepLast(9), 1, 1),
        (ago(9), 1, 1),
        // The third was appended exactly three hours ago.
        (ago(3), 1, 3),
        (ago(0), 1, 6),
    ] {
        let plan = store.plan(&Retire::archive(stream_id("s"), cut)).await.unwrap();
        assert_eq!((plan.from, plan.before), (version(from), version(end)), "{cut:?}");
        assert_eq!(plan.snapshot, Some(version(5)));
    }
    let error = store.plan(&Retire::archive(stream_id("s"), before(7))).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("beyond_head", Kind::Invalid));
    finish(store, Retire::archive(stream_id("s"), ago(3))).await.unwrap();
    assert_eq!(extent(store).await, (1, 3, 5));
    let plan = store.plan(&Retire::drop(stream_id("s"), ago(4))).await.unwrap();
    assert_eq!((plan.from, plan.before), (version(1), version(2)));
}

pub(super) async fn without_a_snapshot_nothing_is_retired_unless_forced<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    store.append(append("s", Expected::NoStream, 5)).await.unwrap();
    for saved in [None, Some(2)] {
        if let Some(number) = saved {
            save(store, "s", number).await;
        }
        for retire in [Retire::archive, Retire::drop] {
            let error = finish(store, retire(stream_id("s"), before(4))).await.unwrap_err();
            assert_eq!((error.code(), error.kind()), ("no_snapshot", Kind::Conflict), "{error}");
            assert_eq!(error.applied(), Some(false));
        }
    }
    assert_eq!(extent(store).await, (1, 1, 5));
    // The snapshot of version 2 stands for the events before 3.
    finish(store, Retire::archive(stream_id("s"), before(3))).await.unwrap();
    finish(store, Retire::archive(stream_id("s"), before(4)).forced()).await.unwrap();
    assert_eq!(extent(store).await, (1, 4, 5));
}

pub(super) async fn a_plan_changes_nothing<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let events = stream_of(store, 4).await;
    for retire in [Retire::archive, Retire::drop] {
        let plan = store.plan(&retire(stream_id("s"), before(4))).await.unwrap();
        assert_eq!(plan.events(), 3);
        // A stream that nobody reads does nothing either.
        drop(store.retire(retire(stream_id("s"), before(4))));
    }
    assert_eq!(extent(store).await, (1, 1, 4));
    assert_eq!(all(store, "s").await, events);
}

pub(super) async fn stopped_after_any_step_it_is_completed_later<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let chunk = i64::from(ARCHIVE_CHUNK);
    let count = 2 * chunk + 30;
    for (disposal, cut) in [(Disposal::Archive, count - 10), (Disposal::Drop, count - 5)] {
        let mut stops = 0;
        // Each round stops one step later than the one before, on a stream of its own.
        loop {
            let name = format!("{disposal:?}-{stops}");
            for _ in 0..3 {
                let part = usize::try_from(count / 3).unwrap();
                store.append(append(&name, Expected::Any, part)).await.unwrap();
            }
            let retire =
                Retire { disposal, ..Retire::archive(stream_id(&name), before(cut)).forced() };
            // Dropping begins with some of them in the archive.
            if disposal == Disposal::Drop {
                let some = Retire::archive(stream_id(&name), before(chunk + 10)).forced();
                finish(store, some).await.unwrap();
            }
            let steps = store.retire(retire.clone()).take(stops);
            let done: Vec<RetireStep> = steps.try_collect().await.unwrap();
            let is_whole = done.len() < stops;
            let head = store.version(&stream_id(&name)).await.unwrap().unwrap().as_i64();
            let first = match disposal {
                Disposal::Archive => 1,
                Disposal::Drop => {
                    store.extent(&stream_id(&name)).await.unwrap().unwrap().archived_from.as_i64()
                }
            };
            let read = ReadEvents::forward(stream_id(&name)).starting_at(version(first));
            assert_eq!(versions(store, read).await, (first..=head).collect::<Vec<_>>());
            finish(store, retire).await.unwrap();
            let extent = store.extent(&stream_id(&name)).await.unwrap().unwrap();
            let first = if disposal == Disposal::Archive { 1 } else { cut };
            assert_eq!(extent.archived_from, version(first));
            assert_eq!(extent.truncated_before, version(cut));
            let read = ReadEvents::backward(stream_id(&name))
                .limit(u64::try_from(head - first + 1).unwrap());
            assert_eq!(versions(store, read).await, (first..=head).rev().collect::<Vec<_>>());
            if is_whole {
                break;
            }
            stops += 1;
        }
        assert!(stops >= 3, "{disposal:?} has {stops} steps");
    }
}

pub(super) async fn operations_are_settled_after_their_events_are_archived<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let undated = |number| OperationId::from(Uuid::from_u128(number));
    let requests = [
        with(dated(fixture, 1), append("s", Expected::NoStream, 2)),
        with(undated(2), append("s", Expected::Exact(version(2)), 3)),
        with(dated(fixture, 3), append("s", Expected::Any, 2)),
        with(undated(4), append("s", Expected::Any, 2)),
    ];
    let spans = [(1, 2), (3, 5), (6, 7), (8, 9)];
    for (request, (first, last)) in requests.iter().zip(spans) {
        assert_eq!(store.append(request.clone()).await.unwrap(), applied(first, last));
    }
    // Through the middle of one, then of another, then all of it.
    for cut in [5, 7, 10] {
        let retire = Retire::archive(stream_id("s"), before(cut)).forced();
        finish(store, retire).await.unwrap();
        for (request, (first, last)) in requests.iter().zip(spans) {
            let again = store.append(request.clone()).await.unwrap();
            assert_eq!(again, already(first, last), "{cut}");
            let resolved = store.resolve(&stream_id("s"), request.operation_id.unwrap()).await;
            let (first, last) = (version(first), version(last));
            assert_eq!(resolved.unwrap(), Resolved::Applied { first, last }, "{cut}");
            let other = with(request.operation_id.unwrap(), append("s", request.expected, 1));
            let error = store.append(other).await.unwrap_err();
            assert_eq!(error.code(), "operation_mismatch", "{cut}");
        }
    }
    // By the event after the named version, for as long as that is archived.
    fixture.later(48 * HOUR);
    for (request, (first, last)) in requests.iter().zip(spans).take(2) {
        assert_eq!(store.append(request.clone()).await.unwrap(), already(first, last));
    }
    let lost = store.resolve(&stream_id("s"), undated(9)).await.unwrap();
    assert_eq!(lost, Resolved::Cancelled);
}

pub(super) async fn operations_are_not_taken_for_new_after_their_events_are_dropped<S>(
    fixture: &Fixture<S>,
) where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let undated = OperationId::from(Uuid::from_u128(2));
    let first = with(dated(fixture, 1), append("s", Expected::NoStream, 2));
    let second = with(undated, append("s", Expected::Exact(version(2)), 2));
    for request in [&first, &second] {
        store.append(request.clone()).await.unwrap();
    }
    store.append(append("s", Expected::Any, 1)).await.unwrap();
    finish(store, Retire::drop(stream_id("s"), before(5)).forced()).await.unwrap();
    for (request, span) in [(&first, (1, 2)), (&second, (3, 4))] {
        assert_eq!(store.append(request.clone()).await.unwrap(), already(span.0, span.1));
        let resolved = store.resolve(&stream_id("s"), request.operation_id.unwrap()).await;
        let (first, last) = (version(span.0), version(span.1));
        assert_eq!(resolved.unwrap(), Resolved::Applied { first, last });
    }
    // An id that says nothing of its age, and would have been where nothing is left.
    let unknown = OperationId::from(Uuid::from_u128(3));
    for expected in [Expected::NoStream, Expected::Exact(version(2))] {
        let error = store.append(with(unknown, append("s", expected, 1))).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("operation_expired", Some(false)));
    }
    for _ in 0..2 {
        let error = store.resolve(&stream_id("s"), unknown).await.unwrap_err();
        assert_eq!(error.code(), "operation_expired");
    }
    // One whose place is still there is refused for what is there.
    let late = with(dated(fixture, 4), append("s", Expected::Exact(version(4)), 1));
    let error = store.append(late).await.unwrap_err();
    assert_eq!(error.code(), "conflict");
    let fresh = dated(fixture, 5);
    let resolved = store.resolve(&stream_id("s"), fresh).await.unwrap();
    assert_eq!(resolved, Resolved::Cancelled);
}

pub(super) async fn a_long_stream_is_archived_in_steps<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots,
{
    let store = &fixture.store;
    let chunk = i64::from(ARCHIVE_CHUNK);
    let head = 3 * chunk;
    for _ in 0..3 {
        let part = usize::try_from(chunk).unwrap();
        store.append(append("s", Expected::Any, part)).await.unwrap();
    }
    save(store, "s", head).await;
    // Borders of the archive's parts and others, forward and backward over all of them.
    for cut in [chunk, chunk + 1, chunk + 2, 2 * chunk + 7, head, head + 1] {
        let steps = finish(store, Retire::archive(stream_id("s"), before(cut))).await.unwrap();
        assert!(steps.contains(&RetireStep::Truncated { before: version(cut) }), "{steps:?}");
        let all: Vec<i64> = (1..=head).collect();
        assert_eq!(versions(store, forward()).await, all, "{cut}");
        let from = chunk + 5;
        let down = backward().starting_at(version(from));
        assert_eq!(versions(store, down).await, (1..=from).rev().collect::<Vec<_>>(), "{cut}");
    }
    let again = finish(store, Retire::archive(stream_id("s"), before(head + 1))).await.unwrap();
    assert_eq!(again, []);
}

/// Two who archive, one who appends, and readers both ways.
#[expect(clippy::print_stdout, reason = "a proof says what it found")]
pub(super) async fn retiring_beside_readers_and_writers_gives_no_gap<S>(fixture: &Fixture<S>)
where
    S: EventStore + Retention + Snapshots + Clone + 'static,
{
    let done = race(&fixture.store, [Retire::archive, Retire::archive]).await;
    let head = fixture.store.version(&stream_id("s")).await.unwrap().unwrap().as_i64();
    let all: Vec<i64> = (1..=head).collect();
    assert_eq!(versions(&fixture.store, forward()).await, all);
    let backend = std::any::type_name::<S>().rsplit("::").next().unwrap();
    let Done { cuts, passes, read } = done;
    println!(
        "proof: {backend}, 2 archivers, 1 writer and 4 readers at once on one stream: {head} events \
         appended, {cuts} truncations, {read} events in {passes} reads forward and backward, each \
         version once and in order, 0 gaps"
    );
}

/// The same with one who archives and one who drops what was archived and more: a reader ends where
/// the stream begins by then, and says so.
pub(super) async fn dropping_beside_readers_and_writers_ends_them_or_gives_no_gap<S>(
    fixture: &Fixture<S>,
) where
    S: EventStore + Retention + Snapshots + Clone + 'static,
{
    race(&fixture.store, [Retire::archive, Retire::drop]).await;
    let (first, _, head) = extent(&fixture.store).await;
    let left = given(&fixture.store, forward().starting_at(version(first))).await;
    assert_eq!(left, ((first..=head).collect(), None));
}

/// What happened in a race.
#[derive(Default)]
struct Done {
    /// Times that events were retired.
    cuts: u64,
    /// Times that the stream was read.
    passes: u64,
    /// Events that were read.
    read: u64,
}

#[derive(Default)]
struct Counts {
    cuts: AtomicU64,
    passes: AtomicU64,
    read: AtomicU64,
    over: AtomicBool,
}

/// Appends until enough was retired and read meanwhile; every read is checked.
async fn race<S>(store: &S, retire: [fn(StreamId, Cut) -> Retire; 2]) -> Done
where
    S: EventStore + Retention + Clone + 'static,
{
    let enough = if std::env::var_os("HELENUS_PROOF").is_some() { 200 } else { 10 };
    store.append(append("s", Expected::NoStream, 50)).await.unwrap();
    let counts = Arc::new(Counts::default());
    let mut tasks = JoinSet::new();
    for (archiver, retire) in (1..=2_u64).zip(retire) {
        let (store, counts) = (store.clone(), Arc::clone(&counts));
        tasks.spawn(async move {
            while !counts.over.load(Ordering::SeqCst) {
                // Down to the last events and past them, as the writer moves on.
                let turn = counts.cuts.load(Ordering::SeqCst);
                let mut retire =
                    retire(stream_id("s"), Cut::KeepLast(turn * archiver % 5)).forced();
                // Some of what is archived is left, to be read and to be dropped under a reader.
                if retire.disposal == Disposal::Drop && turn % 4 != 0 {
                    retire.cut = Cut::KeepLast(10 + turn % 30);
                }
                match finish(&store, retire).await {
                    Ok(steps) => {
                        let cut =
                            steps.iter().any(|step| matches!(step, RetireStep::Truncated { .. }));
                        counts.cuts.fetch_add(u64::from(cut), Ordering::SeqCst);
                    }
                    Err(RetireError::Contended) => {}
                    Err(error) => panic!("{error:?}"),
                }
                tokio::task::yield_now().await;
            }
        });
    }
    for reader in 0..4 {
        let (store, counts) = (store.clone(), Arc::clone(&counts));
        tasks.spawn(async move {
            while !counts.over.load(Ordering::SeqCst) {
                let read = read_checked(&store, reader % 2 == 0).await;
                counts.read.fetch_add(read, Ordering::SeqCst);
                counts.passes.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let (store, shared) = (store.clone(), Arc::clone(&counts));
    tasks.spawn(async move {
        let met = |count: &AtomicU64| count.load(Ordering::SeqCst) >= enough;
        for round in 0_usize.. {
            store.append(append("s", Expected::Exists, round % 7 + 1)).await.unwrap();
            if met(&shared.cuts) && met(&shared.passes) {
                break;
            }
            // The readers' turn: a stream that grows faster than it is read is never read.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        shared.over.store(true, Ordering::SeqCst);
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
    Done { cuts: count(&counts.cuts), passes: count(&counts.passes), read: count(&counts.read) }
}

/// Reads the stream from one end to the other: each version once, in order, up to where it ended
/// when the read began, or to where it was truncated.
async fn read_checked<S: EventStore + Retention>(store: &S, up: bool) -> u64 {
    let (first, _, head) = extent(store).await;
    let read = if up { forward().starting_at(version(first)) } else { backward() };
    let mut events = Box::pin(store.read(read));
    let mut next = up.then_some(first);
    let mut count = 0;
    while let Some(event) = events.next().await {
        let found = match event {
            Ok(event) => event.version.as_i64(),
            Err(ReadError::Truncated { first: now }) => {
                // Only what is before where the stream begins by now is not given.
                assert!(now.as_i64() > next.unwrap_or(head), "{now} {next:?} {head}");
                return count;
            }
            Err(error) => panic!("{error:?}"),
        };
        let expected = next.unwrap_or_else(|| found.max(head));
        assert_eq!(found, expected, "{}", if up { "forward" } else { "backward" });
        next = Some(if up { found + 1 } else { found - 1 });
        count += 1;
    }
    let reached = next.unwrap();
    assert!(if up { reached > head } else { reached == 0 }, "ended at {reached}, was at {head}");
    count
}
