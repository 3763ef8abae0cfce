//! A private service of one test: to kill, pause, fill or misconfigure.
//!
//! It lives in `target/services/private/NAME-PID-COUNT/` and ends with the test. A test process that is
//! itself killed leaves it behind; [`sweep_private`] finds it by the owner's pid and start time. After a
//! test that panics its directory moves to `target/services/failed/`, until the next test run.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::start::{self, Plan};
use super::{
    Context, Endpoint, Error, ProcessId, Record, Result, Service, Spec, StartedBy, cassandra,
    files, process, root,
};

const OWNER_FILE: &str = "owner";

/// Keeps instances of the same name apart.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A running private service; stopped and removed when dropped.
#[derive(Debug)]
pub struct Instance {
    spec: Spec,
    directory: PathBuf,
    record: Record,
    children: Vec<Child>,
}

impl Instance {
    /// Starts the service on ports of its own and waits until it answers.
    pub fn start(spec: Spec) -> Result<Self> {
        let owner = ProcessId::own().ok_or_else(|| Error::new("cannot read /proc"))?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = private_root().join(format!("{}-{}-{count}", spec.name, owner.pid));
        files::remove_tree(&directory)?;
        std::fs::create_dir_all(&directory)
            .or_fail(|| format!("create {}", directory.display()))?;
        owner.write(&directory.join(OWNER_FILE))?;
        let (record, children) =
            start::start(&spec, &directory, StartedBy::Test, |_, port| Spec::private_port(port))?;
        Ok(Self { spec, directory, record, children })
    }

    /// Where clients connect: the first node.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::of(&self.record.nodes[0])
    }

    /// Where clients connect, every node.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.record.nodes.iter().map(Endpoint::of).collect()
    }

    /// The directory of the first node; Cassandra has its `cdc_raw` and `commitlog` there.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.node_dir(0)
    }

    /// The directory of one node of a cluster.
    #[must_use]
    pub fn node_dir(&self, node: usize) -> &Path {
        &self.record.nodes[node].directory
    }

    /// The process of the first node.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.record.nodes[0].process.map(|process| process.pid)
    }

    /// SIGKILL to every node: a power cut, but for the page cache.
    pub fn kill(&mut self) -> Result<()> {
        (0..self.children.len()).try_for_each(|node| self.kill_node(node))
    }

    /// SIGKILL to one node.
    pub fn kill_node(&mut self, node: usize) -> Result<()> {
        self.signal(node, "KILL")?;
        self.reap(node)
    }

    /// SIGSTOP to every node: connections stay open, nothing answers.
    pub fn pause(&self) -> Result<()> {
        (0..self.children.len()).try_for_each(|node| self.pause_node(node))
    }

    /// SIGSTOP to one node.
    pub fn pause_node(&self, node: usize) -> Result<()> {
        self.signal(node, "STOP")
    }

    /// SIGCONT to every node.
    pub fn resume(&self) -> Result<()> {
        (0..self.children.len()).try_for_each(|node| self.resume_node(node))
    }

    /// SIGCONT to one node.
    pub fn resume_node(&self, node: usize) -> Result<()> {
        self.signal(node, "CONT")
    }

    /// Asks every node to end and waits.
    pub fn stop(&mut self) -> Result<()> {
        (0..self.children.len()).try_for_each(|node| self.stop_node(node))
    }

    /// Asks one node to end and waits.
    pub fn stop_node(&mut self, node: usize) -> Result<()> {
        process::stop_in(self.node_dir(node), self.spec.service().stop_signal())?;
        self.reap(node)
    }

    /// Starts every node again, on the same ports and data, and waits until it answers.
    pub fn restart(&mut self) -> Result<()> {
        (0..self.children.len()).try_for_each(|node| self.restart_node(node))
    }

    /// Starts every node again as another spec of the same service says, on the same data.
    pub fn restart_as(&mut self, spec: Spec) -> Result<()> {
        self.stop()?;
        self.spec = Spec { name: self.spec.name.clone(), ..spec };
        self.restart()
    }

    /// Starts one node again; stops it first if it still runs.
    pub fn restart_node(&mut self, node: usize) -> Result<()> {
        self.stop_node(node)?;
        self.children[node] = start::start_node(&self.spec, &mut self.record, node)?;
        self.record.save(&self.directory)?;
        let child = Some(&mut self.children[node]);
        start::wait_until_ready(self.spec.service(), &self.record, node, child)
    }

    /// Runs Cassandra's `nodetool` against the first node and returns what it printed.
    pub fn nodetool(&self, arguments: &[&str]) -> Result<String> {
        self.nodetool_node(0, arguments)
    }

    /// Runs Cassandra's `nodetool` against one node.
    pub fn nodetool_node(&self, node: usize, arguments: &[&str]) -> Result<String> {
        cassandra::nodetool(&Plan::of(&self.spec, &self.record, node), arguments)
    }

    fn signal(&self, node: usize, name: &str) -> Result<()> {
        match self.record.nodes[node].process {
            Some(process) if process.is_alive() => process.signal(name),
            _ => Err(Error::new(format!("{} does not run", self.spec.name))),
        }
    }

    fn reap(&mut self, node: usize) -> Result<()> {
        self.children[node].wait().or_fail(|| "wait for a process".to_owned())?;
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nobody looks at its data again, so there is nothing to be polite about.
        for node in 0..self.children.len() {
            if let Some(process) = self.record.nodes[node].process
                && let Err(error) = process.signal("KILL").and_then(|()| self.reap(node))
            {
                eprintln!("{}: {error}", self.spec.name);
            }
        }
        let cleared = if std::thread::panicking() {
            keep_for_inspection(&self.directory)
        } else {
            files::remove_tree(&self.directory)
        };
        if let Err(error) = cleared {
            eprintln!("{}: {error}", self.spec.name);
        }
    }
}

/// Removes what failed tests left for inspection.
pub fn clear_failed() -> Result<()> {
    files::remove_tree(&failed_root())
}

/// Stops and removes private instances whose test process is gone. Says how many ran.
pub fn sweep_private() -> Result<usize> {
    let Ok(entries) = std::fs::read_dir(private_root()) else { return Ok(0) };
    let mut ran = 0;
    for entry in entries.flatten() {
        let directory = entry.path();
        if ProcessId::read(&directory.join(OWNER_FILE)).is_some_and(ProcessId::is_alive) {
            continue;
        }
        for index in 0..Service::Cluster3.hosts().len() {
            ran += usize::from(process::stop_in(
                &directory.join(format!("node{}", index + 1)),
                "KILL",
            )?);
        }
        ran += usize::from(process::stop_in(&directory, "KILL")?);
        files::remove_tree(&directory)?;
    }
    Ok(ran)
}

fn keep_for_inspection(directory: &Path) -> Result<()> {
    let Some(name) = directory.file_name() else { return Ok(()) };
    let kept = failed_root().join(name);
    std::fs::create_dir_all(failed_root()).or_fail(|| "create a directory".to_owned())?;
    std::fs::rename(directory, &kept).or_fail(|| format!("write {}", kept.display()))?;
    eprintln!("the service's data and log are kept in {}", kept.display());
    Ok(())
}

fn failed_root() -> PathBuf {
    root().join("failed")
}

fn private_root() -> PathBuf {
    root().join("private")
}
