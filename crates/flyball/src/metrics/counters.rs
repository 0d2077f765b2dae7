//! Counters that many threads bump for every call and that are read once per scrape.
//!
//! A shared counter would make all cores fight for one cache line, so each thread has a slot of its own,
//! found by the address of a thread-local, and a scrape sums the slots. Two threads that happen to share a
//! slot only cost time: the counters are atomic. All orderings are relaxed: a scrape may see a call half
//! counted, and the next one sees it whole.
//!
//! Timing is sampled. Two clock readings and a histogram per call would cost more than the decision they
//! measure, so after its first [`ALWAYS_SAMPLED`] calls a slot times one call in [`SAMPLE_EVERY`], and that
//! one stands for all since the last: sums are weighted, quantiles are unaffected.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use flyball_core::CheckError;

use crate::method::Method;

/// One call in this many is timed.
pub(crate) const SAMPLE_EVERY: u64 = 64;
/// The first calls of each slot are all timed, so that a quiet node shows times too.
pub(crate) const ALWAYS_SAMPLED: u64 = 64;

/// Why a check failed, in the words of `gubernator_check_error_counter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ErrorKind {
    InvalidRequest,
    RequestTooLarge,
    Timeout,
    TokenBucket,
    LeakyBucket,
    InvalidAlgorithm,
    GetPeer,
    TimeoutForwarding,
    ItemMismatch,
}

impl ErrorKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::InvalidRequest,
        Self::RequestTooLarge,
        Self::Timeout,
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::InvalidAlgorithm,
        Self::GetPeer,
        Self::TimeoutForwarding,
        Self::ItemMismatch,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::InvalidRequest => "Invalid request",
            Self::RequestTooLarge => "Request too large",
            Self::Timeout => "Timeout",
            Self::TokenBucket => "Error in tokenBucket",
            Self::LeakyBucket => "Error in leakyBucket",
            Self::InvalidAlgorithm => "Invalid algorithm",
            Self::GetPeer => "Error in GetPeer",
            Self::TimeoutForwarding => "Timeout forwarding to peer",
            Self::ItemMismatch => "Item mismatch",
        }
    }
}

impl From<CheckError> for ErrorKind {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::InvalidAlgorithm(_) => Self::InvalidAlgorithm,
            CheckError::InvalidCalendar("leakyBucket") => Self::LeakyBucket,
            CheckError::InvalidCalendar(_) => Self::TokenBucket,
            _ => Self::InvalidRequest,
        }
    }
}

/// What one call did, gathered without atomics and added to the slot once.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Token bucket checks that were decided.
    pub(crate) token: u64,
    /// Leaky bucket checks that were decided.
    pub(crate) leaky: u64,
    /// Checks whose `created_at` was moved into the tolerance.
    pub(crate) clamped: u64,
    /// Checks answered from a copy of a GLOBAL bucket.
    pub(crate) replica: u64,
    /// Checks handed to their owner.
    pub(crate) forwarded: u64,
    /// Checks answered in the stead of an owner that could not be reached.
    pub(crate) fallback: u64,
    /// Calls of the peers' service by who is no peer.
    pub(crate) strangers: u64,
    /// Items of broadcasts that were stored.
    pub(crate) updates: u64,
    /// Items of broadcasts that said nothing.
    pub(crate) updates_skipped: u64,
    /// Messages refused because too many were unfinished.
    pub(crate) intake_refused: u64,
    /// Failed checks by kind.
    pub(crate) errors: [u64; ErrorKind::ALL.len()],
}

impl Tally {
    pub(crate) fn error(&mut self, kind: ErrorKind) {
        self.errors[kind as usize] += 1;
    }
}

#[derive(Debug, Default)]
struct Calls {
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

/// One thread's counters. Aligned so that two slots never share a cache line, nor the pair of lines that
/// some processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Slot {
    calls: [Calls; Method::ALL.len()],
    token: AtomicU64,
    leaky: AtomicU64,
    clamped: AtomicU64,
    replica: AtomicU64,
    forwarded: AtomicU64,
    fallback: AtomicU64,
    strangers: AtomicU64,
    updates: AtomicU64,
    updates_skipped: AtomicU64,
    intake_refused: AtomicU64,
    errors: [AtomicU64; ErrorKind::ALL.len()],
}

/// A call that is being timed, and how many calls it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) started: Instant,
    pub(crate) weight: u64,
}

impl Slot {
    /// Counts a call that begins; `Some` when it is to be timed.
    #[inline]
    pub(crate) fn start(&self, method: Method) -> Option<Sample> {
        let earlier = self.calls[method as usize].started.fetch_add(1, Relaxed);
        let weight = if earlier < ALWAYS_SAMPLED {
            1
        } else if earlier.is_multiple_of(SAMPLE_EVERY) {
            SAMPLE_EVERY
        } else {
            return None;
        };
        Some(Sample { started: Instant::now(), weight })
    }

