//! Walking over everything that is stored, for persistence and hand-over; loading goes through
//! `insert`.
//!
//! A walk copies one page at a time and calls back without holding a lock, so checks go on meanwhile and the
//! callback may use the store. What it may rely on: an entry that is there from before the walk until after it
//! is visited at least once. It may be visited twice, and one that comes or goes meanwhile may be missed.
//!
//! That holds because a shard is walked from its last index down: the only entries that move are the last ones,
//! into places further down, which are still to be visited.

use crate::algorithm::Bucket;

use super::Shard;
use super::key::StoredKey;

/// The most entries visited under one lock.
const PAGE_ENTRIES: usize = 64;
/// No more entries are visited under one lock once their keys have this many bytes.
const PAGE_KEY_BYTES: usize = 64 * 1_024;

impl Shard {
    /// Visits one page of entries below the index `end`, the last first, and tells where the rest of them
    /// ends: begin with `usize::MAX`, go on until 0.
    pub fn page(&self, end: usize, mut visit: impl FnMut(StoredKey<'_>, &Bucket)) -> usize {
        let mut end = end.min(self.len());
        let (mut entries, mut key_bytes) = (0, 0);
        while end > 0 && entries < PAGE_ENTRIES && key_bytes < PAGE_KEY_BYTES {
            end -= 1;
            let (text, split, bucket) = self.entry(end as u32);
            (entries, key_bytes) = (entries + 1, key_bytes + text.len());
            visit(StoredKey::from_text(text, split), &bucket);
        }
        end
    }
}

#[cfg(feature = "std")]
impl super::Store {
    /// Calls `visit` with every entry; expired ones that are not freed yet are among them.
    pub fn for_each(&self, mut visit: impl FnMut(StoredKey<'_>, &Bucket)) {
        let mut copies = alloc::vec::Vec::with_capacity(PAGE_ENTRIES);
        for shard in &self.shards {
            let mut end = usize::MAX;
            while end > 0 {
                let copy =
                    |key: StoredKey<'_>, bucket: &Bucket| copies.push((key.to_text(), key.split(), *bucket));
                end = shard.lock().page(end, copy);
                for (text, split, bucket) in copies.drain(..) {
                    visit(StoredKey::from_text(&text, split), &bucket);
                }
            }
        }
    }
}
