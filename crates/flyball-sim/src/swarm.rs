//! From a seed to a cluster and its troubles: every run is another mix, so that each kind of trouble also comes alone.

use std::time::Duration;

use flyball_core::Rules;
use flyball_core::cluster::{BatchSettings, GlobalSettings, RingSettings, Unreachable};
use flyball_core::ring::Replicas;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::fault::Fault;
use crate::network::Network;
use crate::node::NodeSettings;

/// What one run is like. Printed when it fails.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything else follows from it.
    pub seed: u64,
    /// Nodes.
    pub nodes: usize,
    /// So many of them, the last ones, are originals.
    pub legacy: usize,
    /// How long there is trouble.
    pub chaos: Duration,
    /// Between two calls of clients, on average.
    pub pace: Duration,
    /// The most items in a call.
    pub items_max: usize,
    /// Different keys.
    pub keys: usize,
    /// Keys are drawn as the least of so many draws: 1 is even, more is skewed.
    pub skew: u32,
    /// How many of a hundred keys are GLOBAL.
    pub global_percent: u32,
    /// How many of a hundred keys see refunds, resets, changed limits and the rest.
    pub wild_percent: u32,
    /// One call in so many meets trouble for a node; 0 for none of its kind.
    pub partitions: u32,
    /// Frozen nodes.
    pub freezes: u32,
    /// Crashes, each followed by a start.
    pub crashes: u32,
    /// Changed sets of peers.
    pub churn: u32,
    /// Clocks that are set.
    pub steps: u32,
    /// How far clocks are off at first, at most, in milliseconds.
    pub skew_ms: i64,
    /// The wire.
    pub network: Network,
    /// How nodes are set up.
    pub node: NodeSettings,
}

impl Options {
    /// The options of a seed, with a fault or without.
    pub fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let random = &mut random;
        // Each kind of trouble is absent in half of the runs.
        let mut perhaps = |one_in: std::ops::Range<u32>| {
            let rate = random.random_range(one_in);
            if random.random_bool(0.5) { rate } else { 0 }
        };
        let (partitions, freezes) = (perhaps(30..300), perhaps(30..300));
        let (crashes, churn, steps) = (perhaps(60..400), perhaps(40..300), perhaps(60..300));
        let (loss, slow) = (perhaps(10..200), perhaps(4..40));
        let skewed = perhaps(1..2) == 1;
        let network = Network {
            latency: (
                Duration::from_micros(random.random_range(50..500)),
                Duration::from_micros(random.random_range(500..20_000)),
            ),
            loss,
            slow,
            // Some way past the timeout of a call, so that given-up messages still arrive.
            slowest: Duration::from_millis(random.random_range(300..2_000)),
            ..Network::quick()
        };
        let tight = random.random_bool(0.2);
        let seed_of_tables = random.random();
        let sync_wait = Duration::from_millis(*pick(random, &[20, 100, 100, 250]));
        let items_max = *pick(random, &[3, 20, 1_000]);
        let keys_max = if tight { 4 } else { 1_000 };
        let hits = GlobalSettings {
            sync_wait,
            items_max,
            keys_max,
            seed: seed_of_tables,
            ..GlobalSettings::default()
        };
        let broadcast = GlobalSettings {
            sync_wait,
            items_max,
            keys_max: if tight { 8 } else { 1_000 },
            seed: seed_of_tables,
            ..GlobalSettings::default()
        };
        let policies = [Unreachable::LocalShare, Unreachable::Local, Unreachable::Deny, Unreachable::Error];
        let nodes = random.random_range(2..=6);
        let node = NodeSettings {
            rules: Rules::default(),
            ring: RingSettings { replicas: Replicas::new(16).unwrap_or_default(), ..RingSettings::default() },
            batch: BatchSettings {
                items_max: *pick(random, &[4, 1_000]),
                waiting_max: if tight { 16 } else { 10_000 },
                ..BatchSettings::default()
            },
            hits,
            broadcast,
            unreachable: *pick(random, &policies),
            fault,
        };
        let mixed = random.random_bool(0.2);
        Self {
            seed,
            nodes,
            legacy: if mixed { random.random_range(1..nodes) } else { 0 },
            chaos: Duration::from_millis(random.random_range(4_000..10_000)),
            pace: Duration::from_micros(random.random_range(3_000..20_000)),
            items_max: *pick(random, &[1, 4, 12]),
            keys: *pick(random, &[2, 8, 30]),
            skew: random.random_range(1..4),
            global_percent: *pick(random, &[0, 40, 70, 100]),
            wild_percent: *pick(random, &[0, 0, 30, 100]),
            partitions,
            freezes,
            crashes,
            churn,
            steps,
            skew_ms: if skewed { random.random_range(1..3_000) } else { 0 },
            network,
            node,
        }
    }
}

/// One of them.
pub fn pick<'a, T>(random: &mut Xoshiro256PlusPlus, of: &'a [T]) -> &'a T {
    &of[random.random_range(0..of.len())]
}
