//! Processes on addresses of their own, and an etcd by which the originals among them find everybody.
//!
//! An original has no fixed list of peers. It writes itself into etcd and takes as its peers what it finds there; so
//! the test writes the keys of ours, which take their peers from `--peers`. Each cluster has a network of its own in
//! 127.0.0.0/8, so that tests run side by side, and the usual ports.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use flyball_tests::binary::clean;
use flyball_tests::etcd::Etcd;
use flyball_tests::http::{Connection, Request, Response};
use flyball_tests::process::Process;
use flyball_tests::signal;
use flyball_tests::tools::Tool;
use flyball_tests::wait::poll;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster that has not formed by then does not form.
const FORMED: Duration = Duration::from_secs(40);
/// For what takes nodes a few hundred milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// What a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// v2.21.0.
    Original,
    /// v2.13.0.
    Old,
    /// Ours, with the original's semantics.
    Like,
    /// Ours, with exact semantics.
    Exact,
}

use Kind::{Exact, Like, Old, Original};

impl Kind {
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Like | Exact)
    }

    fn command(self) -> Command {
        match self {
            Original => clean(&Tool::Gubernator.path()),
            Old => clean(&Tool::Gubernator213.path()),
            Like | Exact => {
                let mut command = clean(&Tool::Flyball.path());
                let semantics = if self == Like { "gubernator" } else { "exact" };
                command.args(["serve", "--semantics", semantics]);
                command
            }
        }
    }
}

/// Who asks a node, on a connection of its own.
#[derive(Debug)]
pub(crate) struct Caller {
    name: String,
    http: SocketAddr,
    connection: RefCell<Connection>,
}

impl Caller {
    fn new(name: String, http: SocketAddr) -> Self {
        Self { name, http, connection: RefCell::new(Connection::new(http)) }
    }

    /// One call. There are as many answers as items.
    #[track_caller]
    pub(crate) fn ask_all(&self, items: &[Value]) -> Vec<Answer> {
        let body = json!({ "requests": items }).to_string();
        let response = self.send(&Request::post("/v1/GetRateLimits", body));
        assert_eq!(response.status, 200, "{}: {}", self.name, response.text());
        let body = response.json().unwrap();
        let answers: Vec<_> = body["responses"].as_array().unwrap().iter().map(Answer::new).collect();
        assert_eq!(answers.len(), items.len(), "{}", self.name);
        answers
    }

    #[track_caller]
    fn send(&self, request: &Request) -> Response {
        let answer = self.connection.borrow_mut().send(request);
        answer.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Its name on the ring.
    pub(crate) address: String,
    process: Process,
    caller: Caller,
}

impl Node {
    #[track_caller]
    pub(crate) fn send(&self, request: &Request) -> Response {
        self.caller.send(request)
    }

    /// For another thread.
    pub(crate) fn another_caller(&self) -> Caller {
        Caller::new(self.to_string(), self.caller.http)
    }

    /// The body of `/v1/HealthCheck`, with the HTTP status.
    pub(crate) fn health(&self) -> (u16, Value) {
        let response = self.send(&Request::get("/v1/HealthCheck"));
        (response.status, response.json().unwrap())
    }

    /// One call. There are as many answers as items.
    #[track_caller]
    pub(crate) fn ask_all(&self, items: &[Value]) -> Vec<Answer> {
        self.caller.ask_all(items)
    }

    #[track_caller]
    pub(crate) fn ask(&self, item: &Value) -> Answer {
        self.ask_all(std::slice::from_ref(item)).remove(0)
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// A killed node comes back under its address, and knows as many nodes.
    pub(crate) fn start_again(&mut self, nodes: usize) {
        self.process.start_again().unwrap();
        self.wait_until_formed(nodes);
    }

    /// Stopped but not gone. All of its threads are, when this returns.
    pub(crate) fn freeze(&self) {
        signal::freeze(self.process.id()).unwrap();
    }

    pub(crate) fn thaw(&self) {
        signal::thaw(self.process.id()).unwrap();
    }

    fn wait_until_formed(&self, nodes: usize) {
        let formed = poll(FORMED, || self.has_formed(nodes).then_some(()));
        assert!(formed.is_some(), "{self} does not know {nodes} nodes:\n{}", self.process.log());
    }

    fn has_formed(&self, nodes: usize) -> bool {
        let answer = self.caller.connection.borrow_mut().send(&Request::get("/v1/HealthCheck"));
        answer.is_ok_and(|answer| {
            answer.status == 200 && answer.json().is_ok_and(|json| json["peer_count"] == nodes)
        })
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.kind, self.address)
    }
}

/// What was answered to one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) limit: i64,
    pub(crate) remaining: i64,
    pub(crate) reset_time: i64,
    pub(crate) retry_after: i64,
    pub(crate) error: String,
    /// `metadata.owner`.
    pub(crate) owner: Option<String>,
    /// All of it.
    pub(crate) metadata: Value,
}

impl Answer {
    fn new(json: &Value) -> Self {
        // The old original leaves out what it does not know.
        let number = |name: &str| json[name].as_str().map_or(0, |text| text.parse().unwrap());
        Self {
            status: json["status"].as_str().unwrap().to_owned(),
            limit: number("limit"),
            remaining: number("remaining"),
            reset_time: number("reset_time"),
            retry_after: number("retry_after"),
            error: json["error"].as_str().unwrap().to_owned(),
            owner: json["metadata"]["owner"].as_str().map(str::to_owned),
            metadata: json["metadata"].clone(),
        }
    }

