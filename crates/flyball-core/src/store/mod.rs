//! Where buckets live: sharded, bounded, swept.
//!
//! A [`Store`] is a power-of-two number of shards, each behind a mutex that is held for the time of one
//! decision (`locked.rs`), or for those of one call that meet there (`batch.rs`). Everything of interest happens in the [`Shard`], which knows no lock: `shard.rs`
//! finds, writes and frees entries; `key.rs` says which bucket a check means; `slab.rs` is where entries lie and
//! `packed.rs` how small;
//! `expiry.rs` is the timer wheel by which the dead leave; `eviction.rs` says who goes when a shard is full;
//! `snapshot.rs` walks over everything.
//!
//! Bounds: `bytes_max` and, if set, `entries_max`, both divided among the shards. Keys are spread by a seeded
//! hash, so shards fill evenly, but not exactly: a store begins to evict a few percent below its total.
//!
//! Rejected: one task that owns all buckets (a hop and a queue for every check), and a cache from a library (a
//! decision is a read-modify-write with the time as an argument, expiry lies in the bucket, and eviction must
//! know what forgetting a bucket forgives).

#[cfg(feature = "std")]
mod batch;
mod eviction;
mod expiry;
mod key;
#[cfg(feature = "std")]
mod locked;
mod packed;
mod shard;
mod slab;
mod snapshot;
#[cfg(feature = "std")]
mod sync;

pub use key::{Identity, JoinBuffer, KeySpace, StoredKey};
pub use shard::{ENTRY_OVERHEAD, Shard, ShardSettings, entry_bytes};

use core::ops::AddAssign;

use crate::algorithm::Effects;
use crate::check::Semantics;

#[cfg(feature = "std")]
pub use batch::KeyGuard;
#[cfg(feature = "std")]
pub use locked::{Store, Sweep};

/// How a store is laid out and what it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// How many locks to spread the keys over: rounded up to a power of two, at most 65 536, and fewer when the
    /// bounds are so tight that a shard would have too little to choose from. Some 16 per core is plenty; more
    /// of them keep the growth of one table short with many millions of keys. Default 64.
    pub shards: usize,
    /// What all entries together may cost by [`entry_bytes`]. Default 256 MiB.
    pub bytes_max: usize,
    /// The most entries in all shards, those included that are expired but not yet freed; 0 counts as 1.
    /// Default none: only bytes count.
    pub entries_max: Option<usize>,
    /// How long an expired entry stays for callers whose clock lags, in milliseconds: the tolerance for
    /// `created_at` plus the time a forwarded check may have been on its way. It is freed at most a tick of
    /// 64 ms and one sweep interval later. Default 5 500.
    pub linger_ms: i64,
    /// For the key hash and the sampling of eviction. Should be random and secret; the default, 0, is neither
    /// and serves tests.
    pub seed: u64,
    /// Whether a bucket is identified by a pair or by the joined text. Default exact.
    pub semantics: Semantics,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            shards: 64,
            bytes_max: 256 * 1_024 * 1_024,
            entries_max: None,
            linger_ms: 5_500,
            seed: 0,
            semantics: Semantics::Exact,
        }
    }
}

/// As what a node applies a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The bucket here is the one that counts.
    Owner,
    /// The owner is another node and will count the same check: verdicts are not counted here.
    Replica,
}

/// What a store holds, and what happened in it since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Buckets that have not expired.
    pub entries: u64,
    /// The same and the expired ones that are not freed yet.
    pub resident: u64,
    /// What the resident ones cost by [`entry_bytes`].
    pub bytes: u64,
    /// Checks that found a live bucket.
    pub hits: u64,
    /// Checks that found none.
    pub misses: u64,
    /// Owner's answers that count as over the limit.
    pub over_limit: u64,
    /// Slots booked by the owner for `max_wait` checks.
    pub scheduled: u64,
    /// `max_wait` checks that the owner's own ceiling refused.
    pub ceiling_refused: u64,
    /// Debts ended by a reset or a change of algorithm, on owners and replicas.
    pub debt_dropped: u64,
    /// Live buckets that had to make room.
    pub evicted_alive: u64,
    /// Those of them that were in debt.
    pub evicted_in_debt: u64,
    /// Expired buckets that were freed.
    pub expired: u64,
    /// Buckets that were not kept because the key alone exceeds what a shard may use.
    pub oversized: u64,
}

impl StoreStats {
    fn count(&mut self, effects: &Effects, role: Role) {
        self.hits += u64::from(effects.hit);
        self.misses += u64::from(!effects.hit);
        self.debt_dropped += u64::from(effects.debt_dropped);
        if role == Role::Owner {
            self.over_limit += u64::from(effects.over_limit);
            self.scheduled += u64::from(effects.scheduled);
            self.ceiling_refused += u64::from(effects.ceiling_refused);
        }
    }
}

impl AddAssign for StoreStats {
    fn add_assign(&mut self, other: Self) {
        // Taken apart, so that a new field cannot be forgotten.
        let Self {
            entries,
            resident,
            bytes,
            hits,
            misses,
            over_limit,
            scheduled,
            ceiling_refused,
            debt_dropped,
            evicted_alive,
            evicted_in_debt,
            expired,
            oversized,
        } = other;
        self.entries += entries;
        self.resident += resident;
        self.bytes += bytes;
        self.hits += hits;
        self.misses += misses;
        self.over_limit += over_limit;
        self.scheduled += scheduled;
        self.ceiling_refused += ceiling_refused;
        self.debt_dropped += debt_dropped;
        self.evicted_alive += evicted_alive;
        self.evicted_in_debt += evicted_in_debt;
        self.expired += expired;
        self.oversized += oversized;
    }
}
