//! A server as a child process: free ports, ready by polling, stopped by SIGTERM, its log kept. Ours, or the
//! original beside it; both are told everything by environment variables that they share.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::http::{Connection, Request};
use crate::signal;
use crate::tools::Tool;
use crate::wait::poll;

/// A server that is not ready by then hangs.
const READY: Duration = Duration::from_secs(20);
/// A server that has not ended by then ignores SIGTERM: half as long again as it may wait for its clients.
const STOP: Duration = Duration::from_secs(15);
/// Another process may take a port between our looking for a free one and the server's binding it.
const STARTS: usize = 5;

/// How to start a server.
#[derive(Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(String, String)>,
    gossip: bool,
}

impl Launch {
    /// `flyball serve` with exact semantics.
    pub fn flyball() -> Self {
        let mut launch = Self::new(Tool::Flyball.path());
        launch.arguments.push("serve".into());
        launch
    }

    /// `flyball serve --semantics gubernator`.
    pub fn flyball_like_gubernator() -> Self {
        Self::flyball().argument("--semantics").argument("gubernator")
    }

    /// The original, alone in its peer list.
    pub fn gubernator() -> Self {
        let mut launch = Self::new(Tool::Gubernator.path());
        launch.gossip = true;
        launch.variable("OTEL_TRACES_EXPORTER", "none")
    }

    fn new(program: PathBuf) -> Self {
        Self { program, arguments: Vec::new(), variables: Vec::new(), gossip: false }
    }

    /// With one more argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With an environment variable. Nothing else of the environment reaches the server.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts it and waits until it is healthy.
    pub fn start(self) -> anyhow::Result<Server> {
        let folder = tempfile::tempdir()?;
        let mut last = String::new();
        for _ in 0..STARTS {
            let [grpc, http, gossip] = free_addresses()?;
            let log = folder.path().join("log");
            let file = File::create(&log)?;
            let mut command = clean(&self.program);
            command
                .args(&self.arguments)
                .env("GUBER_GRPC_ADDRESS", grpc.to_string())
                .env("GUBER_HTTP_ADDRESS", http.to_string())
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(file.try_clone()?)
                .stderr(file);
            if self.gossip {
                for name in ["ADDRESS", "BIND_ADDRESS", "KNOWN_NODES"] {
                    command.env(format!("GUBER_MEMBERLIST_{name}"), gossip.to_string());
                }
            }
            command.envs(self.variables.iter().map(|(name, value)| (name, value)));
            let child = command.spawn().with_context(|| format!("starting {}", self.program.display()))?;
            let mut server = Server { child, grpc, http, log, _folder: None };
            match server.wait_until_ready() {
                Ok(()) => {
                    server._folder = Some(folder);
                    return Ok(server);
                }
                Err(error) => last = format!("{error:#}\n{}", server.log()),
            }
            if !last.contains("in use") {
                break;
            }
        }
        bail!("{} did not become ready: {last}", self.program.display())
    }
}

/// A command with nothing of our environment but the search path and a home.
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in ["PATH", "HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Addresses on loopback whose ports are free now.
pub fn free_addresses<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    // All are held until the last is found, so that none comes twice.
    let mut held = Vec::new();
    for _ in 0..N {
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    }
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&held) {
        *address = listener.local_addr()?;
    }
    Ok(addresses)
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    grpc: SocketAddr,
    http: SocketAddr,
    log: PathBuf,
    _folder: Option<TempDir>,
}

impl Server {
    /// Its gRPC listener.
    pub const fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Its HTTP listener.
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// A connection to the HTTP listener.
    pub const fn connect(&self) -> Connection {
        Connection::new(self.http)
    }

    /// Everything it wrote so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let mut connection = self.connect();
        let health = Request::get("/v1/HealthCheck");
        let ready = poll(READY, || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(Err(status));
            }
            let healthy = connection.send(&health).is_ok_and(|response| {
                response.status == 200 && response.json().is_ok_and(|json| json["peer_count"] == 1)
            });
            healthy.then_some(Ok(()))
        });
        match ready {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => bail!("it ended with {status}"),
            None => bail!("it was not healthy within {READY:?}"),
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> anyhow::Result<(ExitStatus, String)> {
        signal::send(self.child.id(), Signal::TERM)?;
        let status = poll(STOP, || self.child.try_wait().ok().flatten());
        let status = status.with_context(|| format!("still there after SIGTERM\n{}", self.log()))?;
        Ok((status, self.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
