//! Who is there: the membership protocol as a machine without sockets, clock or dice of its own.
//!
//! Each node asks one other at a time whether it is there, and asks some more to try when there is no answer. A node
//! that nobody reaches is suspected, told so, and has a time to defend itself; then it is dead. What is learnt travels
//! as gossip, a few packets at a time, and once a minute two nodes exchange everything they know.
//!
//! Three rules decide whose word counts. A node alone raises its **incarnation**, and news of a higher one wins. Of the
//! same incarnation a worse state wins: alive, suspect, dead. And nobody but the node itself says that it has left.
//!
//! A node that is itself in trouble must not accuse others. It counts how its own probes go (**health**, after the
//! Lifeguard paper) and probes slower, the worse they go. And time during which it did not run does not count: where
//! a timer finds that it is late, answers may be waiting that nobody has read yet, so every timer is put off by as
//! much. Only then is anybody blamed.
//!
//! What goes in: [`Swim::handle_message`], [`Swim::handle_state`], [`Swim::handle_stream_ping`],
//! [`Swim::handle_timeout`], each with the time; what comes out: [`Swim::poll_output`], [`Swim::poll_timeout`] and
//! the set of [`Swim::peers`]. Outputs have to be taken after each input: no more than a few for each member.

mod broadcast;
mod claims;
mod farewell;
mod member;
mod probe;
mod suspicion;
#[cfg(test)]
mod tests;
pub(crate) mod timing;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use flyball_core::time::Instant;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

use super::codec::message::{Alive, Claim, Message, Record, State, Versions};
use super::codec::packet::COMPOUND_OVERHEAD;
use crate::source::PEERS_MAX;

use self::broadcast::Broadcasts;
use self::farewell::Farewell;
use self::member::Member;
use self::probe::{Probe, Relays};
use self::suspicion::Suspicion;
use self::timing::Timing;

/// Most other nodes that are known, the dead included. Whoever comes then is not taken in, and that is said.
pub(crate) const MEMBERS_MAX: usize = PEERS_MAX - 1;

/// What this node says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Its name, which nobody else may have.
    pub(crate) name: String,
    /// Where others send gossip to.
    pub(crate) address: SocketAddr,
    /// The peer it is.
    pub(crate) peer: PeerInfo,
    /// The same as others are told it.
    pub(crate) meta: Vec<u8>,
}

/// What there is to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    /// Send these messages in one packet.
    Packet { to: SocketAddr, parts: Vec<Vec<u8>>, checksum: bool },
    /// Ask over TCP, and say by [`Swim::handle_stream_ping`] whether there was an answer in time.
    StreamPing { to: SocketAddr, node: String, seq: u32, within: Duration },
    /// Exchange everything with this node, and hand over what it says by [`Swim::handle_state`].
    PushPull { to: SocketAddr },
    /// Something people may want to know.
    Event(Event),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Joined {
        node: String,
        address: SocketAddr,
    },
    Updated {
        node: String,
    },
    Left {
        node: String,
    },
    Suspected {
        node: String,
        by: String,
    },
    Died {
        node: String,
    },
    /// This node was called suspect or dead, and said otherwise.
    Refuted,
    /// Two nodes have one name.
    Conflict {
        node: String,
        known: SocketAddr,
        claimed: SocketAddr,
    },
    /// A node does not say which peer it is, or not properly.
    BadMeta {
        node: String,
        why: String,
    },
    /// No more nodes are taken in.
    Full {
        node: String,
    },
    /// A node answers over TCP only.
    StreamOnly {
        node: String,
    },
    /// This node did not run for a while.
    Stalled {
        lasted: Duration,
    },
}

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct Swim {
    me: Identity,
    incarnation: u32,
    timing: Timing,
    /// Most bytes of all messages in one packet, each with its overhead.
    room: usize,
    rng: SplitMix64,
    members: BTreeMap<String, Member>,
    suspicions: BTreeMap<String, Suspicion>,
    news: Broadcasts,
    /// How badly this node's own probes go; 0 is well.
    health: u32,
    /// The last number given to a ping.
    seq: u32,
    /// Names in the order in which they are probed, and how far that is.
    order: Vec<String>,
    place: usize,
    probe: Option<Probe>,
    relays: Relays,
    next_probe: Instant,
    next_gossip: Instant,
    next_push_pull: Instant,
    /// Once this node leaves.
    farewell: Option<Farewell>,
    outputs: VecDeque<Output>,
    /// Whether the set of peers may be another than before.
    changed: bool,
}

