//! What a process used, as the kernel counts it.

use crate::Result;

/// Processor time and memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// The most it had at any time.
    pub(crate) peak_mib: f64,
}

/// What a process that still runs has used so far.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    /// The kernel's unit here, whatever its own clock does.
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no process")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: usize| -> Result<f64> { Ok(fields[index].parse::<f64>()?) };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_A_SECOND,
        peak_mib: peak.parse::<f64>()? / 1024.0,
    })
}
