//! A network of machines in one thread, with a clock that jumps from one thing that happens to the next.
//!
//! Packets are delayed, lost and cut off by the seed; connections only cut off. Whatever is sent goes through bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use flyball_core::time::Instant;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

use crate::gossip::codec::message::{Message, Record};
use crate::gossip::codec::packet::{PACKET_MAX, unwrap, wrap};
use crate::gossip::meta;
use crate::gossip::swim::timing::Timing;
use crate::gossip::swim::{Event, Identity, Output, Swim};

pub(super) const S: fn(u64) -> Duration = Duration::from_secs;
pub(super) const MS: fn(u64) -> Duration = Duration::from_millis;

/// What a socket holds for a node that does not read, in packets.
const SOCKET: usize = 200;

#[derive(Debug)]
struct Node {
    swim: Swim,
    up: bool,
    frozen: bool,
    /// What arrived while it was frozen.
    waiting: Vec<Delivery>,
}

#[derive(Clone, Debug)]
enum Delivery {
    Packet { from: SocketAddr, bytes: Vec<u8> },
    Pinged { seq: u32, answered: bool },
    State(Vec<Record>),
}

#[derive(Debug)]
pub(super) struct Net {
    pub(super) now: Instant,
    nodes: Vec<Node>,
    wire: BTreeMap<(Instant, u64), (usize, Delivery)>,
    sent: u64,
    rng: SplitMix64,
    pub(super) loss: f64,
    cut: BTreeSet<(usize, usize)>,
    pub(super) log: Vec<(Instant, usize, Event)>,
}

pub(super) fn name(number: usize) -> String {
    format!("node-{number}")
}

/// Gossip goes to port 7946, peers are asked on port 1051.
pub(super) fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 7946))
}

pub(super) fn peer(number: usize) -> PeerInfo {
    PeerInfo::new(SocketAddr::new(address(number).ip(), 1051).to_string())
}

pub(super) fn identity(number: usize) -> Identity {
    let peer = peer(number);
    let meta = meta::write(&peer).unwrap();
    Identity { name: name(number), address: address(number), peer, meta }
}

impl Net {
    pub(super) fn new(count: usize, seed: u64) -> Self {
        let mut net = Self {
            now: Instant(0),
            nodes: Vec::new(),
            wire: BTreeMap::new(),
            sent: 0,
            rng: SplitMix64::seed_from_u64(seed),
            loss: 0.0,
            cut: BTreeSet::new(),
            log: Vec::new(),
        };
        for number in 0..count {
            let swim = net.machine(number);
            net.nodes.push(Node { swim, up: true, frozen: false, waiting: Vec::new() });
        }
        net
    }

    /// All of them know each other.
    pub(super) fn joined(count: usize, seed: u64) -> Self {
        let mut net = Self::new(count, seed);
        for number in 1..count {
            net.join(number, 0);
            net.run(MS(100));
        }
        net.run(S(20));
        assert!((0..count).all(|number| net.sees(number) == (0..count).collect::<Vec<_>>()));
        net.log.clear();
        net
    }

    fn machine(&mut self, number: usize) -> Swim {
        Swim::new(identity(number), Timing::default(), PACKET_MAX, self.rng.random(), self.now)
    }

    pub(super) fn swim(&mut self, number: usize) -> &mut Swim {
        &mut self.nodes[number].swim
    }

    pub(super) fn join(&mut self, number: usize, seed: usize) {
        self.exchange(number, seed);
    }

    pub(super) fn kill(&mut self, number: usize) {
        self.nodes[number].up = false;
    }

    /// The same name and address, and nothing it knew.
    pub(super) fn start_again(&mut self, number: usize) {
        let swim = self.machine(number);
        self.nodes[number] = Node { swim, up: true, frozen: false, waiting: Vec::new() };
    }

    pub(super) fn freeze(&mut self, number: usize) {
        self.nodes[number].frozen = true;
    }

    /// What waits is read before any timer is looked at, as the driver does.
    pub(super) fn thaw(&mut self, number: usize) {
        self.nodes[number].frozen = false;
        for delivery in std::mem::take(&mut self.nodes[number].waiting) {
            self.deliver(number, delivery);
        }
    }

