//! A bucket in 36 bytes instead of 72.
//!
//! Most of a bucket is the same for all callers of one limit: the limit itself, duration, burst, rate. That is
//! its *policy*; a shard keeps each distinct policy once and counts its users. What is left is the end of its
//! life and three words. Packing loses nothing, not a bit of a float.
//!
//! An entry whose policy did not change, nearly every one, costs a comparison; a change costs a hash lookup.
//! Clients choose policies, so there may be as many as entries: the store's bound charges each entry for one
//! of its own, and the hash is seeded.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::algorithm::{Bucket, LeakyBucket, State, TokenBucket};

/// What a policy costs that only one entry uses: the record and its share of the table.
pub(super) const POLICY_BYTES: usize = size_of::<Shared>() + 10;

/// What buckets of one limit have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Policy {
    Token { limit: i64, duration: i64, calendar: bool },
    Leaky { limit: i64, duration: i64, burst: i64, rate_bits: u64 },
}

/// The rest of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    /// As [`Bucket::expire_at`].
    pub(super) expire_at: i64,
    /// Token: remaining, created_at, over_limit. Leaky: balance, updated_at, booked_ms.
    words: [u64; 3],
}

#[derive(Clone, Copy, Debug)]
struct Shared {
    policy: Policy,
    /// 0: free for another policy.
    users: u32,
}

/// The policies of one shard.
#[derive(Debug)]
pub(super) struct Policies {
    all: Vec<Shared>,
    /// Indices that nobody uses.
    free: Vec<u32>,
    table: HashTable<u32>,
    hasher: FixedState,
}

impl Policies {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            hasher: FixedState::with_seed(seed),
        }
    }

    /// Packs the bucket of a new entry, which becomes a user of its policy.
    pub(super) fn pack(&mut self, bucket: &Bucket) -> (u32, Packed) {
        let (policy, packed) = take_apart(bucket);
        (self.acquire(policy), packed)
    }

    /// Packs a bucket anew for an entry that uses the policy `old` until now.
    #[inline]
    pub(super) fn repack(&mut self, old: u32, bucket: &Bucket) -> (u32, Packed) {
        let (policy, packed) = take_apart(bucket);
        if self.all[old as usize].policy == policy {
            return (old, packed);
        }
        self.release(old);
        (self.acquire(policy), packed)
    }

    #[inline]
    pub(super) fn unpack(&self, policy: u32, packed: &Packed) -> Bucket {
        put_together(&self.all[policy as usize].policy, packed)
    }

    /// An entry uses the policy no more.
    pub(super) fn release(&mut self, id: u32) {
        let shared = &mut self.all[id as usize];
        shared.users -= 1;
        if shared.users > 0 {
            return;
        }
        let hash = self.hasher.hash_one(shared.policy);
        if let Ok(place) = self.table.find_entry(hash, |&other| other == id) {
            place.remove();
        }
        self.free.push(id);
        if self.free.len() == self.all.len() {
            // Nobody is left, so that after a flood of policies the memory goes back.
            *self = Self { hasher: self.hasher.clone(), ..Self::new(0) };
        }
    }

    fn acquire(&mut self, policy: Policy) -> u32 {
        let Self { all, free, table, hasher } = self;
        let hash = hasher.hash_one(policy);
        let place = table.entry(
            hash,
            |&id| all[id as usize].policy == policy,
            |&id| hasher.hash_one(all[id as usize].policy),
        );
        match place {
            Entry::Occupied(place) => {
                let id = *place.get();
                all[id as usize].users += 1;
                id
            }
            Entry::Vacant(place) => {
                let shared = Shared { policy, users: 1 };
                let id = match free.pop() {
                    Some(id) => {
                        all[id as usize] = shared;
                        id
                    }
                    None => {
                        all.push(shared);
                        all.len() as u32 - 1
                    }
                };
                place.insert(id);
                id
            }
        }
    }

    /// How many distinct policies are in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

/// Both directions take every field by name, so that a new one cannot be forgotten.
#[inline]
fn take_apart(bucket: &Bucket) -> (Policy, Packed) {
    let (policy, words) = match bucket.state {
        State::Token(TokenBucket { limit, remaining, duration, created_at, calendar, over_limit }) => (
            Policy::Token { limit, duration, calendar },
            [remaining as u64, created_at as u64, u64::from(over_limit)],
        ),
        State::Leaky(LeakyBucket { limit, duration, burst, balance, updated_at, rate, booked_ms }) => (
            Policy::Leaky { limit, duration, burst, rate_bits: rate.to_bits() },
            [balance.to_bits(), updated_at as u64, booked_ms.to_bits()],
        ),
    };
    (policy, Packed { expire_at: bucket.expire_at, words })
}

