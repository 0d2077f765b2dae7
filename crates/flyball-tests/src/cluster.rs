//! Several nodes as child processes that know each other: each on a loopback address of its own (127.x.y.1,
//! 127.x.y.2, …), gRPC on port 1051 and HTTP on 1050, so that a node can come back where it was and tests run side by
//! side by taking different networks.
//!
//! Nodes can be killed, frozen, thawed, stopped and started again. Ready means: every node is healthy and knows all of
//! them. What they did is read from outside: their answers, `/metrics`, and `/proc`.

mod client;
mod expect;
mod process;

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

pub use client::{Answer, Call, Item, Load, Record, ask, granted};

use crate::binary::clean;
use crate::http::{Connection, Request};
use crate::signal;
use crate::tools::Tool;
use crate::wait::poll;

/// A cluster that is not ready by then hangs. Generous: several start at once.
const READY: Duration = Duration::from_secs(30);
/// A node that has not ended by then ignores SIGTERM.
const STOP: Duration = Duration::from_secs(15);

/// A cluster to be.
#[derive(Debug)]
pub struct Plan {
    network: [u8; 3],
    nodes: u8,
    watched: bool,
    ports: [u16; 2],
    arguments: Vec<String>,
    variables: Option<Vec<(String, String)>>,
    originals: usize,
}

impl Plan {
    /// So many nodes on 127.20.`network`.1 and up, told of each other by a fixed list.
    pub const fn new(network: u8, nodes: u8) -> Self {
        Self {
            network: [127, 20, network],
            nodes,
            watched: false,
            ports: [1051, 1050],
            arguments: Vec::new(),
            variables: None,
            originals: 0,
        }
    }

    /// On this network instead.
    #[must_use]
    pub const fn on(mut self, network: [u8; 3]) -> Self {
        self.network = network;
        self
    }

    /// With these ports for gRPC and HTTP.
    #[must_use]
    pub const fn ports(mut self, grpc: u16, http: u16) -> Self {
        self.ports = [grpc, http];
        self
    }

    /// Told of each other by a file that all of them watch.
    #[must_use]
    pub const fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// Forwards may take as long as they like: for tests that are not about deadlines, where a machine that stands
    /// still for half a second must not look like a dead peer.
    #[must_use]
    pub fn patient(self) -> Self {
        self.arguments(&["--batch-timeout=30s"])
    }

    /// With more arguments for each node.
    #[must_use]
    pub fn arguments(mut self, more: &[&str]) -> Self {
        self.arguments.extend(more.iter().map(|&it| it.to_owned()));
        self
    }

    /// Told of each other by nobody: these variables say where they find each other. `{ip}` in a value is the node's own
    /// address, and `GUBER_GRPC_ADDRESS` and `GUBER_HTTP_ADDRESS` are given too.
    #[must_use]
    pub fn found_by(mut self, variables: &[(&str, &str)]) -> Self {
        self.variables
            .get_or_insert_default()
            .extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self
    }

    /// So many of the nodes, the last ones, are originals. Only with [`found_by`](Self::found_by).
    #[must_use]
    pub const fn originals(mut self, count: usize) -> Self {
        self.originals = count;
        self
    }

    /// Makes the places of all nodes and starts none: for nodes that are to start one by one.
    pub fn prepare(self) -> anyhow::Result<Cluster> {
        self.place()
    }

    /// Starts all nodes and waits until each is healthy and knows all.
    pub fn start(self) -> anyhow::Result<Cluster> {
        let mut cluster = self.place()?;
        let all: Vec<usize> = (0..cluster.nodes.len()).collect();
        cluster.write_peers(&all)?;
        for node in &mut cluster.nodes {
            node.spawn()?;
        }
        for node in &all {
            cluster.wait_until_healthy(*node, all.len(), READY)?;
        }
        Ok(cluster)
    }

