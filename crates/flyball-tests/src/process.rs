//! A child process with its log, which does not outlive the test.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::signal;
use crate::wait::poll;

/// Lines of the log that say why something went wrong.
const LAST: usize = 30;

/// See [the module](self).
#[derive(Debug)]
pub struct Process {
    command: Command,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it writes goes to the end of `log`.
    pub fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self { command, child, log })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it wrote.
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }

    /// Starts the same command again, after its end.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = self.command.spawn().with_context(|| format!("starting {:?}", self.command))?;
        Ok(())
    }

    /// At once, and nothing of it is left afterwards.
    pub fn kill(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self, most: Duration) -> anyhow::Result<ExitStatus> {
        signal::send(self.id(), Signal::TERM)?;
        let status = poll(most, || self.child.try_wait().ok().flatten());
        ensure!(status.is_some(), "still there {most:?} after SIGTERM:\n{}", self.log());
        status.context("an exit status")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