#[inline]
fn put_together(policy: &Policy, packed: &Packed) -> Bucket {
    let [first, second, third] = packed.words;
    let state = match *policy {
        Policy::Token { limit, duration, calendar } => State::Token(TokenBucket {
            limit,
            remaining: first as i64,
            duration,
            created_at: second as i64,
            calendar,
            over_limit: third != 0,
        }),
        Policy::Leaky { limit, duration, burst, rate_bits } => State::Leaky(LeakyBucket {
            limit,
            duration,
            burst,
            balance: f64::from_bits(first),
            updated_at: second as i64,
            rate: f64::from_bits(rate_bits),
            booked_ms: f64::from_bits(third),
        }),
    };
    Bucket { expire_at: packed.expire_at, state }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;

    fn any_bucket() -> impl Strategy<Value = Bucket> {
        let number = || prop_oneof![0_i64..4, any::<i64>()];
        let float = || any::<u64>().prop_map(f64::from_bits);
        let token = (number(), number(), number(), number(), any::<bool>(), any::<bool>()).prop_map(
            |(limit, remaining, duration, created_at, calendar, over_limit)| {
                State::Token(TokenBucket { limit, remaining, duration, created_at, calendar, over_limit })
            },
        );
        let leaky = (number(), number(), number(), float(), number(), float(), float()).prop_map(
            |(limit, duration, burst, balance, updated_at, rate, booked_ms)| {
                State::Leaky(LeakyBucket { limit, duration, burst, balance, updated_at, rate, booked_ms })
            },
        );
        (any::<i64>(), prop_oneof![token, leaky]).prop_map(|(expire_at, state)| Bucket { expire_at, state })
    }

    /// Equal to the last bit: `==` would call NaN different and the two zeros equal.
    fn bits(bucket: &Bucket) -> (i64, [u64; 3], Policy) {
        let (policy, packed) = take_apart(bucket);
        (packed.expire_at, packed.words, policy)
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(buckets in prop::collection::vec((any::<u8>(), any_bucket()), 1..60)) {
            let mut policies = Policies::new(1);
            let mut kept: Vec<(u32, Packed, Bucket)> = Vec::new();
            for (pick, bucket) in buckets {
                // Add, overwrite and drop.
                let at = usize::from(pick) % (kept.len() + 1);
                if at == kept.len() {
                    let (policy, packed) = policies.pack(&bucket);
                    kept.push((policy, packed, bucket));
                } else if pick % 5 == 0 {
                    policies.release(kept.swap_remove(at).0);
                } else {
                    let (policy, packed) = policies.repack(kept[at].0, &bucket);
                    kept[at] = (policy, packed, bucket);
                }
                for (policy, packed, bucket) in &kept {
                    let unpacked = policies.unpack(*policy, packed);
                    prop_assert_eq!(bits(&unpacked), bits(bucket));
                    prop_assert_eq!(format!("{unpacked:?}"), format!("{bucket:?}"));
                }
                let mut distinct: Vec<u32> = kept.iter().map(|entry| entry.0).collect();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(policies.len(), distinct.len());
            }
            for (policy, ..) in kept {
                policies.release(policy);
            }
            prop_assert_eq!((policies.len(), policies.all.capacity()), (0, 0));
        }
    }

    #[test]
    fn callers_of_one_limit_share_a_policy() {
        let mut policies = Policies::new(1);
        let bucket = |limit, remaining| {
            let state = State::Token(TokenBucket { limit, remaining, ..TokenBucket::default() });
            Bucket { expire_at: remaining, state }
        };
        let ids: Vec<u32> = (0..100).map(|remaining| policies.pack(&bucket(100, remaining)).0).collect();
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert_eq!(policies.len(), 1);
        let (other, _) = policies.repack(ids[0], &bucket(50, 0));
        assert!(other != ids[0] && policies.len() == 2);
        policies.release(other);
        assert_eq!(policies.len(), 1);
    }
}
