//! The Debezium connector for Cassandra, beside a node: what benches compare capture with.
//!
//! It takes everything from the node's own configuration but the folder of segments, so that saved
//! ones can be read while the node that knows their tables is up.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::cassandra::{LOGBACK, java_flags};
use super::{Context, Endpoint, Error, Result, java, maven, versions};

/// Where a connector reads from and writes to.
#[derive(Debug)]
pub struct Debezium<'a> {
    /// A folder of its own.
    pub directory: &'a Path,
    /// The node's folder.
    pub node: &'a Path,
    /// Where the node answers.
    pub cql: Endpoint,
    /// The segments.
    pub cdc_raw: &'a Path,
    /// The Kafka broker.
    pub kafka: &'a str,
    /// Topics are called `{prefix}.{keyspace}.{table}`.
    pub prefix: &'a str,
}

impl Debezium<'_> {
    /// Starts the connector; the caller ends it. The port answers once it looks for segments.
    pub fn start(&self) -> Result<(Child, u16)> {
        let classpath = maven::resolve(&format!("debezium-{}", versions::DEBEZIUM), &pom())?;
        for name in ["conf", "offsets", "relocated/archive", "relocated/error"] {
            let folder = self.directory.join(name);
            std::fs::create_dir_all(&folder).or_fail(|| format!("create {}", folder.display()))?;
        }
        self.write("conf/cassandra.yaml", &self.yaml()?)?;
        self.write("conf/logback.xml", LOGBACK)?;
        self.write("driver.conf", &self.driver())?;
        // Freed again right away: the connector takes no listener, only a number.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.or_fail(|| "find a port".to_owned())?.port();
        self.write("connector.properties", &self.properties(port))?;
        let log = self.directory.join("log");
        let log = File::create(&log).or_fail(|| format!("write {}", log.display()))?;
        let errors = log.try_clone().or_fail(|| "share the log".to_owned())?;
        let folder = self.directory.display();
        let child = Command::new(java::java17()?)
            .args(java_flags())
            .args(["-Xms64M", "-Xmx512M", "-XX:-UsePerfData"])
            .arg(format!("-Dcassandra.storagedir={folder}"))
            .arg(format!("-Dlogback.configurationFile={folder}/conf/logback.xml"))
            .args(["-cp", &format!("{folder}/conf:{classpath}")])
            .arg("io.debezium.connector.cassandra.CassandraConnectorTask")
            .arg(self.directory.join("connector.properties"))
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .or_fail(|| "run java".to_owned())?;
        Ok((child, port))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).or_fail(|| format!("write {}", path.display()))
    }

    /// The node's configuration with another folder of segments.
    fn yaml(&self) -> Result<String> {
        let path = self.node.join("conf/cassandra.yaml");
        let text = std::fs::read_to_string(&path).or_fail(|| format!("read {}", path.display()))?;
        let other = format!("cdc_raw_directory: {}", self.cdc_raw.display());
        let lines: Vec<&str> = text
            .lines()
            .map(|line| if line.starts_with("cdc_raw_directory:") { other.as_str() } else { line })
            .collect();
        if lines.iter().all(|line| *line != other) {
            return Err(Error::new(format!("{} names no cdc_raw_directory", path.display())));
        }
        Ok(lines.join("\n") + "\n")
    }

    fn driver(&self) -> String {
        format!(
            "datastax-java-driver {{\n  basic.contact-points = [ \"{}\" ]\n  \
             basic.load-balancing-policy.local-datacenter = datacenter1\n  \
             basic.request.timeout = 20 seconds\n}}\n",
            self.cql
        )
    }

    fn properties(&self, port: u16) -> String {
        let folder = self.directory.display();
        let json = "org.apache.kafka.connect.json.JsonConverter";
        let lines = [
            ("connector.name", "cass".to_owned()),
            ("topic.prefix", self.prefix.to_owned()),
            ("cassandra.node.id", "node1".to_owned()),
            ("cassandra.cluster.name", "helenus".to_owned()),
            ("cassandra.config", format!("{folder}/conf/cassandra.yaml")),
            ("cassandra.driver.config.file", format!("{folder}/driver.conf")),
            ("snapshot.mode", "NEVER".to_owned()),
            ("http.port", port.to_string()),
            ("offset.backing.store.dir", format!("{folder}/offsets")),
            ("offset.flush.interval.ms", "1000".to_owned()),
            ("max.offset.flush.size", "10000".to_owned()),
            ("commit.log.relocation.dir", format!("{folder}/relocated")),
            ("commit.log.post.processing.enabled", "true".to_owned()),
            ("commit.log.real.time.processing.enabled", "false".to_owned()),
            ("commit.log.marked.complete.poll.interval.ms", "1000".to_owned()),
            ("cdc.dir.poll.interval.ms", "500".to_owned()),
            ("poll.interval.ms", "100".to_owned()),
            ("max.queue.size", "8192".to_owned()),
            ("max.batch.size", "2048".to_owned()),
            ("num.of.change.event.queues", "1".to_owned()),
            ("event.order.guarantee.mode", "commitlog_file".to_owned()),
            ("latest.commit.log.only", "false".to_owned()),
            ("kafka.producer.bootstrap.servers", self.kafka.to_owned()),
            ("kafka.producer.acks", "all".to_owned()),
            ("kafka.producer.linger.ms", "5".to_owned()),
            ("key.converter", json.to_owned()),
            ("value.converter", json.to_owned()),
            ("key.converter.schemas.enable", "false".to_owned()),
            ("value.converter.schemas.enable", "false".to_owned()),
        ];
        lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }
}

/// Left to itself Maven takes the nearest Jackson and Guava, which are too old for Cassandra 5 and
/// Kafka Connect; the Avro converter is not on Maven Central and is not used.
fn pom() -> String {
    let managed: String = [
        ("com.fasterxml.jackson.core", "jackson-core", "2.19.2"),
        ("com.fasterxml.jackson.core", "jackson-annotations", "2.19.2"),
        ("com.fasterxml.jackson.core", "jackson-databind", "2.19.2"),
        ("com.fasterxml.jackson.datatype", "jackson-datatype-jsr310", "2.19.2"),
        ("com.fasterxml.jackson.datatype", "jackson-datatype-jdk8", "2.19.2"),
        ("com.fasterxml.jackson.module", "jackson-module-blackbird", "2.19.2"),
        ("com.google.guava", "guava", "32.0.1-jre"),
        ("org.yaml", "snakeyaml", "2.1"),
        ("org.apache.cassandra", "cassandra-all", versions::CASSANDRA_50),
        ("io.dropwizard.metrics", "metrics-core", "4.2.28"),
    ]
    .map(|(group, artifact, version)| dependency(group, artifact, version, ""))
    .concat();
    let exclusion = "<exclusions><exclusion><groupId>io.confluent</groupId>\
                     <artifactId>*</artifactId></exclusion></exclusions>";
    let connector =
        dependency("io.debezium", "debezium-connector-cassandra-5", versions::DEBEZIUM, exclusion);
    format!(
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>helenus.services</groupId>\n  \
         <artifactId>debezium</artifactId>\n  <version>1</version>\n  <packaging>pom</packaging>\n  \
         <dependencyManagement><dependencies>\n{managed}  </dependencies></dependencyManagement>\n  \
         <dependencies>\n{connector}  </dependencies>\n</project>\n"
    )
}

fn dependency(group: &str, artifact: &str, version: &str, more: &str) -> String {
    format!(
        "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
         <version>{version}</version>{more}</dependency>\n"
    )
}