impl Swim {
    /// A node that knows nobody yet. The seed decides whom it asks and tells in which order, and when it begins.
    /// `packet_max` is what a packet may take before it is encrypted.
    pub(crate) fn new(me: Identity, timing: Timing, packet_max: usize, seed: u64, now: Instant) -> Self {
        let mut rng = SplitMix64::seed_from_u64(seed);
        // Nodes that are started together do not do everything together.
        let mut soon = |interval: Duration| now.saturating_add(interval.mul_f64(rng.random::<f64>()));
        let next_probe = soon(timing.probe_interval);
        let next_gossip = soon(timing.gossip_interval);
        let next_push_pull = soon(timing.push_pull_interval);
        let seq = rng.random();
        let mut swim = Self {
            me,
            incarnation: 1,
            timing,
            room: packet_max - COMPOUND_OVERHEAD,
            rng,
            members: BTreeMap::new(),
            suspicions: BTreeMap::new(),
            news: Broadcasts::default(),
            health: 0,
            seq,
            order: Vec::new(),
            place: 0,
            probe: None,
            relays: Relays::default(),
            next_probe,
            next_gossip,
            next_push_pull,
            farewell: None,
            outputs: VecDeque::new(),
            changed: true,
        };
        swim.tell_of_me();
        swim
    }

    /// A message that came in a packet from `from`.
    pub(crate) fn handle_message(&mut self, message: Message, from: SocketAddr, now: Instant) {
        self.wake(now);
        match message {
            Message::Ping(ping) => self.answer(&ping, from),
            Message::IndirectPing(ping) => self.relay(ping, from, now),
            Message::Ack { seq } => self.acknowledged(seq),
            Message::Nack { seq } => self.not_acknowledged(seq),
            Message::Alive(alive) => self.alive(alive, now),
            Message::Suspect(claim) => self.suspect(&claim, now),
            Message::Dead(claim) => self.dead(&claim, now),
        }
    }

    /// What is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.wake(now);
        self.end_suspicions(now);
        self.drive_probe(now);
        self.end_relays(now);
        self.drive_farewell(now);
        if self.next_gossip <= now {
            self.next_gossip = now.saturating_add(self.timing.gossip_interval);
            self.gossip(now);
        }
        if self.next_push_pull <= now {
            self.next_push_pull = now.saturating_add(self.timing.push_pull(self.size()));
            if self.farewell.is_none() {
                let somebody = self.pick(1, |_, member| member.state == State::Alive);
                self.outputs.extend(somebody.into_iter().map(|(_, to, _)| Output::PushPull { to }));
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let timers = [self.next_probe, self.next_gossip, self.next_push_pull];
        let probe = self.probe.as_ref().and_then(Probe::timeout);
        let suspicions = self.suspicions.values().map(Suspicion::deadline);
        let farewell = self.farewell.as_ref().and_then(Farewell::timeout);
        let all =
            timers.into_iter().chain(probe).chain(suspicions).chain(self.relays.timeout()).chain(farewell);
        all.min().unwrap_or(self.next_gossip)
    }

    /// What is to be done next.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The peers, when they may have changed since this was asked last: sorted, each address once, this node among
    /// them.
    pub(crate) fn poll_peers(&mut self) -> Option<Vec<PeerInfo>> {
        std::mem::take(&mut self.changed).then(|| self.peers())
    }

    /// All that are not dead or gone and say who they are, and this node.
    pub(crate) fn peers(&self) -> Vec<PeerInfo> {
        let own = &self.me.peer;
        let there = self.members.values().filter(|member| member.is_there());
        let others = there.filter_map(|member| member.peer.clone());
        // Whoever else calls itself by our address is we under an earlier name, or nobody we could ask.
        let others = others.filter(|peer| peer.grpc_address != own.grpc_address);
        let mut peers: Vec<_> = others.chain([own.clone()]).collect();
        peers.sort();
        peers.dedup_by(|later, earlier| later.grpc_address == earlier.grpc_address);
        peers
    }

    /// Whether anybody else is there.
    pub(crate) fn is_alone(&self) -> bool {
        !self.members.values().any(Member::is_there)
    }

    /// The gossip addresses of everybody else who is there.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.members.values().filter(|member| member.is_there()).map(|member| member.address)
    }

    /// Whether a question for this name is for this node; without a name it is for whoever hears it.
    pub(crate) fn is_me(&self, node: &str) -> bool {
        node.is_empty() || node == self.me.name
    }

    /// Everything this node knows, for somebody who asked or is asked.
    pub(crate) fn state(&self) -> Vec<Record> {
        let me = Record {
            name: self.me.name.clone(),
            address: self.me.address,
            meta: self.me.meta.clone(),
            incarnation: self.incarnation,
            state: if self.farewell.is_some() { State::Left } else { State::Alive },
            versions: Versions::OURS,
        };
        let others = self.members.iter().map(|(name, member)| member.record(name));
        others.chain([me]).collect()
    }

