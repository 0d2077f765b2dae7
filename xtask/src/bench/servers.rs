//! The servers that are compared, each on its own loopback address, started with default settings and nothing
//! from the caller's environment.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::http;
use super::load::one_check;
use crate::process::tail;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    Flyball,
    Floor,
    Gubernator,
}

impl Who {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flyball => "flyball",
            Self::Floor => "floor",
            Self::Gubernator => "Gubernator",
        }
    }

    /// The floor speaks gRPC alone.
    pub const fn has_http(self) -> bool {
        !matches!(self, Self::Floor)
    }

    fn host(self) -> IpAddr {
        // Gubernator's gossip tells nodes apart by address, so nobody shares one.
        let last = match self {
            Self::Flyball => 2,
            Self::Floor => 3,
            Self::Gubernator => 4,
        };
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
    }
}

/// A server's binary and how to start it.
#[derive(Clone, Debug)]
pub struct Program {
    pub who: Who,
    pub path: PathBuf,
    /// Entries that Gubernator may keep; its default of 50,000 would throw most keys away.
    pub cache_size: Option<u64>,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    pub who: Who,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    child: Child,
    log: PathBuf,
}

/// No server here takes longer to answer.
const START_TIMEOUT: Duration = Duration::from_secs(20);

impl Program {
    /// Starts it, with its log in `folder`, and waits until it answers. Also says how long that took.
    pub fn start(&self, folder: &Path) -> Result<(Server, Duration)> {
        let host = self.who.host();
        let [grpc, http, gossip] = free_ports(host)?;
        let log = folder.join(format!("{}.log", self.who.name()));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&self.path);
        command.env_clear().stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        match self.who {
            Who::Flyball => {
                command.arg("serve");
                command
                    .env("GUBER_GRPC_ADDRESS", grpc.to_string())
                    .env("GUBER_HTTP_ADDRESS", http.to_string());
            }
            Who::Floor => {
                command.arg(grpc.to_string());
            }
            Who::Gubernator => gubernator(&mut command, [grpc, http, gossip], self.cache_size),
        }
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", self.path.display()))?;
        let mut server = Server { who: self.who, grpc, http, child, log };
        server.wait_until_it_answers(began)?;
        Ok((server, began.elapsed()))
    }
}

/// A cluster of one: its own seed, and no traces, which it would send to nobody.
fn gubernator(command: &mut Command, [grpc, http, gossip]: [SocketAddr; 3], cache_size: Option<u64>) {
    let addresses = [
        ("GUBER_GRPC_ADDRESS", grpc),
        ("GUBER_HTTP_ADDRESS", http),
        ("GUBER_ADVERTISE_ADDRESS", grpc),
        ("GUBER_MEMBERLIST_ADDRESS", gossip),
        ("GUBER_MEMBERLIST_BIND_ADDRESS", gossip),
        ("GUBER_MEMBERLIST_KNOWN_NODES", gossip),
    ];
    command.envs(addresses.map(|(name, address)| (name, address.to_string())));
    command.env("GUBER_PEER_DISCOVERY_TYPE", "member-list");
    command.env("OTEL_TRACES_EXPORTER", "none").env("GUBER_LOG_LEVEL", "error");
    if let Some(entries) = cache_size {
        command.env("GUBER_CACHE_SIZE", entries.to_string());
    }
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_it_answers(&mut self, began: Instant) -> Result<()> {
        let check = one_check().to_string();
        while began.elapsed() < START_TIMEOUT {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended while it started: {status}\n{}", self.who.name(), self.log_tail());
            }
            let answered = if self.who.has_http() {
                // An answer about the check itself: a Gubernator without peers answers with errors at first.
                http::call(self.http, "/v1/GetRateLimits", Some(&check))
                    .is_ok_and(|b| b.contains("UNDER_LIMIT"))
            } else {
                std::net::TcpStream::connect(self.grpc).is_ok()
            };
            if answered {
                return Ok(());
            }
            pause(Duration::from_millis(1));
        }
        bail!("{} does not answer after {START_TIMEOUT:?}\n{}", self.who.name(), self.log_tail());
    }

    fn log_tail(&self) -> String {
        tail(&std::fs::read_to_string(&self.log).unwrap_or_default(), 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that nobody uses at the moment. Held together, so that they differ.
fn free_ports<const N: usize>(host: IpAddr) -> Result<[SocketAddr; N]> {
    let mut listeners = Vec::new();
    let mut addresses = [SocketAddr::new(host, 0); N];
    for address in &mut addresses {
        let listener = TcpListener::bind((host, 0)).with_context(|| format!("cannot listen on {host}"))?;
        *address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(addresses)
}

/// Waits for another process.
#[expect(clippy::disallowed_methods, reason = "the processes measured here live in real time")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ() {
        let [one, two] = free_ports(Who::Flyball.host()).unwrap();
        assert_ne!(one, two);
        assert_eq!(one.ip().to_string(), "127.0.0.2");
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_with_its_words() {
        let folder = std::env::temp_dir().join(format!("flyball-xtask-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = Program { who: Who::Floor, path: PathBuf::from("/bin/false"), cache_size: None };
        let error = program.start(&folder).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(error.to_string().contains("floor ended while it started"), "{error}");
    }
}
