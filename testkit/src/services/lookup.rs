//! Where the shared services are: the side that tests read.

use std::fmt;
use std::path::PathBuf;

use super::{Error, Node, Record, Result, Service, find_program, schema_registry, shared, start};

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// An IPv4 address.
    pub host: String,
    /// A TCP port.
    pub port: u16,
}

impl Endpoint {
    pub(super) fn of(node: &Node) -> Self {
        Self { host: node.host.clone(), port: node.port }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Finds shared services that are up. A missing one is an error that says how to start it; a test
/// must fail with it, never pass without the service.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registry {
    _private: (),
}

impl Registry {
    /// The services of this checkout, or of the directory in `HELENUS_SERVICES`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cassandra 5.0.
    pub fn cassandra(&self) -> Result<Endpoint> {
        self.first_node(Service::Cassandra)
    }

    /// Cassandra 4.1.
    pub fn cassandra41(&self) -> Result<Endpoint> {
        self.first_node(Service::Cassandra41)
    }

    /// Cassandra 4.0.
    pub fn cassandra40(&self) -> Result<Endpoint> {
        self.first_node(Service::Cassandra40)
    }

    /// Three Cassandra 5.0 nodes.
    pub fn cluster3(&self) -> Result<Vec<Endpoint>> {
        Ok(self.record(Service::Cluster3)?.nodes.iter().map(Endpoint::of).collect())
    }

    /// Kafka.
    pub fn kafka(&self) -> Result<Endpoint> {
        self.first_node(Service::Kafka)
    }

    /// The base URL of the schema registry's Confluent-compatible interface.
    pub fn registry(&self) -> Result<String> {
        let endpoint = self.first_node(Service::Registry)?;
        Ok(format!("http://{endpoint}{}", schema_registry::BASE_PATH))
    }

    /// PostgreSQL: user `postgres`, no password.
    pub fn postgres(&self) -> Result<Endpoint> {
        self.first_node(Service::Postgres)
    }

    /// Redis, with databases 0 to 1023.
    pub fn redis(&self) -> Result<Endpoint> {
        self.first_node(Service::Redis)
    }

    /// The record of a service that is up: log, directory, version.
    pub fn record(&self, service: Service) -> Result<Record> {
        let name = service.name();
        let remedy = format!("run `cargo xtask services up --only {name}`");
        match Record::load(&shared::directory(service))? {
            Some(record) if start::is_up(service, &record) => Ok(record),
            Some(record) if record.is_alive() => {
                Err(Error::new(format!("{name} runs but does not answer; {remedy}")))
            }
            _ => Err(Error::new(format!("{name} is not running; {remedy}"))),
        }
    }

    fn first_node(&self, service: Service) -> Result<Endpoint> {
        let record = self.record(service)?;
        record.nodes.first().map(Endpoint::of).ok_or_else(|| Error::new("a record without nodes"))
    }
}

/// The browser for tests of the web pages.
pub fn chromium() -> Result<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program).ok_or_else(
        || {
            Error::new(
                "Chromium is not installed: `apt-get install chromium`, \
                 or run `cargo xtask test` once",
            )
        },
    )
}
