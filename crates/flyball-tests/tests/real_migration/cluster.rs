//! Three places, each taken by an original or by one of ours. Both are started with the same environment, as in a
//! migration only the program changes, and find each other by a real etcd.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use flyball_tests::binary::clean;
use flyball_tests::etcd::Etcd;
use flyball_tests::http::{Connection, Request};
use flyball_tests::process::Process;
use flyball_tests::tools::Tool;
use flyball_tests::wait::poll;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster that has not formed by then does not form.
const FORMED: Duration = Duration::from_secs(30);
/// A node that has not ended by then ignores SIGTERM.
const STOPPED: Duration = Duration::from_secs(30);
/// Items of one call.
const ITEMS: usize = 1000;

/// What runs in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// v2.21.0.
    Original,
    /// Ours, with its semantics.
    Flyball,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Its name on the ring.
    pub(crate) address: String,
    http: SocketAddr,
    process: Process,
    connection: RefCell<Connection>,
}

impl Node {
    fn start(place: usize, kind: Kind, ip: Ipv4Addr, etcd: &Etcd, folder: &TempDir) -> Self {
        let (grpc, http) = (SocketAddr::from((ip, 1051)), SocketAddr::from((ip, 1050)));
        let mut command = match kind {
            Kind::Original => clean(&Tool::Gubernator.path()),
            Kind::Flyball => {
                let mut command = clean(&Tool::Flyball.path());
                command.args(["serve", "--semantics", "gubernator"]);
                // What the guide advises: ours answer for an owner that is being replaced.
                command.args(["--owner-unreachable", "local-share"]);
                command
            }
        };
        command
            .env("GUBER_GRPC_ADDRESS", grpc.to_string())
            .env("GUBER_HTTP_ADDRESS", http.to_string())
            .env("GUBER_PEER_DISCOVERY_TYPE", "etcd")
            .env("GUBER_ETCD_ENDPOINTS", etcd.endpoints())
            .env("OTEL_TRACES_EXPORTER", "none")
            .current_dir(folder.path());
        let process = Process::start(command, folder.path().join(format!("{place}.log"))).unwrap();
        let connection = RefCell::new(Connection::new(http));
        Self { kind, address: grpc.to_string(), http, process, connection }
    }

    /// One call. There are as many answers as items.
    #[track_caller]
    pub(crate) fn ask(&self, items: &[Value]) -> Vec<Value> {
        let body = json!({ "requests": items }).to_string();
        let response = self.connection.borrow_mut().send(&Request::post("/v1/GetRateLimits", body));
        let response = response.unwrap_or_else(|error| panic!("{self}: {error}"));
        assert_eq!(response.status, 200, "{self}: {}", response.text());
        let answers = response.json().unwrap()["responses"].as_array().unwrap().clone();
        assert_eq!(answers.len(), items.len(), "{self}");
        answers
    }

    /// Who owns what these look at, by the word of this node.
    fn owners(&self, looks: &[Value]) -> Option<Vec<String>> {
        let mut owners = Vec::new();
        for looks in looks.chunks(ITEMS) {
            for answer in self.ask(looks) {
                if answer["error"] != "" {
                    return None;
                }
                let owner = answer["metadata"]["owner"].as_str();
                owners.push(owner.unwrap_or(&self.address).to_owned());
            }
        }
        Some(owners)
    }

    fn knows(&self, nodes: usize) -> bool {
        let answer = self.connection.borrow_mut().send(&Request::get("/v1/HealthCheck"));
        answer.is_ok_and(|answer| answer.json().is_ok_and(|json| json["peer_count"] == nodes))
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.kind, self.address)
    }
}

/// Three nodes and their etcd.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    ips: Vec<Ipv4Addr>,
    etcd: Etcd,
    folder: TempDir,
}

impl Cluster {
    /// Three originals on `127.31.<network>.1` to `.3`.
    pub(crate) fn start(network: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ips: Vec<_> = (1..=3).map(|last| Ipv4Addr::new(127, 31, network, last)).collect();
        let etcd = Etcd::prepare(network, 1).unwrap().start().unwrap();
        let nodes = ips.iter().enumerate();
        let nodes =
            nodes.map(|(place, ip)| Node::start(place, Kind::Original, *ip, &etcd, &folder)).collect();
        let cluster = Self { nodes, ips, etcd, folder };
        cluster.wait_until_formed();
        cluster
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// Ends the node in a place as an operator does, and starts a `kind` there. Returns when all know all.
    pub(crate) fn replace(&mut self, place: usize, kind: Kind) {
        let old = &mut self.nodes[place];
        let ended = old.process.stop(STOPPED).unwrap();
        assert!(ended.success(), "{old} ended with {ended}:\n{}", old.process.log());
        self.nodes[place] = Node::start(place, kind, self.ips[place], &self.etcd, &self.folder);
        self.wait_until_formed();
    }

    fn wait_until_formed(&self) {
        for node in &self.nodes {
            let formed = poll(FORMED, || node.knows(self.nodes.len()).then_some(()));
            assert!(formed.is_some(), "{node} at {} knows others:\n{}", node.http, node.process.log());
        }
    }

    /// The owner of each key, on which all nodes agree; `look` makes a question of a key.
    #[track_caller]
    pub(crate) fn owners(
        &self,
        keys: &[String],
        look: impl Fn(&String) -> Value,
    ) -> BTreeMap<String, String> {
        let looks: Vec<_> = keys.iter().map(look).collect();
        let agreed = poll(FORMED, || {
            let all: Vec<_> = self.nodes.iter().map(|node| node.owners(&looks)).collect::<Option<_>>()?;
            all.windows(2).all(|two| two[0] == two[1]).then(|| all[0].clone())
        });
        let owners = agreed.unwrap_or_else(|| panic!("the nodes do not agree on who owns what"));
        keys.iter().cloned().zip(owners).collect()
    }
}
