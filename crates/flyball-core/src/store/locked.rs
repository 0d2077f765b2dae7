//! The shards behind their locks. Nothing here waits for anything but a lock, and no two locks are held at
//! once.

use alloc::boxed::Box;
use core::fmt;

use crate::algorithm::Bucket;
use crate::check::{Check, Rules};
use crate::decision::Answer;
use crate::time::Timestamp;

use super::key::{Identity, JoinBuffer, KeySpace, StoredKey};
use super::shard::{Shard, ShardSettings};
use super::sync::Mutex;
use super::{Role, StoreSettings, StoreStats};

const SHARDS_MAX: usize = 1 << 16;
/// Below these shares per shard, fewer shards are used: eviction would choose among too few, and a hash that
/// spreads unevenly would waste too much of the bound.
const SHARD_ENTRIES_MIN: usize = 256;
const SHARD_BYTES_MIN: usize = 1_024 * 1_024;

/// Entries looked at under one lock while sweeping: a few microseconds.
const SWEEP_BUDGET: usize = 128;
/// Shards looked at in one step of a sweep, so with the budget at most 4 096 entries: well under a millisecond.
const STEP_SHARDS: usize = 32;
/// A sweep gives up after so many rounds and leaves the rest to the next one: eight million entries of a
/// single shard. It only ends a sweep that others fill as fast as it frees.
const SWEEP_ROUNDS_MAX: usize = 1 << 16;

/// All buckets of a node; see [the module](super). Shared by reference between threads.
pub struct Store {
    pub(super) shards: Box<[Mutex<Shard>]>,
    pub(super) keys: KeySpace,
    bytes_max: usize,
    entries_max: Option<usize>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

impl Store {
    /// An empty store. It takes a few kilobytes per shard before the first entry.
    pub fn new(settings: &StoreSettings) -> Self {
        let count = shard_count(settings);
        let shards = (0..count).map(|index| {
            let entries_max = settings
                .entries_max
                .map_or(usize::MAX, |total| total.max(1) / count + usize::from(index < total % count));
            Mutex::new(Shard::new(ShardSettings {
                bytes_max: settings.bytes_max / count,
                entries_max,
                linger_ms: settings.linger_ms,
                seed: settings.seed.wrapping_add(index as u64),
            }))
        });
        Self {
            shards: shards.collect(),
            keys: KeySpace::new(settings.semantics, settings.seed),
            bytes_max: settings.bytes_max,
            entries_max: settings.entries_max,
        }
    }

    /// The bounds it was made with: bytes and entries.
    pub fn bounds(&self) -> (usize, Option<usize>) {
        (self.bytes_max, self.entries_max)
    }

    /// Decides `check` and keeps the bucket that results, in one step that no other check of the key can come
    /// between. `now` is the node's clock.
    pub fn apply(&self, check: &Check<'_>, now: Timestamp, rules: &Rules, role: Role) -> Answer {
        self.with(StoredKey::Pair(check.key), |shard, id| shard.apply(id, check, now, rules, role))
    }

    /// Keeps `bucket` under the key, whatever was there: for what a peer or a loader knows better.
    pub fn insert(&self, key: StoredKey<'_>, bucket: Bucket, now: Timestamp) {
        self.with(key, |shard, id| shard.insert(id, bucket, now));
    }

    /// The bucket a check of this key would be decided upon. It may have expired.
    pub fn get(&self, key: StoredKey<'_>, now: Timestamp) -> Option<Bucket> {
        self.with(key, |shard, id| shard.get(id, now))
    }

    /// Forgets the key, for a pair also what is kept under its joined text. Tells whether there was anything.
    pub fn remove(&self, key: StoredKey<'_>) -> bool {
        self.with(key, |shard, id| shard.remove(id))
    }

    /// Lets time pass: expired entries stop counting, and those that have lingered are freed. To be called a
    /// few times a second; how often bounds how long the dead stay, and nothing else.
    ///
    /// Works through all shards in turns, a few microseconds each, so that no check waits for the whole of it.
    /// `now` may be earlier than in the last call.
    ///
    /// The caller has to see it through, though, and that takes some 100 ms per million entries that are due:
    /// who has other things to do than to sweep uses [`begin_sweep`](Self::begin_sweep).
    pub fn sweep(&self, now: Timestamp) {
        let mut sweep = self.begin_sweep(now);
        while sweep.step() {}
    }

