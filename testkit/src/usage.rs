//! What a process has used, for benches. Linux counts processor time in hundredths of a second.

use std::time::Duration;

use crate::services::{Context, Error, Result};

/// User and system time of a process so far.
pub fn processor_time(pid: u32) -> Result<Duration> {
    stat(&pid.to_string(), 11)
}

/// The same of all processes that this one started and has waited for, and of theirs.
pub fn children_time() -> Result<Duration> {
    stat("self", 13)
}

/// Waits, half a minute at most, until a process does hardly anything: a node has its flushes,
/// compactions and compiling behind it.
pub fn settle(pid: u32) -> Result<()> {
    for _ in 0..60 {
        let before = processor_time(pid)?;
        std::thread::sleep(Duration::from_millis(500));
        if processor_time(pid)? - before < Duration::from_millis(50) {
            break;
        }
    }
    Ok(())
}

/// Waits until the disk has what was written so far: it would go on with that during what comes next, and
/// make every sync of it wait.
pub fn settle_disk() -> Result<()> {
    std::process::Command::new("sync").status().or_fail(|| "run sync".to_owned()).map(drop)
}

/// The time that the host gave to other machines while a processor here had something to do, over all
/// processors: what it takes, no program here can help.
pub fn stolen_time() -> Result<Duration> {
    let path = "/proc/stat";
    let stat = std::fs::read_to_string(path).or_fail(|| format!("read {path}"))?;
    let ticks = stat.split_ascii_whitespace().nth(8).and_then(|field| field.parse::<u64>().ok());
    let ticks = ticks.ok_or_else(|| Error::new(format!("{path} cannot be understood")))?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Two neighbouring times of `/proc/PID/stat`, counted from behind the name.
fn stat(pid: &str, first: usize) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).or_fail(|| format!("read {path}"))?;
    // The second field is a name in parentheses, which may hold spaces.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(first).take(2).map(|field| field.parse::<u64>().ok());
    let ticks: Option<u64> = ticks.sum();
    let ticks = ticks.ok_or_else(|| Error::new(format!("{path} cannot be understood")))?;
    Ok(Duration::from_millis(ticks * 10))
}

/// The most memory that a process has held so far, in bytes; `None` once it is gone.
#[must_use]
pub fn peak_bytes(pid: u32) -> Option<u64> {
    memory(&pid.to_string(), "VmHWM:")
}

/// The memory that this process holds, in bytes.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    memory("self", "VmRSS:")
}

fn memory(pid: &str, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let found = status.lines().find_map(|found| found.strip_prefix(line))?;
    Some(found.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_waited_for_counts() {
        let before = children_time().expect("own times");
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", busy]).status().expect("sh");
        assert!(status.success());
        assert!(children_time().expect("own times") > before);
        let own = std::process::id();
        assert!(processor_time(own).is_ok());
        assert!(peak_bytes(own) >= resident_bytes().map(|_| 1));
        assert!(peak_bytes(u32::MAX).is_none());
        assert!(stolen_time().is_ok());
    }
}
