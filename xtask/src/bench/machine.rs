//! What Linux tells about processes and about itself.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

use crate::process::capture;

/// Where and in what state of the machine a run was made.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    /// Load averages of the last 1, 5 and 15 minutes, before the first measurement.
    pub load_before: String,
    /// The same after the last one.
    pub load_after: String,
}

impl Machine {
    /// As it is now.
    pub fn look() -> Result<Self> {
        let info =
            fs::read_to_string("/proc/cpuinfo").context("the benchmark reads /proc: it needs Linux")?;
        let processor = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Ok(Self {
            processor: processor.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            load_before: load()?,
            load_after: String::new(),
        })
    }

    /// Notes the load at the end.
    pub fn finish(&mut self) -> Result<()> {
        self.load_after = load()?;
        Ok(())
    }
}

fn load() -> Result<String> {
    let text = read("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// Reads CPU times and memory of processes.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    ticks_per_second: f64,
}

impl Meter {
    pub fn new() -> Result<Self> {
        let ticks = capture(Command::new("getconf").arg("CLK_TCK"))?;
        let ticks_per_second =
            ticks.trim().parse().with_context(|| format!("getconf CLK_TCK said {ticks:?}"))?;
        Ok(Self { ticks_per_second })
    }

    /// CPU seconds, user and system, that the process has used in all its threads.
    pub fn cpu_seconds(&self, pid: u32) -> Result<f64> {
        let text = read(&format!("/proc/{pid}/stat"))?;
        let ticks =
            cpu_ticks(&text).ok_or_else(|| anyhow!("/proc/{pid}/stat is not understood: {text:?}"))?;
        Ok(ticks as f64 / self.ticks_per_second)
    }
}

/// Fields 14 and 15, counted behind the program's name, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory of the process, in bytes.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let text = read(&format!("/proc/{pid}/status"))?;
    match vm_rss_bytes(&text) {
        Some(bytes) => Ok(bytes),
        None => bail!("/proc/{pid}/status has no VmRSS: has the process ended?"),
    }
}

fn vm_rss_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_survive_a_strange_program_name() {
        let stat = "42 (a) 1 b) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 12345 1000 200";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("42 (short) S 1"), None);
    }

    #[test]
    fn resident_memory_is_in_kilobytes() {
        assert_eq!(vm_rss_bytes("VmSize:\t 100 kB\nVmRSS:\t    2048 kB\n"), Some(2_097_152));
        assert_eq!(vm_rss_bytes("VmSize:\t 100 kB\n"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        assert!(Meter::new().unwrap().cpu_seconds(pid).unwrap() >= 0.0);
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }
}
