//! The network below the calls: a packet arrives after a while, or never. Calls are not doubled, as on a connection they
//! are not; but the answer to one that was applied may be lost, and one that was given up may still arrive.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::message::NodeId;

/// See [the module](self).
#[derive(Clone, Debug)]
pub struct Network {
    /// The quickest and the slowest usual way.
    pub latency: (Duration, Duration),
    /// One in so many packets is lost; 0 for none.
    pub loss: u32,
    /// One in so many packets takes up to `slowest`; 0 for none.
    pub slow: u32,
    /// How long a slow packet may take.
    pub slowest: Duration,
    /// Ways on which nothing arrives, each in one direction.
    pub cut: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    /// A network without faults.
    pub fn quick() -> Self {
        Self {
            latency: (Duration::from_micros(200), Duration::from_micros(200)),
            loss: 0,
            slow: 0,
            slowest: Duration::ZERO,
            cut: BTreeSet::new(),
        }
    }

    /// How long a packet takes; `None` when it is lost.
    pub fn fate(&self, from: NodeId, to: NodeId, random: &mut Xoshiro256PlusPlus) -> Option<Duration> {
        let lost = self.loss > 0 && random.random_ratio(1, self.loss);
        if lost || self.cut.contains(&(from, to)) {
            return None;
        }
        let (least, most) = self.latency;
        let slow = self.slow > 0 && random.random_ratio(1, self.slow);
        let most = if slow { self.slowest.max(most) } else { most };
        let nanoseconds = random.random_range(least.as_nanos() as u64..=most.as_nanos() as u64);
        Some(Duration::from_nanos(nanoseconds))
    }
}
