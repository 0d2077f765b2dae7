//! Following the keys of all nodes: what to do next, and which sets to believe, without asking anybody.
//!
//! ```text
//!            failed: next member, or a pause
//!               ┌────┐
//!               ▼    │
//!  start ──▶ open ───┴─▶ watch ──▶ (pause) ──▶ get ──▶ watch …
//!               ▲          │                    │
//!               └──────────┴──── failed ────────┘
//! ```
//!
//! *Open* reads all keys at one revision and begins to watch after it, so nothing falls between. What an event says does
//! not matter: it means that the keys are read again, at most four times a second however many nodes come and go. A
//! watch that ends, whatever the reason (its revision was compacted, the member lost its leader or its life), means a
//! new *open*.
//!
//! # What is believed
//! A set is looked at again for four seconds before it is believed when it lacks this node, when it lacks more than half
//! of the peers that were there, or when it lacks any of them just after something happened: the watch had to be opened
//! anew, or this node's own key was gone. After etcd has lost its data, or all leases ended while it was away, every
//! node writes its key again within the longest pause, but not all of them in the same moment. Whoever made a ring of
//! those that were first would count their keys anew.

use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use tokio::time::Instant;

use super::pace::Pace;

/// The least time between two readings of all keys.
const GET_PAUSE: Duration = Duration::from_millis(250);

/// How long a set is doubted: a little longer than the longest pause of a node that comes back.
const DOUBT: Duration = Duration::from_secs(4);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Connect to this member, read all keys and begin to watch.
    Open(usize),
    /// Read all keys.
    Get,
    /// Wait for an event, but no longer than until then.
    Watch(Option<Instant>),
    /// Nothing before then.
    Pause(Instant),
}

/// How it stands.
#[derive(Debug)]
pub(super) struct Follow {
    pace: Pace,
    state: State,
    /// When the keys were read last, and at which revision.
    read: Option<(Instant, i64)>,
    belief: Belief,
}

#[derive(Debug)]
enum State {
    /// Not connected; to be tried at this time.
    Closed(Instant),
    /// Connected, and nothing has changed since the keys were read.
    Watching,
    /// Connected, and something has changed.
    Stale,
}

impl Follow {
    pub(super) fn new(members: usize, seed: u64, now: Instant) -> Self {
        let pace = Pace::new(members, seed);
        Self { pace, state: State::Closed(now), read: None, belief: Belief::default() }
    }

    /// What to do now. Asked again after that was done.
    pub(super) fn next(&self, now: Instant) -> Step {
        match self.state {
            State::Closed(due) if due <= now => Step::Open(self.pace.member()),
            State::Closed(due) => Step::Pause(due),
            State::Watching => Step::Watch(self.belief.doubted_until()),
            State::Stale => match self.read {
                Some((at, _)) if now < at + GET_PAUSE => Step::Pause(at + GET_PAUSE),
                _ => Step::Get,
            },
        }
    }

    /// The keys were read; nothing came of it when there were too many. The set to tell, unless there is none that is
    /// believed, or it was told already. `own` is this node's address, if it is to be among them.
    pub(super) fn read(
        &mut self,
        now: Instant,
        revision: i64,
        own: Option<&str>,
        peers: Option<Vec<PeerInfo>>,
    ) -> Option<Vec<PeerInfo>> {
        self.pace.succeeded();
        if matches!(self.state, State::Closed(_)) {
            self.belief.happened = Some(now);
        }
        self.state = State::Watching;
        self.read = Some((now, revision));
        self.belief.take(now, own, peers?)
    }

    /// Whether the next reading is by a new connection, and so perhaps of another store.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Something changed, at this revision; or, without one, it is time to look again.
    pub(super) fn changed(&mut self, revision: Option<i64>) {
        // The event may tell of what was read already: watching begins before reading ends.
        let known = match (revision, self.read) {
            (Some(changed), Some((_, read))) => changed <= read,
            _ => false,
        };
        if !known {
            self.state = State::Stale;
        }
    }

