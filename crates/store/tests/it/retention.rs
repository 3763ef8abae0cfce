//! What only a cluster can show of retention: answers to a truncation that get lost, what a copy
//! that came too late leaves behind, and how many requests a load takes.

use std::time::Duration;

use futures_util::TryStreamExt;
use helenus_model::{Expected, NewEvent, Payload, StreamId, Version};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{
    Append, Cut, Disposal, EventStore, ReadEvents, Retention, Retire, RetireStep,
};

use crate::cassandra::Keyspace;
use crate::conformance::aggregates::{accounts, deposit};
use crate::proxy::{Mode, Proxy};

fn stream_id(name: &str) -> StreamId {
    StreamId::new(name).unwrap()
}

fn version(number: i64) -> Version {
    Version::new(number).unwrap()
}

async fn append(store: &CassandraStore, stream: &str, count: usize) {
    let event = NewEvent::new("e", Payload::json(&serde_json::json!({})));
    let append = Append::new(stream_id(stream), Expected::Any, vec![event; count]);
    store.append(append).await.unwrap();
}

async fn read(store: &CassandraStore, stream: &str, from: i64) -> Vec<i64> {
    let read = ReadEvents::forward(stream_id(stream)).starting_at(version(from));
    let events = store.read(read).map_ok(|event| event.version.as_i64());
    events.try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_truncation_is_settled_by_the_next_look() {
    let keyspace = Keyspace::new();
    let proxy = Proxy::start(keyspace.address()).await;
    let options = Options { request_timeout: Duration::from_secs(2), ..Options::default() };
    let store = keyspace.store_through(&proxy, options);
    for mode in [Mode::CutAfterBatch, Mode::CutBeforeBatch] {
        for disposal in [Disposal::Archive, Disposal::Drop] {
            let stream = format!("{mode:?}-{disposal:?}");
            append(&store, &stream, 12).await;
            let retire = Retire {
                disposal,
                ..Retire::archive(stream_id(&stream), Cut::Before(version(8))).forced()
            };
            proxy.set(mode);
            let steps: Vec<RetireStep> = store.retire(retire.clone()).try_collect().await.unwrap();
            // The batch was met and its connection cut.
            proxy.is_done().await;
            assert!(steps.contains(&RetireStep::Truncated { before: version(8) }), "{steps:?}");
            let extent = store.extent(&stream_id(&stream)).await.unwrap().unwrap();
            let first = if disposal == Disposal::Archive { 1 } else { 8 };
            assert_eq!(extent.archived_from, version(first), "{stream}");
            assert_eq!(extent.truncated_before, version(8), "{stream}");
            assert_eq!(read(&store, &stream, first).await, (first..=12).collect::<Vec<_>>());
            let again: Vec<RetireStep> = store.retire(retire).try_collect().await.unwrap();
            assert!(again.iter().all(|step| *step == RetireStep::Cleaned), "{again:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_comes_too_late_is_cleaned_up() {
    let keyspace = Keyspace::new();
    let store = keyspace.store(Options::default(), Ports::system());
    append(&store, "s", 12).await;
    let archive = Retire::archive(stream_id("s"), Cut::Before(version(8))).forced();
    let mut late = Box::pin(store.retire(archive));
    let copied = late.try_next().await.unwrap();
    assert_eq!(copied, Some(RetireStep::Copied { before: version(8) }));
    let drop = Retire::drop(stream_id("s"), Cut::Before(version(6))).forced();
    let _steps: Vec<RetireStep> = store.retire(drop).try_collect().await.unwrap();
    // It goes on from where the stream begins by now.
    let rest: Vec<RetireStep> = late.try_collect().await.unwrap();
    assert!(rest.contains(&RetireStep::Truncated { before: version(8) }), "{rest:?}");
    let extent = store.extent(&stream_id("s")).await.unwrap().unwrap();
    assert_eq!((extent.archived_from, extent.truncated_before), (version(6), version(8)));
    assert_eq!(read(&store, "s", 6).await, (6..=12).collect::<Vec<_>>());
    assert_eq!(keyspace.column("helenus_event_archive", "stream_version").await, [6, 7]);
    // The stream's own rows: the head and what was not retired.
    let own = keyspace.column("helenus_event_streams", "stream_version").await;
    let own: Vec<i64> = own.into_iter().filter(|number| *number >= 0).collect();
    assert_eq!(own, [0, 8, 9, 10, 11, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_takes_two_requests() {
    let keyspace = Keyspace::new();
    let proxy = Proxy::start(keyspace.address()).await;
    let store = keyspace.store_through(&proxy, Options::default());
    deposit(&store, "a", &[1; 25]).await;
    let mut account = accounts().load(&store, &stream_id("a")).await.unwrap();
    assert!(accounts().save_if_due(&store, &mut account).await.unwrap());
    deposit(&store, "a", &[1; 9]).await;
    let before = proxy.executed();
    let account = accounts().load(&store, &stream_id("a")).await.unwrap();
    assert_eq!((account.snapshot, account.version), (Some(version(25)), Some(version(34))));
    assert_eq!(proxy.executed() - before, 2);
    // Nor does it take more once everything before the snapshot is gone, or all there is.
    for cut in [26, 35] {
        let retire = Retire::drop(stream_id("a"), Cut::Before(version(cut))).forced();
        let _steps: Vec<RetireStep> = store.retire(retire).try_collect().await.unwrap();
        if cut == 35 {
            let mut account = account.clone();
            account.snapshot = None;
            assert!(accounts().save_if_due(&store, &mut account).await.unwrap());
        }
        let before = proxy.executed();
        assert_eq!(accounts().load(&store, &stream_id("a")).await.unwrap().state, account.state);
        assert_eq!(proxy.executed() - before, 2);
    }
}
