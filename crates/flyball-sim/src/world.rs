//! The whole cluster: one queue of events, one thread, one source of randomness. A step takes the next event, lets one
//! node act, and puts what it wants done back into the queue.
//!
//! The world decides what a sender cannot: whether a packet arrives, whether anybody listens (nobody: the call was
//! never sent), and when a call has waited long enough (nobody knows whether it was applied).

mod lives;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use flyball_core::cluster::Failure;
use flyball_core::time::Instant;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::clock::SkewedClock;
use crate::invariants::{Facts, Happened, Invariants, Violation};
use crate::legacy::Legacy;
use crate::message::{Asked, Body, CheckId, Effect, NodeId, Reply, Told};
use crate::network::Network;
use crate::node::{Actor, Node, NodeSettings, Now};
use crate::trace::Trace;

/// After this a call to a peer has failed.
pub const TIMEOUT: Duration = Duration::from_millis(500);
/// A node that is woken so often at one moment is not getting anywhere.
const WAKES_MAX: u32 = 1_000;

#[derive(Clone, Debug)]
enum Event {
    Arrives { from: NodeId, to: NodeId, run: u64, call: u64, body: Body },
    Returns { to: NodeId, run: u64, call: u64, result: Result<Reply, Failure> },
    Wake { node: NodeId, run: u64 },
    Peers { node: NodeId, peers: Vec<NodeId> },
    Thaw { node: NodeId },
    Ends { node: NodeId, run: u64 },
}