    /// What was to be done failed.
    pub(super) fn failed(&mut self, now: Instant) {
        let again = match self.state {
            State::Closed(_) => self.pace.failed(now),
            State::Watching | State::Stale => {
                self.pace.lost();
                now
            }
        };
        self.state = State::Closed(again);
    }
}

/// Which sets are told.
#[derive(Debug, Default)]
struct Belief {
    told: Option<Vec<PeerInfo>>,
    /// Since when the sets that come are doubted.
    doubted: Option<Instant>,
    /// When something happened that may have cost keys.
    happened: Option<Instant>,
}

impl Belief {
    fn doubted_until(&self) -> Option<Instant> {
        self.doubted.map(|since| since + DOUBT)
    }

    fn take(&mut self, now: Instant, own: Option<&str>, peers: Vec<PeerInfo>) -> Option<Vec<PeerInfo>> {
        if self.told.as_ref() == Some(&peers) {
            self.doubted = None;
            return None;
        }
        if self.is_odd(now, own, &peers) {
            let since = *self.doubted.get_or_insert(now);
            if now < since + DOUBT {
                return None;
            }
        }
        self.doubted = None;
        self.told = Some(peers.clone());
        Some(peers)
    }

    fn is_odd(&mut self, now: Instant, own: Option<&str>, peers: &[PeerInfo]) -> bool {
        let has =
            |address: &str| peers.binary_search_by(|peer| peer.grpc_address.as_str().cmp(address)).is_ok();
        let own_is_missing = own.is_some_and(|own| !has(own));
        if own_is_missing {
            self.happened = Some(now);
        }
        let before = self.told.as_deref().unwrap_or_default();
        let lost = before.iter().filter(|peer| !has(&peer.grpc_address)).count();
        let just_now = self.happened.is_some_and(|at| now < at + DOUBT);
        own_is_missing || lost * 2 > before.len() || (lost > 0 && just_now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Option<&str> = Some("a:1");

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn set(addresses: &[&str]) -> Vec<PeerInfo> {
        addresses.iter().copied().map(PeerInfo::new).collect()
    }

    fn some(addresses: &[&str]) -> Option<Vec<PeerInfo>> {
        Some(set(addresses))
    }

    fn following(addresses: &[&str]) -> (Follow, Instant) {
        let now = Instant::now();
        let mut follow = Follow::new(3, 1, now);
        assert!(matches!(follow.next(now), Step::Open(_)));
        assert_eq!(follow.read(now, 10, OWN, some(addresses)), Some(set(addresses)));
        assert_eq!(follow.next(now), Step::Watch(None));
        (follow, now)
    }

    #[test]
    fn events_mean_reading_again_and_many_of_them_once() {
        let (mut follow, now) = following(&["a:1"]);
        // Of before the reading.
        follow.changed(Some(10));
        assert_eq!(follow.next(now), Step::Watch(None));
        follow.changed(Some(11));
        follow.changed(Some(12));
        assert_eq!(follow.next(now), Step::Pause(now + GET_PAUSE));
        let now = now + GET_PAUSE;
        assert_eq!(follow.next(now), Step::Get);
        assert_eq!(follow.read(now, 12, OWN, some(&["a:1", "b:1"])), Some(set(&["a:1", "b:1"])));
        assert_eq!(follow.next(now), Step::Watch(None));
        // Much later there is nothing to wait for.
        follow.changed(Some(13));
        assert_eq!(follow.next(now + seconds(1)), Step::Get);
        assert_eq!(follow.read(now + seconds(1), 13, OWN, some(&["a:1", "b:1"])), None);
    }

    #[test]
    fn a_watch_that_ends_is_opened_again_at_once_elsewhere_and_then_within_three_seconds() {
        let (mut follow, now) = following(&["a:1"]);
        let Step::Open(first) = Follow::new(3, 1, now).next(now) else { panic!() };
        follow.failed(now);
        assert_eq!(follow.next(now), Step::Open((first + 1) % 3));
        for _ in 0..30 {
            follow.failed(now);
            if let Step::Pause(until) = follow.next(now) {
                assert!(until <= now + seconds(3) && matches!(follow.next(until), Step::Open(_)));
            }
        }
    }

    #[test]
    fn the_loss_of_more_than_half_is_believed_when_it_stays() {
        let all = ["a:1", "b:1", "c:1"];
        let (mut follow, now) = following(&all);
        // Two are gone at once: are they?
        assert_eq!(follow.read(now, 11, OWN, some(&["a:1"])), None);
        assert_eq!(follow.next(now), Step::Watch(Some(now + DOUBT)));
        // They are not: nobody ever heard of it.
        assert_eq!(follow.read(now + seconds(1), 12, OWN, some(&all)), None);
        assert_eq!(follow.next(now), Step::Watch(None));
        // They are.
        assert_eq!(follow.read(now, 13, OWN, some(&["a:1"])), None);
        follow.changed(None);
        assert_eq!(follow.read(now + DOUBT, 13, OWN, some(&["a:1"])), Some(set(&["a:1"])));
        assert_eq!(follow.next(now), Step::Watch(None));
    }

    #[test]
    fn up_to_half_may_go_at_once_while_nothing_happens() {
        let (mut follow, now) = following(&["a:1", "b:1", "c:1", "d:1"]);
        let now = now + DOUBT;
        assert!(follow.read(now, 11, OWN, some(&["a:1", "b:1"])).is_some());
        assert!(follow.read(now, 12, OWN, some(&["a:1"])).is_some());
    }

    #[test]
    fn after_an_outage_nobody_is_given_up_at_once() {
        let all = ["a:1", "b:1", "c:1"];
        let (mut follow, now) = following(&all);
        let now = now + seconds(60);
        follow.failed(now);
        assert!(matches!(follow.next(now), Step::Open(_)));
        // One is not back yet.
        assert_eq!(follow.read(now, 3, OWN, some(&["a:1", "b:1"])), None);
        assert_eq!(follow.next(now), Step::Watch(Some(now + DOUBT)));
        assert_eq!(follow.read(now + seconds(2), 4, OWN, some(&all)), None);
        assert_eq!(follow.next(now), Step::Watch(None));
        // The same after this node's own key was gone; a peer more is news at any time.
        let now = now + seconds(60);
        assert_eq!(follow.read(now, 5, OWN, some(&["b:1", "c:1"])), None);
        assert_eq!(follow.read(now + seconds(1), 6, OWN, some(&["a:1", "c:1"])), None);
        let more = ["a:1", "b:1", "c:1", "d:1"];
        assert_eq!(follow.read(now + seconds(2), 7, OWN, some(&more)), some(&more));
        // Whoever stays away is given up.
        let now = now + seconds(60);
        follow.failed(now);
        assert_eq!(follow.read(now, 8, OWN, some(&all)), None);
        assert_eq!(follow.read(now + DOUBT, 8, OWN, some(&all)), some(&all));
    }

    #[test]
    fn a_set_without_this_node_is_told_only_when_it_stays_so() {
        let now = Instant::now();
        let mut follow = Follow::new(1, 1, now);
        assert_eq!(follow.read(now, 1, OWN, some(&["b:1"])), None);
        assert_eq!(follow.read(now + seconds(1), 2, OWN, some(&["a:1", "b:1"])), Some(set(&["a:1", "b:1"])));
        assert_eq!(follow.read(now + seconds(9), 3, OWN, some(&["b:1"])), None);
        // Doubt is about the sets that come, not about one of them.
        assert_eq!(follow.read(now + seconds(10), 4, OWN, some(&["b:1", "c:1"])), None);
        assert!(follow.read(now + seconds(13), 5, OWN, some(&["b:1", "c:1"])).is_some());
        // Who goes does not look for itself.
        assert!(follow.read(now + seconds(20), 5, None, some(&["b:1"])).is_some());
        // Nobody at all is for the caller to judge.
        assert_eq!(follow.read(now + seconds(30), 6, OWN, some(&[])), None);
        assert_eq!(follow.read(now + seconds(34), 6, OWN, some(&[])), some(&[]));
    }
}
