//! A corner of each shared service for one test: a keyspace, a database, a topic prefix, a Redis
//! database. Tests in parallel do not see each other.
//!
//! Nothing is removed afterwards: the shared services start empty, and what a failed test wrote is
//! still there to be looked at until then. Everything here panics with the reason when the service
//! is not up, because a test without its service must fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::services::{Endpoint, Registry};

/// A keyspace of one's own on the shared Cassandra.
#[derive(Clone, Debug)]
pub struct Keyspace {
    /// Its name.
    pub name: String,
    /// Where the node is.
    pub node: Endpoint,
    /// A session that uses the keyspace.
    pub session: Arc<Session>,
}

impl Keyspace {
    /// Makes a keyspace on the shared Cassandra 5.0.
    pub async fn create() -> Self {
        let node = Registry::new().cassandra().unwrap_or_else(|error| panic!("{error}"));
        let name = unique("t");
        let session = SessionBuilder::new().known_node(node.to_string()).build().await;
        let session = session.expect("the node takes a session");
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let create = format!("CREATE KEYSPACE {name} WITH replication = {replication}");
        session.query_unpaged(create, ()).await.expect("the node makes a keyspace");
        session.use_keyspace(&name, false).await.expect("the node knows the keyspace");
        Keyspace { name, node, session: Arc::new(session) }
    }

    /// The URL of a store in this keyspace.
    #[must_use]
    pub fn url(&self) -> String {
        format!("cassandra://{}/{}", self.node, self.name)
    }

    /// The rows of `table` as `SELECT JSON *` prints them, sorted: the oracle of many tests.
    pub async fn rows_as_json(&self, table: &str) -> Vec<String> {
        let query = format!("SELECT JSON * FROM {}.{table}", self.name);
        let rows = self.session.query_unpaged(query, ()).await.expect("the table can be read");
        let rows = rows.into_rows_result().expect("a select gives rows");
        let texts = rows.rows::<(String,)>().expect("one column of text");
        let mut texts: Vec<String> = texts.map(|row| row.expect("a row").0).collect();
        texts.sort();
        texts
    }
}

/// A database of one's own on the shared PostgreSQL.
#[derive(Clone, Debug)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Where the server is.
    pub server: Endpoint,
}

impl Database {
    /// Makes a database.
    pub async fn create() -> Self {
        let server = Registry::new().postgres().unwrap_or_else(|error| panic!("{error}"));
        let name = unique("t");
        let (client, work) = connect(&server, "postgres").await;
        let create = format!("CREATE DATABASE {name}");
        let made = async move { client.batch_execute(&create).await };
        let (made, ended) = tokio::join!(made, work);
        made.expect("the server makes a database");
        ended.expect("the server ends the connection in peace");
        Database { name, server }
    }

    /// The URL of a target in this database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/{}", self.server, self.name)
    }

    /// A client, and the connection that must be driven beside it.
    pub async fn connect(&self) -> (tokio_postgres::Client, Connection) {
        connect(&self.server, &self.name).await
    }
}

/// The connection of a PostgreSQL client: a future to be driven while the client is used.
pub type Connection =
    tokio_postgres::Connection<tokio_postgres::Socket, tokio_postgres::tls::NoTlsStream>;

async fn connect(server: &Endpoint, database: &str) -> (tokio_postgres::Client, Connection) {
    let mut config = tokio_postgres::Config::new();
    config.host(&server.host).port(server.port).user("postgres").dbname(database);
    config.connect(tokio_postgres::NoTls).await.expect("the server takes a connection")
}

/// Topics of one's own on the shared Kafka: those whose names begin with this prefix.
#[derive(Clone, Debug)]
pub struct Topics {
    /// Begins every topic's, group's and transactional id's name.
    pub prefix: String,
    /// Where the broker is.
    pub broker: Endpoint,
}

impl Topics {
    /// Reserves a prefix.
    #[must_use]
    pub fn reserve() -> Self {
        let broker = Registry::new().kafka().unwrap_or_else(|error| panic!("{error}"));
        Topics { prefix: unique("t"), broker }
    }

    /// A name with the prefix.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// A client configuration that reaches the broker.
    #[must_use]
    pub fn config(&self) -> rdkafka::ClientConfig {
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", self.broker.to_string());
        config
    }
}

/// A database of one's own on the shared Redis.
#[derive(Clone, Debug)]
pub struct RedisDatabase {
    /// Its number.
    pub number: u32,
    /// Where the server is.
    pub server: Endpoint,
}

impl RedisDatabase {
    /// Takes the next number (database 0 counts them) and empties that database.
    pub async fn take() -> Self {
        let server = Registry::new().redis().unwrap_or_else(|error| panic!("{error}"));
        let mut counter = redis_connection(&server, 0).await;
        let taken: u32 = redis::cmd("INCR")
            .arg("databases_taken")
            .query_async(&mut counter)
            .await
            .expect("the server counts");
        let number = 1 + taken % 1023;
        let mut own = redis_connection(&server, number).await;
        let () = redis::cmd("FLUSHDB").query_async(&mut own).await.expect("the server empties it");
        RedisDatabase { number, server }
    }

    /// The URL of the database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/{}", self.server, self.number)
    }

    /// A connection that uses the database.
    pub async fn connect(&self) -> redis::aio::MultiplexedConnection {
        redis_connection(&self.server, self.number).await
    }
}

async fn redis_connection(server: &Endpoint, number: u32) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{server}/{number}")).expect("a valid URL");
    client.get_multiplexed_async_connection().await.expect("the server takes a connection")
}

/// A name no other test has: from the clock, the process and a counter.
fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{prefix}_{:x}_{:x}_{count}", since_epoch.as_millis(), std::process::id())
}
