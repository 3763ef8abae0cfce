//! Three nodes, three copies of each row, an agent beside each node: changes have one id wherever they
//! are read, and a relay that is told of its messages three times publishes them once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Child;

use helenus::backend::BrokerUrl;
use helenus::{Broker, BrokerOptions, Random, SystemRandom};
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Registry, Spec};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use serde_json::{Value, json};

use super::capture::{start, until};
use super::{fed, helenus};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const OUTBOX: &str = "shop.helenus_outbox_messages";

/// What is done to each order, at a time of its own where that matters.
const STATEMENTS: [&str; 9] = [
    "INSERT INTO shop.orders (id, line, total, tags) VALUES (ID, 1, 12.50, {'a', 'b'})",
    "INSERT INTO shop.orders (id, line, total) VALUES (ID, 2, 1) USING TTL 10000",
    "INSERT INTO shop.orders (id, line, total) VALUES (ID, 3, 1) IF NOT EXISTS",
    "UPDATE shop.orders SET tags = tags + {'c'}, total = null WHERE id = ID AND line = 1",
    "UPDATE shop.orders SET name = 'n' WHERE id = ID",
    "DELETE FROM shop.orders WHERE id = ID AND line = 2",
    "DELETE FROM shop.orders WHERE id = ID AND line > 5 AND line <= 9",
    "BEGIN BATCH INSERT INTO shop.orders (id, line) VALUES (ID, 4);
     DELETE FROM shop.orders USING TIMESTAMP 1 WHERE id = ID; APPLY BATCH",
    "UPDATE shop.hits SET n = n + 2 WHERE id = ID",
];

struct Cluster {
    instance: Instance,
    session: Session,
    kafka: String,
    prefix: String,
    dir: tempfile::TempDir,
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

impl Cluster {
    async fn start() -> Self {
        let spec = Spec::cluster3().name("replicas").heap("384M").commitlog_periodic("100ms");
        // Each statement wants all three: none may be taken for dead because the host is busy.
        let spec = spec.set("phi_convict_threshold", "16");
        let instance = Instance::start(spec).unwrap();
        let nodes = instance.endpoints().into_iter().map(|endpoint| endpoint.to_string());
        let session = SessionBuilder::new().known_nodes(nodes).build().await.unwrap();
        let kafka = Registry::new().kafka().unwrap().to_string();
        let prefix = format!("replicas{:x}", SystemRandom.next_u64());
        Cluster { instance, session, kafka, prefix, dir: tempfile::tempdir().unwrap() }
    }

