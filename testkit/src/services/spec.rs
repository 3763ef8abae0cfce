//! What to start: which service, under which name, with which settings.

use std::collections::BTreeMap;

use super::versions;

/// The services this repository knows how to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// One Cassandra 5.0 node, change data capture on.
    Cassandra,
    /// One Cassandra 4.1 node, change data capture on.
    Cassandra41,
    /// One Cassandra 4.0 node, change data capture on.
    Cassandra40,
    /// Three Cassandra 5.0 nodes on 127.0.0.1, 127.0.0.2 and 127.0.0.3.
    Cluster3,
    /// One Kafka broker that is its own controller.
    Kafka,
    /// A Confluent-compatible schema registry, in memory.
    Registry,
    /// One PostgreSQL server.
    Postgres,
    /// One Redis server.
    Redis,
}

/// The hosts of single services, and of the first node of a cluster.
pub(super) const LOCALHOST: &str = "127.0.0.1";

impl Service {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Cassandra,
        Self::Cassandra41,
        Self::Cassandra40,
        Self::Cluster3,
        Self::Kafka,
        Self::Registry,
        Self::Postgres,
        Self::Redis,
    ];

    /// One of each kind, on one node: what `services up` starts when nothing is named.
    pub const SINGLE_NODE: [Self; 5] =
        [Self::Cassandra, Self::Kafka, Self::Registry, Self::Postgres, Self::Redis];

    /// The word for it on the command line and in `target/services/`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cassandra => "cassandra",
            Self::Cassandra41 => "cassandra41",
            Self::Cassandra40 => "cassandra40",
            Self::Cluster3 => "cluster3",
            Self::Kafka => "kafka",
            Self::Registry => "registry",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }

    /// The service of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.name() == name)
    }

    /// The pinned version, for services that are downloaded.
    pub(super) const fn pinned_version(self) -> Option<&'static str> {
        match self {
            Self::Cassandra | Self::Cluster3 => Some(versions::CASSANDRA_50),
            Self::Cassandra41 => Some(versions::CASSANDRA_41),
            Self::Cassandra40 => Some(versions::CASSANDRA_40),
            Self::Kafka => Some(versions::KAFKA),
            Self::Registry => Some(versions::SCHEMA_REGISTRY),
            Self::Postgres | Self::Redis => None,
        }
    }

    /// The addresses of its nodes.
    pub(super) const fn hosts(self) -> &'static [&'static str] {
        match self {
            Self::Cluster3 => &[LOCALHOST, "127.0.0.2", "127.0.0.3"],
            _ => &[LOCALHOST],
        }
    }

    /// The ports it needs: role and preferred number, the one clients use first. All are below
    /// the range the kernel hands out to outgoing connections. Every role is bound on every host
    /// of the service; `jmx2` and `jmx3` exist because JMX listens on 127.0.0.1 for all nodes.
    pub(super) const fn ports(self) -> &'static [(&'static str, u16)] {
        match self {
            Self::Cassandra => &[("cql", 19_042), ("storage", 17_000), ("jmx", 17_199)],
            Self::Cassandra41 => &[("cql", 19_141), ("storage", 17_041), ("jmx", 17_141)],
            Self::Cassandra40 => &[("cql", 19_140), ("storage", 17_040), ("jmx", 17_140)],
            Self::Cluster3 => &[
                ("cql", 19_342),
                ("storage", 17_300),
                ("jmx", 17_391),
                ("jmx2", 17_392),
                ("jmx3", 17_393),
            ],
            Self::Kafka => &[("kafka", 19_092), ("controller", 19_093)],
            Self::Registry => &[("http", 18_081)],
            Self::Postgres => &[("postgres", 15_432)],
            Self::Redis => &[("redis", 16_379)],
        }
    }

    /// The polite signal: PostgreSQL's TERM waits for every client to leave, INT does not.
    pub(super) const fn stop_signal(self) -> &'static str {
        match self {
            Self::Postgres => "INT",
            _ => "TERM",
        }
    }
}

