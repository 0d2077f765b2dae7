//! Is it there? One other node at a time, by whatever way there is.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use flyball_core::time::Instant;
use rand::Rng;

use super::{Event, Output, Swim, knows_checksums};
use crate::gossip::codec::message::{Claim, IndirectPing, Message, Ping, State};

/// Versions from which on a node answers over TCP, and says that somebody else does not answer.
const STREAM_PING: u8 = 3;
const NACK: u8 = 4;

/// Most questions that are asked for others at a time. Who asks then gets no answer, and asks somebody else next.
const RELAYS_MAX: usize = 1_024;

/// The question that is open.
#[derive(Debug)]
pub(super) struct Probe {
    node: String,
    seq: u32,
    /// When others are asked to try; `None` once they are.
    timeout: Option<Instant>,
    /// How many of them say so if they get no answer either, and how many did.
    nacks_expected: u32,
    nacks: u32,
    /// It answered over TCP.
    by_stream: bool,
}

impl Probe {
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.timeout
    }

    pub(super) fn postpone(&mut self, by: Duration) {
        self.timeout = self.timeout.map(|at| at.saturating_add(by));
    }
}

/// Questions that are asked for others, oldest first.
#[derive(Debug, Default)]
pub(super) struct Relays(VecDeque<Relay>);

#[derive(Debug)]
struct Relay {
    /// Our number.
    seq: u32,
    /// Who asked, and their number.
    to: SocketAddr,
    their_seq: u32,
    nack: bool,
    deadline: Instant,
}

impl Relays {
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.0.front().map(|relay| relay.deadline)
    }

    pub(super) fn postpone(&mut self, by: Duration) {
        self.0.iter_mut().for_each(|relay| relay.deadline = relay.deadline.saturating_add(by));
    }
}

impl Swim {
    /// Is this node there?
    pub(super) fn answer(&mut self, ping: &Ping, from: SocketAddr) {
        if self.is_me(&ping.node) {
            self.send(ping.source.unwrap_or(from), &Message::Ack { seq: ping.seq });
        }
    }

    /// Somebody asks us to try.
    pub(super) fn relay(&mut self, ping: IndirectPing, from: SocketAddr, now: Instant) {
        if self.relays.0.len() >= RELAYS_MAX {
            return;
        }
        let seq = self.next_seq();
        let port = if ping.port == 0 { self.me.address.port() } else { ping.port };
        self.relays.0.push_back(Relay {
            seq,
            to: ping.source.unwrap_or(from),
            their_seq: ping.seq,
            nack: ping.nack,
            deadline: now.saturating_add(self.timing.probe_timeout),
        });
        let target = SocketAddr::new(ping.target, port);
        let ping = self.ping(seq, ping.node);
        self.send(target, &ping);
    }

    /// Somebody we asked is there.
    pub(super) fn acknowledged(&mut self, seq: u32) {
        if self.probe.as_ref().is_some_and(|probe| probe.seq == seq) {
            self.probe = None;
            self.health = self.health.saturating_sub(1);
        } else if let Some(place) = self.relays.0.iter().position(|relay| relay.seq == seq)
            && let Some(relay) = self.relays.0.remove(place)
        {
            self.send(relay.to, &Message::Ack { seq: relay.their_seq });
        }
    }

    /// Somebody we asked to try got no answer, but we do know that we hear others.
    pub(super) fn not_acknowledged(&mut self, seq: u32) {
        if let Some(probe) = self.probe.as_mut().filter(|probe| probe.seq == seq) {
            probe.nacks = (probe.nacks + 1).min(probe.nacks_expected);
        }
    }

    /// What came of an [`Output::StreamPing`].
    pub(crate) fn handle_stream_ping(&mut self, seq: u32, answered: bool, now: Instant) {
        self.wake(now);
        if let Some(probe) = self.probe.as_mut().filter(|probe| probe.seq == seq) {
            probe.by_stream |= answered;
        }
    }

    /// Asks, asks again by other ways, and gives up.
    pub(super) fn drive_probe(&mut self, now: Instant) {
        if self.next_probe <= now {
            if let Some(probe) = self.probe.take() {
                self.unanswered(probe, now);
            }
            let interval = self.timing.probe_interval * (1 + self.health);
            self.next_probe = now.saturating_add(interval);
            if self.farewell.is_none()
                && let Some(node) = self.next_in_order(now)
            {
                self.ask(node, now);
            }
        }
        if let Some(probe) = &mut self.probe
            && probe.timeout.is_some_and(|at| at <= now)
        {
            probe.timeout = None;
            self.ask_in_other_ways(now);
        }
    }

