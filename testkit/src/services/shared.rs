//! The shared services of a checkout: up, down, status.
//!
//! One `up` or `down` works at a time (a lock file); within it services start in parallel.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{
    Error, Record, Result, Service, Spec, StartedBy, files, process, root,
    start::{self, node_directory},
};
use crate::serial::lock_file;

/// How to bring services up.
#[derive(Debug, Clone, Copy)]
pub struct Up {
    /// Noted in the record; decides who stops the service without being asked.
    pub started_by: StartedBy,
    /// Keep the data of an earlier run instead of starting empty.
    pub keep_data: bool,
}

/// What `status` knows of a service.
#[derive(Debug, Clone)]
pub struct Status {
    /// Which.
    pub service: Service,
    /// The record of its last start; none if it never was started here.
    pub record: Option<Record>,
    /// Whether it runs and answers now.
    pub is_up: bool,
    /// Whether a process of it runs, answering or not.
    pub is_running: bool,
}

/// A service that `down` stopped.
#[derive(Debug, Clone, Copy)]
pub struct Stopped {
    /// Which.
    pub service: Service,
    /// How long it took to end.
    pub took: Duration,
}

/// Starts the services that are not up yet, all at once, and says so on stderr.
pub fn up(specs: &[Spec], options: Up) -> Result<Vec<Record>> {
    let _lock = lock()?;
    let outcomes: Vec<(Service, Result<Record>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = specs
            .iter()
            .map(|spec| (spec.service, scope.spawn(|| up_one(spec, options))))
            .collect();
        threads
            .into_iter()
            .map(|(service, thread)| {
                let outcome = thread.join();
                (service, outcome.unwrap_or_else(|_| Err(Error::new("its starter panicked"))))
            })
            .collect()
    });
    let mut records = Vec::new();
    let mut failures = Vec::new();
    for (service, outcome) in outcomes {
        match outcome {
            Ok(record) => records.push(record),
            Err(error) => failures.push(format!("{}: {error}", service.name())),
        }
    }
    if failures.is_empty() { Ok(records) } else { Err(Error::new(failures.join("\n\n"))) }
}

/// Stops services; with `started_by`, only those that were started so.
pub fn down(services: &[Service], started_by: Option<StartedBy>) -> Result<Vec<Stopped>> {
    let _lock = lock()?;
    let outcomes: Vec<Result<Option<Stopped>>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            services.iter().map(|service| scope.spawn(|| down_one(*service, started_by))).collect();
        let panicked = || Err(Error::new("a thread that stops services panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    let mut stopped = Vec::new();
    let mut failures = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(service) => stopped.extend(service),
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() { Ok(stopped) } else { Err(Error::new(failures.join("\n"))) }
}

/// What is known of every service.
#[must_use]
pub fn status() -> Vec<Status> {
    Service::ALL
        .into_iter()
        .map(|service| {
            let record = Record::load(&directory(service)).unwrap_or_default();
            let is_up = record.as_ref().is_some_and(|record| start::is_up(service, record));
            let is_running =
                node_directories(service).iter().any(|node| process::running_in(node).is_some());
            Status { service, record, is_up, is_running }
        })
        .collect()
}

/// The directory of a shared service.
pub(super) fn directory(service: Service) -> PathBuf {
    root().join(service.name())
}

fn lock() -> Result<std::fs::File> {
    lock_file(&root().join("up.lock"))
}

fn up_one(spec: &Spec, options: Up) -> Result<Record> {
    let (service, directory) = (spec.service, directory(spec.service));
    let begun = Instant::now();
    // A record we cannot read is no reason to refuse: the pid files still tell what runs.
    let previous = Record::load(&directory).unwrap_or_default();
    if let Some(mut record) = previous.clone().filter(|record| start::is_up(service, record)) {
        if options.started_by == StartedBy::Up && record.started_by != StartedBy::Up {
            record.started_by = StartedBy::Up;
            record.save(&directory)?;
        }
        say(service, &record, "already up");
        return Ok(record);
    }
    stop_processes(service)?;
    if !options.keep_data {
        files::remove_tree(&directory)?;
    }
    let preferred = |role: &'static str, port| {
        previous.as_ref().and_then(|record| record.ports.get(role).copied()).unwrap_or(port)
    };
    let (record, children) = start::start(spec, &directory, options.started_by, preferred)?;
    // They outlive us on purpose; pid files, not handles, end them.
    drop(children);
    say(service, &record, &format!("ready in {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(record)
}

fn down_one(service: Service, started_by: Option<StartedBy>) -> Result<Option<Stopped>> {
    let directory = directory(service);
    let record = Record::load(&directory).unwrap_or_default();
    if let (Some(wanted), Some(record)) = (started_by, &record)
        && record.started_by != wanted
    {
        return Ok(None);
    }
    let begun = Instant::now();
    let ran = stop_processes(service)?;
    if let Some(mut record) = record
        && record.ready
    {
        record.ready = false;
        record.save(&directory)?;
    }
    Ok(ran.then(|| Stopped { service, took: begun.elapsed() }))
}

/// Stops every process of the service, whoever started it. Says whether there was one.
fn stop_processes(service: Service) -> Result<bool> {
    let directories = node_directories(service);
    // All are asked before the first is waited for: a node that drains takes its time.
    for process in directories.iter().filter_map(|node| process::running_in(node)) {
        process.signal(service.stop_signal())?;
    }
    let mut ran = false;
    for node in &directories {
        ran |= process::stop_in(node, service.stop_signal())?;
    }
    Ok(ran)
}

fn node_directories(service: Service) -> Vec<PathBuf> {
    let count = service.hosts().len();
    (0..count).map(|index| node_directory(&directory(service), count, index)).collect()
}

fn say(service: Service, record: &Record, what: &str) {
    let label = format!("{} {}", service.name(), record.version);
    let first = record.nodes.first();
    let place = first.map(|node| format!("{}:{}", node.host, node.port)).unwrap_or_default();
    eprintln!("{label:<24} {what:<16} {place}");
}
