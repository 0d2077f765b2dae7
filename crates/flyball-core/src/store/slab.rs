//! Where the entries of a shard lie: a dense array in chunks.
//!
//! Dense means that there are no holes: removing an entry moves the last one into its place. So memory
//! follows the number of entries down as well as up, a uniform random index is a uniform random entry (which
//! is what eviction samples by), and a walk needs no map of what is in use. The price is that an entry may
//! change its index, which the shard repairs in its table and in the timer wheel, both in O(1).
//!
//! Chunks mean that growth never copies what is there, so that no check waits for a large move under the lock.
//!
//! Rejected: one `Vec` (a copy of the whole shard at each doubling, and up to half of it idle), and a free
//! list (memory stays at its peak, and random sampling meets holes).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::key::Split;
use super::packed::Packed;

/// Entries per chunk: large enough that the chunk list is short, small enough that an unfilled last chunk
/// (18 KiB) does not matter.
const CHUNK: usize = 256;

/// One entry. 72 bytes, and the key's text beside it.
#[derive(Debug)]
pub(super) struct Slot {
    /// The joined key.
    pub(super) key: Box<str>,
    pub(super) bucket: Packed,
    /// The bucket's other half.
    pub(super) policy: u32,
    /// Neighbours in the wheel's list.
    pub(super) prev: u32,
    pub(super) next: u32,
    /// Lower half of the key's hash, so that the table can grow without reading keys.
    pub(super) hash: u32,
    pub(super) split: Split,
    /// In units of [`used_at`].
    pub(super) last_used: u16,
    /// The wheel's list this entry was linked to; and, in the top bit, whether it has expired and is kept for
    /// clients that lag.
    list_and_dead: u16,
}

const _: () = assert!(size_of::<Slot>() == 72, "the memory goal was computed with 72 bytes");

const DEAD: u16 = 1 << 15;

impl Slot {
    /// An entry that is alive and in no list.
    pub(super) const fn new(
        key: Box<str>,
        split: Split,
        hash: u32,
        (policy, bucket): (u32, Packed),
        last_used: u16,
    ) -> Self {
        Self { key, bucket, policy, prev: 0, next: 0, hash, split, last_used, list_and_dead: 0 }
    }

    pub(super) const fn list(&self) -> u16 {
        self.list_and_dead & !DEAD
    }

    pub(super) const fn set_list(&mut self, list: u16) {
        self.list_and_dead = (self.list_and_dead & DEAD) | list;
    }

    pub(super) const fn is_dead(&self) -> bool {
        self.list_and_dead & DEAD != 0
    }

    pub(super) const fn set_dead(&mut self, dead: bool) {
        self.list_and_dead = self.list() | if dead { DEAD } else { 0 };
    }
}

/// A moment as `last_used` keeps it: seconds of 1 024 ms that wrap after 18 hours. It decides only between
/// buckets that are equally full.
pub(super) const fn used_at(ms: i64) -> u16 {
    (ms >> 10) as u16
}

/// The entries of one shard.
#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Vec<Slot>>,
    len: usize,
}

impl Slab {
    /// Indices are `u32`, and one value is the wheel's "none".
    pub(super) const LEN_MAX: usize = u32::MAX as usize - 1;

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry and tells its index. The caller keeps `len` below [`Slab::LEN_MAX`].
    pub(super) fn push(&mut self, slot: Slot) -> u32 {
        let at = self.len;
        if at / CHUNK == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[at / CHUNK].push(slot);
        self.len += 1;
        at as u32
    }

    /// Takes an entry out. The entry that was last, at the index `len` after the call, is at `at` now, unless
    /// `at` was the last itself.
    pub(super) fn swap_remove(&mut self, at: u32) -> Slot {
        let last = self.len - 1;
        let slot = self.chunks[last / CHUNK].pop().expect("invariant: all chunks before `len` are filled");
        self.len = last;
        // One empty chunk stays, so that a shard at a chunk's edge does not allocate with every second key.
        self.chunks.truncate(last.div_ceil(CHUNK) + 1);
        if at as usize == last { slot } else { core::mem::replace(&mut self[at], slot) }
    }
}

impl Index<u32> for Slab {
    type Output = Slot;

    #[inline]
    fn index(&self, at: u32) -> &Slot {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

impl IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}
