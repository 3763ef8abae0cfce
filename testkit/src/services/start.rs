//! Bringing one service from a [`Spec`] to answering, in a given directory.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use super::ports::{self, Ports};
use super::process::{Launch, log_path};
use super::{
    Context, Error, Node, ProcessId, Record, Result, Service, Spec, StartedBy, cassandra, kafka,
    postgres, probe, redis, schema_registry,
};

/// A busy machine is several times slower than a quiet one, where the slowest takes 20 s.
const START_LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// How much of a log an error quotes.
const LOG_TAIL_LINES: usize = 20;

/// One node of a service, before it runs: what its configuration is written from.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) spec: &'a Spec,
    pub(super) index: usize,
    pub(super) host: &'a str,
    pub(super) ports: &'a Ports,
    pub(super) directory: &'a Path,
}

impl Plan<'_> {
    /// The plan of one node of a recorded service.
    pub(super) fn of<'a>(spec: &'a Spec, record: &'a Record, index: usize) -> Plan<'a> {
        let Node { host, directory, .. } = &record.nodes[index];
        Plan { spec, index, host, ports: &record.ports, directory }
    }

    pub(super) fn port(&self, role: &str) -> u16 {
        self.ports[role]
    }

    /// Writes a file into the node's directory.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).or_fail(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    fn command(&self) -> Result<Vec<std::ffi::OsString>> {
        match self.spec.service {
            Service::Cassandra
            | Service::Cassandra41
            | Service::Cassandra40
            | Service::Cluster3 => cassandra::prepare(self),
            Service::Kafka => kafka::prepare(self),
            Service::Registry => schema_registry::prepare(self),
            Service::Postgres => postgres::prepare(self),
            Service::Redis => redis::prepare(self),
        }
    }
}

/// The version a service will have.
pub(super) fn version(service: Service) -> Result<String> {
    match service {
        Service::Postgres => postgres::version(),
        Service::Redis => redis::version(),
        _ => Ok(service.pinned_version().unwrap_or_default().to_owned()),
    }
}

/// Starts every node of the service, one after another, each when the one before answers.
/// `preferred` are port numbers to try first.
pub(super) fn start(
    spec: &Spec,
    directory: &Path,
    started_by: StartedBy,
    preferred: impl Fn(&'static str, u16) -> u16,
) -> Result<(Record, Vec<Child>)> {
    let hosts = spec.service.hosts();
    let roles = spec.service.ports();
    let (ports, claims) =
        ports::claim_all(roles.iter().map(|(role, port)| (*role, preferred(role, *port))), hosts)?;
    let client_port = ports[roles[0].0];
    let nodes = hosts.iter().enumerate().map(|(index, host)| {
        let directory = node_directory(directory, hosts.len(), index);
        let log = log_path(&directory);
        Node { host: (*host).to_owned(), port: client_port, process: None, directory, log }
    });
    let mut record = Record {
        service: spec.service.name().to_owned(),
        version: version(spec.service)?,
        started_by,
        ready: false,
        tls: ["client_encryption_options", "ssl.keystore.location"]
            .iter()
            .any(|setting| spec.settings.contains_key(*setting)),
        ports,
        nodes: nodes.collect(),
    };
    let mut children = Vec::new();
    let mut start_all = || {
        for index in 0..hosts.len() {
            std::fs::create_dir_all(&record.nodes[index].directory)
                .or_fail(|| format!("create {}", record.nodes[index].directory.display()))?;
            record.save(directory)?;
            children.push(start_node(spec, &mut record, index)?);
            record.save(directory)?;
            wait_until_ready(spec.service, &record, index, children.last_mut())?;
        }
        if hosts.len() > 1 { wait_until_whole(spec.service, &record) } else { Ok(()) }
    };
    if let Err(error) = start_all() {
        abandon(spec.service, &record, &mut children);
        return Err(error);
    }
    record.ready = true;
    record.save(directory)?;
    drop(claims);
    Ok((record, children))
}

/// Launches one node of a recorded service and notes its process.
pub(super) fn start_node(spec: &Spec, record: &mut Record, index: usize) -> Result<Child> {
    let command = Plan::of(spec, record, index).command()?;
    let launch = Launch { command, directory: record.nodes[index].directory.clone() };
    let (child, process) = launch.spawn()?;
    record.nodes[index].process = Some(process);
    Ok(child)
}

/// Waits until a launched node answers; fails when it dies or time runs out.
pub(super) fn wait_until_ready(
    service: Service,
    record: &Record,
    index: usize,
    mut child: Option<&mut Child>,
) -> Result<()> {
    let node = &record.nodes[index];
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(child) = child.as_mut()
            && let Ok(Some(status)) = child.try_wait()
        {
            let name = service.name();
            return Err(Error::new(format!("{name} ended with {status}\n{}", log_tail(&node.log))));
        }
        if is_ready(service, record, node) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::new(format!(
                "{} did not answer on {}:{} within {} s\n{}",
                service.name(),
                node.host,
                node.port,
                START_LIMIT.as_secs(),
                log_tail(&node.log)
            )));
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until every node of a cluster reads through all of them and they agree on the schema.
fn wait_until_whole(service: Service, record: &Record) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let schemas: Vec<_> = record.nodes.iter().map(probe::schema_of_whole).collect();
        if schemas[0].is_some() && schemas.iter().all(|schema| *schema == schemas[0]) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::new(format!(
                "the nodes of {} do not agree within {} s\n{}",
                service.name(),
                START_LIMIT.as_secs(),
                log_tail(&record.nodes[0].log)
            )));
        }
        std::thread::sleep(POLL);
    }
}

fn is_ready(service: Service, record: &Record, node: &Node) -> bool {
    if !probe::answers(service, node, record.tls) {
        return false;
    }
    service != Service::Kafka
        || std::fs::read_to_string(&node.log).is_ok_and(|log| log.contains(kafka::READY_LINE))
}

/// Where node `index` of `count` lives: a lone node in the service's own directory.
pub(super) fn node_directory(directory: &Path, count: usize, index: usize) -> PathBuf {
    if count == 1 { directory.to_owned() } else { directory.join(format!("node{}", index + 1)) }
}

/// Ends what a failed start has launched; its log stays.
fn abandon(service: Service, record: &Record, children: &mut [Child]) {
    for process in record.nodes.iter().filter_map(|node| node.process) {
        if let Err(error) = process.stop(service.stop_signal()) {
            eprintln!("{}: {error}", service.name());
        }
    }
    for child in children {
        if let Err(error) = child.wait() {
            eprintln!("{}: {error}", service.name());
        }
    }
}

/// The last lines of a log, under a line that says where the rest is.
fn log_tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    format!("the end of {}:\n{}", log.display(), tail.join("\n"))
}

/// Whether every process of a ready record runs and answers.
pub(super) fn is_up(service: Service, record: &Record) -> bool {
    record.ready
        && record.nodes.iter().all(|node| {
            node.process.is_some_and(ProcessId::is_alive)
                && probe::answers(service, node, record.tls)
        })
}
