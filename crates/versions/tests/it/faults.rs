//! What a publisher and a catalog make of answers that are lost, nodes that are overloaded, and a
//! node that dies.

use std::time::Duration;

use helenus_model::backend::StoreUrl;
use helenus_store::Ports;
use helenus_store::cassandra::{Options, Replication};
use helenus_testkit::gate::{Gate, Kind};
use helenus_testkit::isolated::Keyspace;
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use helenus_versions::cassandra::CassandraVersions;
use helenus_versions::publish::{Publish, publish};
use helenus_versions::{
    Catalog, LoadOptions, Progress, RecycleOptions, Recycled, Status, TableName, include, pin,
    recycle, rollback, unpin,
};

use crate::conformance::{Fixture, Query};

/// How often a load is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A fixture whose backend is reached through a gate, and the same past it.
struct Scene {
    fixture: Fixture<CassandraVersions>,
    gate: Gate,
}

async fn scene(request_timeout: Duration) -> Scene {
    let keyspace = Keyspace::create().await;
    let gate = Gate::start(&keyspace.node.to_string()).await;
    let ports = Ports::system();
    let options = Options { request_timeout, ..Options::default() };
    let url = format!("cassandra://{}/{}", gate.address(), keyspace.name);
    let backend = open(&url, options, ports.clone()).await;
    let table = TableName::new(&keyspace.name, "features");
    let fixture = Fixture { backend, ports, table, folder: tempfile::tempdir().unwrap() };
    Scene { fixture, gate }
}

async fn open(url: &str, options: Options, ports: Ports) -> CassandraVersions {
    let StoreUrl::Cassandra(endpoint) = url.parse().unwrap() else { panic!("{url}") };
    Box::pin(CassandraVersions::open(&endpoint, options, ports)).await.unwrap()
}

/// Where an answer gets lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    BeforeTheNode,
    AfterTheNode,
}

impl Scene {
    async fn epoch(&self) -> i64 {
        let snapshot = self.fixture.backend.snapshot(&self.fixture.table).await.unwrap();
        snapshot.epoch.unwrap_or(0)
    }

    /// Does `work`, which changes the catalog `changes` times, and loses the answer of the `nth`.
    async fn losing<T>(
        &self,
        (nth, changes): (usize, i64),
        lost: Lost,
        work: impl Future<Output = T>,
    ) -> T {
        let before = self.epoch().await;
        let mut watched = self.gate.stop_next(Kind::Batch);
        let losing = async {
            for _ in 1..nth {
                watched.sent().await.let_through();
                let answer = watched.answered().await;
                watched = self.gate.stop_next(Kind::Batch);
                answer.let_through();
            }
            let sent = watched.sent().await;
            if let Lost::AfterTheNode = lost {
                sent.let_through();
                drop(watched.answered().await);
            }
        };
        let (done, ()) = tokio::join!(work, losing);
        assert_eq!(self.epoch().await, before + changes, "{lost:?}: each change is made once");
        done
    }
}