    /// Counts a call that ended.
    #[inline]
    pub(crate) fn finish(&self, method: Method, succeeded: bool) {
        let calls = &self.calls[method as usize];
        let counter = if succeeded { &calls.succeeded } else { &calls.failed };
        counter.fetch_add(1, Relaxed);
    }

    /// Adds what a call did.
    #[inline]
    pub(crate) fn add(&self, tally: &Tally) {
        let pairs = [
            (&self.token, tally.token),
            (&self.leaky, tally.leaky),
            (&self.clamped, tally.clamped),
            (&self.replica, tally.replica),
            (&self.forwarded, tally.forwarded),
            (&self.fallback, tally.fallback),
            (&self.strangers, tally.strangers),
            (&self.updates, tally.updates),
            (&self.updates_skipped, tally.updates_skipped),
            (&self.intake_refused, tally.intake_refused),
        ];
        for (counter, count) in pairs.into_iter().chain(self.errors.iter().zip(tally.errors)) {
            if count > 0 {
                counter.fetch_add(count, Relaxed);
            }
        }
    }
}

/// Sums over all slots for one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTotals {
    pub(crate) started: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
}

impl CallTotals {
    /// Calls that ended.
    pub(crate) const fn finished(self) -> u64 {
        self.succeeded + self.failed
    }
}

/// A number of the calling thread, likely another one than that of any other thread.
#[inline]
pub(crate) fn thread_hash() -> u64 {
    thread_local!(static ANCHOR: u8 = const { 0 });
    let address = ANCHOR.with(|anchor| std::ptr::from_ref(anchor).addr());
    // Thread-locals of different threads lie pages apart; a multiplication spreads those bits upwards.
    (address as u64 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// All slots of a node.
#[derive(Debug)]
pub(crate) struct Counters {
    slots: Box<[Slot]>,
}

impl Counters {
    /// Slots for `threads` busy threads: eight times as many, so that two rarely meet, and at most 256.
    pub(crate) fn new(threads: usize) -> Self {
        let count = threads.clamp(1, 32).next_power_of_two() * 8;
        Self { slots: (0..count).map(|_| Slot::default()).collect() }
    }

    /// The calling thread's slot.
    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        &self.slots[thread_hash() as usize & (self.slots.len() - 1)]
    }

    pub(crate) fn calls(&self, method: Method) -> CallTotals {
        let mut totals = CallTotals::default();
        for slot in &self.slots {
            let calls = &slot.calls[method as usize];
            // Ends before starts, so that a call in between never makes `started` look the smaller one.
            totals.succeeded += calls.succeeded.load(Relaxed);
            totals.failed += calls.failed.load(Relaxed);
            totals.started += calls.started.load(Relaxed);
        }
        totals
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for slot in &self.slots {
            tally.token += slot.token.load(Relaxed);
            tally.leaky += slot.leaky.load(Relaxed);
            tally.clamped += slot.clamped.load(Relaxed);
            tally.replica += slot.replica.load(Relaxed);
            tally.forwarded += slot.forwarded.load(Relaxed);
            tally.fallback += slot.fallback.load(Relaxed);
            tally.strangers += slot.strangers.load(Relaxed);
            tally.updates += slot.updates.load(Relaxed);
            tally.updates_skipped += slot.updates_skipped.load(Relaxed);
            tally.intake_refused += slot.intake_refused.load(Relaxed);
            for (sum, counter) in tally.errors.iter_mut().zip(&slot.errors) {
                *sum += counter.load(Relaxed);
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let counters = Counters::new(3);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counters.slot().start(Method::LiveCheck);
                        counters.slot().finish(Method::LiveCheck, true);
                        counters.slot().add(&Tally { leaky: 3, ..Tally::default() });
                    }
                });
            }
        });
        let totals = counters.calls(Method::LiveCheck);
        assert_eq!(totals, CallTotals { started: 8_000, succeeded: 8_000, failed: 0 });
        assert_eq!(counters.tally().leaky, 24_000);
        assert_eq!(counters.calls(Method::HealthCheck).finished(), 0);
    }

    #[test]
    fn weights_of_samples_count_every_call() {
        let counters = Counters::new(1);
        let weights =
            (0..640).filter_map(|_| counters.slot().start(Method::GetRateLimits)).map(|sample| sample.weight);
        let weights: Vec<u64> = weights.collect();
        assert_eq!(weights.len() as u64, ALWAYS_SAMPLED + 9);
        assert_eq!(weights.iter().sum::<u64>(), 64 + 9 * SAMPLE_EVERY);
    }

    #[test]
    fn error_kinds_are_numbered_in_order() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
        assert_eq!(ErrorKind::from(CheckError::EmptyName), ErrorKind::InvalidRequest);
        assert_eq!(ErrorKind::from(CheckError::InvalidAlgorithm(7)), ErrorKind::InvalidAlgorithm);
        assert_eq!(ErrorKind::from(CheckError::InvalidCalendar("tokenBucket")), ErrorKind::TokenBucket);
        assert_eq!(ErrorKind::from(CheckError::InvalidCalendar("leakyBucket")), ErrorKind::LeakyBucket);
    }
}
