//! One part of the store, without a lock: a table from keys to entries, the wheel that expires them, and the
//! bounds. Deterministic, and all `&mut`; the store puts a mutex around it.
//!
//! Three structures over the same entries: the slab holds them (with buckets packed), the hash table finds them (4 + 1 bytes per
//! place: the table holds slab indices), the wheel's lists order them by expiry. Their common invariant: each
//! entry of the slab is in the table once and in one list of the wheel.
//!
//! An entry passes through two stages. *Alive*: its bucket's `expire_at` has not passed; it counts as an
//! entry. *Dead*: it has, by the node's clock, but a client whose clock lags may still ask for it
//! (`created_at ≤ expire_at`) and must find what it used; the entry stays for `linger_ms` and counts no more.
//! Then it is freed. Whether a dead bucket still answers is for `decide` to say, never for the shard: so it
//! does not matter to an answer when the sweep runs. A dead entry whose bucket is prolonged is alive again.
//!
//! Time that steps back makes nobody alive again by itself; the entry counts again when it is used.

use hashbrown::HashTable;

use crate::algorithm::{Bucket, State, decide};
use crate::check::{Check, Rules};
use crate::decision::Answer;
use crate::time::Timestamp;

use super::eviction::{Dice, victim};
use super::expiry::{Wheel, tick_of};
use super::key::{Identity, Split};
use super::packed::{POLICY_BYTES, Policies};
use super::slab::{Slab, Slot, used_at};
use super::{Role, StoreStats};

/// What an entry costs besides its key: the slot, a policy as if no other entry shared it (nearly all do, so
/// the store really takes some 50 bytes less per entry), its share of the hash table (5 bytes per place, 7/16
/// to 7/8 of them used), and what an allocator rounds a key up by.
pub const ENTRY_OVERHEAD: usize = size_of::<Slot>() + POLICY_BYTES + 10 + 10;

/// What an entry with a joined key of so many bytes counts toward [`ShardSettings::bytes_max`].
pub const fn entry_bytes(key_bytes: usize) -> usize {
    ENTRY_OVERHEAD.saturating_add(key_bytes)
}

/// The bounds of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSettings {
    /// The sum of [`entry_bytes`] over all entries stays at or below this. A key that alone is larger is
    /// decided upon but not stored.
    pub bytes_max: usize,
    /// The most entries, the dead that are not freed yet included. At least one.
    pub entries_max: usize,
    /// How long a dead entry stays, in milliseconds. Negative counts as 0.
    pub linger_ms: i64,
    /// For the sampling of eviction.
    pub seed: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct Shard {
    table: HashTable<u32>,
    slab: Slab,
    policies: Policies,
    wheel: Wheel,
    dice: Dice,
    settings: ShardSettings,
    /// Entries under [`Split::JOINED`].
    joined: usize,
    stats: StoreStats,
}

impl Shard {
    /// An empty shard. It allocates nothing before the first entry.
    pub fn new(settings: ShardSettings) -> Self {
        let settings = ShardSettings {
            entries_max: settings.entries_max.clamp(1, Slab::LEN_MAX),
            linger_ms: settings.linger_ms.max(0),
            ..settings
        };
        Self {
            table: HashTable::new(),
            slab: Slab::default(),
            policies: Policies::new(settings.seed),
            wheel: Wheel::new(),
            dice: Dice::new(settings.seed),
            settings,
            joined: 0,
            stats: StoreStats::default(),
        }
    }

    /// Decides `check`, whose key is `id`, and keeps the bucket that results. An entry that exists costs no
    /// allocation.
    pub fn apply(
        &mut self,
        id: &Identity<'_>,
        check: &Check<'_>,
        now: Timestamp,
        rules: &Rules,
        role: Role,
    ) -> Answer {
        let (own, stored) = self.find_newest(id, now);
        let outcome = decide(stored.as_ref(), check, now, rules);
        match (own, outcome.bucket) {
            (Some(at), Some(bucket)) => self.overwrite(at, bucket, now),
            (None, Some(bucket)) => self.add(id, bucket, now),
            (_, None) => {
                self.remove(id);
            }
        }
        self.stats.count(&outcome.effects, role);
        outcome.answer
    }

    /// Keeps `bucket` under the key, whatever was there.
    pub fn insert(&mut self, id: &Identity<'_>, bucket: Bucket, now: Timestamp) {
        match self.find(id, id.split) {
            Some(at) => self.overwrite(at, bucket, now),
            None => self.add(id, bucket, now),
        }
    }

