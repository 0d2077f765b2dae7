//! The simulator's stories over real nodes: the production glue, real connections, real timers. Each must be told exactly
//! as the simulated one is.
//!
//! Every node has an address of its own on loopback, behind a relay of the test's. A node calls from the address it
//! advertises, so the relay knows who speaks to whom, and holds back what a story cuts, as a network does: what was held
//! arrives when the story heals. The wall clock, by which limits go, is the story's; time for timeouts passes
//! as it does.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball::pb::{GetRateLimitsReq, RateLimitReq, RateLimitResp, Status};
use flyball::{CallContext, FakeClock, Node, PeerInfo, RingSettings, Settings, Timestamp};
use flyball_core::Behavior;
use flyball_core::ring::Ring;
use flyball_sim::scenario::{Ask, Line, Step, parse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const PORT: u16 = 1_051;

/// Who cannot be heard by whom, and who hears nobody.
#[derive(Clone, Debug, Default)]
struct Cuts {
    pairs: BTreeSet<(IpAddr, IpAddr)>,
    frozen: BTreeSet<IpAddr>,
}

impl Cuts {
    fn hold(&self, from: IpAddr, to: IpAddr) -> bool {
        self.pairs.contains(&(from, to)) || self.frozen.contains(&to) || self.frozen.contains(&from)
    }
}

/// A node and its relay; dropping it ends both, and every connection to it.
struct Running {
    node: Node,
    _tasks: JoinSet<()>,
}

struct Stage {
    /// The third byte of all addresses: stories run beside each other.
    network: u8,
    clock: Arc<FakeClock>,
    cuts: watch::Sender<Cuts>,
    names: Vec<String>,
    running: BTreeMap<String, Running>,
    keys: BTreeMap<String, String>,
    thaws: JoinSet<()>,
}

impl Stage {
    fn new(network: u8) -> Self {
        Self {
            network,
            clock: Arc::new(FakeClock::new(Timestamp(1_800_000_000_000))),
            cuts: watch::Sender::new(Cuts::default()),
            names: Vec::new(),
            running: BTreeMap::new(),
            keys: BTreeMap::new(),
            thaws: JoinSet::new(),
        }
    }

    fn ip(&self, name: &str) -> IpAddr {
        let index =
            self.names.iter().position(|known| known == name).expect("the story names its nodes first");
        IpAddr::V4(Ipv4Addr::new(127, 41, self.network, u8::try_from(index + 1).unwrap()))
    }

    fn address(&self, name: &str) -> String {
        SocketAddr::new(self.ip(name), PORT).to_string()
    }

    async fn start(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
        let ip = self.ip(name);
        let settings = Settings { advertise_address: self.address(name), ..Settings::default() };
        let node = Node::builder().settings(settings).clock(self.clock.clone()).build();
        let inside = TcpListener::bind((ip, 0)).await.unwrap();
        let target = inside.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let routes = flyball::grpc::routes(&node);
        tasks.spawn(async move {
            let incoming = tonic::transport::server::TcpIncoming::from(inside);
            tonic::transport::Server::builder()
                .add_routes(routes)
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        let outside = listen(SocketAddr::new(ip, PORT)).await;
        let cuts = self.cuts.subscribe();
        tasks.spawn(async move {
            // Ends with its own task, and so do the connections.
            let mut connections = JoinSet::new();
            loop {
                let (stream, caller) = outside.accept().await.unwrap();
                connections.spawn(relay(stream, caller.ip(), target, cuts.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        self.running.insert(name.to_owned(), Running { node, _tasks: tasks });
    }

    async fn tell(&self, told: &[String], peers: &[String]) {
        let peers: Vec<_> = peers.iter().map(|name| PeerInfo::new(self.address(name))).collect();
        for name in told {
            self.running[name].node.set_peers(peers.clone()).await;
        }
    }

    fn all(&self) -> Vec<String> {
        self.running.keys().cloned().collect()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(i64::try_from(time.as_millis()).unwrap());
        tokio::time::sleep(time).await;
    }

    async fn step(&mut self, step: &Step) -> Option<String> {
        match step {
            Step::Nodes(names) => {
                for name in names {
                    self.start(name).await;
                }
                self.tell(&self.all(), &self.all()).await;
            }
            Step::Join(name) => {
                self.start(name).await;
                self.tell(&self.all(), &self.all()).await;
            }
            Step::Start(name) => {
                self.start(name).await;
                self.tell(std::slice::from_ref(name), &self.all()).await;
            }
            Step::Crash(name) => drop(self.running.remove(name)),
            Step::Stop(name) => {
                if let Some(running) = self.running.remove(name) {
                    running.node.close().await;
                }
            }
            Step::Peers(names) => self.tell(&self.all(), names).await,
            Step::Freeze(name, time) => {
                let (ip, cuts, time) = (self.ip(name), self.cuts.clone(), *time);
                cuts.send_modify(|cuts| {
                    cuts.frozen.insert(ip);
                });
                self.thaws.spawn(async move {
                    tokio::time::sleep(time).await;
                    cuts.send_modify(|cuts| {
                        cuts.frozen.remove(&ip);
                    });
                });
            }
            Step::Partition(some, others) => {
                for (a, b) in some.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
                    let (a, b) = (self.ip(a), self.ip(b));
                    self.cuts.send_modify(|cuts| cuts.pairs.extend([(a, b), (b, a)]));
                }
            }
            Step::Cut(from, to) => {
                let pair = (self.ip(from), self.ip(to));
                self.cuts.send_modify(|cuts| {
                    cuts.pairs.insert(pair);
                });
            }
            Step::Heal => self.cuts.send_modify(|cuts| cuts.pairs.clear()),
            Step::Advance(time) => self.pass(*time).await,
            Step::Ask(name, ask) => return Some(self.ask(name, ask).await),
        }
        None
    }

    async fn ask(&mut self, name: &str, ask: &Ask) -> String {
        let item = RateLimitReq {
            name: "scenario".to_owned(),
            unique_key: self.key(ask),
            hits: ask.hits,
            limit: ask.limit,
            duration: ask.duration,
            algorithm: ask.algorithm,
            behavior: ask.behavior.0,
            burst: ask.burst,
            max_wait: ask.max_wait,
            ..RateLimitReq::default()
        };
        let node = &self.running[name].node;
        let call = GetRateLimitsReq { requests: vec![item] };
        let answer = node.get_rate_limits(call, CallContext::default()).await.unwrap().responses.remove(0);
        render(&answer, ask)
    }

    /// A key that the story's owner owns: numbers are tried until one does.
    fn key(&mut self, ask: &Ask) -> String {
        if let Some(known) = self.keys.get(&ask.key) {
            return known.clone();
        }
        let addresses: Vec<_> = self.running.keys().map(|name| self.address(name)).collect();
        let RingSettings { hash, replicas } = RingSettings::default();
        let ring = Ring::new(addresses.iter().map(String::as_str), hash, replicas);
        let owner = ask.owner.as_ref().map(|name| self.address(name));
        let fits = |key: &String| owner.is_none() || ring.owner("scenario", key) == owner.as_deref();
        let key = (0..10_000).map(|number| format!("{number}-{}", ask.key)).find(fits).unwrap();
        self.keys.insert(ask.key.clone(), key.clone());
        key
    }
}

fn render(answer: &RateLimitResp, ask: &Ask) -> String {
    let degraded = answer.metadata.contains_key("degraded") || !answer.error.is_empty();
    let via = match (degraded, answer.metadata.contains_key("owner")) {
        (true, _) => "fallback",
        (false, false) => "own",
        (false, true) if ask.behavior.has(Behavior::GLOBAL) => "replica",
        (false, true) => "owner",
    };
    match answer.error.as_str() {
        "" => {
            let status = Status::try_from(answer.status).unwrap().as_str_name();
            format!("{status} {} via {via}", answer.remaining)
        }
        _ => format!("error via {via}"),
    }
}

/// A port that was in use a moment ago may still have connections that end.
async fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket.listen(128).unwrap()
}

/// Passes a connection of `caller` on, each way only while that way is open.
async fn relay(outer: TcpStream, caller: IpAddr, target: SocketAddr, cuts: watch::Receiver<Cuts>) {
    let socket = TcpSocket::new_v4().unwrap();
    // The node behind is to see who calls.
    socket.bind(SocketAddr::new(caller, 0)).unwrap();
    let Ok(inner) = socket.connect(target).await else { return };
    let _ = (outer.set_nodelay(true), inner.set_nodelay(true));
    let ((outer_read, outer_write), (inner_read, inner_write)) = (outer.into_split(), inner.into_split());
    let there = pump(outer_read, inner_write, caller, target.ip(), cuts.clone());
    let back = pump(inner_read, outer_write, target.ip(), caller, cuts);
    tokio::join!(there, back);
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    speaker: IpAddr,
    listener: IpAddr,
    mut cuts: watch::Receiver<Cuts>,
) {
    let mut buffer = vec![0; 64 * 1_024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if cuts.wait_for(|cuts| !cuts.hold(speaker, listener)).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

async fn play(network: u8, lines: &[Line]) -> String {
    let mut stage = Stage::new(network);
    let mut told = String::new();
    for line in lines {
        told.push_str(&line.text);
        let Some(step) = &line.step else { continue };
        if let Some(answer) = stage.step(step).await {
            told.push_str(&format!("= {answer}\n"));
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn stories_end_on_real_nodes_as_they_are_told() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../flyball-sim/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let mut stories = JoinSet::new();
    for (network, file) in (1..).zip(files) {
        let wrong = Arc::clone(&wrong);
        stories.spawn(async move {
            let text = std::fs::read_to_string(&file).unwrap();
            let told = play(network, &parse(&text).unwrap()).await;
            if told != text {
                wrong.lock().unwrap().push(format!("{} was told as:\n{told}", file.display()));
            }
        });
    }
    while let Some(story) = stories.join_next().await {
        story.unwrap();
    }
    let wrong = wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