    /// The same sweep, done step by step as the caller finds the time.
    pub fn begin_sweep(&self, now: Timestamp) -> Sweep<'_> {
        Sweep { store: self, now, next: 0, more: false, rounds: 0 }
    }

    /// Sweeps, then sums as [`counted`](Self::counted) does.
    pub fn stats(&self, now: Timestamp) -> StoreStats {
        self.sweep(now);
        self.counted()
    }

    /// Sums the counters of all shards, each read at its own moment. Entries that expired since the last sweep
    /// count as alive.
    pub fn counted(&self) -> StoreStats {
        let mut sum = StoreStats::default();
        for shard in &self.shards {
            sum += *shard.lock().stats();
        }
        sum
    }

    #[inline]
    fn with<T>(&self, key: StoredKey<'_>, act: impl FnOnce(&mut Shard, &Identity<'_>) -> T) -> T {
        let mut buffer = JoinBuffer::default();
        let id = self.keys.identify(key, &mut buffer);
        act(&mut self.shard(id.hash()).lock(), &id)
    }

    /// Which shard has the keys of this hash. The lower half of it belongs to the shard's table.
    #[inline]
    pub(super) fn shard_index(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    #[inline]
    pub(super) fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[self.shard_index(hash)]
    }
}

/// A sweep under way; see [`Store::begin_sweep`]. Dropping it leaves the rest to the next one.
#[derive(Debug)]
#[must_use = "a sweep does nothing before its first step"]
pub struct Sweep<'a> {
    store: &'a Store,
    now: Timestamp,
    /// The shard that comes next in this round.
    next: usize,
    /// Whether a shard of this round had more to do than its budget.
    more: bool,
    rounds: usize,
}

impl Sweep<'_> {
    /// Looks at a few thousand entries at most. Tells whether there is more to do.
    pub fn step(&mut self) -> bool {
        let shards = &self.store.shards;
        let end = shards.len().min(self.next + STEP_SHARDS);
        for shard in &shards[self.next..end] {
            self.more |= shard.lock().advance(self.now, SWEEP_BUDGET);
        }
        self.next = end;
        if end < shards.len() {
            return true;
        }
        self.next = 0;
        self.rounds += 1;
        core::mem::take(&mut self.more) && self.rounds < SWEEP_ROUNDS_MAX
    }
}

fn shard_count(settings: &StoreSettings) -> usize {
    let mut count = settings.shards.clamp(1, SHARDS_MAX).next_power_of_two();
    let enough = |count: usize| {
        settings.bytes_max / count >= SHARD_BYTES_MIN
            && settings.entries_max.is_none_or(|total| total / count >= SHARD_ENTRIES_MIN)
    };
    while count > 1 && !enough(count) {
        count /= 2;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(shards: usize, bytes_max: usize, entries_max: Option<usize>) -> StoreSettings {
        StoreSettings { shards, bytes_max, entries_max, ..StoreSettings::default() }
    }

    #[test]
    fn shards_are_a_power_of_two_and_fewer_when_bounds_are_tight() {
        const GIB: usize = 1 << 30;
        for (shards, bytes_max, entries_max, expected) in [
            (64, GIB, None, 64),
            (65, GIB, None, 128),
            (0, GIB, None, 1),
            (usize::MAX, usize::MAX, None, SHARDS_MAX),
            (64, 8 << 20, None, 8),
            (64, 0, None, 1),
            (64, GIB, Some(3), 1),
            (64, GIB, Some(0), 1),
            (64, GIB, Some(50_000), 64),
            (64, GIB, Some(1_000), 2),
        ] {
            let got = shard_count(&settings(shards, bytes_max, entries_max));
            assert_eq!(got, expected, "{shards} shards, {bytes_max} bytes, {entries_max:?} entries");
        }
    }
}
