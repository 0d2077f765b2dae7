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
//! After etcd has lost its data, or all leases ended while it was away, every node writes its key again within the longest
//! pause, but not all of them in the same moment, and whoever made a ring of those that were first would count their keys
//! anew. A key that goes while it is watched is gone; so for four seconds, each longer than that pause:
//! * peers that were there before the watch was opened, and have not been seen since, stay in the set;
//! * so does this node itself, whose key is being written (before the first set there is none without it);
//! * a set without more than half of the peers is not believed at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use tokio::time::Instant;

use super::pace::Pace;

/// The least time between two readings of all keys.
const GET_PAUSE: Duration = Duration::from_millis(250);

/// How long it takes until somebody who is missing is.
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
            State::Watching => Step::Watch(self.belief.until),
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
        if self.is_closed() {
            self.belief.opened(now);
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
    /// When the watch was opened, and which of the peers have been seen since.
    opened: Option<Instant>,
    seen: BTreeSet<String>,
    /// Since when this node's key is missing, and more than half of the peers.
    own_missing: Option<Instant>,
    most_missing: Option<Instant>,
    /// When to look again although nothing happens.
    until: Option<Instant>,
}

impl Belief {
    fn opened(&mut self, now: Instant) {
        self.opened = Some(now);
        self.seen.clear();
        self.most_missing = None;
    }

    fn take(&mut self, now: Instant, own: Option<&str>, peers: Vec<PeerInfo>) -> Option<Vec<PeerInfo>> {
        self.until = None;
        let mut set: BTreeMap<String, PeerInfo> =
            peers.into_iter().map(|peer| (peer.grpc_address.clone(), peer)).collect();
        self.seen.extend(set.keys().cloned());
        let told = self.told.as_deref().unwrap_or_default();
        let opened = self.opened.unwrap_or(now) + DOUBT;
        for peer in told {
            let address = &peer.grpc_address;
            if !set.contains_key(address) && !self.seen.contains(address) && now < opened {
                set.insert(address.clone(), peer.clone());
                self.until = Some(opened);
            }
        }
        let own = own.filter(|own| !set.contains_key(*own));
        match own {
            None => self.own_missing = None,
            Some(own) => {
                let until = *self.own_missing.get_or_insert(now) + DOUBT;
                let before = told.iter().find(|peer| peer.grpc_address == own);
                if now < until {
                    self.until = Some(until);
                    // Before the first set there is nobody to be kept.
                    set.insert(own.to_owned(), before?.clone());
                }
            }
        }
        let lost = told.iter().filter(|peer| !set.contains_key(&peer.grpc_address)).count();
        if lost * 2 > told.len() {
            let until = *self.most_missing.get_or_insert(now) + DOUBT;
            if now < until {
                self.until = Some(until);
                return None;
            }
        }
        self.most_missing = None;
        // As many as there are peers, whoever came and went.
        self.seen.retain(|address| set.contains_key(address));
        let set: Vec<PeerInfo> = set.into_values().collect();
        if self.told.as_ref() == Some(&set) {
            return None;
        }
        self.told = Some(set.clone());
        Some(set)
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
        assert_eq!(follow.read(now + DOUBT, 13, OWN, some(&["a:1"])), some(&["a:1"]));
        assert_eq!(follow.next(now), Step::Watch(None));
    }

    #[test]
    fn a_key_that_goes_while_it_is_watched_is_gone() {
        let (mut follow, now) = following(&["a:1", "b:1", "c:1", "d:1"]);
        assert_eq!(follow.read(now, 11, OWN, some(&["a:1", "b:1"])), some(&["a:1", "b:1"]));
        assert_eq!(follow.read(now, 12, OWN, some(&["a:1"])), some(&["a:1"]));
    }

    #[test]
    fn after_an_outage_nobody_is_given_up_at_once() {
        let (mut follow, now) = following(&["a:1", "b:1", "c:1"]);
        let now = now + seconds(60);
        follow.failed(now);
        assert!(matches!(follow.next(now), Step::Open(_)));
        // Nobody is back yet, not even this node.
        assert_eq!(follow.read(now, 1, OWN, some(&[])), None);
        assert_eq!(follow.next(now), Step::Watch(Some(now + DOUBT)));
        // Whoever joins is known at once, and whoever was back and leaves is gone.
        assert_eq!(follow.read(now, 2, OWN, some(&["a:1", "d:1"])), some(&["a:1", "b:1", "c:1", "d:1"]));
        assert_eq!(follow.read(now, 3, OWN, some(&["a:1"])), some(&["a:1", "b:1", "c:1"]));
        assert_eq!(follow.read(now + seconds(2), 4, OWN, some(&["a:1", "b:1"])), None);
        // Another outage begins everything anew.
        let now = now + seconds(3);
        follow.failed(now);
        assert_eq!(follow.read(now, 5, OWN, some(&["a:1"])), None);
        assert_eq!(follow.read(now + seconds(3), 6, OWN, some(&["a:1", "b:1"])), None);
        // Whoever stays away is given up.
        assert_eq!(follow.next(now), Step::Watch(Some(now + DOUBT)));
        assert_eq!(follow.read(now + DOUBT, 6, OWN, some(&["a:1", "b:1"])), some(&["a:1", "b:1"]));
        assert_eq!(follow.next(now), Step::Watch(None));
    }

    #[test]
    fn a_set_without_this_node_is_told_only_when_it_stays_so() {
        let now = Instant::now();
        let mut follow = Follow::new(1, 1, now);
        assert_eq!(follow.read(now, 1, OWN, some(&["b:1"])), None);
        assert_eq!(follow.read(now + seconds(1), 2, OWN, some(&["a:1", "b:1"])), some(&["a:1", "b:1"]));
        // Its key is taken away: the others are news all the same.
        let now = now + seconds(9);
        assert_eq!(follow.read(now, 3, OWN, some(&["b:1", "c:1"])), some(&["a:1", "b:1", "c:1"]));
        assert_eq!(follow.next(now), Step::Watch(Some(now + DOUBT)));
        assert_eq!(follow.read(now + DOUBT, 4, OWN, some(&["b:1", "c:1"])), some(&["b:1", "c:1"]));
        // Who goes does not look for itself.
        let now = now + seconds(60);
        assert_eq!(follow.read(now, 5, OWN, some(&["a:1", "b:1", "c:1"])), some(&["a:1", "b:1", "c:1"]));
        assert_eq!(follow.read(now, 6, None, some(&["b:1", "c:1"])), some(&["b:1", "c:1"]));
        // Nobody at all is for the caller to judge.
        assert_eq!(follow.read(now, 7, None, some(&[])), None);
        assert_eq!(follow.read(now + DOUBT, 8, None, some(&[])), some(&[]));
    }
}
