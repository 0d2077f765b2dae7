//! Which member to try, and when: the next one at once, and a pause when all of them have failed.
//!
//! Members are tried one at a time and in turn instead of leaving the choice to a balanced channel: a call to a member
//! that hangs, or that has lost its leader, says so by its own error, and the next call certainly goes to another.
//! Nodes begin at different members and pause for different times, so that a restart of etcd does not meet all of them
//! in step.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use tokio::time::Instant;

/// The pause after the first round in which every member failed; then twice as long each time.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause. With one request's bound it stays below ten seconds, within which a node has to be back.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Where the tries stand.
#[derive(Debug)]
pub(super) struct Pace {
    members: usize,
    at: usize,
    /// Tries that failed since the last success.
    failures: usize,
    rng: SplitMix64,
}

impl Pace {
    /// For so many members, at least one.
    pub(super) fn new(members: usize, seed: u64) -> Self {
        let mut rng = SplitMix64::seed_from_u64(seed);
        let members = members.max(1);
        let at = rng.random_range(0..members);
        Self { members, at, failures: 0, rng }
    }

    /// The member to try now.
    pub(super) fn member(&self) -> usize {
        self.at
    }

    /// A try went well.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// What went well does no longer: the next member is asked, at once.
    pub(super) fn lost(&mut self) {
        self.at = (self.at + 1) % self.members;
    }

    /// A try failed: when to try again, with the next member.
    pub(super) fn failed(&mut self, now: Instant) -> Instant {
        self.lost();
        self.failures = self.failures.saturating_add(1);
        if !self.failures.is_multiple_of(self.members) {
            return now;
        }
        let doublings = (self.failures / self.members - 1).min(8);
        let longest = PAUSE_FIRST.saturating_mul(1 << doublings).min(PAUSE_MAX).as_millis() as u64;
        now + Duration::from_millis(self.rng.random_range(longest / 2..=longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_are_tried_before_a_pause_and_pauses_grow_to_three_seconds() {
        let mut pace = Pace::new(3, 7);
        let now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let mut tried = vec![pace.member()];
            for _ in 0..2 {
                assert_eq!(pace.failed(now), now);
                tried.push(pace.member());
            }
            tried.sort_unstable();
            assert_eq!(tried, [0, 1, 2]);
            pauses.push((pace.failed(now) - now).as_millis());
        }
        let bounds =
            [(250, 500), (500, 1_000), (1_000, 2_000), (1_500, 3_000), (1_500, 3_000), (1_500, 3_000)];
        for (pause, (least, most)) in pauses.iter().zip(bounds) {
            assert!((least..=most).contains(pause), "{pauses:?}");
        }
        pace.succeeded();
        pace.lost();
        assert_eq!(pace.failed(now), now);
    }

    #[test]
    fn nodes_begin_at_different_members() {
        let begun: std::collections::BTreeSet<_> = (0..50).map(|seed| Pace::new(3, seed).member()).collect();
        assert_eq!(begun.len(), 3);
        // Nobody can be told of none, but nothing is divided by zero either.
        assert_eq!(Pace::new(0, 1).member(), 0);
    }
}
