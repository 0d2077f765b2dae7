//! What clients ask. A key is tame (one limit, positive hits and looks) or wild; invariants that speak of sums and of
//! order hold for tame keys only.

use flyball_core::Behavior;
use flyball_core::cluster::OwnedKey;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::message::Asked;
use crate::swarm::{Options, pick};

/// The limit behind one key.
#[derive(Clone, Debug)]
pub struct Subject {
    /// As it is asked about, with no hits.
    pub asked: Asked,
    /// It sees refunds, resets, drains and changed limits.
    pub wild: bool,
}

/// Names of wild keys begin with this.
const WILD: &str = "wild";

/// Whether sums over this key's hits mean anything.
pub fn is_tame(key: &OwnedKey) -> bool {
    !key.name.starts_with(WILD)
}

/// All keys of a run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// By rank: the first are asked most.
    pub subjects: Vec<Subject>,
    skew: u32,
}

impl Workload {
    /// Draws the keys.
    pub fn new(options: &Options, random: &mut Xoshiro256PlusPlus) -> Self {
        let subject = |number: usize| {
            let wild = random.random_ratio(options.wild_percent, 100);
            let leaky = random.random_bool(0.3);
            let mut behavior = Behavior::default();
            if random.random_ratio(options.global_percent, 100) {
                behavior = behavior.with(Behavior::GLOBAL);
            } else if random.random_bool(0.2) {
                behavior = behavior.with(Behavior::NO_BATCHING);
            }
            let calendar = random.random_bool(0.15);
            if calendar {
                behavior = behavior.with(Behavior::DURATION_IS_GREGORIAN);
            }
            let limit = *pick(random, &[1, 5, 20, 100, 100_000]);
            let name = if wild { WILD } else { "tame" };
            let asked = Asked {
                // The number first: FNV-1 hardly mixes last bytes, and then all keys would have one owner.
                key: OwnedKey { name: name.into(), unique_key: format!("{number}-account").into() },
                hits: 0,
                limit,
                duration: if calendar { 0 } else { random.random_range(300..8_000) },
                algorithm: i32::from(leaky),
                behavior,
                burst: if leaky && random.random_bool(0.3) { limit + 3 } else { 0 },
                created_at: None,
                max_wait: 0,
            };
            Subject { asked, wild }
        };
        Self { subjects: (0..options.keys).map(subject).collect(), skew: options.skew }
    }

    /// What one check asks.
    pub fn check(&self, random: &mut Xoshiro256PlusPlus) -> Asked {
        let draws = (0..self.skew).map(|_| random.random_range(0..self.subjects.len()));
        let Subject { asked, wild } = &self.subjects[draws.min().unwrap_or(0)];
        let mut asked = asked.clone();
        asked.hits = *pick(random, &[0, 1, 1, 1, 1, 2, 3]);
        if *wild {
            match random.random_range(0..12) {
                0 => asked.hits = -2,
                1 => asked.behavior = asked.behavior.with(Behavior::RESET_REMAINING),
                2 => asked.behavior = asked.behavior.with(Behavior::DRAIN_OVER_LIMIT),
                3 => asked.limit += 5,
                4 => asked.algorithm = 1 - asked.algorithm,
                5 => asked.hits = asked.limit + 1,
                6 => asked.duration = asked.duration.saturating_mul(2),
                7 if asked.algorithm == 1 => asked.max_wait = 500,
                _ => {}
            }
        }
        asked
    }
}
