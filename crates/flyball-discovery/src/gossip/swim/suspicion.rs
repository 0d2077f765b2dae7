//! The time a node has to defend itself.
//!
//! One accuser may be the one with the problem, so the time begins long and becomes shorter with each other node that
//! says the same, along a logarithm: the first who agree count most.

use std::collections::BTreeSet;
use std::time::Duration;

use flyball_core::time::Instant;

/// A suspicion that runs.
#[derive(Clone, Debug)]
pub(crate) struct Suspicion {
    since: Instant,
    least: Duration,
    most: Duration,
    /// How many others make it shortest.
    wanted: u32,
    /// Who agrees, the first accuser included; at most one more than are wanted.
    accusers: BTreeSet<String>,
}

impl Suspicion {
    pub(crate) fn new(since: Instant, least: Duration, most: Duration, wanted: u32, accuser: &str) -> Self {
        Self { since, least, most, wanted, accusers: BTreeSet::from([accuser.to_owned()]) }
    }

    /// Somebody else agrees. Whether that is news, to be passed on.
    pub(crate) fn confirm(&mut self, accuser: &str) -> bool {
        self.accusers.len() <= self.wanted as usize && self.accusers.insert(accuser.to_owned())
    }

    /// When the node counts as dead.
    pub(crate) fn deadline(&self) -> Instant {
        let wait = match self.wanted {
            0 => self.least,
            wanted => {
                let agreeing = self.accusers.len() as f64;
                let part = agreeing.ln() / (f64::from(wanted) + 1.0).ln();
                let most = self.most.as_secs_f64();
                let wait = most - part * (most - self.least.as_secs_f64());
                Duration::from_secs_f64(wait.max(0.0)).max(self.least)
            }
        };
        self.since.saturating_add(wait)
    }

    /// Time that does not count.
    pub(crate) fn postpone(&mut self, by: Duration) {
        self.since = self.since.saturating_add(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn each_other_accuser_shortens_it_down_to_the_least() {
        let mut suspicion = Suspicion::new(Instant(0), S(30), S(180), 4, "a");
        let seconds = |suspicion: &Suspicion| suspicion.deadline().0 / 1_000_000_000;
        assert_eq!(seconds(&suspicion), 180);
        for (accuser, news, left) in [
            ("a", false, 180),
            ("b", true, 115),
            ("b", false, 115),
            ("c", true, 77),
            ("d", true, 50),
            ("e", true, 30),
            ("f", false, 30),
        ] {
            assert_eq!((suspicion.confirm(accuser), seconds(&suspicion)), (news, left), "{accuser}");
        }
    }

    #[test]
    fn in_a_small_cluster_it_is_shortest_at_once() {
        let mut suspicion = Suspicion::new(Instant(5), S(30), S(180), 0, "a");
        assert!(!suspicion.confirm("b"));
        assert_eq!(suspicion.deadline(), Instant(30_000_000_005));
        suspicion.postpone(S(1));
        assert_eq!(suspicion.deadline(), Instant(31_000_000_005));
    }
}
