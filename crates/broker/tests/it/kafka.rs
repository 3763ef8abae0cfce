//! What only a cluster can show: who may come in, what is unreachable, what other clients wrote.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use helenus_broker::contract::{
    Broker, Error, NewRecord, Offset, Position, Publisher, Transaction,
};
use helenus_broker::kafka::{KafkaBroker, Options};
use helenus_model::backend::{BrokerUrl, Endpoint};
use helenus_model::{Failure, Kind, Timestamp};
use helenus_testkit::services::{Instance, Registry, Spec};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

/// The moment records tell of, near enough for any topic's limits.
const NOW: Timestamp = Timestamp::from_millis(1_794_744_000_000);

fn endpoint(url: &str) -> Endpoint {
    let BrokerUrl::Kafka(endpoint) = url.parse().unwrap() else { panic!("{url}") };
    endpoint
}

fn address() -> String {
    Registry::new().kafka().unwrap().to_string()
}

pub(crate) fn shared() -> KafkaBroker {
    let endpoint = endpoint(&format!("kafka://{}", address()));
    KafkaBroker::new(&endpoint, Options::default()).unwrap()
}

/// Keeps the topics, groups and names of one test apart from others'.
pub(crate) fn prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    format!("broker.{now:x}.{}.{count}.", std::process::id())
}

fn record(topic: &str, payload: &str) -> NewRecord {
    NewRecord {
        topic: topic.into(),
        key: Some(b"k".to_vec()),
        headers: vec![],
        payload: payload.as_bytes().to_vec(),
        timestamp: NOW,
    }
}

fn impatient() -> Options {
    Options { timeout: Duration::from_secs(5), ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_there_is_named() {
    let broker = KafkaBroker::new(&endpoint("kafka://127.0.0.1:1"), impatient()).unwrap();
    let errors = [
        broker.publish(&[record("orders", "1")]).await.map(drop).unwrap_err(),
        broker.topics().await.map(drop).unwrap_err(),
        broker.create_topic("orders", 1).await.unwrap_err(),
        broker.publisher("relay").await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.applied()), (Kind::Unavailable, Some(false)), "{error}");
        assert!(error.to_string().contains("Kafka at 127.0.0.1:1 did not answer"), "{error}");
        assert!(error.is_retryable());
    }
}

#[test]
fn a_wrong_setting_is_refused_before_anything_is_sent() {
    let settings = BTreeMap::from([("no.such.setting".to_owned(), "1".to_owned())]);
    let options = Options { settings, ..Options::default() };
    let error = KafkaBroker::new(&endpoint("kafka://127.0.0.1:1"), options).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Invalid, "settings"));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("no.such.setting"), "{source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_makes_topics_makes_them_only_when_asked() {
    let (topic, endpoint) = (prefix() + "orders", endpoint(&format!("kafka://{}", address())));
    let error = shared().publish(&[record(&topic, "1")]).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error}");
    let options = Options { create_topics: true, ..Options::default() };
    let creating = KafkaBroker::new(&endpoint, options).unwrap();
    creating.publish(&[record(&topic, "1")]).await.unwrap();
    assert_eq!(shared().bounds(&topic).await.unwrap().len(), 1);
}