    /// The bucket a check of this key would be decided upon. It may have expired.
    pub fn get(&self, id: &Identity<'_>, now: Timestamp) -> Option<Bucket> {
        self.find_newest(id, now).1
    }

    /// Forgets the key: a pair with what is kept under its joined text, a joined text with all its pairs.
    /// Tells whether there was anything.
    pub fn remove(&mut self, id: &Identity<'_>) -> bool {
        let mut removed = false;
        while let Some(at) =
            self.table.find(table_hash(id.hash as u32), |&at| self.is_part_of(id, at)).copied()
        {
            self.wheel.unlink(&mut self.slab, at);
            self.release(at);
            removed = true;
        }
        removed
    }

    /// Lets time pass: looks at up to `budget` entries that are due by `now`. Tells whether there are more.
    pub fn advance(&mut self, now: Timestamp, budget: usize) -> bool {
        self.wheel.turn(&mut self.slab, tick_of(now.ms()));
        for _ in 0..budget {
            let Some(at) = self.wheel.pop(&mut self.slab) else { break };
            self.fire(at);
        }
        let idle = self.wheel.is_idle();
        if idle && self.table.capacity() > 1_024 && self.slab.len() < self.table.capacity() / 8 {
            let slab = &self.slab;
            self.table.shrink_to(slab.len() * 2, |&at| table_hash(slab[at].hash));
        }
        !idle
    }

    /// The counters, and what is here now.
    pub const fn stats(&self) -> &StoreStats {
        &self.stats
    }

    /// The entry at `at`, for a walk over all of them; see the snapshot's text for what a walk may rely on.
    pub(super) fn entry(&self, at: u32) -> (&str, Split, Bucket) {
        (&self.slab[at].key, self.slab[at].split, self.bucket(at))
    }

    /// Entries, the dead that are not freed yet included.
    pub(super) const fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    fn bucket(&self, at: u32) -> Bucket {
        let slot = &self.slab[at];
        self.policies.unpack(slot.policy, &slot.bucket)
    }

    /// The entry has the key's joined text.
    #[inline]
    fn has_text(&self, id: &Identity<'_>, at: u32) -> bool {
        let slot = &self.slab[at];
        slot.hash == id.hash as u32 && id.key.is_joined_as(&slot.key)
    }

    /// The entry is what forgetting the key forgets.
    fn is_part_of(&self, id: &Identity<'_>, at: u32) -> bool {
        let split = self.slab[at].split;
        let related = id.split == Split::JOINED || split == id.split || split == Split::JOINED;
        related && self.has_text(id, at)
    }

    #[inline]
    fn find(&self, id: &Identity<'_>, split: Split) -> Option<u32> {
        let is_it = |&at: &u32| self.slab[at].split == split && self.has_text(id, at);
        self.table.find(table_hash(id.hash as u32), is_it).copied()
    }

    /// The entry of the key itself, and the bucket that counts for it: its own, or for a pair the one under its
    /// joined text if that is newer. That one stays where it is, for the other pairs it may mean.
    ///
    /// Newer is who has not expired by the node's clock; else the later start of the window (token) or last
    /// credit (leaky). Between equals it is the pair's, which has gone on from there.
    #[inline]
    fn find_newest(&self, id: &Identity<'_>, now: Timestamp) -> (Option<u32>, Option<Bucket>) {
        let own = self.find(id, id.split);
        let bucket = own.map(|at| self.bucket(at));
        if self.joined == 0 || id.split == Split::JOINED {
            return (own, bucket);
        }
        (own, self.newer(bucket, id, now))
    }

    #[cold]
    fn newer(&self, bucket: Option<Bucket>, id: &Identity<'_>, now: Timestamp) -> Option<Bucket> {
        let joined = self.find(id, Split::JOINED).map(|at| self.bucket(at));
        let newer = match (&bucket, &joined) {
            (Some(bucket), Some(joined)) => age_rank(joined, now) > age_rank(bucket, now),
            (None, _) => true,
            (_, None) => false,
        };
        if newer { joined } else { bucket }
    }

