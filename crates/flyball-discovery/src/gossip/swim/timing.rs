//! How long things take: the profile for wide networks that the original uses, and what follows from it.

use std::time::Duration;

/// Intervals and numbers of the protocol. The default is what the original uses; nodes need not have the same, but
/// one that is quicker than the others accuses them before they could answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Between two probes by this node.
    pub probe_interval: Duration,
    /// How long the probed node has to answer before others are asked to try.
    pub probe_timeout: Duration,
    /// How many others are asked.
    pub indirect_checks: usize,
    /// Between two rounds of gossip.
    pub gossip_interval: Duration,
    /// How many nodes are told in each round.
    pub gossip_nodes: usize,
    /// How long the dead are told too, in case they are not.
    pub gossip_to_the_dead: Duration,
    /// Each news is sent this often times the order of magnitude of the cluster.
    pub retransmit_mult: u32,
    /// How long a node is suspected, in probe intervals times the order of magnitude of the cluster.
    pub suspicion_mult: u32,
    /// How much longer while nobody confirms it.
    pub suspicion_max_mult: u32,
    /// Worst health of this node, plus one: how much slower it gets at most.
    pub awareness_max: u32,
    /// Between two exchanges of everything with somebody.
    pub push_pull_interval: Duration,
    /// Bound of anything over TCP.
    pub tcp_timeout: Duration,
    /// Time for which this node did not run, from which on nobody else is blamed for it.
    pub stall: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(5),
            probe_timeout: Duration::from_secs(3),
            indirect_checks: 3,
            gossip_interval: Duration::from_millis(500),
            gossip_nodes: 4,
            gossip_to_the_dead: Duration::from_secs(60),
            retransmit_mult: 4,
            suspicion_mult: 6,
            suspicion_max_mult: 6,
            awareness_max: 8,
            push_pull_interval: Duration::from_secs(60),
            tcp_timeout: Duration::from_secs(30),
            stall: Duration::from_millis(500),
        }
    }
}

/// Size of a cluster up to which everything is exchanged at the plain interval.
const PUSH_PULL_SCALE: f64 = 32.0;

impl Timing {
    /// How often one news is sent by one node of `nodes`.
    pub(crate) fn retransmits(&self, nodes: usize) -> u32 {
        let magnitude = ((nodes as f64) + 1.0).log10().ceil();
        self.retransmit_mult * (magnitude as u32).max(1)
    }

    /// The shortest time for which a node of `nodes` is suspected.
    pub(crate) fn suspicion(&self, nodes: usize) -> Duration {
        let magnitude = (nodes.max(1) as f64).log10().max(1.0);
        self.probe_interval.mul_f64(f64::from(self.suspicion_mult) * magnitude)
    }

    /// How many others have to confirm a suspicion for it to be that short: none where there are too few to ask.
    pub(crate) fn confirmations(&self, nodes: usize) -> u32 {
        let wanted = self.suspicion_mult.saturating_sub(2);
        if nodes < wanted as usize + 2 { 0 } else { wanted }
    }

    /// Between two exchanges of everything in a cluster of `nodes`: large ones cannot afford them as often.
    pub(crate) fn push_pull(&self, nodes: usize) -> Duration {
        let doublings = ((nodes as f64).log2() - PUSH_PULL_SCALE.log2()).ceil().max(0.0);
        self.push_pull_interval * (doublings as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_the_cluster_as_the_original_s() {
        let timing = Timing::default();
        let seconds = |duration: Duration| duration.as_secs();
        for (nodes, retransmits, suspicion, confirmations, push_pull) in [
            (1, 4, 30, 0, 60),
            (5, 4, 30, 0, 60),
            (6, 4, 30, 4, 60),
            (9, 4, 30, 4, 60),
            (10, 8, 30, 4, 60),
            (32, 8, 45, 4, 60),
            (33, 8, 45, 4, 120),
            (100, 12, 60, 4, 180),
            (1000, 16, 90, 4, 360),
        ] {
            assert_eq!(timing.retransmits(nodes), retransmits, "{nodes}");
            assert_eq!(seconds(timing.suspicion(nodes)), suspicion, "{nodes}");
            assert_eq!(timing.confirmations(nodes), confirmations, "{nodes}");
            assert_eq!(seconds(timing.push_pull(nodes)), push_pull, "{nodes}");
        }
    }
}
