//! A whole daemon inside the test's own process, on ports the system chooses, configured as an operator would.

use std::net::SocketAddr;

use anyhow::Context as _;
use flyball_server::config::{self, Strings};
use flyball_server::daemon::Daemon;
use tokio::runtime::{self, Runtime};

use crate::http::Connection;

/// A running daemon. Dropping it stops it.
#[derive(Debug)]
pub struct InProcess {
    runtime: Runtime,
    daemon: Option<Daemon>,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl InProcess {
    /// Starts a daemon with these environment variables.
    pub fn with_env(env: &[(&str, &str)]) -> anyhow::Result<Self> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::start(Strings { env, ..Strings::default() })
    }

    /// A daemon that answers like the original, with these environment variables.
    pub fn like_gubernator(env: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut all = vec![("FLYBALL_SEMANTICS", "gubernator")];
        all.extend_from_slice(env);
        Self::with_env(&all)
    }

    /// Starts a daemon from everything an operator can say. Addresses that are not given are on free ports.
    pub fn start(mut strings: Strings) -> anyhow::Result<Self> {
        for name in ["GUBER_GRPC_ADDRESS", "GUBER_HTTP_ADDRESS"] {
            if !strings.env.iter().any(|(have, _)| have == name) {
                strings.env.push((name.to_owned(), "127.0.0.1:0".to_owned()));
            }
        }
        let loaded = config::from_strings(&strings).context("the configuration")?;
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let daemon = runtime.block_on(Daemon::start(loaded.config))?;
        let (grpc, http) = (daemon.grpc_address(), daemon.http_address());
        Ok(Self { runtime, daemon: Some(daemon), grpc, http })
    }

    /// The daemon inside.
    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("there until it is dropped")
    }

    /// Where its tasks run.
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

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
}

impl Drop for InProcess {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            // How it stops is tested where stopping is the subject.
            let _ = self.runtime.block_on(daemon.stop());
        }
    }
}
