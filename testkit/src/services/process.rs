//! Processes that outlive us: launched into their own group with their own log, known by pid and
//! start time, signalled through `sh` (no unsafe code here, and a minimal Debian has no `kill`
//! program).
//!
//! The child writes its own pid file and only then becomes the service, under the same pid. So
//! there is no moment at which we can be killed and leave a service behind that nobody knows.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Context, Error, Result, files};

/// How long a service gets to stop on its own.
const STOP_GRACE: Duration = Duration::from_secs(30);
/// Pause between looks at a process.
const POLL: Duration = Duration::from_millis(20);
/// Written first, read by whoever has to stop the service.
const PID_FILE: &str = "pid";

/// A process that cannot be confused with a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The kernel's number for it.
    pub pid: u32,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        read_stat(pid).map(|(_, start_time)| Self { pid, start_time })
    }

    /// This process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it still runs. A dead child nobody has waited for does not count.
    #[must_use]
    pub fn is_alive(self) -> bool {
        read_stat(self.pid)
            .is_some_and(|(state, start)| start == self.start_time && !matches!(state, 'Z' | 'X'))
    }

    /// Reads `PID START_TIME` from a file.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut words = text.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        let start_time = words.next()?.parse().ok()?;
        Some(Self { pid, start_time })
    }

    /// Writes what [`ProcessId::read`] reads.
    pub(super) fn write(self, path: &Path) -> Result<()> {
        std::fs::write(path, format!("{} {}\n", self.pid, self.start_time))
            .or_fail(|| format!("write {}", path.display()))
    }

    /// Sends a signal, unless the process is gone.
    pub(super) fn signal(self, name: &str) -> Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &self.pid.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .or_fail(|| format!("signal process {}", self.pid))?;
        if status.success() || !self.is_alive() {
            return Ok(());
        }
        Err(Error::new(format!("not allowed to send {name} to process {}", self.pid)))
    }

    /// Asks it to stop, waits, insists after 30 s, and returns when it is gone.
    pub(super) fn stop(self, polite_signal: &str) -> Result<()> {
        self.signal(polite_signal)?;
        // A paused process acts on nothing but KILL before it runs again.
        self.signal("CONT")?;
        if self.wait_until_gone(STOP_GRACE) {
            return Ok(());
        }
        self.signal("KILL")?;
        if self.wait_until_gone(STOP_GRACE) {
            return Ok(());
        }
        Err(Error::new(format!("process {} survived KILL", self.pid)))
    }

    fn wait_until_gone(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }
}

/// State letter and start time from `/proc/PID/stat`. The command name in parentheses may itself
/// hold spaces and parentheses, so fields are counted from the last one.
fn read_stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

/// Everything needed to launch one process of a service.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) command: Vec<OsString>,
    pub(super) directory: PathBuf,
}

impl Launch {
    /// Starts it. Output goes to `log` in its directory; the previous log is kept as `log.old`.
    pub(super) fn spawn(&self) -> Result<(Child, ProcessId)> {
        let log_path = log_path(&self.directory);
        if log_path.is_file() {
            let old = log_path.with_extension("old");
            std::fs::rename(&log_path, &old).or_fail(|| format!("write {}", old.display()))?;
        }
        let log = File::create(&log_path).or_fail(|| format!("write {}", log_path.display()))?;
        let log_too = log.try_clone().or_fail(|| "share the log".to_owned())?;
        let child = Command::new("sh")
            .arg("-c")
            .arg("cut -d ' ' -f 1,22 /proc/$$/stat >pid.new && mv pid.new pid && exec \"$@\"")
            .arg("sh")
            .args(&self.command)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .process_group(0)
            .spawn()
            .or_fail(|| "run sh".to_owned())?;
        let process = ProcessId::of(child.id())
            .ok_or_else(|| Error::new("cannot read /proc: services need Linux"))?;
        Ok((child, process))
    }
}

/// The log of the process that runs in `directory`.
pub(super) fn log_path(directory: &Path) -> PathBuf {
    directory.join("log")
}

/// The process last launched in `directory`, if it still runs.
pub(super) fn running_in(directory: &Path) -> Option<ProcessId> {
    ProcessId::read(&directory.join(PID_FILE)).filter(|process| process.is_alive())
}

/// Stops the process last launched in `directory`, if it still runs. Says whether it did.
pub(super) fn stop_in(directory: &Path, polite_signal: &str) -> Result<bool> {
    let running = running_in(directory);
    if let Some(process) = running {
        process.stop(polite_signal)?;
    }
    files::remove_file(&directory.join(PID_FILE))?;
    Ok(running.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_pid_is_another_process() {
        let own = ProcessId::own().expect("we run");
        assert!(own.is_alive());
        let earlier = ProcessId { start_time: own.start_time - 1, ..own };
        assert!(!earlier.is_alive());
        // Were it taken for alive, this would end the test.
        earlier.signal("KILL").expect("nothing to do");
    }

    #[test]
    fn a_dead_child_nobody_waited_for_is_not_alive() {
        let mut child = Command::new("true").spawn().expect("true");
        let process = ProcessId::of(child.id()).expect("still there, at least as a zombie");
        assert!(process.wait_until_gone(Duration::from_secs(10)));
        child.wait().expect("reaped");
    }

    #[test]
    fn a_launched_process_is_found_through_its_pid_file_and_stopped() {
        let directory = std::env::temp_dir().join(format!("testkit-launch-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("temporary directory");
        let launch =
            Launch { command: vec!["sleep".into(), "600".into()], directory: directory.clone() };
        let (mut child, process) = launch.spawn().expect("sleep starts");
        let found = (0..500).find_map(|_| {
            std::thread::sleep(POLL);
            running_in(&directory)
        });
        assert_eq!(found, Some(process));
        assert!(stop_in(&directory, "TERM").expect("stops"));
        assert!(!process.is_alive());
        assert!(!stop_in(&directory, "TERM").expect("nothing left"));
        child.wait().expect("reaped");
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