    /// Nothing gets from these to those, nor back.
    pub(super) fn cut(&mut self, these: &[usize], those: &[usize]) {
        for one in these {
            for other in those {
                self.cut.extend([(*one, *other), (*other, *one)]);
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    /// The nodes in the set of peers of a node.
    pub(super) fn sees(&self, number: usize) -> Vec<usize> {
        let peers = self.nodes[number].swim.peers();
        (0..self.nodes.len()).filter(|other| peers.contains(&peer(*other))).collect()
    }

    /// Whether these nodes see these.
    pub(super) fn agree(&self, these: &[usize]) -> bool {
        these.iter().all(|number| self.sees(*number) == these)
    }

    /// Runs until `done`, and says how long that took.
    #[track_caller]
    pub(super) fn until(&mut self, most: Duration, done: impl Fn(&Self) -> bool) -> Duration {
        let begun = self.now;
        while !done(self) {
            let waited = self.now.saturating_since(begun);
            assert!(waited < most, "not done after {waited:?}: {:?}", self.log);
            self.run(MS(10));
        }
        self.now.saturating_since(begun)
    }

    pub(super) fn run(&mut self, wait: Duration) {
        let end = self.now.saturating_add(wait);
        loop {
            let arrival = self.wire.keys().next().map(|(at, _)| *at);
            let running = self.nodes.iter().enumerate().filter(|(_, node)| node.up && !node.frozen);
            let timer = running.map(|(number, node)| (node.swim.poll_timeout().max(self.now), number)).min();
            let arrives_first = arrival.is_some_and(|at| timer.is_none_or(|(timer, _)| at <= timer));
            let next = if arrives_first { arrival } else { timer.map(|(at, _)| at) };
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if arrives_first {
                let Some((_, (to, delivery))) = self.wire.pop_first() else { break };
                self.deliver(to, delivery);
            } else if let Some((_, number)) = timer {
                self.nodes[number].swim.handle_timeout(self.now);
                self.act(number);
            }
        }
        self.now = end;
    }

    fn deliver(&mut self, to: usize, delivery: Delivery) {
        let node = &mut self.nodes[to];
        if !node.up {
            return;
        }
        if node.frozen {
            if node.waiting.len() < SOCKET {
                node.waiting.push(delivery);
            }
            return;
        }
        match delivery {
            Delivery::Packet { from, bytes } => {
                let unwrapped = unwrap(&bytes);
                assert_eq!(unwrapped.broken, 0);
                for message in unwrapped.messages {
                    node.swim.handle_message(message, from, self.now);
                }
            }
            Delivery::Pinged { seq, answered } => node.swim.handle_stream_ping(seq, answered, self.now),
            Delivery::State(records) => node.swim.handle_state(records, self.now).unwrap(),
        }
        self.act(to);
    }

    fn number(&self, address: SocketAddr) -> Option<usize> {
        (0..self.nodes.len()).find(|number| self::address(*number) == address)
    }

    /// Whether a connection is answered.
    fn connects(&self, from: usize, to: usize) -> bool {
        let node = &self.nodes[to];
        node.up && !node.frozen && !self.cut.contains(&(from, to))
    }

    pub(super) fn act(&mut self, number: usize) {
        while let Some(output) = self.nodes[number].swim.poll_output() {
            match output {
                Output::Packet { to, parts, checksum } => {
                    let bytes = wrap(&parts, checksum);
                    assert!(bytes.len() <= PACKET_MAX + 5, "{} bytes", bytes.len());
                    let Some(to) = self.number(to) else { continue };
                    let lost = self.rng.random::<f64>() < self.loss;
                    if !lost && !self.cut.contains(&(number, to)) {
                        let delay = MS(self.rng.random_range(1..20));
                        self.post(to, delay, Delivery::Packet { from: address(number), bytes });
                    }
                }
                Output::StreamPing { to, seq, within, .. } => {
                    let answered = self.number(to).is_some_and(|to| self.connects(number, to));
                    let delay = if answered { MS(20) } else { within };
                    self.post(number, delay, Delivery::Pinged { seq, answered });
                }
                Output::PushPull { to } => {
                    if let Some(to) = self.number(to).filter(|to| self.connects(number, *to)) {
                        self.exchange(number, to);
                    }
                }
                Output::Event(event) => self.log.push((self.now, number, event)),
            }
        }
    }

    fn exchange(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let state = self.nodes[from].swim.state();
            self.post(to, MS(20), Delivery::State(state));
        }
    }

    fn post(&mut self, to: usize, delay: Duration, delivery: Delivery) {
        self.sent += 1;
        self.wire.insert((self.now.saturating_add(delay), self.sent), (to, delivery));
    }

    /// A message to a node, from nowhere.
    pub(super) fn tell(&mut self, to: usize, message: Message) {
        let now = self.now;
        self.nodes[to].swim.handle_message(message, address(250), now);
        self.act(to);
    }

    /// Events that will do, by nodes that will do.
    pub(super) fn count(&self, will_do: impl Fn(usize, &Event) -> bool) -> usize {
        self.log.iter().filter(|(_, number, event)| will_do(*number, event)).count()
    }
}
