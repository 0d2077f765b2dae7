//! Which keys are refused most, lately.
//!
//! Exact counts would take an entry for every key that anybody ever asks for in vain; a [`Sketch`] takes a few
//! hundred and still finds every key that matters. It must not slow down what it watches:
//!
//! * A granted check never comes here, and a call without a refusal costs one look at each of its answers.
//! * Each thread has a sketch of its own (found as the counters' slots are), so its lock is nearly always free. It
//!   is only ever *tried*: when two threads meet, or somebody reads, the next sketch is taken, and when that is
//!   busy too the refusals are left out and counted as missed. Rejected: parts by key, whose lock all threads would
//!   want at once for just the key that matters most.
//! * Under a flood it samples: of a call with more than [`SAMPLES_MAX`] refusals one of every so many is looked at,
//!   chosen at random among neighbours, and stands for all of them. So a call pays for [`SAMPLES_MAX`] at most.
//!
//! What is told covers five to ten minutes, like the quantiles of latency: a current and a previous window of each
//! sketch. Yesterday's flood is not on top today.
//!
//! Summing the sketches of all threads keeps the promise of one: a key with more than its share of the refused hits
//! in all has more than its share in at least one of them.

mod sketch;

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use flyball_core::{Key, Timestamp};
use foldhash::quality::FixedState;

use self::sketch::{CutKey, Sketch};
use crate::metrics::counters::thread_hash;

/// Keys that one window of one thread's sketch tells apart. A key with more than a 256th of the refused hits is
/// never overlooked, and no count is off by more than that.
const ENTRIES: usize = 256;
/// The most sketches. With two windows of [`ENTRIES`] full keys each, all of them stay below 4 MiB.
const SKETCHES_MAX: usize = 16;
/// The most refusals of one call that are looked at.
const SAMPLES_MAX: usize = 16;
/// Two windows are told, of which one is complete.
const WINDOW_MS: i64 = 300_000;
/// What a single check can add. Hits have no bound of their own, and one absurd number must not hide all other keys
/// for ten minutes.
const HITS_MAX: i64 = 1 << 32;

/// A key that was refused, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopKey {
    /// The check's name, cut to 64 bytes; then it ends in `…`.
    pub name: String,
    /// The check's unique key, cut to 128 bytes; then it ends in `…`.
    pub unique_key: String,
    /// Refused hits of the last five to ten minutes, never too few but for sampling.
    pub hits: u64,
    /// By how much `hits` may be too large.
    pub error: u64,
}

/// The sketches of all threads.
#[derive(Debug)]
pub(crate) struct TopKeys {
    parts: Box<[Mutex<Part>]>,
    hasher: FixedState,
    missed: AtomicU64,
}

impl TopKeys {
    /// For so many busy threads. `seed` keys the hash and the sampling.
    pub(crate) fn new(threads: usize, seed: u64) -> Self {
        let count = threads.clamp(1, SKETCHES_MAX).next_power_of_two();
        let part = |index: usize| Mutex::new(Part::new(seed.wrapping_add(index as u64)));
        Self {
            parts: (0..count).map(part).collect(),
            hasher: FixedState::with_seed(seed),
            missed: AtomicU64::new(0),
        }
    }

    /// Notes the refused checks of one call: keys and hits. To be called when no shard is locked.
    ///
    /// Looks that take nothing (`hits` 0) and hits given back should not be among them; they add nothing.
    pub(crate) fn refused<'k>(
        &self,
        now: Timestamp,
        mut checks: impl Iterator<Item = (Key<'k>, i64)> + Clone,
    ) {
        let count = checks.clone().count();
        if count == 0 {
            return;
        }
        let Some(mut part) = self.own_part() else {
            self.missed.fetch_add(count as u64, Relaxed);
            return;
        };
        part.rotate(now);
        let stride = count.div_ceil(SAMPLES_MAX);
        // One of each `stride` in a row.
        let mut chosen = part.dice.below(stride);
        let mut skipped = chosen;
        while let Some((key, hits)) = checks.nth(skipped) {
            if hits > 0 {
                let hits = hits.min(HITS_MAX) as u64 * stride as u64;
                part.current.add(self.hasher.hash_one((key.name, key.unique_key)), CutKey::new(key), hits);
            }
            let rest = stride - 1 - chosen;
            chosen = part.dice.below(stride);
            skipped = rest + chosen;
        }
    }

    /// The most refused keys, at most `most`, the first of them first.
    pub(crate) fn top(&self, now: Timestamp, most: usize) -> Vec<TopKey> {
        let mut sums: BTreeMap<(u64, String, String), (u64, u64)> = BTreeMap::new();
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.rotate(now);
            for entry in part.current.entries().chain(part.previous.entries()) {
                let (hits, error) = sums.entry((entry.hash, entry.name(), entry.unique_key())).or_default();
                *hits = hits.saturating_add(entry.hits);
                *error = error.saturating_add(entry.error);
            }
        }
        let mut keys: Vec<_> = sums
            .into_iter()
            .map(|((_, name, unique_key), (hits, error))| TopKey { name, unique_key, hits, error })
            .collect();
        // What is certain decides, so that a newcomer with an inherited count does not push ahead.
        let rank = |key: &TopKey| std::cmp::Reverse(key.hits - key.error.min(key.hits));
        keys.sort_by(|one, other| {
            rank(one).cmp(&rank(other)).then_with(|| {
                (&one.name, &one.unique_key, one.hits).cmp(&(&other.name, &other.unique_key, other.hits))
            })
        });
        keys.truncate(most);
        keys
    }

    /// Refused checks that nobody looked at because the sketches were busy.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// The calling thread's part or the next one, whichever is free.
    fn own_part(&self) -> Option<MutexGuard<'_, Part>> {
        let first = thread_hash() as usize;
        [first, first.wrapping_add(1)].into_iter().find_map(|index| {
            match self.parts[index & (self.parts.len() - 1)].try_lock() {
                Ok(part) => Some(part),
                Err(TryLockError::Poisoned(part)) => Some(part.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        })
    }
}

/// One thread's windows.
#[derive(Debug)]
struct Part {
    /// When the current window began; `None` before the first refusal.
    since: Option<Timestamp>,
    current: Sketch,
    previous: Sketch,
    dice: Dice,
}

impl Part {
    fn new(seed: u64) -> Self {
        Self { since: None, current: Sketch::new(ENTRIES), previous: Sketch::new(ENTRIES), dice: Dice(seed) }
    }

    /// Starts a new window when it is time. A clock that steps back makes a window longer, by one at most.
    fn rotate(&mut self, now: Timestamp) {
        let since = self.since.map_or(now, |since| since.min(now));
        let age = now.ms().saturating_sub(since.ms());
        self.since = Some(since);
        if age < WINDOW_MS {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if age >= 2 * WINDOW_MS {
            self.previous.clear();
        }
        self.since = Some(now);
    }
}

/// Random numbers for sampling (SplitMix64): they need to be even, not secret.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests;