    /// Status and remaining of an answer without an error.
    #[track_caller]
    pub(crate) fn verdict(&self) -> (&str, i64) {
        assert_eq!(self.error, "", "{self:?}");
        (&self.status, self.remaining)
    }
}

/// Some nodes that form one ring.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    _etcd: Option<Etcd>,
    _folder: TempDir,
}

impl Cluster {
    /// Starts nodes on `127.30.<network>.1` and so on, and waits until all know all.
    pub(crate) fn start(network: u8, kinds: &[Kind]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ip = |last: usize| Ipv4Addr::new(127, 30, network, u8::try_from(last).unwrap());
        let address = |place: usize| SocketAddr::from((ip(place + 1), 1051)).to_string();
        let etcd = kinds.iter().any(|kind| !kind.is_ours()).then(|| {
            let etcd = Etcd::prepare(network, 1).unwrap().start().unwrap();
            for (place, _) in kinds.iter().enumerate().filter(|(_, kind)| kind.is_ours()) {
                etcd.register(&address(place)).unwrap();
            }
            etcd
        });
        let all: Vec<_> = (0..kinds.len()).map(address).collect();
        let start = |(place, kind): (usize, &Kind)| {
            let http = SocketAddr::from((ip(place + 1), 1050));
            let mut command = kind.command();
            command.env("GUBER_GRPC_ADDRESS", &all[place]).env("GUBER_HTTP_ADDRESS", http.to_string());
            if kind.is_ours() {
                command.args(["--peers", &all.join(",")]);
            } else {
                command.env("OTEL_TRACES_EXPORTER", "none").env("GUBER_PEER_DISCOVERY_TYPE", "etcd");
                command.env("GUBER_ETCD_ENDPOINTS", etcd.as_ref().map(Etcd::endpoints).unwrap_or_default());
            }
            command.current_dir(folder.path());
            let process = Process::start(command, folder.path().join(format!("{place}.log"))).unwrap();
            let address = all[place].clone();
            let caller = Caller::new(format!("{kind:?} {address}"), http);
            Node { kind: *kind, address, process, caller }
        };
        let nodes: Vec<_> = kinds.iter().enumerate().map(start).collect();
        nodes.iter().for_each(|node| node.wait_until_formed(kinds.len()));
        Self { nodes, _etcd: etcd, _folder: folder }
    }

    /// The first node that runs `kind`.
    pub(crate) fn place(&self, kind: Kind) -> usize {
        self.nodes.iter().position(|node| node.kind == kind).unwrap()
    }

    /// The second node that runs `kind`.
    pub(crate) fn second(&self, kind: Kind) -> usize {
        self.nodes.iter().rposition(|node| node.kind == kind).unwrap()
    }

    /// Who owns a key by the word of `place`.
    pub(crate) fn owner_of(&self, place: usize, answer: &Answer) -> usize {
        let Some(owner) = &answer.owner else { return place };
        let found = self.nodes.iter().position(|node| node.address == *owner);
        found.unwrap_or_else(|| panic!("no node is {owner}"))
    }

    /// A key that this node owns; others for other words.
    pub(crate) fn key(&self, owner: usize, word: &str) -> String {
        self.keys(owner, word, 1).remove(0)
    }

    /// So many keys that this node owns.
    pub(crate) fn keys(&self, owner: usize, word: &str, count: usize) -> Vec<String> {
        // Ours is asked with the shortest of lives, so that nothing is left of the question.
        let asked = (owner + 1) % self.nodes.len();
        let names: Vec<_> = (0..200).map(|number| format!("{number}-{word}")).collect();
        let items: Vec<_> =
            names.iter().map(|name| with(&item(name), &json!({ "hits": 0, "duration": 1 }))).collect();
        let answers = self.nodes[asked].ask_all(&items);
        let owned = names
            .into_iter()
            .zip(&answers)
            .filter(|(_, a)| a.error.is_empty() && self.owner_of(asked, a) == owner);
        let owned: Vec<_> = owned.map(|(name, _)| name).take(count).collect();
        assert_eq!(owned.len(), count, "{} owns too few keys", self.nodes[owner]);
        // Over when it is used.
        flyball_tests::wait::sleep_ms(3);
        owned
    }

    /// Asks every node until all say the same as `expected`, or fails with what they say.
    #[track_caller]
    pub(crate) fn converges(&self, question: &Value, expected: (&str, i64)) {
        let says = |node: &Node| {
            let answer = node.ask(question);
            (answer.status.clone(), answer.remaining, answer.error)
        };
        let expected = (expected.0.to_owned(), expected.1, String::new());
        let agreed = poll(SOON, || self.nodes.iter().all(|node| says(node) == expected).then_some(()));
        if agreed.is_none() {
            let line = |node: &Node| format!("{node}: {:?}\n{}", says(node), node.process.log());
            let said: Vec<_> = self.nodes.iter().map(line).collect();
            let (asked, node) = (0, &self.nodes[0]);
            let owner = self.owner_of(asked, &node.ask(question));
            panic!("not all say {expected:?} to {question} of {}:\n{}", self.nodes[owner], said.join("\n"));
        }
    }
}

/// One hit of a limit of 10 in 10 minutes.
pub(crate) fn item(key: &str) -> Value {
    json!({ "name": "mixed", "unique_key": key, "hits": 1, "limit": 10, "duration": 600_000 })
}

/// The item with other fields.
pub(crate) fn with(item: &Value, fields: &Value) -> Value {
    let mut item = item.clone();
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    item
}