/// A place in the queue: by time, then in the order in which things were planned.
#[derive(Debug)]
struct Planned {
    at: Instant,
    order: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Planned {}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A node and what the world does to it.
#[derive(Debug)]
struct Seat {
    node: Option<Box<dyn Actor>>,
    /// It is an original.
    legacy: bool,
    /// Counts its starts.
    run: u64,
    clock: SkewedClock,
    frozen_until: Option<Instant>,
    /// It was asked to stop, when nothing was in its way or when something was.
    stopping: Option<bool>,
    woken: Option<Instant>,
    wakes: u32,
}

/// See [the module](self).
#[derive(Debug)]
pub struct World {
    /// Simulated time.
    pub now: Instant,
    /// The wire.
    pub network: Network,
    /// What happened.
    pub trace: Trace,
    /// All randomness of the run.
    pub random: Xoshiro256PlusPlus,
    settings: NodeSettings,
    seats: Vec<Seat>,
    queue: BinaryHeap<Reverse<Planned>>,
    order: u64,
    next_check: CheckId,
    /// Checks that are not answered, and whom they were asked of.
    open: BTreeMap<CheckId, NodeId>,
    /// Answers since they were last taken.
    answers: Vec<(CheckId, Told)>,
    /// What everybody who watches knows.
    pub facts: Facts,
    invariants: Invariants,
}

impl World {
    /// A world with seats for so many nodes, none of which runs.
    pub fn new(seed: u64, nodes: usize, settings: &NodeSettings, network: Network, keep: usize) -> Self {
        let seat = |_| Seat {
            node: None,
            legacy: false,
            run: 0,
            clock: SkewedClock::default(),
            frozen_until: None,
            stopping: None,
            woken: None,
            wakes: 0,
        };
        Self {
            now: Instant(0),
            trace: Trace::new(keep),
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed),
            settings: settings.clone(),
            seats: (0..nodes).map(seat).collect(),
            queue: BinaryHeap::new(),
            order: 0,
            next_check: 0,
            open: BTreeMap::new(),
            answers: Vec::new(),
            facts: Facts::new(nodes, settings, network.latency.1.max(network.slowest)),
            network,
            invariants: Invariants::new(),
        }
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Planned { at, order: self.order, event }));
    }

    /// Makes the node at this seat an original, from its next start on.
    pub fn make_legacy(&mut self, node: NodeId) {
        self.seats[node].legacy = true;
        self.facts.legacy = true;
    }

    /// The nodes that run.
    pub fn running(&self) -> impl Iterator<Item = (NodeId, &dyn Actor)> {
        self.seats.iter().enumerate().filter_map(|(id, seat)| Some((id, seat.node.as_deref()?)))
    }

    /// What a node's wall clock shows.
    pub fn wall(&self, node: NodeId) -> flyball_core::Timestamp {
        self.seats[node].clock.wall(self.now)
    }

    fn moment(&self, node: NodeId) -> Now {
        Now { instant: self.now, wall: self.wall(node) }
    }

    /// Sets a node's wall clock.
    pub fn step_clock(&mut self, node: NodeId, ms: i64) {
        self.seats[node].clock.step(ms);
        self.facts.clock_set(node, ms);
        self.trace.note(format_args!("{} clock of {node} set by {ms}", self.now.0));
    }

    /// Sets a node's wall clock right.
    pub fn correct_clock(&mut self, node: NodeId) {
        self.seats[node].clock.correct();
        self.facts.clock_set(node, 0);
    }

    /// Discovery tells a node of its peers, some time from now.
    pub fn tell_peers(&mut self, node: NodeId, peers: Vec<NodeId>, after: Duration) {
        self.plan(self.now.saturating_add(after), Event::Peers { node, peers });
    }

    /// A client asks a node. The numbers of the checks come back; none when nothing listens there.
    pub fn ask(&mut self, node: NodeId, items: Vec<Asked>) -> Result<Vec<CheckId>, Violation> {
        let seat = &self.seats[node];
        if seat.node.is_none() || seat.stopping.is_some() || seat.frozen_until.is_some() {
            return Ok(Vec::new());
        }
        let mut checks = Vec::new();
        for asked in items {
            self.next_check += 1;
            let check = self.next_check;
            self.open.insert(check, node);
            self.see(node, &Happened::Asked(check, &asked))?;
            checks.push((check, asked));
        }
        let numbers = checks.iter().map(|(check, _)| *check).collect();
        self.act(node, |node, now, out| {
            node.ask(checks, now, out);
            None
        })?;
        Ok(numbers)
    }

    /// Answers that came since the last time.
    pub fn take_answers(&mut self) -> Vec<(CheckId, Told)> {
        std::mem::take(&mut self.answers)
    }

    /// Lets everything happen that happens until then.
    pub fn run_until(&mut self, until: Instant) -> Result<(), Violation> {
        while let Some(Reverse(next)) = self.queue.peek() {
            if next.at > until {
                break;
            }
            let Some(Reverse(Planned { at, event, .. })) = self.queue.pop() else { break };
            self.now = self.now.max(at);
            self.step(event)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn step(&mut self, event: Event) -> Result<(), Violation> {
        if let Event::Arrives { to: node, .. }
        | Event::Returns { to: node, .. }
        | Event::Wake { node, .. }
        | Event::Peers { node, .. } = &event
            && let Some(until) = self.seats[*node].frozen_until
        {
            self.plan(until, event);
            return Ok(());
        }
        match event {
            Event::Arrives { from, to, run, call, body } => {
                if self.seats[to].run != run || self.seats[to].node.is_none() {
                    return Ok(());
                }
                self.trace.note(format_args!("{} {from}>{to} call {call}", self.now.0));
                let from_run = self.seats[from].run;
                let mut reply = None;
                self.act(to, |node, now, out| {
                    reply = node.called(from, body, now, out);
                    None
                })?;
                if let (Some(reply), Some(way)) = (reply, self.network.fate(to, from, &mut self.random)) {
                    let result = Ok(reply);
                    self.plan(
                        self.now.saturating_add(way),
                        Event::Returns { to: from, run: from_run, call, result },
                    );
                }
            }
            Event::Returns { to, run, call, result } => {
                if self.seats[to].run == run {
                    self.act(to, |node, now, out| {
                        node.answered(call, result, now, out);
                        None
                    })?;
                }
            }
            Event::Wake { node, run } => {
                if self.seats[node].run == run {
                    let seat = &mut self.seats[node];
                    if seat.woken == Some(self.now) {
                        seat.woken = None;
                    }
                    self.act(node, |node, now, out| {
                        node.wake(now, out);
                        None
                    })?;
                }
            }
            Event::Peers { node, peers } => {
                self.act(node, |node, now, out| {
                    node.set_peers(&peers, now, out);
                    Some(node.view().local().iter().map(|peer| peer.grpc_address.clone()).collect())
                })?;
            }
            Event::Thaw { node } => self.seats[node].frozen_until = None,
            Event::Ends { node, run } => {
                if self.seats[node].run == run {
                    self.crash(node)?;
                }
            }
        }
        Ok(())
    }

    /// One node does something, and what it wants done is planned.
    fn act(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut dyn Actor, Now, &mut Vec<Effect>) -> Option<Vec<String>>,
    ) -> Result<(), Violation> {
        let now = self.moment(id);
        let Some(node) = self.seats[id].node.as_deref_mut() else { return Ok(()) };
        let mut out = Vec::new();
        if let Some(view) = act(node, now, &mut out) {
            self.trace.note(format_args!("{} {id} sees {view:?}", self.now.0));
            self.facts.saw(id, view, self.now);
        }
        for effect in out {
            self.carry_out(id, effect)?;
        }
        let Some(node) = self.seats[id].node.as_deref() else { return Ok(()) };
        if let Some(node) = node.flyball() {
            self.invariants.check_node(id, node, &self.facts)?;
        }
        if self.seats[id].stopping.is_some() && node.is_done() {
            return self.crash(id);
        }
        let next = node.poll_timeout();
        self.arm(id, next)
    }

    fn arm(&mut self, id: NodeId, next: Option<Instant>) -> Result<(), Violation> {
        let seat = &mut self.seats[id];
        let Some(next) = next else { return Ok(()) };
        seat.wakes = if next <= self.now { seat.wakes + 1 } else { 0 };
        if seat.wakes > WAKES_MAX {
            let text = format!("node {id} asks to be woken at {} and does nothing then", next.0);
            return Err(Violation { invariant: "poll_timeout", text });
        }
        // Millionths of a second are as fine as any timer; and time goes on, whatever a node asks for.
        let next = next.max(self.now.saturating_add(Duration::from_micros(1)));
        if seat.woken.is_none_or(|woken| woken > next || woken < self.now) {
            seat.woken = Some(next);
            let run = seat.run;
            self.plan(next, Event::Wake { node: id, run });
        }
        Ok(())
    }

    fn carry_out(&mut self, id: NodeId, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Send { to, call, body } => self.send(id, to, call, body),
            Effect::Tell(check, told) => {
                self.trace.note(format_args!("{} {id} answers {check} {told:?}", self.now.0));
                self.open.remove(&check);
                self.answers.push((check, told));
                self.see(id, &Happened::Answered(check, told))?;
            }
            Effect::Note(note) => {
                self.trace.note(format_args!("{} {id} {note:?}", self.now.0));
                self.see(id, &Happened::Noted(&note))?;
            }
        }
        Ok(())
    }

    fn send(&mut self, from: NodeId, to: NodeId, call: u64, body: Body) {
        let run = self.seats[from].run;
        let seat = &self.seats[to];
        let there = self.network.fate(from, to, &mut self.random);
        let failure = if seat.node.is_none() && !self.network.cut.contains(&(from, to)) {
            // Nobody listens, and the machine says so.
            let result = Err(Failure::NotSent);
            self.plan(
                self.now.saturating_add(self.network.latency.1),
                Event::Returns { to: from, run, call, result },
            );
            return;
        } else {
            Failure::Unanswered
        };
        if let Some(way) = there {
            let to_run = seat.run;
            self.plan(self.now.saturating_add(way), Event::Arrives { from, to, run: to_run, call, body });
        }
        let result = Err(failure);
        self.plan(self.now.saturating_add(TIMEOUT), Event::Returns { to: from, run, call, result });
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>) -> Result<(), Violation> {
        self.facts.now = self.now;
        self.invariants.see(node, happened, &self.facts)
    }

    /// The run is over and the cluster was left in peace for a while.
    pub fn conclude(&mut self) -> Result<(), Violation> {
        self.facts.now = self.now;
        let running: Vec<(NodeId, &Node, flyball_core::Timestamp)> = self
            .seats
            .iter()
            .enumerate()
            .filter_map(|(id, seat)| Some((id, seat.node.as_ref()?.flyball()?, seat.clock.wall(self.now))))
            .collect();
        self.invariants.conclude(&running, &self.facts)
    }

    /// A random node of those that run.
    pub fn some_node(&mut self) -> Option<NodeId> {
        let running: Vec<NodeId> = self.running().map(|(id, _)| id).collect();
        (!running.is_empty()).then(|| running[self.random.random_range(0..running.len())])
    }

    /// Seats, whether somebody sits there or not.
    pub fn seats(&self) -> usize {
        self.seats.len()
    }
}