    /// Number of nodes, the dead that are not forgotten and this one included.
    fn size(&self) -> usize {
        self.members.len() + 1
    }

    /// What this node tells of itself.
    fn tell_of_me(&mut self) {
        let alive = Alive {
            incarnation: self.incarnation,
            node: self.me.name.clone(),
            address: self.me.address,
            meta: self.me.meta.clone(),
            versions: Versions::OURS,
        };
        self.news.push(&self.me.name, Message::Alive(alive).encode());
    }

    /// Notices that this node did not run. What should have been done meanwhile is put off by as long, since it
    /// could not hear who answered; see [the module](self).
    fn wake(&mut self, now: Instant) {
        let late = now.saturating_since(self.poll_timeout());
        if late < self.timing.stall {
            return;
        }
        for at in [&mut self.next_probe, &mut self.next_gossip, &mut self.next_push_pull] {
            *at = at.saturating_add(late);
        }
        self.suspicions.values_mut().for_each(|suspicion| suspicion.postpone(late));
        self.relays.postpone(late);
        if let Some(probe) = &mut self.probe {
            probe.postpone(late);
        }
        if let Some(farewell) = &mut self.farewell {
            farewell.postpone(late);
        }
        self.worsen(1);
        self.event(Event::Stalled { lasted: late });
    }

    /// Health gets worse, down to a bound.
    fn worsen(&mut self, by: u32) {
        self.health = self.health.saturating_add(by).min(self.timing.awareness_max.saturating_sub(1));
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// A message to somebody, with as much news as fits.
    fn send(&mut self, to: SocketAddr, message: &Message) {
        let mut parts = vec![message.encode()];
        let room = self.room.saturating_sub(parts[0].len() + super::codec::packet::PART_OVERHEAD);
        let sends = self.timing.retransmits(self.size());
        self.news.take(&mut parts, room, sends);
        self.outputs.push_back(Output::Packet { to, parts, checksum: false });
    }

    /// A round of gossip: some random nodes hear what is new.
    fn gossip(&mut self, now: Instant) {
        self.tell_a_dead_one(now);
        if self.news.is_empty() {
            return;
        }
        let patience = self.timing.gossip_to_the_dead;
        let targets = self.pick(self.timing.gossip_nodes, |_, member| match member.state {
            State::Alive | State::Suspect => true,
            State::Dead => now.saturating_since(member.since) < patience,
            State::Left => false,
        });
        let sends = self.timing.retransmits(self.size());
        for (_, to, versions) in targets {
            let mut parts = Vec::new();
            self.news.take(&mut parts, self.room, sends);
            if parts.is_empty() {
                return;
            }
            self.outputs.push_back(Output::Packet { to, parts, checksum: knows_checksums(versions) });
        }
    }

    /// One that counts as dead, for a while, hears that it does. If it was only cut off, it says so and is back; with
    /// the original that needs other news to be under way at the time.
    fn tell_a_dead_one(&mut self, now: Instant) {
        let patience = self.timing.gossip_to_the_dead;
        let dead = self.pick(1, |_, member| {
            member.state == State::Dead && now.saturating_since(member.since) < patience
        });
        for (node, to, versions) in dead {
            let Some(member) = self.members.get(&node) else { continue };
            let claim = Claim { incarnation: member.incarnation, node, from: self.me.name.clone() };
            let parts = vec![Message::Dead(claim).encode()];
            self.outputs.push_back(Output::Packet { to, parts, checksum: knows_checksums(versions) });
        }
    }

    /// Up to so many random members that will do.
    fn pick(
        &mut self,
        count: usize,
        will_do: impl Fn(&str, &Member) -> bool,
    ) -> Vec<(String, SocketAddr, Versions)> {
        let mut picked = Vec::with_capacity(count);
        let candidates = self.members.iter().filter(|(name, member)| will_do(name, member));
        for (number, (name, member)) in candidates.enumerate() {
            let one = || (name.clone(), member.address, member.versions);
            // Each of those seen so far has the same chance to be among the picked.
            if picked.len() < count {
                picked.push(one());
            } else {
                let place = self.rng.random_range(0..=number);
                if let Some(taken) = picked.get_mut(place) {
                    *taken = one();
                }
            }
        }
        picked
    }
}

/// Whether a node of these versions reads packets with a checksum.
fn knows_checksums(versions: Versions) -> bool {
    versions.most() >= 5
}
