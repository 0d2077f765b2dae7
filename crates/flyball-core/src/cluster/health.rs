//! Whether to try a peer, and when to look again: a circuit breaker with a memory of what went wrong.
//!
//! A peer is *up* until calls fail. One that refuses the connection is *down* at once: nothing was sent, and
//! nothing would be. Silence is less clear (the peer, the network or this node may be slow), so it takes
//! two calls in a row that run out of time. While a peer is down no check waits for it; the node
//! looks after it by itself, soon at first and then less and less often, with some jitter so that a
//! cluster does not knock all at once. The first answer, to a probe or to a call that was still under way, makes it up
//! again.
//!
//! The texts of errors are remembered for the health page: each once, with the time it was last seen, at most a hundred.
//! Health is about now: once the peer answers again they no longer count (the original keeps a node unhealthy for
//! five minutes; with its semantics so do we).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::Instant;

/// When a peer counts as down, and how it is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Calls in a row that may run out of time before the peer is down. Default 2.
    pub timeouts_max: u32,
    /// The first wait before a probe; each failed one doubles it. Default 100 ms.
    pub backoff_min: Duration,
    /// The longest wait between probes. Default 2 s.
    pub backoff_max: Duration,
    /// How long an error is remembered after it was last seen. Default 10 s.
    pub memory: Duration,
    /// Whether the first answer wipes the memory. Default yes.
    pub forgive: bool,
    /// For the jitter.
    pub seed: u64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            timeouts_max: 2,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(2),
            memory: Duration::from_secs(10),
            forgive: true,
            seed: 0,
        }
    }
}

/// How a call to a peer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was never sent: there is no connection and none could be made.
    NotSent,
    /// It was sent, and the peer said that it has not looked at it, as one does that is stopping or has its hands full.
    NotTaken,
    /// It was sent, and no answer came: it may have been applied or not.
    Unanswered,
    /// The peer answered with an error, so it is there.
    Answered,
}

impl Failure {
    /// Nothing was counted, and nothing will be: it can be sent again.
    pub const fn is_without_trace(self) -> bool {
        matches!(self, Self::NotSent | Self::NotTaken)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up { timeouts: u32 },
    Down { since: Instant, probes: u32, next: Instant },
}

#[derive(Debug)]
struct Remembered {
    text: Box<str>,
    seen: Instant,
}

/// The most different texts that are remembered.
const TEXTS_MAX: usize = 100;

/// See [the module](self).
#[derive(Debug)]
pub struct Health {
    settings: HealthSettings,
    state: State,
    /// The least recently seen first.
    errors: Vec<Remembered>,
    random: u64,
}

impl Health {
    /// A peer nobody has called yet: up.
    pub fn new(settings: HealthSettings) -> Self {
        Self { settings, state: State::Up { timeouts: 0 }, errors: Vec::new(), random: settings.seed | 1 }
    }

    /// Whether calls should be made.
    pub const fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Since when the peer is down.
    pub const fn down_since(&self) -> Option<Instant> {
        match self.state {
            State::Down { since, .. } => Some(since),
            State::Up { .. } => None,
        }
    }

    /// The peer answered. Tells whether it was down until now.
    pub fn succeeded(&mut self) -> bool {
        let was_down = !self.is_up();
        self.state = State::Up { timeouts: 0 };
        if self.settings.forgive && !self.errors.is_empty() {
            self.errors.clear();
        }
        was_down
    }

    /// A call failed. Tells whether the peer is down now and was not before.
    pub fn failed(&mut self, failure: Failure, text: &str, now: Instant) -> bool {
        let down = match (self.state, failure) {
            (State::Down { .. }, Failure::NotSent | Failure::Unanswered) => false,
            (_, Failure::NotSent) => true,
            (State::Up { timeouts }, Failure::Unanswered) => {
                self.state = State::Up { timeouts: timeouts + 1 };
                timeouts + 1 >= self.settings.timeouts_max
            }
            (_, Failure::Answered | Failure::NotTaken) => {
                self.state = State::Up { timeouts: 0 };
                false
            }
        };
        if down {
            let next = now.saturating_add(self.backoff(0));
            self.state = State::Down { since: now, probes: 0, next };
        }
        self.remember(text, now);
        down
    }