    fn ask(&mut self, node: String, now: Instant) {
        let Some(member) = self.members.get(&node) else { return };
        let (to, incarnation, versions) = (member.address, member.incarnation, member.versions);
        let is_suspect = member.state == State::Suspect;
        let seq = self.next_seq();
        let ping = self.ping(seq, node.clone());
        if is_suspect {
            // It should know what is said of it.
            let claim = Claim { incarnation, node: node.clone(), from: self.me.name.clone() };
            let parts = vec![ping.encode(), Message::Suspect(claim).encode()];
            self.outputs.push_back(Output::Packet { to, parts, checksum: knows_checksums(versions) });
        } else {
            self.send(to, &ping);
        }
        let timeout = Some(now.saturating_add(self.timing.probe_timeout));
        self.probe = Some(Probe { node, seq, timeout, nacks_expected: 0, nacks: 0, by_stream: false });
    }

    fn ask_in_other_ways(&mut self, now: Instant) {
        let Some(probe) = &self.probe else { return };
        let (node, seq) = (probe.node.clone(), probe.seq);
        let Some(target) = self.members.get(&node) else { return };
        let (address, versions) = (target.address, target.versions);
        let helpers = self
            .pick(self.timing.indirect_checks, |name, member| member.state == State::Alive && name != node);
        let mut nacks_expected = 0;
        for (_, to, versions) in helpers {
            let nack = versions.most() >= NACK;
            nacks_expected += u32::from(nack);
            let ping = IndirectPing {
                seq,
                target: address.ip(),
                port: address.port(),
                node: node.clone(),
                nack,
                source: Some(self.me.address),
                source_node: self.me.name.clone(),
            };
            self.send(to, &Message::IndirectPing(ping));
        }
        if versions.most() >= STREAM_PING {
            let within = self.next_probe.saturating_since(now);
            self.outputs.push_back(Output::StreamPing { to: address, node, seq, within });
        }
        if let Some(probe) = &mut self.probe {
            probe.nacks_expected = nacks_expected;
        }
    }

    /// Nobody got an answer in time.
    fn unanswered(&mut self, probe: Probe, now: Instant) {
        let Some(member) = self.members.get(&probe.node).filter(|member| member.is_there()) else { return };
        let incarnation = member.incarnation;
        if probe.by_stream {
            return self.event(Event::StreamOnly { node: probe.node });
        }
        // Where helpers should have said that they got no answer and did not, the fault is likely ours.
        self.worsen(match probe.nacks_expected {
            0 => 1,
            expected => expected - probe.nacks,
        });
        let from = self.me.name.clone();
        self.suspect(&Claim { incarnation, node: probe.node, from }, now);
    }

    /// Those for whom we asked hear that there was no answer.
    pub(super) fn end_relays(&mut self, now: Instant) {
        while self.relays.timeout().is_some_and(|at| at <= now) {
            let Some(relay) = self.relays.0.pop_front() else { return };
            if relay.nack {
                self.send(relay.to, &Message::Nack { seq: relay.their_seq });
            }
        }
    }

    /// Whose turn it is. Everybody has one in each round, in another order each time; between rounds the dead are
    /// forgotten.
    fn next_in_order(&mut self, now: Instant) -> Option<String> {
        for _ in 0..=self.order.len() {
            if self.place >= self.order.len() {
                self.begin_round(now);
            }
            let node = self.order.get(self.place)?;
            self.place += 1;
            if self.members.get(node).is_some_and(|member| member.is_there()) {
                return Some(node.clone());
            }
        }
        None
    }

    fn begin_round(&mut self, now: Instant) {
        let patience = self.timing.gossip_to_the_dead;
        let stays = |since| now.saturating_since(since) < patience;
        self.members.retain(|_, member| member.is_there() || stays(member.since));
        self.order = self.members.keys().cloned().collect();
        for last in (1..self.order.len()).rev() {
            let other = self.rng.random_range(0..=last);
            self.order.swap(last, other);
        }
        self.place = 0;
    }

    fn ping(&self, seq: u32, node: String) -> Message {
        let (source, source_node) = (Some(self.me.address), self.me.name.clone());
        Message::Ping(Ping { seq, node, source, source_node })
    }

    fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }
}