/// A service to start. The defaults are those of the shared instance.
#[derive(Debug, Clone)]
pub struct Spec {
    pub(super) service: Service,
    pub(super) name: String,
    pub(super) heap: &'static str,
    pub(super) quick_compiler: bool,
    pub(super) settings: BTreeMap<String, String>,
}

impl Spec {
    /// The service as `cargo xtask services up` starts it.
    #[must_use]
    pub fn of(service: Service) -> Self {
        let heap = match service {
            Service::Cluster3 | Service::Kafka => "512M",
            Service::Registry => "256M",
            _ => "1G",
        };
        Self {
            service,
            name: service.name().to_owned(),
            heap,
            quick_compiler: false,
            settings: BTreeMap::new(),
        }
    }

    /// A Cassandra 5.0 node.
    #[must_use]
    pub fn cassandra() -> Self {
        Self::of(Service::Cassandra)
    }

    /// Three Cassandra 5.0 nodes.
    #[must_use]
    pub fn cluster3() -> Self {
        Self::of(Service::Cluster3)
    }

    /// A Kafka broker.
    #[must_use]
    pub fn kafka() -> Self {
        Self::of(Service::Kafka)
    }

    /// A PostgreSQL server.
    #[must_use]
    pub fn postgres() -> Self {
        Self::of(Service::Postgres)
    }

    /// A Redis server.
    #[must_use]
    pub fn redis() -> Self {
        Self::of(Service::Redis)
    }

    /// The service meant.
    #[must_use]
    pub fn service(&self) -> Service {
        self.service
    }

    /// A name for the directory of a private instance, so that its log can be found.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The maximum heap of a Java service, as `-Xmx` takes it.
    #[must_use]
    pub fn heap(mut self, heap: &'static str) -> Self {
        self.heap = heap;
        self
    }

    /// Stops the Java compiler at its first tier: half the CPU time to start, less throughput.
    #[must_use]
    pub fn quick_compiler(mut self) -> Self {
        self.quick_compiler = true;
        self
    }

    /// Sets one line of the service's own configuration: a key of `cassandra.yaml` (by its 5.0
    /// name; renamed for 4.0) with its value in YAML, a key of Kafka's `server.properties`, a
    /// PostgreSQL parameter, a Redis directive.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Cassandra: how much `cdc_raw` may hold before writes to CDC tables fail, as in `16MiB`.
    #[must_use]
    pub fn cdc_total_space(self, size: &str) -> Self {
        self.set("cdc_total_space", size)
    }

    /// Cassandra: sync the commit log in the background, this often, as in `100ms`.
    #[must_use]
    pub fn commitlog_periodic(self, period: &str) -> Self {
        self.set("commitlog_sync", "periodic").set("commitlog_sync_period", period)
    }

    /// Cassandra: sync the commit log before each write is acknowledged.
    #[must_use]
    pub fn commitlog_batch(mut self) -> Self {
        self.settings.remove("commitlog_sync_period");
        self.set("commitlog_sync", "batch")
    }

    /// Cassandra: ask for a password (`cassandra`/`cassandra`, created shortly after the start)
    /// and check permissions.
    #[must_use]
    pub fn with_passwords(self) -> Self {
        self.set("authenticator", "PasswordAuthenticator").set("authorizer", "CassandraAuthorizer")
    }

    /// Cassandra: speak TLS only, with certificates of its own (see [`super::CA_FILE`]); and, if
    /// `require_client` says so, only to clients that show one too.
    #[must_use]
    pub fn with_tls(self, require_client: bool) -> Self {
        let options = super::cassandra::certificates::options(require_client);
        self.set("client_encryption_options", &options)
    }

    /// Cassandra 4.1 and later: the second variant of Paxos, with fewer round trips.
    #[must_use]
    pub fn paxos_v2(self) -> Self {
        self.set("paxos_variant", "v2")
    }

    /// Where port numbers are searched for: private instances stay clear of the shared ones, so
    /// that those keep the numbers people remember.
    pub(super) fn private_port(preferred: u16) -> u16 {
        preferred + 6_000
    }
}
