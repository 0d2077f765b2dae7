//! Signals to child processes.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::poll;

/// The kernel stops threads within microseconds; on a busy machine, those that wait for a processor take longer.
const STOPPED: Duration = Duration::from_secs(10);

/// Sends a signal; what it does to the process is under way when this returns.
pub fn send(process: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).context("a process id")?;
    kill_process(pid, signal).with_context(|| format!("signalling process {process}"))
}

/// Stops every thread of a process; its sockets stay open. All of its threads are still when this returns: the signal
/// alone would leave them the time to answer one more call.
pub fn freeze(process: u32) -> anyhow::Result<()> {
    send(process, Signal::STOP)?;
    let stopped = poll(STOPPED, || threads_are_stopped(process).then_some(()));
    ensure!(stopped.is_some(), "process {process} goes on after SIGSTOP");
    Ok(())
}

/// Lets a frozen process go on.
pub fn thaw(process: u32) -> anyhow::Result<()> {
    send(process, Signal::CONT)
}

fn threads_are_stopped(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}