    fn place(self) -> anyhow::Result<Cluster> {
        let folder = tempfile::tempdir()?;
        let [grpc, http] = self.ports;
        let places: Vec<(SocketAddr, SocketAddr)> = (1..=self.nodes)
            .map(|last| {
                let [a, b, c] = self.network;
                let ip = Ipv4Addr::new(a, b, c, last);
                (SocketAddr::from((ip, grpc)), SocketAddr::from((ip, http)))
            })
            .collect();
        let list: Vec<String> = places.iter().map(|(grpc, _)| grpc.to_string()).collect();
        let file = folder.path().join("peers");
        let mut nodes = Vec::new();
        let first_original = places.len().saturating_sub(self.originals);
        for (place, (grpc, http)) in places.into_iter().enumerate() {
            let mut variables = vec![
                ("GUBER_GRPC_ADDRESS".to_owned(), grpc.to_string()),
                ("GUBER_HTTP_ADDRESS".to_owned(), http.to_string()),
            ];
            let (mut tool, mut arguments) = (Tool::Flyball, vec!["serve".to_owned()]);
            match &self.variables {
                None if self.watched => arguments.push(format!("--peers-file={}", file.display())),
                None => arguments.push(format!("--peers={}", list.join(","))),
                Some(more) => {
                    let ip = grpc.ip().to_string();
                    variables
                        .extend(more.iter().map(|(name, value)| (name.clone(), value.replace("{ip}", &ip))));
                }
            }
            arguments.extend(self.arguments.iter().cloned());
            if place >= first_original {
                (tool, arguments) = (Tool::Gubernator, Vec::new());
                variables.push(("OTEL_TRACES_EXPORTER".to_owned(), "none".to_owned()));
            }
            let log = folder.path().join(format!("log-{}", grpc.ip()));
            nodes.push(Member { grpc, http, tool, arguments, variables, log, child: None });
        }
        Ok(Cluster { nodes, file, folder })
    }
}

/// So many keys that spread over the ring. Numbers that only count up do not: keys that differ in their last letters
/// are neighbours on the ring of FNV-1, and a thousand of them may have one owner.
pub fn sample_keys(count: usize) -> Vec<String> {
    // Weyl's sequence by the golden ratio: no two alike, all digits busy.
    (1..=count as u64).map(|n| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect()
}

/// Running nodes, numbered from 0. Dropping it kills them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Member>,
    file: PathBuf,
    folder: TempDir,
}

impl Cluster {
    /// One of the nodes.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node(&self, index: usize) -> &Member {
        &self.nodes[index]
    }

    /// All of them.
    pub fn nodes(&self) -> &[Member] {
        &self.nodes
    }

    /// Writes these nodes into the watched file, which is replaced, so that no half of it is ever seen.
    pub fn write_peers(&self, peers: &[usize]) -> anyhow::Result<()> {
        let lines: String = peers.iter().map(|&peer| format!("{}\n", self.nodes[peer].grpc)).collect();
        let new = self.folder.path().join("peers.new");
        fs::write(&new, lines)?;
        Ok(fs::rename(new, &self.file)?)
    }

    /// Waits until a node is healthy and knows `peers` nodes, itself included.
    pub fn wait_until_healthy(&mut self, node: usize, peers: usize, most: Duration) -> anyhow::Result<()> {
        let member = &mut self.nodes[node];
        let mut said = String::new();
        let ready = poll(most, || {
            if let Some(Ok(Some(status))) = member.child.as_mut().map(Child::try_wait) {
                return Some(Err(status));
            }
            match member.health() {
                Ok(health) if health["peer_count"] == peers => return Some(Ok(())),
                Ok(health) => said = health.to_string(),
                Err(error) => said = format!("{error:#}"),
            }
            None
        });
        match ready {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => bail!("{} ended with {status}:\n{}", member.grpc, member.log()),
            None => bail!(
                "{} was not healthy with {peers} peers within {most:?}: {said}\n{}",
                member.grpc,
                member.log()
            ),
        }
    }

    /// Who owns each of these keys, as the metadata of node 0's answers say.
    pub fn owners(&self, name: &str, keys: &[String]) -> anyhow::Result<Vec<usize>> {
        self.owners_by(0, name, keys)
    }

    /// Who owns each of these keys, as the metadata of this node's answers say. Leaves no bucket behind.
    pub fn owners_by(&self, node: usize, name: &str, keys: &[String]) -> anyhow::Result<Vec<usize>> {
        let mut connection = self.nodes[node].connect();
        let mut owners = Vec::with_capacity(keys.len());
        for keys in keys.chunks(1000) {
            let looks: Vec<Item> =
                keys.iter().map(|key| Item::new(name, key, 1).hits(0).duration(1)).collect();
            for answer in ask(&mut connection, &looks).map_err(anyhow::Error::msg)? {
                ensure!(answer.error.is_empty() && !answer.degraded, "a look failed: {answer:?}");
                // A node does not name itself.
                let owner = match &answer.owner {
                    None => Some(node),
                    Some(owner) => self.nodes.iter().position(|node| node.grpc.to_string() == *owner),
                };
                owners.push(owner.with_context(|| format!("no node is the owner of {answer:?}"))?);
            }
        }
        Ok(owners)
    }

    /// `count` keys for each node, owned by it, of the first ones of [`sample_keys`].
    pub fn keys_by_owner(&self, name: &str, count: usize) -> anyhow::Result<Vec<Vec<String>>> {
        let mut found = vec![Vec::new(); self.nodes.len()];
        for keys in sample_keys(100_000).chunks(1000) {
            for (owner, key) in self.owners(name, keys)?.into_iter().zip(keys) {
                if found[owner].len() < count {
                    found[owner].push(key.clone());
                }
            }
            if found.iter().all(|keys| keys.len() == count) {
                return Ok(found);
            }
        }
        bail!("of 100000 keys some node owns fewer than {count}")
    }

    /// Kills a node as a crash would.
    pub fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        signal::send(self.nodes[node].id()?, Signal::KILL)?;
        self.nodes[node].wait().map(drop)
    }

    /// Stops a node's every thread, its sockets stay open. It answers nothing any more when this returns.
    pub fn freeze(&self, node: usize) -> anyhow::Result<()> {
        signal::freeze(self.nodes[node].id()?)
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self, node: usize) -> anyhow::Result<()> {
        signal::thaw(self.nodes[node].id()?)
    }

    /// Asks a node to end; [`ended`](Self::ended) waits for it.
    pub fn terminate(&self, node: usize) -> anyhow::Result<()> {
        signal::send(self.nodes[node].id()?, Signal::TERM)
    }

    /// Waits for the end of a node.
    pub fn ended(&mut self, node: usize) -> anyhow::Result<ExitStatus> {
        self.nodes[node].wait()
    }

    /// Starts a node that has ended, where it was; does not wait until it is ready.
    pub fn start_again(&mut self, node: usize) -> anyhow::Result<()> {
        self.nodes[node].spawn()
    }

    /// What every node wrote, for the message of a failed test.
    pub fn logs(&self) -> String {
        self.nodes.iter().map(|node| format!("--- {}\n{}", node.grpc, node.log())).collect()
    }
}