/// A record whose time is two hours ahead: a broker of today refuses it, and nothing tells so before.
fn from_the_future(topic: &str) -> NewRecord {
    let ahead = std::time::UNIX_EPOCH.elapsed().unwrap() + Duration::from_secs(7_200);
    NewRecord { timestamp: Timestamp::EPOCH.plus(ahead), ..record(topic, "future") }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_refuses_takes_its_transaction_along() {
    let (broker, prefix) = (shared(), prefix());
    let topic = format!("{prefix}orders");
    broker.create_topic(&topic, 1).await.unwrap();
    let mut publisher = broker.publisher(&prefix).await.unwrap();
    let records = vec![record(&topic, "1"), from_the_future(&topic), record(&topic, "3")];
    let error = publisher.publish(Transaction { records, marker: None }).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("refused", Some(false)), "{error:?}");
    let mut publisher = broker.publisher(&prefix).await.unwrap();
    let records = vec![record(&topic, "1"), record(&topic, "3")];
    publisher.publish(Transaction { records, marker: None }).await.unwrap();
    publisher.finish().await.unwrap();
    let from = Position { topic: topic.into(), partition: 0, offset: Offset::START };
    let found = broker.read(from, 10).await.unwrap();
    let payloads: Vec<_> = found.iter().map(|record| record.payload.as_slice()).collect();
    assert_eq!(payloads, [b"1".as_slice(), b"3".as_slice()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_record_is_not_followed_by_those_behind_it() {
    let (broker, topic) = (shared(), prefix() + "orders");
    broker.create_topic(&topic, 1).await.unwrap();
    let error = broker.publish(&[from_the_future(&topic)]).await.unwrap_err();
    assert_eq!((error.code(), error.applied()), ("refused", Some(false)), "{error:?}");
    // The producer has been replaced; what comes now is published as if nothing had been.
    let positions = broker.publish(&[record(&topic, "2")]).await.unwrap();
    assert_eq!(positions[0].offset, Offset::START);
}

/// The first bodies in a topic of one partition.
async fn bodies(broker: &KafkaBroker, topic: &str, count: usize) -> Vec<String> {
    let mut from = Position { topic: topic.into(), partition: 0, offset: Offset::START };
    let mut found = Vec::new();
    while found.len() < count {
        let next = broker.read(from.clone(), count).await.unwrap();
        let last = next.last().unwrap_or_else(|| panic!("{} of {count} are there", found.len()));
        from.offset = Offset(last.position.offset.0 + 1);
        found.extend(next.into_iter().map(|record| String::from_utf8(record.payload).unwrap()));
    }
    found
}

/// Makes a topic that takes batches of 20,000 bytes.
async fn make_small(cluster: &str, topic: &str) {
    let admin = ClientConfig::new().set("bootstrap.servers", cluster).create();
    let admin: AdminClient<DefaultClientContext> = admin.unwrap();
    let small =
        NewTopic::new(topic, 1, TopicReplication::Fixed(1)).set("max.message.bytes", "20000");
    let made = admin.create_topics(&[small], &AdminOptions::new()).await.unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_whose_limit_is_less_than_a_batch_gets_smaller_ones() {
    let (broker, prefix) = (shared(), prefix());
    let topic = format!("{prefix}orders");
    make_small(&address(), &topic).await;
    broker.create_topic(&topic, 1).await.unwrap();
    let other = format!("{prefix}others");
    broker.create_topic(&other, 1).await.unwrap();
    // The producer has made larger ones before.
    broker.publish(&[record(&other, "1")]).await.unwrap();

    let sent: Vec<String> = (0..400).map(|number| format!("{number:01000}")).collect();
    let (plain, taken) = sent.split_at(200);
    let records = |bodies: &[String]| bodies.iter().map(|body| record(&topic, body)).collect();
    let plain: Vec<NewRecord> = records(plain);
    broker.publish(&plain).await.unwrap();
    let mut publisher = broker.publisher(&prefix).await.unwrap();
    publisher.publish(Transaction { records: records(taken), marker: None }).await.unwrap();
    publisher.finish().await.unwrap();
    assert!(bodies(&broker, &topic, sent.len()).await == sent, "all of it, in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_any_more_is_not_overtaken_by_smaller_batches() {
    let _alone = helenus_testkit::serial();
    let spec = Spec::kafka().name("kafka-paused").quick_compiler().heap("256M");
    let mut cluster = Instance::start(spec).unwrap();
    let at = cluster.endpoint().to_string();
    let broker = KafkaBroker::new(&endpoint(&format!("kafka://{at}")), Options::default()).unwrap();
    make_small(&at, "small").await;
    for topic in ["small", "large"] {
        broker.create_topic(topic, 1).await.unwrap();
    }
    broker.publish(&[record("large", "")]).await.unwrap();
    cluster.pause().unwrap();
    // More than connections hold.
    let begun: Vec<String> = (0..2_000).map(|number| format!("{number:010000}")).collect();
    let records: Vec<NewRecord> = begun.iter().map(|body| record("large", body)).collect();
    let publishing = broker.publish(&records);
    assert!(tokio::time::timeout(Duration::from_millis(500), publishing).await.is_err());
    let later = [record("small", ""), record("large", "later")];
    let (later, resumed) = tokio::join!(broker.publish(&later), async { cluster.resume() });
    resumed.unwrap();
    later.unwrap();
    let found = bodies(&broker, "large", begun.len() + 2).await;
    assert_eq!(found[0], "");
    assert!(found[1..=begun.len()] == begun, "all of it, in order");
    assert_eq!(found[begun.len() + 1], "later");
    cluster.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_not_read_and_ends_with_the_next_publisher() {
    let (broker, prefix) = (shared(), prefix());
    let (topic, name) = (format!("{prefix}orders"), format!("{prefix}relay"));
    broker.create_topic(&topic, 1).await.unwrap();
    // What a relay that was killed leaves behind: sent, not committed.
    let killed: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", address())
        .set("transactional.id", &name)
        .create()
        .unwrap();
    let timeout = Duration::from_secs(30);
    killed.init_transactions(timeout).unwrap();
    killed.begin_transaction().unwrap();
    killed.send(BaseRecord::to(&topic).payload("never").key("k")).unwrap();
    killed.flush(timeout).unwrap();
    let start = || Position { topic: topic.as_str().into(), partition: 0, offset: Offset::START };
    assert_eq!(broker.read(start(), 10).await.unwrap(), []);

    let mut publisher = broker.publisher(&name).await.unwrap();
    let records = vec![record(&topic, "1")];
    publisher.publish(Transaction { records, marker: None }).await.unwrap();
    publisher.finish().await.unwrap();
    let found = broker.read(start(), 10).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].payload, b"1");
    assert!(killed.commit_transaction(timeout).is_err());
    assert_eq!(broker.last(&topic, 0).await.unwrap(), Some(found[0].clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_keeps_its_time_even_where_that_is_the_first() {
    let (broker, prefix) = (shared(), prefix());
    let topic = format!("{prefix}orders");
    broker.create_topic(&topic, 1).await.unwrap();
    let at =
        |millis| NewRecord { timestamp: Timestamp::from_millis(millis), ..record(&topic, "1") };
    broker.publish(&[at(0), at(-5), at(1_000)]).await.unwrap();
    let mut publisher = broker.publisher(&prefix).await.unwrap();
    publisher.publish(Transaction { records: vec![at(0)], marker: None }).await.unwrap();
    publisher.finish().await.unwrap();
    let from = Position { topic: topic.into(), partition: 0, offset: Offset::START };
    let found = broker.read(from, 10).await.unwrap();
    let times: Vec<_> = found.iter().map(|record| record.timestamp.as_millis()).collect();
    // The client library takes 0 for now; Kafka knows nothing before 1970.
    assert_eq!(times, [1, 1, 1_000, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_bytes() {
    let (broker, prefix) = (shared(), prefix());
    let topic = format!("{prefix}orders");
    broker.create_topic(&topic, 1).await.unwrap();
    let headers = vec![
        ("größe".into(), vec![0xff, 0xfe, 0x00].into()),
        ("empty".into(), Vec::new().into()),
        ("größe".into(), "ü".as_bytes().into()),
    ];
    broker.publish(&[NewRecord { headers: headers.clone(), ..record(&topic, "1") }]).await.unwrap();
    let from = Position { topic: topic.into(), partition: 0, offset: Offset::START };
    let found = broker.read(from, 10).await.unwrap();
    assert_eq!(found[0].headers, headers);
}

/// A broker that lets in the user `helenus` with the password `secret`.
fn guarded() -> Instance {
    let users = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                 username=\"broker\" password=\"own\" user_broker=\"own\" user_helenus=\"secret\";";
    let spec = Spec::kafka().name("kafka-guarded").quick_compiler().heap("256M");
    let spec = spec
        .set("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT")
        .set("sasl.enabled.mechanisms", "PLAIN")
        .set("sasl.mechanism.inter.broker.protocol", "PLAIN")
        .set("auto.create.topics.enable", "false")
        .set("listener.name.plaintext.plain.sasl.jaas.config", users);
    Instance::start(spec).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_unmade_topics_and_outages_of_a_cluster_are_told() {
    let _alone = helenus_testkit::serial();
    let mut cluster = guarded();
    let at = |login: &str| endpoint(&format!("kafka://{login}@{}", cluster.endpoint()));

    let stranger = KafkaBroker::new(&at("helenus:wrong"), impatient()).unwrap();
    let error = stranger.topics().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Invalid, "login"), "{error}");
    assert!(error.to_string().contains("refused the login"), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");

    let options = Options { create_topics: true, ..impatient() };
    let broker = KafkaBroker::new(&at("helenus:secret"), options).unwrap();
    let error = broker.publish(&[record("orders", "1")]).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error}");
    assert_eq!(error.applied(), Some(false));
    broker.create_topic("orders", 1).await.unwrap();
    broker.publish(&[record("orders", "1")]).await.unwrap();
    let mut publisher = broker.publisher("relay").await.unwrap();
    let one = |payload| Transaction { records: vec![record("orders", payload)], marker: None };
    publisher.publish(one("2")).await.unwrap();

    cluster.pause().unwrap();
    let error = broker.publish(&[record("orders", "3")]).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (Kind::OutcomeUnknown, None), "{error}");
    let error = publisher.publish(one("4")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    cluster.resume().unwrap();

    let mut publisher = broker.publisher("relay").await.unwrap();
    publisher.publish(one("5")).await.unwrap();
    publisher.finish().await.unwrap();
    broker.publish(&[record("orders", "6")]).await.unwrap();
    let from = Position { topic: "orders".into(), partition: 0, offset: Offset::START };
    let found = broker.read(from, 100).await.unwrap();
    let mut payloads: Vec<_> = found.iter().map(|record| record.payload[0]).collect();
    // Whether the third arrived is what nobody knew; the transaction without a commit did not.
    payloads.retain(|payload| *payload != b'3');
    assert_eq!(payloads, b"1256");
    cluster.stop().unwrap();
    let error = broker.publish(&[record("orders", "7")]).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

/// A key and a certificate for 127.0.0.1 that signs itself, as Kafka and clients read them.
#[cfg(feature = "kafka-tls")]
fn certificate(dir: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (key, certificate) = (dir.join("key.pem"), dir.join("certificate.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kafka"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout"])
        .args([&key, std::path::Path::new("-out"), &certificate])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let both = dir.join("both.pem");
    let text = [&key, &certificate].map(|file| std::fs::read_to_string(file).unwrap());
    std::fs::write(&both, text.concat()).unwrap();
    (both, certificate)
}

#[cfg(feature = "kafka-tls")]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_reached_through_tls_and_only_if_it_is_trusted() {
    let _alone = helenus_testkit::serial();
    let dir = tempfile::tempdir().unwrap();
    let (both, certificate) = certificate(dir.path());
    let spec = Spec::kafka().name("kafka-tls").quick_compiler().heap("256M");
    let spec = spec
        .set("listener.security.protocol.map", "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT")
        .set("ssl.keystore.type", "PEM")
        .set("ssl.keystore.location", both.to_str().unwrap())
        .set("ssl.truststore.type", "PEM")
        .set("ssl.truststore.location", certificate.to_str().unwrap());
    let mut cluster = Instance::start(spec).unwrap();
    let at = format!("kafka://{}?tls=true", cluster.endpoint());
    let stranger = KafkaBroker::new(&endpoint(&at), impatient()).unwrap();
    let error = stranger.topics().await.unwrap_err();
    assert_eq!(error.applied(), Some(false), "{error}");

    let trusting = endpoint(&format!("{at}&ca_file={}", certificate.display()));
    let broker = KafkaBroker::new(&trusting, impatient()).unwrap();
    broker.create_topic("orders", 1).await.unwrap();
    let mut publisher = broker.publisher("relay").await.unwrap();
    let records = vec![record("orders", "1")];
    publisher.publish(Transaction { records, marker: None }).await.unwrap();
    publisher.finish().await.unwrap();
    let from = Position { topic: "orders".into(), partition: 0, offset: Offset::START };
    assert_eq!(broker.read(from, 10).await.unwrap()[0].payload, b"1");
    cluster.stop().unwrap();
}
