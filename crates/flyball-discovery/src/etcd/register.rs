//! Keeping this node's key in etcd: what to do next, without doing it.
//!
//! ```text
//!             failed: next member, or a pause
//!                 ┌──────┐
//!                 ▼      │
//!   start ──▶ register ──┴─ done ──▶ pause 10 s ──▶ keep alive ──┐
//!                 ▲                     ▲                         │ done
//!                 │                     └─────────────────────────┤
//!                 └───── at once: lease gone, key missing ────────┘ failed
//! ```
//!
//! The lease ends 30 s after it was last kept alive, and with it the key. A lease that cannot be kept alive is given
//! up at once for a new one, under which the same key is written again; the old one may then end when it likes, since
//! the key is no longer attached to it. A key that is missing although its lease is well (somebody deleted it, etcd was
//! restored from an old snapshot) is written again too, but not in a loop.

use std::time::Duration;

use tokio::time::Instant;

use super::pace::Pace;

/// How long a key outlives a node that died, in seconds; the original's.
pub(super) const LEASE_SECONDS: i64 = 30;

/// Time between two signs of life: two may get lost.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);

/// The least time between writing a key and writing it again because nobody sees it.
const REWRITE_MIN: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Get a lease and write the key, by this member.
    Register(usize),
    /// Give a sign of life.
    KeepAlive,
    /// Nothing before then.
    Pause(Instant),
}

/// How it stands.
#[derive(Debug)]
pub(super) struct Register {
    pace: Pace,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No key that we know of; to be written at this time.
    Absent(Instant),
    /// The key is there.
    Held {
        /// When it was written.
        since: Instant,
        /// At which revision: what was read before that does not know it.
        revision: i64,
        /// When the next sign of life is due.
        due: Instant,
    },
}

impl Register {
    pub(super) fn new(members: usize, seed: u64, now: Instant) -> Self {
        Self { pace: Pace::new(members, seed), state: State::Absent(now) }
    }

    /// What to do now. Asked again after that was done.
    pub(super) fn next(&self, now: Instant) -> Step {
        match self.state {
            State::Absent(due) if due <= now => Step::Register(self.pace.member()),
            State::Held { due, .. } if due <= now => Step::KeepAlive,
            State::Absent(due) | State::Held { due, .. } => Step::Pause(due),
        }
    }

    /// The key was written, at this revision.
    pub(super) fn registered(&mut self, now: Instant, revision: i64) {
        self.pace.succeeded();
        self.state = State::Held { since: now, revision, due: now + KEEP_ALIVE_EVERY };
    }

    /// The sign of life was answered.
    pub(super) fn kept_alive(&mut self, now: Instant) {
        if let State::Held { due, .. } = &mut self.state {
            *due = now + KEEP_ALIVE_EVERY;
        }
    }

    /// What was to be done failed.
    pub(super) fn failed(&mut self, now: Instant) {
        let again = match self.state {
            State::Absent(_) => self.pace.failed(now),
            State::Held { .. } => {
                self.pace.lost();
                now
            }
        };
        self.state = State::Absent(again);
    }

    /// Revisions may have begun anew: etcd may have come back without its data.
    pub(super) fn forget_revision(&mut self) {
        if let State::Held { revision, .. } = &mut self.state {
            *revision = 0;
        }
    }

    /// The key is not among those that were read at this revision. Whether it has to be written again: a pause that goes
    /// on then ends earlier.
    pub(super) fn missing(&mut self, now: Instant, read: i64) -> bool {
        let State::Held { since, revision, .. } = self.state else { return false };
        if read < revision {
            return false;
        }
        self.state = State::Absent(now.max(since + REWRITE_MIN));
        true
    }

    /// A member other than the one that is asked now.
    pub(super) fn another_member(&mut self) -> usize {
        self.pace.lost();
        self.pace.member()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn registered() -> (Register, Instant) {
        let now = Instant::now();
        let mut register = Register::new(2, 1, now);
        assert!(matches!(register.next(now), Step::Register(_)));
        register.registered(now, 7);
        (register, now)
    }

    #[test]
    fn a_sign_of_life_is_given_three_times_in_the_life_of_a_lease() {
        let (mut register, mut now) = registered();
        for _ in 0..5 {
            assert_eq!(register.next(now), Step::Pause(now + seconds(10)));
            now += seconds(10);
            assert_eq!(register.next(now), Step::KeepAlive);
            register.kept_alive(now);
        }
        assert!(KEEP_ALIVE_EVERY * 3 <= seconds(LEASE_SECONDS as u64));
    }

    #[test]
    fn a_lost_lease_is_replaced_at_once_by_the_next_member_and_then_within_three_seconds() {
        let (mut register, now) = registered();
        let Step::Register(first) = Register::new(2, 1, now).next(now) else { panic!() };
        register.failed(now);
        assert_eq!(register.next(now), Step::Register(1 - first));
        register.failed(now);
        assert_eq!(register.next(now), Step::Register(first));
        for _ in 0..20 {
            register.failed(now);
            if let Step::Pause(until) = register.next(now) {
                assert!(until <= now + seconds(3) && until > now);
                assert!(matches!(register.next(until), Step::Register(_)));
            }
        }
        register.registered(now, 7);
        assert_eq!(register.next(now), Step::Pause(now + seconds(10)));
    }

    #[test]
    fn a_key_that_nobody_sees_is_written_again_but_not_in_a_loop() {
        let (mut register, now) = registered();
        assert!(register.missing(now + seconds(5), 8));
        assert!(matches!(register.next(now + seconds(5)), Step::Register(_)));
        // While it is being written it is no news that it is missing.
        assert!(!register.missing(now + seconds(5), 8));
        register.registered(now + seconds(5), 9);
        // What was read before it was written again is no news either.
        assert!(!register.missing(now + seconds(5), 8));
        assert!(register.missing(now + seconds(5), 9));
        assert_eq!(register.next(now + seconds(5)), Step::Pause(now + seconds(6)));
        // By a new connection, to an etcd that lost its data.
        register.registered(now + seconds(6), 500);
        register.forget_revision();
        assert!(register.missing(now + seconds(8), 3));
    }
}
