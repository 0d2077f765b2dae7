//! Processes that speak TLS, on addresses of their own.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsReq, RateLimitReq, RateLimitResp};
use flyball_server::tls::Alpn;
use flyball_tests::binary::clean;
use flyball_tests::certificates::{Certificates, Flaw};
use flyball_tests::etcd::Etcd;
use flyball_tests::process::Process;
use flyball_tests::secured::Secured;
use flyball_tests::tools::Tool;
use flyball_tests::wait::poll;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A cluster that has not formed by then does not form.
const FORMED: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Original,
    Ours,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) process: Process,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.grpc)
    }
}

/// Some nodes that form one ring, or one alone.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) client: Secured,
    pub(crate) runtime: Runtime,
    _etcd: Option<Etcd>,
    _folder: TempDir,
}

/// The last byte of the addresses of a cluster's nodes.
const NODES: [u8; 4] = [1, 2, 3, 4];

fn ip(network: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 32, network, last)
}

/// Certificates of a cluster: `node` for its nodes by address, `named` by name only, `good` for a client.
pub(crate) fn certificates(network: u8) -> Certificates {
    let certificates = Certificates::new().unwrap();
    let mut names: Vec<_> = NODES.iter().map(|last| ip(network, *last).to_string()).collect();
    names.push("localhost".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    certificates.issue("node", &names, Flaw::None).unwrap();
    certificates.issue("named", &["gubernator"], Flaw::None).unwrap();
    certificates.issue("good", &["client"], Flaw::None).unwrap();
    certificates
}

/// What a node is told about its certificate.
pub(crate) fn told(certificates: &Certificates, file: &str) -> Vec<(String, String)> {
    [("CERT", format!("{file}.pem")), ("KEY", format!("{file}.key")), ("CA", "ca.pem".to_owned())]
        .map(|(name, file)| (format!("GUBER_TLS_{name}"), certificates.text(&file)))
        .to_vec()
}

impl Cluster {
    /// Starts nodes on `127.32.<network>.1` and so on, with these variables, and waits until `client` hears from all that
    /// they know all.
    pub(crate) fn start(
        network: u8,
        kinds: &[Kind],
        variables: &[(String, String)],
        client: Secured,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let grpc = |place: usize| SocketAddr::from((ip(network, NODES[place]), 1051));
        let etcd = kinds.contains(&Kind::Original).then(|| {
            let etcd = Etcd::prepare(network, 1).unwrap().start().unwrap();
            for (place, _) in kinds.iter().enumerate().filter(|(_, kind)| **kind == Kind::Ours) {
                etcd.register(&grpc(place).to_string()).unwrap();
            }
            etcd
        });
        let all: Vec<_> = (0..kinds.len()).map(|place| grpc(place).to_string()).collect();
        let start = |(place, kind): (usize, &Kind)| {
            let http = SocketAddr::new(grpc(place).ip(), 1050);
            let mut command = match kind {
                Kind::Original => {
                    let mut command = clean(&Tool::Gubernator.path());
                    command.env("OTEL_TRACES_EXPORTER", "none").env("GUBER_PEER_DISCOVERY_TYPE", "etcd");
                    command
                        .env("GUBER_ETCD_ENDPOINTS", etcd.as_ref().map(Etcd::endpoints).unwrap_or_default());
                    command
                }
                Kind::Ours => {
                    let mut command = clean(&Tool::Flyball.path());
                    command.args(["serve", "--semantics", "gubernator"]);
                    if kinds.len() > 1 {
                        command.args(["--peers", &all.join(",")]);
                    }
                    command
                }
            };
            command.env("GUBER_GRPC_ADDRESS", &all[place]).env("GUBER_HTTP_ADDRESS", http.to_string());
            command.envs(variables.iter().map(|(name, value)| (name, value))).current_dir(folder.path());
            let process = Process::start(command, folder.path().join(format!("{place}.log"))).unwrap();
            Node { kind: *kind, grpc: grpc(place), http, process }
        };
        let nodes: Vec<_> = kinds.iter().enumerate().map(start).collect();
        let runtime = Runtime::new().unwrap();
        let cluster = Self { nodes, client, runtime, _etcd: etcd, _folder: folder };
        for node in &cluster.nodes {
            let formed = poll(FORMED, || (cluster.peers_of(node) >= Some(kinds.len() as u64)).then_some(()));
            assert!(formed.is_some(), "{node} does not know {} nodes:\n{}", kinds.len(), node.process.log());
        }
        cluster
    }

    fn peers_of(&self, node: &Node) -> Option<u64> {
        let asked = self.client.get(node.http, Alpn::Http1, "/v1/HealthCheck");
        let (status, body) = self.runtime.block_on(asked).ok()?;
        let health: Value = serde_json::from_str(&body).ok()?;
        (status == 200).then(|| health["peer_count"].as_u64())?
    }

    /// One call to one node.
    pub(crate) fn ask(&self, node: &Node, items: Vec<RateLimitReq>) -> Vec<RateLimitResp> {
        self.runtime.block_on(async {
            let mut client = V1Client::new(self.client.channel(node.grpc).await.unwrap());
            let answer = client.get_rate_limits(GetRateLimitsReq { requests: items }).await;
            answer.unwrap_or_else(|status| panic!("{node}: {status:?}")).into_inner().responses
        })
    }
}

/// A command of the binary, told where its node is.
pub(crate) fn command(node: &Node, variables: &[(String, String)], arguments: &[&str]) -> Command {
    let mut command = clean(&Tool::Flyball.path());
    command.env("GUBER_GRPC_ADDRESS", node.grpc.to_string()).env("GUBER_HTTP_ADDRESS", node.http.to_string());
    command.envs(variables.iter().map(|(name, value)| (name, value))).args(arguments);
    command
}