/// One node of a [`Cluster`].
#[derive(Debug)]
pub struct Member {
    grpc: SocketAddr,
    http: SocketAddr,
    tool: Tool,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Member {
    /// Its gRPC listener, which is its name among the peers.
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

    /// Everything it wrote so far, in all its lives.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The answer to `HealthCheck`, with its status, good or not.
    pub fn said(&self) -> anyhow::Result<(u16, String)> {
        let response = self.connect().send(&Request::get("/v1/HealthCheck"))?;
        Ok((response.status, response.text()))
    }

    /// The answer to `HealthCheck`, when it is a good one.
    pub fn health(&self) -> anyhow::Result<Value> {
        let response = self.connect().send(&Request::get("/v1/HealthCheck"))?;
        ensure!(response.status == 200, "status {}: {}", response.status, response.text());
        response.json().map_err(anyhow::Error::msg)
    }

    /// The value of one line of the metrics page; 0 where it is absent. `series` is the name with its labels.
    pub fn metric(&self, series: &str) -> anyhow::Result<f64> {
        let page = self.connect().send(&Request::get("/metrics"))?.text();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(Ok(0.0), |value| value.parse().with_context(|| format!("{series} is {value}")))
    }

    /// The answers to these items.
    pub fn ask(&self, items: &[Item]) -> Result<Vec<Answer>, String> {
        ask(&mut self.connect(), items)
    }

    fn spawn(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "{} runs already", self.grpc);
        let file = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let program = self.tool.path();
        let child = clean(&program)
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.log.parent().unwrap_or(Path::new("/")))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    fn id(&self) -> anyhow::Result<u32> {
        self.child.as_ref().map(Child::id).with_context(|| format!("{} does not run", self.grpc))
    }

    fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let child = self.child.as_mut().with_context(|| format!("{} does not run", self.grpc))?;
        let status = poll(STOP, || child.try_wait().ok().flatten());
        let status = status.with_context(|| format!("{} is still there\n{}", self.grpc, self.log()))?;
        self.child = None;
        Ok(status)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
