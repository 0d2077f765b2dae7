//! What is due by now: a hierarchical timer wheel whose lists run through the entries themselves.
//!
//! Time is cut into ticks of 64 ms. Level 0 has a list for each of the next 64 ticks, level 1 one for each of
//! the next 64 blocks of 64 ticks, and so on; five levels reach two years, and what is due later waits at the
//! far end and is looked at again there. An entry sits at the level of the highest group of six bits in which
//! its tick differs from the present one. Linking and unlinking are O(1), and time passes by moving whole lists
//! to the *pending* list: however far the clock jumps, that is at most 320 moves. The shard then pops pending
//! entries, as many at a time as it likes, and links again those that are not due after all.
//!
//! So an entry may be looked at early, but never late:
//!
//! * An entry in a list of level 0 is due at or after the present tick, one at level n at or after the next
//!   block of level n. Moving the present tick back keeps that true, so a clock that steps back costs some
//!   early looks and nothing else.
//! * Because early looks are harmless, an entry whose expiry moves *later* (a busy leaky bucket: with every
//!   hit) stays where it is. Only one that moves *earlier* must be linked anew.
//!
//! Lists are circular: two of them are joined in O(1), and an entry leaves its list without knowing whether
//! that has been moved to the pending list meanwhile.
//!
//! Rejected: a heap or a tree of expiries (O(log n) under the lock with every hit, and memory for a second
//! index), and sampling alone (what nobody samples stays; the promise is that the dead leave).

use super::slab::Slab;

/// A tick is 64 ms: entries are noticed at most this much after they are due.
const TICK_BITS: u32 = 6;
const LEVEL_BITS: u32 = 6;
const LEVELS: usize = 5;
const SLOTS: usize = 1 << LEVEL_BITS;
/// The list of entries to be looked at next.
const PENDING: u16 = (LEVELS * SLOTS) as u16;
/// Nothing is linked further ahead than this many ticks: 63 blocks of the top level, so that the present
/// block's own list is never used for a time a whole turn away.
const HORIZON: u64 = (SLOTS as u64 - 1) << (LEVEL_BITS * (LEVELS as u32 - 1));
/// A slot keeps its list's number in fifteen bits.
const _: () = assert!(PENDING < 1 << 15);
const NONE: u32 = u32::MAX;

/// The tick in which `ms` lies; in the same order as `ms` over the whole range of `i64`.
#[inline]
pub(super) const fn tick_of(ms: i64) -> u64 {
    (ms as u64 ^ (1 << 63)) >> TICK_BITS
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Wheel {
    /// The present tick: everything due before it is pending or has been popped.
    now: u64,
    /// First entry of each list, level by level, then the pending one.
    heads: [u32; LEVELS * SLOTS + 1],
    /// Which lists of a level are not empty.
    occupied: [u64; LEVELS],
}

impl Wheel {
    pub(super) const fn new() -> Self {
        Self { now: 0, heads: [NONE; LEVELS * SLOTS + 1], occupied: [0; LEVELS] }
    }

    /// The present tick.
    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Whether there is nothing to pop.
    pub(super) const fn is_idle(&self) -> bool {
        self.heads[PENDING as usize] == NONE
    }

    /// Makes `target` the present tick; what was due before it becomes pending.
    pub(super) fn turn(&mut self, slab: &mut Slab, target: u64) {
        for level in 0..LEVELS {
            let shift = LEVEL_BITS * level as u32;
            // Level 0: the ticks that have passed. Above: the blocks that have begun.
            let first = (self.now >> shift) + u64::from(level > 0);
            let passed = (target >> shift).saturating_sub(self.now >> shift);
            if passed == 0 {
                continue;
            }
            let window = if passed < SLOTS as u64 { (1 << passed) - 1 } else { u64::MAX };
            let window = u64::rotate_left(window, (first % SLOTS as u64) as u32);
            let mut due = self.occupied[level] & window;
            self.occupied[level] &= !window;
            while due != 0 {
                let list = level * SLOTS + due.trailing_zeros() as usize;
                due &= due - 1;
                let head = core::mem::replace(&mut self.heads[list], NONE);
                self.append(slab, PENDING, head);
            }
        }
        self.now = target;
    }

    /// Takes a pending entry out of the wheel. It may not be due: then the caller links it again.
    pub(super) fn pop(&mut self, slab: &mut Slab) -> Option<u32> {
        let at = self.heads[PENDING as usize];
        if at == NONE {
            return None;
        }
        self.unlink(slab, at);
        Some(at)
    }

    /// Links an entry so that it is pending as soon as `due` has passed; at once if it has.
    pub(super) fn link(&mut self, slab: &mut Slab, at: u32, due: u64) {
        let list = if due < self.now {
            PENDING
        } else {
            let due = due.min(self.now.saturating_add(HORIZON));
            let level = ((due ^ self.now) | (SLOTS as u64 - 1)).ilog2() / LEVEL_BITS;
            let level = level.min(LEVELS as u32 - 1);
            let slot = (due >> (LEVEL_BITS * level)) % SLOTS as u64;
            self.occupied[level as usize] |= 1 << slot;
            level as u16 * SLOTS as u16 + slot as u16
        };
        let entry = &mut slab[at];
        (entry.prev, entry.next) = (at, at);
        entry.set_list(list);
        self.append(slab, list, at);
    }

    /// Takes a linked entry out of the wheel.
    pub(super) fn unlink(&mut self, slab: &mut Slab, at: u32) {
        let (prev, next) = (slab[at].prev, slab[at].next);
        let alone = next == at;
        if !alone {
            slab[prev].next = next;
            slab[next].prev = prev;
        }
        self.rehead(slab[at].list(), at, if alone { NONE } else { next });
    }

    /// Tells the wheel that the entry at `from` is at `to` now.
    pub(super) fn relocate(&mut self, slab: &mut Slab, from: u32, to: u32) {
        let (prev, next) = (slab[to].prev, slab[to].next);
        if next == from {
            (slab[to].prev, slab[to].next) = (to, to);
        } else {
            slab[prev].next = to;
            slab[next].prev = to;
        }
        self.rehead(slab[to].list(), from, to);
    }

    /// If `old` is the first of a list, makes `new` that. An entry that was linked to `list` is in it or, once
    /// the list was moved, in the pending one.
    fn rehead(&mut self, list: u16, old: u32, new: u32) {
        for list in [list, PENDING] {
            if self.heads[list as usize] != old {
                continue;
            }
            self.heads[list as usize] = new;
            if new == NONE && list != PENDING {
                self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
            }
            return;
        }
    }

    /// Puts the circle that begins with `head` at the end of `list`.
    fn append(&mut self, slab: &mut Slab, list: u16, head: u32) {
        let first = self.heads[list as usize];
        if first == NONE {
            self.heads[list as usize] = head;
            return;
        }
        let (last, tail) = (slab[first].prev, slab[head].prev);
        (slab[last].next, slab[head].prev) = (head, last);
        (slab[tail].next, slab[first].prev) = (first, tail);
    }
}

#[cfg(test)]
#[path = "expiry_tests.rs"]
mod tests;
