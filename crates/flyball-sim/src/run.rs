//! One run: chaos, healing, and the verdict.

use std::fmt;
use std::time::Duration;

use flyball_core::Behavior;
use flyball_core::time::Instant;
use rand::Rng;

use crate::fault::Fault;
use crate::invariants::Violation;
use crate::message::NodeId;
use crate::network::Network;
use crate::swarm::Options;
use crate::workload::Workload;
use crate::world::World;

/// A run without a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Of everything that happened.
    pub digest: u64,
    /// Checks that were asked.
    pub checks: u64,
}

/// A run that showed something.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What.
    pub violation: Violation,
    /// When.
    pub at: Instant,
    /// In which run.
    pub options: Box<Options>,
    /// What happened last, if that was asked for.
    pub tail: Vec<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "{:#?}", self.options)?;
        writeln!(
            f,
            "seed {} at {:?}: {}",
            self.options.seed,
            Duration::from_nanos(self.at.0),
            self.violation
        )?;
        write!(f, "to see it again: cargo xtask sim --seed {}", self.options.seed)
    }
}

/// Runs one seed. So many lines of what happened last are kept for a failure.
pub fn run(seed: u64, fault: Option<Fault>, keep: usize) -> Result<Passed, Failed> {
    let options = Options::new(seed, fault);
    let mut world = World::new(seed, options.nodes, &options.node, options.network.clone(), keep);
    let result = live(&mut world, &options);
    match result {
        Ok(checks) => Ok(Passed { digest: world.trace.digest(), checks }),
        Err(violation) => Err(Failed {
            violation,
            at: world.now,
            options: Box::new(options),
            tail: world.trace.tail().map(str::to_owned).collect(),
        }),
    }
}

fn live(world: &mut World, options: &Options) -> Result<u64, Violation> {
    let workload = Workload::new(options, &mut world.random);
    let all: Vec<NodeId> = (0..options.nodes).collect();
    for node in options.nodes - options.legacy..options.nodes {
        world.make_legacy(node);
    }
    for node in &all {
        world.start(*node);
        let ahead = if options.skew_ms == 0 {
            0
        } else {
            world.random.random_range(-options.skew_ms..=options.skew_ms)
        };
        world.step_clock(*node, ahead);
        world.tell_peers(*node, all.clone(), Duration::ZERO);
    }
    let mut checks = 0;
    let end = world.now.saturating_add(options.chaos);
    while world.now < end {
        let pause = world.random.random_range(0..=2 * options.pace.as_nanos() as u64);
        let next = world.now.saturating_add(Duration::from_nanos(pause));
        world.run_until(next)?;
        trouble(world, options)?;
        let Some(node) = world.some_node() else { continue };
        let count = world.random.random_range(1..=options.items_max);
        let items: Vec<_> = (0..count).map(|_| workload.check(&mut world.random)).collect();
        checks += items.len() as u64;
        world.ask(node, items)?;
        world.take_answers();
    }
    heal(world, &all)?;
    touch(world, options, &workload)?;
    world.conclude()?;
    Ok(checks)
}

/// One trouble more, perhaps.
fn trouble(world: &mut World, options: &Options) -> Result<(), Violation> {
    let happens = |world: &mut World, one_in: u32| one_in > 0 && world.random.random_ratio(1, one_in);
    let some = |world: &mut World| world.random.random_range(0..options.nodes);
    if happens(world, options.partitions) {
        // As often mended as made; one way as often as both.
        if world.random.random_bool(0.5) {
            world.network.cut.clear();
        } else {
            let (a, b) = (some(world), some(world));
            world.network.cut.insert((a, b));
            if world.random.random_bool(0.5) {
                world.network.cut.insert((b, a));
            }
        }
    }
    if happens(world, options.freezes) {
        let (node, ms) = (some(world), world.random.random_range(1..3_000));
        world.freeze(node, Duration::from_millis(ms));
    }
    if happens(world, options.crashes) {
        let node = some(world);
        if world.running().any(|(id, _)| id == node) {
            if world.random.random_bool(0.5) {
                world.crash(node)?;
            } else {
                world.stop(node)?;
            }
        } else {
            world.start(node);
            let peers = some_peers(world, options, node);
            world.tell_peers(node, peers, Duration::ZERO);
        }
    }
    if happens(world, options.churn) {
        let peers = some_peers(world, options, usize::MAX);
        for node in 0..options.nodes {
            let after = Duration::from_millis(world.random.random_range(0..400));
            world.tell_peers(node, peers.clone(), after);
        }
    }
    if happens(world, options.steps) {
        let (node, ms) = (some(world), world.random.random_range(-2_000..2_000));
        world.step_clock(node, ms);
    }
    Ok(())
}

fn some_peers(world: &mut World, options: &Options, with: NodeId) -> Vec<NodeId> {
    let here = |node: &NodeId| *node == with || world.random.random_bool(0.7);
    (0..options.nodes).filter(here).collect()
}

/// All troubles end, and the cluster gets the time to find out.
fn heal(world: &mut World, all: &[NodeId]) -> Result<(), Violation> {
    world.network = Network::quick();
    // What is still frozen or on its way comes back first.
    world.run_until(world.now.saturating_add(Duration::from_secs(4)))?;
    for node in all {
        if !world.running().any(|(id, _)| id == *node) {
            world.start(*node);
        }
        world.correct_clock(*node);
        world.tell_peers(*node, all.to_vec(), Duration::ZERO);
    }
    world.run_until(world.now.saturating_add(Duration::from_secs(8)))
}

/// Every GLOBAL key is asked once more on every node.
fn touch(world: &mut World, options: &Options, workload: &Workload) -> Result<(), Violation> {
    let global = workload.subjects.iter().filter(|subject| subject.asked.behavior.has(Behavior::GLOBAL));
    for subject in global {
        for node in 0..world.seats() {
            let mut asked = subject.asked.clone();
            asked.hits = 1;
            world.ask(node, vec![asked])?;
        }
        // One after the other: with tight bounds they would push each other out.
        world.run_until(world.now.saturating_add(options.node.hits.sync_wait * 3))?;
    }
    world.run_until(world.now.saturating_add(Duration::from_secs(3)))
}
