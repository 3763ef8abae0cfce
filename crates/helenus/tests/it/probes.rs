//! Every service answers its probe, and says what it is; a wrong address says what to do.

use std::time::Duration;

use helenus::Failure;
use helenus::backend::{
    BrokerUrl, Endpoint, MetadataUrl, Reached, RegistryUrl, StoreUrl, TargetUrl, Unreachable,
};
use helenus::cassandra::Options;
use helenus::probe;
use helenus_testkit::isolated::{Database, RedisDatabase};
use helenus_testkit::services::{Registry, versions};

const PATIENCE: Duration = Duration::from_secs(30);

fn endpoint(url: &str) -> Endpoint {
    let scheme = url.split(':').next().unwrap();
    match scheme {
        "cassandra" => match url.parse().unwrap() {
            StoreUrl::Cassandra(endpoint) => endpoint,
            StoreUrl::Sqlite(_) => unreachable!("a cassandra URL"),
        },
        "kafka" => match url.parse().unwrap() {
            BrokerUrl::Kafka(endpoint) => endpoint,
            BrokerUrl::Embedded => unreachable!("a kafka URL"),
        },
        "redis" => match url.parse().unwrap() {
            MetadataUrl::Redis(endpoint) => endpoint,
            MetadataUrl::Embedded => unreachable!("a redis URL"),
        },
        _ => match url.parse().unwrap() {
            TargetUrl::Postgres(endpoint) => endpoint,
            TargetUrl::Sqlite(_) => unreachable!("a postgres URL"),
        },
    }
}

fn is(reached: Result<Reached, Unreachable>, product: &str, detail: &str) {
    let reached = reached.unwrap();
    assert!(reached.product.starts_with(product), "{reached:?}");
    assert!(reached.detail.contains(detail), "{reached:?}");
}

#[tokio::test]
async fn cassandra_answers() {
    let url = format!("cassandra://{}", Registry::new().cassandra().unwrap());
    let product = format!("Apache Cassandra {}", versions::CASSANDRA_50);
    is(
        probe::cassandra(&endpoint(&url), &Options::default(), PATIENCE).await,
        &product,
        "data centre datacenter1",
    );
}

#[tokio::test]
async fn kafka_answers() {
    let url = format!("kafka://{}", Registry::new().kafka().unwrap());
    is(probe::kafka(&endpoint(&url), Default::default(), PATIENCE).await, "Kafka", "1 brokers");
}

#[tokio::test]
async fn the_registry_answers() {
    let url: RegistryUrl = Registry::new().registry().unwrap().parse().unwrap();
    is(probe::registry(&url, PATIENCE).await, "schema registry", "subjects");
}

#[tokio::test]
async fn postgres_answers() {
    let database = Database::create().await;
    let reached = probe::postgres(&endpoint(&database.url()), PATIENCE).await;
    is(reached, "PostgreSQL ", &format!("database {}, UTF8", database.name));
}

#[tokio::test]
async fn redis_answers() {
    let database = RedisDatabase::take().await;
    is(probe::redis(&endpoint(&database.url()), PATIENCE).await, "Redis ", "0 keys");
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named_with_a_remedy() {
    // Port 9 (discard) is refused on every machine that runs these tests.
    let short = Duration::from_secs(5);
    let registry: RegistryUrl = "http://127.0.0.1:9/subjects".parse().unwrap();
    let asked = [
        probe::cassandra(&endpoint("cassandra://127.0.0.1:9/shop"), &Options::default(), short)
            .await,
        probe::kafka(&endpoint("kafka://127.0.0.1:9"), Default::default(), short).await,
        probe::postgres(&endpoint("postgres://me@127.0.0.1:9/db"), short).await,
        probe::redis(&endpoint("redis://127.0.0.1:9/0"), short).await,
        probe::registry(&registry, short).await,
    ];
    for answer in asked {
        let error = answer.unwrap_err();
        assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
        assert_eq!(error.applied(), Some(false));
        assert!(error.is_retryable() && error.remedy().is_some());
    }
}
