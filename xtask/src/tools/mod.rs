//! The real programs that flyball is tested against and measured with. Each is installed by its own package
//! manager when it is missing and kept by version ([`cache`]); [`recipes`] says how.
//!
//! Installs run one after the other on a thread of their own, so that the slow ones overlap with the suites that
//! need no tool. Whoever needs a tool waits for it. A tool that cannot be installed is an error that shows the
//! command that was tried; nothing is skipped silently.

pub mod cache;
mod recipes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use crate::process::Background;

/// One program, or one set of files, from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Tool {
    /// Checks licences and sources of all dependencies.
    CargoDeny,
    /// The compiler that fuzz targets need.
    Nightly,
    /// Builds and runs fuzz targets.
    CargoFuzz,
    /// Loads HTTP/2 and HTTP/1.1 servers.
    H2load,
    /// A plain HTTP client.
    Curl,
    /// A TLS client that speaks whatever it is told to.
    Openssl,
    /// The browser that the admin page is shown in.
    Chromium,
    /// An interpreter with grpcio, and client code generated from our own `.proto` files.
    Python,
    /// The original, v2.21.0, with its load tool.
    Gubernator,
    /// An old original, v2.13.0.
    Gubernator213,
    /// The key-value server by which nodes find each other, and the store of the Kubernetes API server.
    Etcd,
    /// An old one, as Debian has it.
    EtcdOld,
    /// The Kubernetes API server and its client. By far the longest to build.
    Kubernetes,
    /// A gRPC client that knows nothing but what reflection tells it.
    Grpcurl,
    /// A small program on the original's own Go client library.
    GoClient,
    /// A trace collector that answers questions.
    Jaeger,
    /// Reads charts.
    Helm,
    /// Scrapes nodes, and checks rules.
    Prometheus,
    /// Reads units.
    Systemd,
    /// A small program on the parsers of container tools that need a daemon.
    DeployCheck,
    /// What objects of common operators of Kubernetes look like.
    Crds,
}

/// What an installed tool offers: paths by the name that tests know them under, `FLYBALL_TEST_<NAME>`.
pub type Paths = BTreeMap<&'static str, PathBuf>;

/// Tools that are being installed.
#[derive(Debug)]
pub struct Toolbox {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    cache: PathBuf,
    wanted: Vec<Tool>,
    /// Errors as text: an error is shown to everyone who waits.
    done: Mutex<BTreeMap<Tool, Result<Paths, String>>>,
    changed: Condvar,
    background: Background,
}

impl Toolbox {
    /// Starts to install `tools`, in this order.
    pub fn start(tools: Vec<Tool>) -> Result<Self> {
        let shared = Arc::new(Shared {
            cache: cache::folder()?,
            wanted: tools,
            done: Mutex::default(),
            changed: Condvar::new(),
            background: Background::default(),
        });
        let worker = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.wanted.iter().for_each(|tool| shared.install(*tool))
        });
        Ok(Self { shared, worker: Some(worker) })
    }

    /// Waits for a tool that [`Self::start`] was given.
    pub fn paths(&self, tool: Tool) -> Result<Paths> {
        if !self.shared.wanted.contains(&tool) {
            bail!("{tool:?} was never asked for: a suite uses a tool that it does not list");
        }
        let mut done = self.shared.done();
        let began = Instant::now();
        let mut told = false;
        loop {
            if let Some(result) = done.get(&tool) {
                if told {
                    println!("{tool:?} is there after {:.0} s", began.elapsed().as_secs_f64());
                }
                return result.clone().map_err(|text| anyhow!("{tool:?} could not be installed: {text}"));
            }
            if self.worker.as_ref().is_none_or(JoinHandle::is_finished) {
                bail!(
                    "the installer ended before it came to {tool:?}; logs: {}",
                    self.shared.logs().display()
                );
            }
            if !told {
                println!("waiting for {tool:?} to be installed (logs: {})", self.shared.logs().display());
                told = true;
            }
            // The time limit only serves to notice an installer that is gone.
            let woken = self.shared.changed.wait_timeout(done, Duration::from_secs(1));
            done = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for one path of a tool.
    pub fn path(&self, tool: Tool, name: &str) -> Result<PathBuf> {
        let paths = self.paths(tool)?;
        paths.get(name).cloned().ok_or_else(|| anyhow!("{tool:?} offers no {name}, only {:?}", paths.keys()))
    }
}

impl Drop for Toolbox {
    /// Ends the install that is running: nobody waits for it any more.
    fn drop(&mut self) {
        self.shared.background.stop();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn install(&self, tool: Tool) {
        let log = self.logs().join(format!("{tool:?}.log").to_lowercase());
        let result = start_log(&log).and_then(|()| {
            recipes::Recipe { cache: &self.cache, background: &self.background, log: &log }.install(tool)
        });
        self.done().insert(tool, result.map_err(|error| format!("{error:#}")));
        self.changed.notify_all();
    }

    fn logs(&self) -> PathBuf {
        self.cache.join("logs")
    }

    fn done(&self) -> MutexGuard<'_, BTreeMap<Tool, Result<Paths, String>>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_log(log: &Path) -> Result<()> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(log, "")?)
}

/// Installs the tools and prints the variables by which tests find them.
pub fn print(tools: &[Tool]) -> Result<()> {
    let toolbox = Toolbox::start(tools.to_vec())?;
    let mut failed = 0;
    for tool in tools {
        match toolbox.paths(*tool) {
            Ok(paths) => {
                for (name, path) in paths {
                    println!("FLYBALL_TEST_{name}={}", path.display());
                }
            }
            Err(error) => {
                eprintln!("{error:#}");
                failed += 1;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} tools could not be installed", tools.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_nobody_started_is_an_error_and_not_a_hang() {
        let toolbox = Toolbox::start(Vec::new()).unwrap();
        let error = toolbox.paths(Tool::Jaeger).unwrap_err();
        assert!(error.to_string().contains("never asked for"), "{error}");
    }
}
