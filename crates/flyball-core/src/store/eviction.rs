//! Who has to go when a shard is full.
//!
//! Forgetting a bucket forgives what it has counted, so the victim is the entry that forgives least. Of eight
//! entries drawn at random: an expired one if there is any; else the fullest bucket, because a full bucket and
//! none at all are the same thing; among equally full ones the least recently used. A bucket that still owes
//! units promised to `max_wait` callers goes only if all eight do.
//!
//! So a flood of fresh keys mostly evicts itself: one hit of a hundred leaves a bucket 99 % full.
//!
//! Rejected: least recently used alone (an exhausted bucket of a blocked client is what nobody uses, and what
//! must be remembered), and an exact order by fullness (fullness changes with time, so any index is stale).

use core::cmp::Ordering;

use crate::time::Timestamp;

use super::packed::Policies;
use super::slab::{Slab, used_at};

/// Entries looked at for one victim.
const SAMPLE: usize = 8;

/// Draws the sample. SplitMix64: eight bytes of state, seeded by the store so that a run can be repeated.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u64::from(mixed as u32) * u64::from(bound)) >> 32) as u32
    }
}

/// How little it matters to lose an entry: the greatest goes.
#[derive(Clone, Copy, Debug)]
struct Worth {
    expired: bool,
    free_of_debt: bool,
    fullness: f64,
    idle: i16,
}

impl Worth {
    fn of(slab: &Slab, policies: &Policies, at: u32, now: Timestamp) -> Self {
        let slot = &slab[at];
        let bucket = policies.unpack(slot.policy, &slot.bucket);
        Self {
            expired: bucket.expire_at < now.ms(),
            free_of_debt: !bucket.in_debt(now),
            fullness: bucket.fullness(now),
            // Signed, so that after a step back of the clock "used in the future" is not "unused for hours".
            idle: used_at(now.ms()).wrapping_sub(slot.last_used) as i16,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        (self.expired.cmp(&other.expired))
            .then(self.free_of_debt.cmp(&other.free_of_debt))
            .then(self.fullness.total_cmp(&other.fullness))
            .then(self.idle.cmp(&other.idle))
    }
}

/// The entry to evict; `None` if there is none at all. Up to eight entries are all looked at.
pub(super) fn victim(slab: &Slab, policies: &Policies, dice: &mut Dice, now: Timestamp) -> Option<u32> {
    let len = slab.len() as u32;
    (0..len.min(SAMPLE as u32))
        .map(|n| if len as usize <= SAMPLE { n } else { dice.below(len) })
        .map(|at| (at, Worth::of(slab, policies, at, now)))
        .max_by(|(_, one), (_, other)| one.order(other))
        .map(|(at, _)| at)
}
