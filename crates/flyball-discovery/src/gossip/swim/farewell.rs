//! The end: this node tells that it leaves.
//!
//! Nobody should have to find out. It tells everybody at once, up to a bound, and again twice, since packets get lost;
//! whoever hears it passes it on. From then on nothing is said against it any more: it answers, and asks no more.

use std::time::Duration;

use flyball_core::time::Instant;

use super::member::Member;
use super::{Output, Swim, knows_checksums};
use crate::gossip::codec::message::{Claim, Message};

/// How many nodes are told in one go. The rest hear it from them.
const TOLD_MAX: usize = 64;

/// How often, and how long after each other: all of it takes less than half a second.
const ROUNDS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(150);

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Farewell {
    rounds: u32,
    next: Instant,
}

impl Farewell {
    pub(super) fn timeout(&self) -> Option<Instant> {
        (self.rounds > 0).then_some(self.next)
    }

    pub(super) fn postpone(&mut self, by: Duration) {
        self.next = self.next.saturating_add(by);
    }
}

impl Swim {
    /// Begins to leave; to be followed by [`handle_timeout`](Self::handle_timeout) until
    /// [`has_left`](Self::has_left).
    pub(crate) fn leave(&mut self, now: Instant) {
        if self.farewell.is_none() {
            self.farewell = Some(Farewell { rounds: ROUNDS, next: now });
            self.probe = None;
            self.news.push(&self.me.name, self.last_words());
        }
    }

    /// Whether all was said, or there is nobody to hear it.
    pub(crate) fn has_left(&self) -> bool {
        self.farewell.as_ref().is_some_and(|farewell| farewell.rounds == 0 || self.is_alone())
    }

    fn last_words(&self) -> Vec<u8> {
        let name = || self.me.name.clone();
        Message::Dead(Claim { incarnation: self.incarnation, node: name(), from: name() }).encode()
    }

    pub(super) fn drive_farewell(&mut self, now: Instant) {
        let Some(farewell) = &mut self.farewell else { return };
        if farewell.rounds == 0 || farewell.next > now {
            return;
        }
        farewell.rounds -= 1;
        farewell.next = now.saturating_add(PAUSE);
        let words = self.last_words();
        for (_, to, versions) in self.pick(TOLD_MAX, |_, member: &Member| member.is_there()) {
            let (parts, checksum) = (vec![words.clone()], knows_checksums(versions));
            self.outputs.push_back(Output::Packet { to, parts, checksum });
        }
    }
}
