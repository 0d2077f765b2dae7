//! By which a receiver knows a message that comes twice, or late.
//!
//! Every node numbers what it sends to another, separately for hits and for broadcasts, within a *session*: a number
//! it chose when it started. Only one message of a kind is under way between two nodes, so "not above the last
//! number" means: seen, or overtaken by a later one after it was given up.
//!
//! For hits there are two marks, where applying begins and where it ends. A broadcast that was read while both stand at
//! the same number includes exactly the batches up to it.
//!
//! Bound: `senders_max` addresses, each no longer than a host name and its port. Who finds no place is treated as an original, which has no numbers.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

/// The longest DNS name (RFC 1035, section 2.3.4) and a port.
const ADDRESS_BYTES_MAX: usize = 255 + 6;

/// A number, and the session it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Chosen at the sender's start.
    pub session: u64,
    /// Counts its messages to one receiver, from 1.
    pub sequence: u64,
}

/// One session of a sender.
#[derive(Clone, Copy, Debug)]
struct Run {
    session: u64,
    begun: u64,
    applied: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    current: Run,
    /// The one that spoke before. Which of two is the newer their numbers do not say: a straggler of the older may be the
    /// first that is heard of it. So either may go on; it must not mute the other.
    other: Option<Run>,
}

/// See [the module](self).
#[derive(Debug)]
pub struct Senders {
    senders: BTreeMap<Box<str>, Sender>,
    senders_max: usize,
}

/// What a stamped message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// To be applied; tell [`Senders::applied`] when that is done.
    New,
    /// Applied before, or overtaken.
    Before,
    /// From a sender there is no room to remember: to be applied, and not to be answered with a stamp.
    Stranger,
}

impl Senders {
    /// Nobody yet.
    pub const fn new(senders_max: usize) -> Self {
        Self { senders: BTreeMap::new(), senders_max }
    }

    /// A message begins to be applied.
    pub fn begin(&mut self, sender: &str, stamp: Stamp) -> Seen {
        let Some(known) = self.senders.get_mut(sender) else {
            if self.senders.len() >= self.senders_max || sender.len() > ADDRESS_BYTES_MAX {
                return Seen::Stranger;
            }
            let current = Run { session: stamp.session, begun: stamp.sequence, applied: 0 };
            self.senders.insert(sender.into(), Sender { current, other: None });
            return Seen::New;
        };
        if known.current.session != stamp.session {
            let begun = Run { session: stamp.session, begun: 0, applied: 0 };
            let run = known.other.filter(|other| other.session == stamp.session).unwrap_or(begun);
            if stamp.sequence <= run.begun {
                return Seen::Before;
            }
            (known.current, known.other) = (run, Some(known.current));
        }
        if stamp.sequence <= known.current.begun {
            return Seen::Before;
        }
        known.current.begun = stamp.sequence;
        Seen::New
    }

    /// It is applied.
    pub fn applied(&mut self, sender: &str, stamp: Stamp) {
        let Some(known) = self.senders.get_mut(sender) else { return };
        for run in core::iter::once(&mut known.current).chain(&mut known.other) {
            if run.session == stamp.session {
                run.applied = run.applied.max(stamp.sequence);
            }
        }
    }

    /// Up to where this sender's messages are applied, and whether none is being applied just now.
    pub fn mark(&self, sender: &str) -> Option<(Stamp, bool)> {
        let known = self.senders.get(sender)?.current;
        let stamp = Stamp { session: known.session, sequence: known.applied };
        Some((stamp, known.begun == known.applied))
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.senders.len()
    }

    /// Nobody is.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Forgets everybody else.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.senders.retain(|address, _| keep(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stamp(session: u64, sequence: u64) -> Stamp {
        Stamp { session, sequence }
    }

    #[test]
    fn repeats_and_stragglers_are_known() {
        let mut senders = Senders::new(8);
        for (session, sequence, expected) in [
            (1, 1, Seen::New),
            (1, 1, Seen::Before),
            (1, 3, Seen::New),
            (1, 2, Seen::Before),
            (2, 1, Seen::New),
            (1, 2, Seen::Before),
            (1, 4, Seen::New),
            (2, 1, Seen::Before),
            (2, 2, Seen::New),
            (1, 4, Seen::Before),
            (3, 1, Seen::New),
        ] {
            assert_eq!(senders.begin("a", stamp(session, sequence)), expected, "{session}.{sequence}");
        }
        assert_eq!(senders.begin("b", stamp(1, 1)), Seen::New, "senders do not know of each other");
    }

    #[test]
    fn a_straggler_of_an_older_session_does_not_mute_the_newer() {
        let mut senders = Senders::new(8);
        // The second run is heard of first.
        for (session, sequence, expected) in
            [(2, 1, Seen::New), (1, 9, Seen::New), (2, 1, Seen::Before), (2, 2, Seen::New), (2, 3, Seen::New)]
        {
            assert_eq!(senders.begin("a", stamp(session, sequence)), expected, "{session}.{sequence}");
        }
        assert_eq!(senders.begin("a", stamp(1, 9)), Seen::Before);
    }

    #[test]
    fn marks_tell_whether_something_is_half_done() {
        let mut senders = Senders::new(8);
        assert_eq!(senders.mark("a"), None);
        senders.begin("a", stamp(1, 1));
        assert_eq!(senders.mark("a"), Some((stamp(1, 0), false)));
        senders.applied("a", stamp(1, 1));
        assert_eq!(senders.mark("a"), Some((stamp(1, 1), true)));
        senders.begin("a", stamp(2, 1));
        senders.applied("a", stamp(1, 2));
        assert_eq!(senders.mark("a"), Some((stamp(2, 0), false)), "an older session marks nothing");
    }

    #[test]
    fn who_finds_no_place_is_a_stranger() {
        let mut senders = Senders::new(1);
        senders.begin("a", stamp(1, 1));
        assert_eq!(senders.begin("b", stamp(1, 1)), Seen::Stranger);
        assert_eq!(senders.begin("a", stamp(1, 2)), Seen::New);
        senders.retain(|address| address != "a");
        assert_eq!(senders.begin("b", stamp(1, 1)), Seen::New);
    }
}