/// One row: it is written by itself, so that every batch is a change of the catalog.
async fn day(fixture: &Fixture<CassandraVersions>, day: i64) -> String {
    let run = fixture.run(&format!("run-{day}"), day, fixture.file(day, 1));
    let published = fixture.publish(run).await;
    assert_eq!((published.status, published.routed), (Status::Completed, true));
    published.version_name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_of_any_change_is_settled() {
    for lost in [Lost::BeforeTheNode, Lost::AfterTheNode] {
        let scene = scene(Duration::from_secs(5)).await;
        let Fixture { backend, ports, table, .. } = &scene.fixture;
        let routed = async || scene.fixture.routed().await;
        scene.losing((1, 2), lost, day(&scene.fixture, 1)).await;
        scene.losing((2, 2), lost, day(&scene.fixture, 2)).await;
        assert_eq!(routed().await, Some(2), "the switch is made");
        let back = scene.losing((1, 1), lost, rollback(backend, ports, table, None)).await;
        assert_eq!((back.unwrap().number, routed().await), (1, Some(1)), "one step back, not two");
        scene.losing((1, 1), lost, include(backend, ports, table, "2")).await.unwrap();
        assert_eq!(routed().await, Some(2));
        scene.losing((1, 1), lost, pin(backend, ports, table, "1")).await.unwrap();
        assert_eq!(routed().await, Some(1));
        scene.losing((1, 1), lost, unpin(backend, ports, table)).await.unwrap();
        day(&scene.fixture, 3).await;
        // DELETING for two versions, then DELETED for each.
        let options =
            RecycleOptions { keep: 1, drain: Duration::ZERO, ..RecycleOptions::default() };
        for (nth, gone) in [(1, 2), (4, 2)] {
            let told = &mut |_: &Recycled| ();
            let recycling = recycle(backend, ports, table, options, told);
            let done = scene.losing((nth, 4), lost, recycling).await.unwrap();
            assert_eq!(done.len(), gone, "{done:?}");
            assert!(done.iter().all(|gone| gone.outcome == "dropped"), "{done:?}");
            for next in 0..2 {
                day(&scene.fixture, i64::try_from(nth).unwrap() + 3 + next).await;
            }
        }
        let rows = backend.rows(&format!("SELECT id FROM {table}")).await;
        assert_eq!(rows.len(), 1, "what readers get is there");
    }
}

/// Lets the beginning of a run pass, which is the first batch; those after it are rows, and `arm` is
/// called before there are any.
async fn begun<T>(gate: &Gate, arm: impl FnOnce(&Gate) -> T) -> T {
    let mut begin = gate.stop_next(Kind::Batch);
    begin.sent().await.let_through();
    let answer = begin.answered().await;
    let armed = arm(gate);
    answer.let_through();
    armed
}

/// Publishes while something is done to the requests: every row must arrive.
async fn publishes(scene: &Scene, progress: &Progress, disturbing: impl Future<Output = ()>) {
    let fixture = &scene.fixture;
    let run = fixture.run("run", 1, fixture.file(1, 3_000));
    let publishing = publish(&fixture.backend, &fixture.ports, run, progress);
    let (published, ()) = tokio::join!(publishing, disturbing);
    let published = published.unwrap();
    assert_eq!((published.status, published.rows), (Status::Completed, 3_000), "{published:?}");
    let rows = fixture.backend.rows(&format!("SELECT id FROM {}", fixture.table)).await;
    assert_eq!(rows.len(), 3_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_node_is_given_time_and_gets_every_row() {
    let scene = scene(Duration::from_secs(5)).await;
    let progress = Progress::default();
    let refusing = begun(&scene.gate, |gate| gate.refuse_next(Kind::Batch, 40));
    publishes(&scene, &progress, refusing).await;
    assert!(scene.gate.is_done(), "all were refused that should be");
    let retries = progress.retries();
    assert!(retries >= 40, "{retries}: each that was refused is sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_is_sent_again() {
    let scene = scene(Duration::from_secs(2)).await;
    let progress = Progress::default();
    let delaying = async {
        let mut rows = begun(&scene.gate, |gate| gate.stop_next(Kind::Batch)).await;
        let held = rows.sent().await;
        while progress.retries() == 0 {
            tokio::time::sleep(LOOK).await;
        }
        // Late, after it was sent again: the same rows at the same write times change nothing.
        held.let_through();
        rows.answered().await.let_through();
    };
    publishes(&scene, &progress, delaying).await;
}

/// A node of three is killed while rows are written: QUORUM is met by the two others.
#[tokio::test(flavor = "multi_thread")]
async fn proof_a_lost_node_does_not_stop_a_load() {
    let is_full = std::env::var_os("HELENUS_PROOF").is_some_and(|size| size == "full");
    let rows = if is_full { 200_000 } else { 6_000 };
    let _serial = serial().unwrap();
    let spec = Spec::cluster3().name("versions-three").heap("384M").quick_compiler();
    let mut nodes = Instance::start(spec).unwrap();
    let ports = Ports::system();
    let options = Options { replication: Replication::Simple(3), ..Options::default() };
    let url = format!("cassandra://{}/three", nodes.endpoint());
    let backend = open(&url, options, ports.clone()).await;
    let table = TableName::new("three", "features");
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture { backend, ports, table, folder };
    let rate = if is_full { 8_000 } else { 2_000 };
    let load = LoadOptions { rows_per_second: Some(rate), ..LoadOptions::default() };
    let run = Publish { load, ..fixture.run("run", 1, fixture.file(1, rows)) };
    let progress = Progress::default();
    let publishing = publish(&fixture.backend, &fixture.ports, run, &progress);
    let killing = async {
        while progress.durable().rows < rows as u64 / 3 {
            tokio::time::sleep(LOOK).await;
        }
        let written = progress.written();
        nodes.kill_node(2).unwrap();
        Ok(written)
    };
    let (published, written) = tokio::try_join!(publishing, killing).unwrap();
    assert!(written < rows as u64, "the node was lost in the middle, not after {written} rows");
    assert_eq!((published.status, published.rows), (Status::Completed, rows as u64));
    assert!(published.routed && published.checks.iter().all(|check| check.ok), "{published:?}");
    println!(
        "proof: a node of three killed after {written} of {rows} rows: the load went on at QUORUM \
         ({} writes sent again), every row was counted, the version was read back and switched to",
        progress.retries()
    );
}
