//! Segments that come back, lose a name or have no index: what is read of them, and what is given back.

use std::fs;
use std::sync::Arc;

use helenus_capture::commitlog::{Header, HeaderError, SegmentId};
use helenus_capture::schema::History;
use helenus_capture::state::Resume;
use helenus_capture::tail::Tail;
use helenus_commitlog::Segment;
use helenus_model::Timestamp;
use serde_json::{Value, json};

use crate::agent::{broker, expected_of, ids, options, published, start, status};
use crate::folder::{Folders, LATER, PLAIN, SCHEMA};

fn both() -> Vec<String> {
    let mut both = [expected_of(PLAIN), expected_of(LATER)].concat();
    both.sort();
    both
}

fn id(segment: &[u8]) -> SegmentId {
    Header::parse(segment).unwrap().id
}

#[tokio::test]
async fn what_is_done_with_and_comes_back_is_given_back_again() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(PLAIN).complete();
    let mut agent = start(options(&folders), &broker).await;
    agent.catch_up().await.unwrap();
    // A node that was killed links its segments once more when it starts.
    folders.begin(PLAIN).complete();
    assert_eq!(agent.catch_up().await.unwrap(), 0);
    assert_eq!(folders.raw_files(), [""; 0]);
    drop(agent);
    folders.begin(PLAIN).complete();
    assert_eq!(start(options(&folders), &broker).await.catch_up().await.unwrap(), 0);
    assert_eq!(folders.raw_files(), [""; 0]);
    assert_eq!(ids(&published(&broker).await), expected_of(PLAIN));
}

#[tokio::test]
async fn a_segment_that_is_kept_is_not_read_again_after_many_others() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut damaged = PLAIN.to_vec();
    let mut records = Segment::parse(PLAIN).unwrap().records(Default::default());
    let first = records.next_record().unwrap().unwrap();
    damaged[usize::try_from(first.start).unwrap() + 20] ^= 1;
    folders.begin(&damaged).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    let before = ids(&published(&broker).await);
    let path = folders.path("state/position.json");
    let mut saved: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let starts = (1..=300).map(|start| 9_000_000_000_000_i64 + start * 10_000);
    saved["done"].as_array_mut().unwrap().extend(starts.map(|id| json!([id, id])));
    fs::write(&path, saved.to_string()).unwrap();
    folders.begin(LATER).complete();
    for _ in 0..2 {
        start(options(&folders), &broker).await.catch_up().await.unwrap();
    }
    let mut all = [before, expected_of(LATER)].concat();
    all.sort();
    assert_eq!(ids(&published(&broker).await), all);
    assert_eq!(folders.raw_files().len(), 2, "it is kept, the other one is not");
}

#[tokio::test]
async fn a_segment_whose_name_is_removed_is_read_while_the_node_writes_it() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut agent = start(options(&folders), &broker).await;
    let mut segment = folders.begin(PLAIN);
    segment.write(0);
    segment.sync(0);
    agent.catch_up().await.unwrap();
    folders.empty_raw();
    agent.catch_up().await.unwrap();
    let early = ids(&published(&broker).await).len();
    // The node goes on under its own name, and writes the index alone.
    segment.write(1);
    segment.sync(1);
    agent.catch_up().await.unwrap();
    assert!(ids(&published(&broker).await).len() > early);
    assert_ne!(ids(&published(&broker).await), expected_of(PLAIN));
    segment.write(segment.sections.len() - 1);
    fs::remove_file(&segment.own).unwrap();
    agent.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected_of(PLAIN));
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[test]
fn a_name_that_is_removed_is_told_once() {
    let folders = Folders::new();
    let (history, now) = (History::new(SCHEMA).unwrap(), Timestamp::EPOCH);
    let options = Arc::new(options(&folders));
    let (mut tail, _) = Tail::new(options, history, Resume::default(), 0, now).unwrap();
    let mut segment = folders.begin(PLAIN);
    segment.write(0);
    segment.sync(0);
    assert_eq!(tail.next_batch(now, false).unwrap().missing, []);
    folders.empty_raw();
    assert_eq!(tail.next_batch(now, false).unwrap().missing, [id(PLAIN)]);
    assert!(tail.next_batch(now, false).unwrap().is_empty());
    // It is not lost with an index that cannot be read: nobody could open it again.
    fs::create_dir(&segment.index).unwrap();
    tail.next_batch(now, false).unwrap_err();
    fs::remove_dir(&segment.index).unwrap();
    segment.complete();
    let batch = tail.next_batch(now, false).unwrap();
    assert!(!batch.records.is_empty() && batch.missing.is_empty());
}

#[tokio::test]
async fn a_segment_of_3_11_has_no_index_and_is_read() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut old = PLAIN.to_vec();
    old[3] = 6;
    let Err(HeaderError::Checksum { stored, computed }) = Header::parse(&old) else {
        panic!("the checksum is that of another version");
    };
    let at = old.windows(4).position(|bytes| bytes == stored.to_be_bytes()).unwrap();
    old[at..at + 4].copy_from_slice(&computed.to_be_bytes());
    fs::write(folders.cdc_raw().join(format!("CommitLog-6-{}.log", id(PLAIN))), &old).unwrap();
    folders.begin(LATER).complete();
    start(options(&folders), &broker).await.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), both());
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[tokio::test]
async fn a_segment_whose_index_is_cut_short_is_not_given_back_unread() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    folders.begin(LATER).complete();
    let mut agent = start(options(&folders), &broker).await;
    agent.catch_up().await.unwrap();
    // The node's clock was set back, and a power failure took what the index said.
    let mut segment = folders.begin(PLAIN);
    segment.complete();
    fs::remove_file(&segment.own).unwrap();
    let said = fs::read(&segment.index).unwrap();
    fs::write(&segment.index, "").unwrap();
    agent.catch_up().await.unwrap();
    assert_eq!(folders.raw_files().len(), 2);
    fs::write(&segment.index, said).unwrap();
    agent.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), both());
    assert_eq!(folders.raw_files(), [""; 0]);
}

#[tokio::test]
async fn an_index_that_cannot_be_read_is_told_of() {
    let folders = Folders::new();
    let (broker, _engine) = broker(&folders).await;
    let mut agent = start(options(&folders), &broker).await;
    let mut segment = folders.begin(PLAIN);
    segment.write(0);
    segment.sync(0);
    agent.catch_up().await.unwrap();
    assert_eq!(status(&folders).waiting_for, None);
    // Like a file on a disk that fails.
    fs::remove_file(&segment.index).unwrap();
    fs::create_dir(&segment.index).unwrap();
    agent.catch_up().await.unwrap();
    let told = status(&folders).waiting_for.unwrap();
    assert!(told.contains("cannot be read"), "{told}");
    fs::remove_dir(&segment.index).unwrap();
    segment.complete();
    agent.catch_up().await.unwrap();
    assert_eq!(ids(&published(&broker).await), expected_of(PLAIN));
    assert_eq!(status(&folders).waiting_for, None);
}