    /// When a probe is due; only a peer that is down is probed.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Down { next, .. } => Some(next),
            State::Up { .. } => None,
        }
    }

    /// Whether to probe now. The next probe is due after the next backoff, whatever becomes of this one.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let State::Down { since, probes, next } = self.state else { return false };
        if next > now {
            return false;
        }
        let probes = probes.saturating_add(1);
        self.state = State::Down { since, probes, next: now.saturating_add(self.backoff(probes)) };
        true
    }

    /// What went wrong lately, each text once, the latest last.
    pub fn errors(&self, now: Instant) -> impl DoubleEndedIterator<Item = (&str, Instant)> {
        let memory = self.settings.memory;
        let down = !self.is_up();
        self.errors
            .iter()
            .filter(move |error| down || now.saturating_since(error.seen) < memory)
            .map(|error| (&*error.text, error.seen))
    }

    fn remember(&mut self, text: &str, now: Instant) {
        let known = self.errors.iter().position(|error| &*error.text == text);
        let text = match known {
            Some(index) => self.errors.remove(index).text,
            None => text.into(),
        };
        if self.errors.len() == TEXTS_MAX {
            self.errors.remove(0);
        }
        self.errors.push(Remembered { text, seen: now });
    }

    /// Twice as long each time, up to the most, and somewhere between three and five quarters of that.
    fn backoff(&mut self, probes: u32) -> Duration {
        let base =
            self.settings.backoff_min.saturating_mul(1 << probes.min(20)).min(self.settings.backoff_max);
        // xorshift64 (Marsaglia 2003): jitter needs no better.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        base.saturating_mul(768 + (self.random % 512) as u32) / 1_024
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn health() -> Health {
        Health::new(HealthSettings { seed: 7, ..HealthSettings::default() })
    }

    #[test]
    fn a_refused_connection_is_enough() {
        let mut health = health();
        assert!(health.failed(Failure::NotSent, "refused", at(0)));
        assert!(!health.is_up());
        assert!(!health.failed(Failure::NotSent, "refused", at(1)), "it was down before");
        assert!(health.succeeded());
        assert!(health.is_up() && !health.succeeded());
    }

    #[test]
    fn silence_takes_two_in_a_row() {
        let mut health = health();
        assert!(!health.failed(Failure::Unanswered, "late", at(0)));
        health.succeeded();
        assert!(!health.failed(Failure::Unanswered, "late", at(1)));
        assert!(!health.failed(Failure::Answered, "no", at(2)), "an error is an answer");
        assert!(!health.failed(Failure::Unanswered, "late", at(2)));
        assert!(!health.failed(Failure::NotTaken, "refused", at(2)), "so is a refusal");
        assert!(!health.failed(Failure::Unanswered, "late", at(3)));
        assert!(health.failed(Failure::Unanswered, "late", at(4)));
        assert_eq!(health.down_since(), Some(at(4)));
    }

    #[test]
    fn probes_come_soon_then_less_often_and_within_bounds() {
        let mut health = health();
        health.failed(Failure::NotSent, "refused", at(0));
        let (mut now, mut waits) = (at(0), Vec::new());
        for _ in 0..10 {
            let next = health.poll_timeout().unwrap();
            assert!(!health.handle_timeout(Instant(next.0 - 1)));
            assert!(health.handle_timeout(next));
            waits.push(next.saturating_since(now).as_millis());
            now = next;
        }
        assert!((75..=125).contains(&waits[0]), "{waits:?}");
        assert!(waits.windows(2).take(4).all(|pair| pair[0] < pair[1]), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= 2_500), "{waits:?}");
        assert!(now < at(20_000), "ten probes within twenty seconds");
    }

    #[test]
    fn errors_are_remembered_once_each_and_not_for_ever() {
        let mut health = health();
        for round in 0..3 {
            health.failed(Failure::Answered, "a", at(round));
            health.failed(Failure::Answered, "b", at(round));
        }
        let texts =
            |health: &Health, now| health.errors(now).map(|(text, _)| text.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(&health, at(5)), ["a", "b"]);
        assert_eq!(texts(&health, at(20_000)), [""; 0]);
        for number in 0..300 {
            health.failed(Failure::Answered, &format!("{number}"), at(6));
        }
        assert_eq!(texts(&health, at(7)).len(), TEXTS_MAX);
        health.succeeded();
        assert_eq!(texts(&health, at(7)), [""; 0]);
    }

    #[test]
    fn the_original_never_forgives_early() {
        let memory = Duration::from_secs(300);
        let mut health = Health::new(HealthSettings { forgive: false, memory, ..HealthSettings::default() });
        health.failed(Failure::NotSent, "refused", at(0));
        health.succeeded();
        assert_eq!(health.errors(at(299_000)).count(), 1);
        assert_eq!(health.errors(at(301_000)).count(), 0);
    }
}
