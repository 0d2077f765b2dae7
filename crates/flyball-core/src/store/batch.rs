//! Many checks of one call: each shard is locked once for all of them, not once for each.
//!
//! A lock that nobody contends still costs two atomic operations, which wait for every write before them and
//! keep the CPU from working on the next check meanwhile: with small checks, a quarter of all the time. So the
//! keys are hashed first, put in the order of their shards, and then taken shard by shard.
//!
//! Invariant: the checks that meet in one shard keep their order, so every bucket, and every eviction, sees what
//! it would have seen had the checks been applied one after the other. Only checks of different shards change
//! places, and they know nothing of each other.
//!
//! Rejected: one check at a time with the lock of the last shard kept (two calls could then each wait for the
//! lock the other keeps), and sorting (n log n, and the standard sort by key costs half of what is gained).

use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::check::{Check, Key, Rules};
use crate::decision::Answer;
use crate::time::Timestamp;

use super::Role;
use super::key::{Identity, JoinBuffer, StoredKey};
use super::locked::Store;
use super::shard::Shard;

/// Shards are told apart by so many values when the order is made. A store with more shards takes the lock
/// more often; the order holds all the same.
const GROUPS: usize = 64;

/// With so few checks the order costs more than the locks.
const ORDER_FROM: usize = 16;

/// Checks under one lock before others get a chance to take it: some two microseconds.
const LOCK_CHECKS_MAX: usize = 32;

/// The shard of one key, locked.
#[derive(Debug)]
pub struct KeyGuard<'a> {
    shard: &'a mut Shard,
    id: &'a Identity<'a>,
}

impl KeyGuard<'_> {
    /// As [`Store::apply`], for a check of the key this guard was made for.
    #[inline]
    pub fn apply(&mut self, check: &Check<'_>, now: Timestamp, rules: &Rules, role: Role) -> Answer {
        debug_assert_eq!(StoredKey::Pair(check.key), self.id.key);
        self.shard.apply(self.id, check, now, rules, role)
    }
}

/// A key's hash and its place in the call.
#[derive(Clone, Copy, Default)]
struct Place {
    hash: u64,
    index: usize,
}

impl Store {
    /// Calls `act` once for each of the keys `key(0)`, …, `key(count - 1)`, with its shard locked: those of one
    /// shard in this order, and shards in any. Ends early when `act` breaks.
    ///
    /// `act` must not use the store in another way than by its guard, or it waits for itself.
    pub fn visit<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> Key<'k>,
        mut act: impl FnMut(usize, KeyGuard<'_>) -> ControlFlow<()>,
    ) {
        let mut buffer = JoinBuffer::default();
        if count < ORDER_FROM {
            for index in 0..count {
                let id = self.keys.identify(StoredKey::Pair(key(index)), &mut buffer);
                let mut shard = self.shard(id.hash()).lock();
                if act(index, KeyGuard { shard: &mut shard, id: &id }).is_break() {
                    return;
                }
            }
            return;
        }
        let order = self.order(count, &key, &mut buffer);
        let mut rest = order.as_slice();
        while let Some(first) = rest.first() {
            let at = self.shard_index(first.hash);
            let run = rest.iter().take(LOCK_CHECKS_MAX).take_while(|next| self.shard_index(next.hash) == at);
            let (run, later) = rest.split_at(run.count());
            let mut shard = self.shards[at].lock();
            for place in run {
                let id = self.keys.known(StoredKey::Pair(key(place.index)), place.hash);
                if act(place.index, KeyGuard { shard: &mut shard, id: &id }).is_break() {
                    return;
                }
            }
            rest = later;
        }
    }

    /// All keys by shard: a counting sort, which keeps the order of those that count alike.
    fn order<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, buffer: &mut JoinBuffer) -> Vec<Place> {
        let mut ends = [0_usize; GROUPS];
        let mut places = Vec::with_capacity(count);
        for index in 0..count {
            let hash = self.keys.identify(StoredKey::Pair(key(index)), buffer).hash();
            places.push(Place { hash, index });
            ends[self.shard_index(hash) % GROUPS] += 1;
        }
        let mut end = 0;
        for group in &mut ends {
            end += *group;
            *group = end;
        }
        let mut order = alloc::vec![Place::default(); count];
        // Backwards, because each group is filled from its end.
        for place in places.iter().rev() {
            let group = self.shard_index(place.hash) % GROUPS;
            ends[group] -= 1;
            order[ends[group]] = *place;
        }
        order
    }
}
