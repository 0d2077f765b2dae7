//! One cluster: processes, and what each says about its peers.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flyball_tests::binary::clean;
use flyball_tests::http::{Connection, Request};
use flyball_tests::process::Process;
use flyball_tests::signal;
use flyball_tests::tools::Tool;
use flyball_tests::wait::poll;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster that has not formed by then does not form.
pub(crate) const FORMED: Duration = Duration::from_secs(60);

/// What a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// v2.21.0.
    Original,
    Ours,
}

use Kind::{Original, Ours};

/// Each kind in turn: seeds are one of each, and whoever leaves or dies leaves both kinds behind.
pub(crate) const SIX: [Kind; 6] = [Original, Ours, Original, Ours, Original, Ours];

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    process: Process,
}

/// A cluster to be.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) network: u8,
    /// What gossip is encrypted with.
    pub(crate) keys: Option<&'static str>,
    /// Where gossip for each node is sent, if not to where it listens.
    pub(crate) relays: Vec<SocketAddr>,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    folder: TempDir,
    plan: Plan,
}

/// Where a node of a network is.
pub(crate) fn at(network: u8, place: usize, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 40, network, u8::try_from(place + 1).unwrap()), port))
}

impl Plan {
    /// Where others send gossip to.
    fn gossip(&self, place: usize) -> SocketAddr {
        self.relays.get(place).copied().unwrap_or_else(|| at(self.network, place, 7946))
    }

    pub(crate) fn node(&self, place: usize, kind: Kind, log: PathBuf, more: &[(&str, &str)]) -> Node {
        let mut command = match kind {
            Original => clean(&Tool::Gubernator.path()),
            Ours => {
                let mut command = clean(&Tool::Flyball.path());
                command.arg("serve");
                command
            }
        };
        let [grpc, http] = [1051, 1050].map(|port| at(self.network, place, port));
        let seeds = format!("{},{}", self.gossip(0), self.gossip(1));
        let name = format!("node-{place}");
        command
            .env("OTEL_TRACES_EXPORTER", "none")
            .env("GUBER_PEER_DISCOVERY_TYPE", "member-list")
            .env("GUBER_GRPC_ADDRESS", grpc.to_string())
            .env("GUBER_HTTP_ADDRESS", http.to_string())
            .env("GUBER_MEMBERLIST_BIND_ADDRESS", at(self.network, place, 7946).to_string())
            .env("GUBER_MEMBERLIST_ADDRESS", self.gossip(place).to_string())
            .env("GUBER_MEMBERLIST_NODE_NAME", &name)
            .env("GUBER_MEMBERLIST_KNOWN_NODES", seeds);
        if let Some(keys) = self.keys {
            command.env("GUBER_MEMBERLIST_SECRET_KEYS", keys);
        }
        command.envs(more.iter().copied());
        let process = Process::start(command, log).unwrap();
        Node { kind, name, http, grpc, process }
    }

    /// Starts nodes all at once and waits until all know all.
    #[track_caller]
    pub(crate) fn start(self, kinds: &[Kind]) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let start = |(place, kind): (usize, &Kind)| {
            self.node(place, *kind, folder.path().join(format!("{place}.log")), &[])
        };
        let nodes: Vec<_> = kinds.iter().enumerate().map(start).collect();
        // An original that hears another's first announcement, which has no metadata, before its state waits until that
        // one itself hears of it.
        let most = if self.relays.is_empty() { FORMED } else { 3 * FORMED };
        let cluster = Cluster { nodes, folder, plan: self };
        cluster.wait(most, &cluster.all());
        cluster
    }
}

impl Node {
    /// How many peers it says it has; `None` while it does not say.
    pub(crate) fn peers(&self) -> Option<u64> {
        let answer = Connection::new(self.http).send(&Request::get("/v1/HealthCheck")).ok()?;
        answer.json().ok()?["peer_count"].as_u64()
    }

    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to end, and does not wait for that.
    pub(crate) fn end(&self) {
        signal::send(self.process.id(), Signal::TERM).unwrap();
    }

    /// Waits for the end that it was asked for.
    pub(crate) fn ended(&mut self) {
        // Asking twice would end it at once.
        self.process.kill();
    }

    pub(crate) fn start_again(&mut self) {
        self.process.start_again().unwrap();
    }

    /// Who owns these keys by its word.
    pub(crate) fn owners(&self, keys: &[String]) -> Vec<String> {
        let item = |key: &String| json!({ "name": "memberlist", "unique_key": key, "hits": 0, "limit": 9, "duration": 1000 });
        let items: Vec<_> = keys.iter().map(item).collect();
        let request = Request::post("/v1/GetRateLimits", json!({ "requests": items }).to_string());
        let body = Connection::new(self.http).send(&request).unwrap().json().unwrap();
        let owner = |answer: &Value| {
            assert_eq!(answer["error"].as_str().unwrap_or_default(), "", "{}: {answer}", self.name);
            let own = self.grpc.to_string();
            answer["metadata"]["owner"].as_str().map_or(own, str::to_owned)
        };
        body["responses"].as_array().unwrap().iter().map(owner).collect()
    }
}

impl Cluster {
    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.nodes.len()).collect()
    }

    pub(crate) fn without(&self, gone: &[usize]) -> Vec<usize> {
        self.all().into_iter().filter(|place| !gone.contains(place)).collect()
    }

    /// Waits until each of these nodes has as many peers as they are, and says when each had, counted from now.
    #[track_caller]
    pub(crate) fn wait(&self, most: Duration, these: &[usize]) -> BTreeMap<usize, Duration> {
        let begun = Instant::now();
        let mut done = BTreeMap::new();
        poll(most, || {
            for place in these {
                if !done.contains_key(place) && self.nodes[*place].peers() == Some(these.len() as u64) {
                    done.insert(*place, begun.elapsed());
                }
            }
            (done.len() == these.len()).then_some(())
        });
        if done.len() < these.len() {
            let says = |place: &usize| {
                let node = &self.nodes[*place];
                format!("{} ({:?}) has {:?} peers:\n{}", node.name, node.kind, node.peers(), node.log())
            };
            let missing: Vec<_> = these.iter().filter(|place| !done.contains_key(place)).map(says).collect();
            panic!("not {} peers after {most:?}:\n{}", these.len(), missing.join("\n"));
        }
        done
    }

    /// The slowest of each kind.
    pub(crate) fn slowest(&self, took: &BTreeMap<usize, Duration>) -> (Duration, Duration) {
        let of = |kind| {
            let its = took.iter().filter(|(place, _)| self.nodes[**place].kind == kind);
            its.map(|(_, took)| *took).max().unwrap_or_default()
        };
        (of(Original), of(Ours))
    }

    /// All of these name the same owner of each key, and every one of them owns some.
    #[track_caller]
    pub(crate) fn agree(&self, these: &[usize]) {
        // The number comes first: the original's hash hardly mixes the last bytes of a key.
        let keys: Vec<_> = (0..300).map(|number| format!("{number}-key")).collect();
        let first = self.nodes[these[0]].owners(&keys);
        for place in these {
            let node = &self.nodes[*place];
            assert_eq!(node.owners(&keys), first, "{} ({:?})", node.name, node.kind);
            assert!(first.contains(&node.grpc.to_string()), "{} owns nothing", node.name);
        }
    }

    /// One more node of this cluster, with other settings.
    pub(crate) fn another(&self, place: usize, kind: Kind, more: &[(&str, &str)]) -> Node {
        self.plan.node(place, kind, self.folder.path().join(format!("{place}-more.log")), more)
    }
}