    #[inline]
    fn overwrite(&mut self, at: u32, bucket: Bucket, now: Timestamp) {
        let slot = &mut self.slab[at];
        let old_due = due(slot, self.settings.linger_ms);
        (slot.policy, slot.bucket) = self.policies.repack(slot.policy, &bucket);
        slot.last_used = used_at(now.ms());
        if slot.is_dead() && tick_of(slot.bucket.expire_at.saturating_add(1)) >= self.wheel.now() {
            slot.set_dead(false);
            self.stats.entries += 1;
        }
        let new_due = due(slot, self.settings.linger_ms);
        if new_due < old_due {
            self.wheel.unlink(&mut self.slab, at);
            self.wheel.link(&mut self.slab, at, new_due);
        }
    }

    fn add(&mut self, id: &Identity<'_>, bucket: Bucket, now: Timestamp) {
        let key_bytes = id.key.joined_len();
        let bytes = entry_bytes(key_bytes);
        if bytes > self.settings.bytes_max || key_bytes > u32::MAX as usize {
            self.stats.oversized += 1;
            return;
        }
        while self.slab.len() >= self.settings.entries_max
            || self.stats.bytes > (self.settings.bytes_max - bytes) as u64
        {
            let Some(at) = victim(&self.slab, &self.policies, &mut self.dice, now) else { break };
            self.evict(at, now);
        }
        let hash = id.hash as u32;
        let packed = self.policies.pack(&bucket);
        let slot = Slot::new(id.key.to_text(), id.split, hash, packed, used_at(now.ms()));
        let due = due(&slot, self.settings.linger_ms);
        let at = self.slab.push(slot);
        self.wheel.link(&mut self.slab, at, due);
        let slab = &self.slab;
        self.table.insert_unique(table_hash(hash), at, |&at| table_hash(slab[at].hash));
        self.joined += usize::from(id.split == Split::JOINED);
        self.stats.entries += 1;
        self.stats.resident += 1;
        self.stats.bytes += bytes as u64;
    }

    /// Handles an entry popped from the wheel.
    fn fire(&mut self, at: u32) {
        let present = self.wheel.now();
        let slot = &mut self.slab[at];
        let mut next = due(slot, self.settings.linger_ms);
        if next < present {
            if slot.is_dead() {
                self.stats.expired += 1;
                self.release(at);
                return;
            }
            slot.set_dead(true);
            self.stats.entries -= 1;
            next = due(slot, self.settings.linger_ms);
        }
        self.wheel.link(&mut self.slab, at, next);
    }

    fn evict(&mut self, at: u32, now: Timestamp) {
        let bucket = self.bucket(at);
        if bucket.expire_at < now.ms() {
            self.stats.expired += 1;
        } else {
            self.stats.evicted_alive += 1;
            self.stats.evicted_in_debt += u64::from(bucket.in_debt(now));
        }
        self.wheel.unlink(&mut self.slab, at);
        self.release(at);
    }

    /// Takes an entry that is in no list out of the table and the slab.
    fn release(&mut self, at: u32) {
        if let Ok(place) = self.table.find_entry(table_hash(self.slab[at].hash), |&other| other == at) {
            place.remove();
        }
        let slot = self.slab.swap_remove(at);
        let moved = self.slab.len() as u32;
        if moved != at {
            self.wheel.relocate(&mut self.slab, moved, at);
            if let Some(place) = self.table.find_mut(table_hash(self.slab[at].hash), |&other| other == moved)
            {
                *place = at;
            }
        }
        self.policies.release(slot.policy);
        self.joined -= usize::from(slot.split == Split::JOINED);
        self.stats.entries -= u64::from(!slot.is_dead());
        self.stats.resident -= 1;
        self.stats.bytes -= entry_bytes(slot.key.len()) as u64;
    }
}

/// The tick before which nothing happens to an entry by itself: alive, it dies after it; dead, it is freed.
fn due(slot: &Slot, linger_ms: i64) -> u64 {
    let linger_ms = if slot.is_dead() { linger_ms } else { 0 };
    tick_of(slot.bucket.expire_at.saturating_add(linger_ms).saturating_add(1))
}

fn age_rank(bucket: &Bucket, now: Timestamp) -> (bool, i64) {
    let since = match &bucket.state {
        State::Token(token) => token.created_at,
        State::Leaky(leaky) => leaky.updated_at,
    };
    (bucket.expire_at >= now.ms(), since)
}

/// hashbrown takes the place from the low bits and a tag from the top seven.
#[inline]
const fn table_hash(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
