//! The record of a service, `target/services/NAME/service.json`: what runs, where, since whom.
//!
//! Written whole by rename, before the first process is launched and again at each step, so a
//! reader sees a service either not ready or ready, never half a file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ports::Ports;
use super::{Context, Error, ProcessId, Result};

/// Who started a service, and so who may stop it without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartedBy {
    /// `cargo xtask services up`: runs until `services down`.
    Up,
    /// `cargo xtask test`: stopped at the end of this or the next such run.
    Test,
}

/// One process of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The address it listens on.
    pub host: String,
    /// The port clients use.
    pub port: u16,
    /// The process, once launched.
    pub process: Option<ProcessId>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Where its output goes.
    pub log: PathBuf,
}

/// One service: what `services status` prints and [`super::Registry`] answers from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The word for the service, see [`super::Service::name`].
    pub service: String,
    /// Its version, as far as known.
    pub version: String,
    /// Who started it.
    pub started_by: StartedBy,
    /// Whether every node has answered since it was started.
    pub ready: bool,
    /// Whether clients have to speak TLS.
    #[serde(default)]
    pub tls: bool,
    /// Port numbers by role; kept after a stop, to be preferred at the next start.
    pub ports: Ports,
    /// Its processes: three for a cluster, else one.
    pub nodes: Vec<Node>,
}

impl Record {
    /// Reads the record in a service's directory. None: never started here.
    pub(super) fn load(directory: &Path) -> Result<Option<Self>> {
        let path = path_in(directory);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::new(format!("cannot read {}: {error}", path.display())));
            }
        };
        serde_json::from_slice(&text).map(Some).or_fail(|| format!("parse {}", path.display()))
    }

    /// Writes the record into a service's directory.
    pub(super) fn save(&self, directory: &Path) -> Result<()> {
        let path = path_in(directory);
        let new = path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(self).or_fail(|| "write a record".to_owned())?;
        std::fs::write(&new, text).or_fail(|| format!("write {}", new.display()))?;
        std::fs::rename(&new, &path).or_fail(|| format!("write {}", path.display()))
    }

    /// Whether every process of it runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.nodes.is_empty()
            && self.nodes.iter().all(|node| node.process.is_some_and(ProcessId::is_alive))
    }
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join("service.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_round_trip() {
        let directory = std::env::temp_dir().join(format!("testkit-record-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("temporary directory");
        assert_eq!(Record::load(&directory).expect("readable"), None);
        let record = Record {
            service: "redis".to_owned(),
            version: "7.0.15".to_owned(),
            started_by: StartedBy::Test,
            ready: true,
            tls: false,
            ports: [("redis".to_owned(), 16_379)].into(),
            nodes: vec![Node {
                host: "127.0.0.1".to_owned(),
                port: 16_379,
                process: Some(ProcessId { pid: 7, start_time: u64::MAX }),
                directory: directory.clone(),
                log: directory.join("log"),
            }],
        };
        record.save(&directory).expect("written");
        assert_eq!(Record::load(&directory).expect("readable"), Some(record));
        std::fs::write(directory.join("service.json"), "{").expect("written");
        let error = Record::load(&directory).expect_err("half a file").to_string();
        assert!(error.starts_with("cannot parse "), "{error}");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