    /// Runs a statement on all replicas, so that each logs it.
    async fn run(&self, statement: &str) {
        let mut asked = Statement::new(statement);
        asked.set_consistency(Consistency::All);
        let ran = self.session.query_unpaged(asked, ()).await;
        ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    fn broker(&self) -> Broker {
        let url: BrokerUrl = format!("kafka://{}", self.kafka).parse().unwrap();
        Broker::open_with(&url, None, BrokerOptions::default()).unwrap()
    }

    fn folder(&self, name: &str, configuration: &str) -> std::path::PathBuf {
        let folder = self.dir.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("[broker]\nurl = \"kafka://{}\"\n{configuration}", self.kafka);
        std::fs::write(folder.join("helenus.toml"), text).unwrap();
        folder
    }

    fn agents(&self) -> Vec<Running> {
        let endpoints = self.instance.endpoints();
        let nodes = NODES.iter().zip(endpoints).enumerate();
        let agents = nodes.map(|(index, (name, endpoint))| {
            let cdc_raw = self.instance.node_dir(index).join("cdc_raw");
            let folder = self.folder(
                name,
                &format!(
                    "[capture]\nurl = \"cassandra://{endpoint}\"\ncdc_raw = {cdc_raw:?}\n\
                     node = \"{name}\"\ntopic_prefix = \"{}\"\nhints = [\"{OUTBOX}\"]\n",
                    self.prefix
                ),
            );
            Running(start(&folder))
        });
        agents.collect()
    }

    fn stage(&self, folder: &Path, numbers: std::ops::Range<u32>) {
        let channel = format!("{}.messages", self.prefix);
        let line = |number: u32| {
            let message = json!({
                "message_id": format!("m-{number}"), "channel_id": channel,
                "message_type": "order.placed", "payload": {"number": number},
                "ordering_key": format!("order-{}", number % 5),
            });
            format!("{message}\n")
        };
        let lines: String = numbers.map(line).collect();
        let (code, _, err) = fed(folder, &["outbox", "enqueue"], &lines);
        assert_eq!(code, Some(0), "{err}");
    }
}

/// The ids of changes by the node that told of them; rows, statics, ranges and partitions alike.
fn by_node(events: &[Value]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for event in events.iter().filter(|event| event["scope"] != "table") {
        let (node, id) = (&event["cassandra_node"], &event["event_id"]);
        found.entry(node.as_str().unwrap()).or_default().insert(id.as_str().unwrap());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_tell_of_each_change_under_one_id_and_wake_a_relay_that_publishes_once() {
    let _alone = serial().unwrap();
    let (orders, messages) =
        if std::env::var_os("HELENUS_PROOF").is_some() { (400, 400) } else { (12, 20) };
    let cluster = Cluster::start().await;
    for statement in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE shop.orders (id int, line int, total decimal, tags set<text>, name text static,
         PRIMARY KEY (id, line)) WITH cdc = true",
        "CREATE TABLE shop.hits (id int PRIMARY KEY, n counter) WITH cdc = true",
    ] {
        cluster.run(statement).await;
    }
    let store = format!("[store]\nurl = \"cassandra://{}/shop\"\n", cluster.instance.endpoint());
    // Nothing but hints wakes this relay, once it has looked around.
    let relay = cluster.folder(
        "relay",
        &format!("{store}[relay]\nhints = true\npoll_most = \"1h\"\nlease_ttl = \"1h\"\n"),
    );
    cluster.stage(&relay, 0..1);
    cluster.run(&format!("ALTER TABLE {OUTBOX} WITH cdc = true")).await;
    let _agents = cluster.agents();
    let broker = cluster.broker();

    for id in 0..orders {
        for statement in STATEMENTS {
            cluster.run(&statement.replace("ID", &id.to_string())).await;
        }
    }
    // A batch of a write and an older deletion is two changes, all else is one; counters are one more.
    let orders = usize::try_from(orders).unwrap();
    let changes = orders * STATEMENTS.len();
    for (table, count) in [("shop.orders", changes), ("shop.hits", orders)] {
        let topic = format!("{}.{table}", cluster.prefix);
        let found = until(&broker, &topic, |found| {
            let told = by_node(found);
            told.len() == 3 && told.values().all(|ids| ids.len() >= count)
        })
        .await;
        let told = by_node(&found);
        assert_eq!(told["n1"].len(), count, "{table}");
        assert_eq!(told["n1"], told["n2"], "{table}");
        assert_eq!(told["n1"], told["n3"], "{table}");
    }

    let mut command = helenus(&relay, &["relay", "run"]);
    let _relay = Running(command.spawn().unwrap());
    let topic = format!("{}.messages", cluster.prefix);
    until(&broker, &topic, |found| found.len() == 1).await;
    for number in 1..=messages {
        cluster.stage(&relay, number..number + 1);
        let count = usize::try_from(number).unwrap() + 1;
        until(&broker, &topic, |found| found.len() >= count).await;
    }
    let found = until(&broker, &topic, |found| !found.is_empty()).await;
    let numbers: BTreeSet<u64> =
        found.iter().map(|message| message["number"].as_u64().unwrap()).collect();
    assert_eq!(found.len(), numbers.len(), "each once");
    assert_eq!(numbers, (0..=u64::from(messages)).collect());
    println!(
        "proof: three nodes, RF 3, an agent each: {} changes told by all three under the same \
         ids; {messages} messages published once each, found by hints alone",
        changes + orders
    );
}
