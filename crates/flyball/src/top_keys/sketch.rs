//! The heaviest keys of a stream, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi: *Efficient
//! computation of frequent and top-k elements in data streams*, 2005), with weights.
//!
//! A key that has an entry adds to it. A new key, once all entries are taken, takes over the smallest one *with its
//! count*, and remembers that count as what it may be overestimated by. With `m` entries and `n` hits in all:
//!
//! * the counts add up to `n`, so the smallest is at most `n / m`;
//! * for every entry `hits − error ≤ true count ≤ hits`, and `error ≤ n / m`;
//! * so a key with more than `n / m` hits always has an entry.
//!
//! A flood of ever new keys displaces an entry with each of them, so the smallest count must be found quickly: counts
//! lie in groups of [`GROUP`], and the smallest of each group is kept. Finding the smallest of all looks at some thirty
//! numbers; a count that grows costs nothing more unless it was its group's smallest. A heap would move entries with
//! each hit of a key that is there, which is the common case.

use flyball_core::Key;
use hashbrown::HashTable;

/// Counts whose smallest is kept.
const GROUP: usize = 16;
/// What is kept of a name and of a unique key, in bytes.
const NAME_BYTES: usize = 64;
const UNIQUE_KEY_BYTES: usize = 128;

/// A key as far as it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutKey<'a> {
    name: &'a str,
    unique_key: &'a str,
    name_was_cut: bool,
    unique_key_was_cut: bool,
}

impl<'a> CutKey<'a> {
    pub(super) fn new(key: Key<'a>) -> Self {
        let cut = |text: &'a str, bytes: usize| &text[..text.floor_char_boundary(bytes)];
        let (name, unique_key) = (cut(key.name, NAME_BYTES), cut(key.unique_key, UNIQUE_KEY_BYTES));
        Self {
            name,
            unique_key,
            name_was_cut: name.len() < key.name.len(),
            unique_key_was_cut: unique_key.len() < key.unique_key.len(),
        }
    }
}

#[derive(Debug, Default)]
struct Slot {
    /// Of the whole key: two keys that are cut alike are still two.
    hash: u64,
    name: String,
    unique_key: String,
    name_was_cut: bool,
    unique_key_was_cut: bool,
    error: u64,
}

impl Slot {
    fn is(&self, hash: u64, key: &CutKey<'_>) -> bool {
        self.hash == hash && self.name == key.name && self.unique_key == key.unique_key
    }

    /// Keeps the allocations of who was here before.
    fn assign(&mut self, hash: u64, key: &CutKey<'_>, error: u64) {
        self.hash = hash;
        self.name.clear();
        self.name.push_str(key.name);
        self.unique_key.clear();
        self.unique_key.push_str(key.unique_key);
        self.name_was_cut = key.name_was_cut;
        self.unique_key_was_cut = key.unique_key_was_cut;
        self.error = error;
    }
}

/// A key with its count, as it is read.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    slot: &'a Slot,
    pub(super) hash: u64,
    pub(super) hits: u64,
    pub(super) error: u64,
}

impl Entry<'_> {
    pub(super) fn name(&self) -> String {
        shown(&self.slot.name, self.slot.name_was_cut)
    }

    pub(super) fn unique_key(&self) -> String {
        shown(&self.slot.unique_key, self.slot.unique_key_was_cut)
    }
}

fn shown(text: &str, was_cut: bool) -> String {
    if was_cut { format!("{text}…") } else { text.to_owned() }
}

/// The heaviest keys. See the module.
#[derive(Debug)]
pub(super) struct Sketch {
    capacity: usize,
    /// From hashes to places in `slots` and `counts`, of which the first `len` are taken.
    table: HashTable<usize>,
    slots: Vec<Slot>,
    counts: Vec<u64>,
    /// The smallest count of each group.
    minima: Vec<u64>,
}

impl Sketch {
    /// An empty one, with room for `capacity` keys, at least one. It allocates with the first key.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            table: HashTable::new(),
            slots: Vec::new(),
            counts: Vec::new(),
            minima: Vec::new(),
        }
    }

    /// Adds hits to a key.
    pub(super) fn add(&mut self, hash: u64, key: CutKey<'_>, hits: u64) {
        let slots = &self.slots;
        if let Some(&at) = self.table.find(hash, |&at| slots[at].is(hash, &key)) {
            self.set(at, self.counts[at].saturating_add(hits));
            return;
        }
        let (at, inherited) = if self.counts.len() < self.capacity {
            if self.counts.len().is_multiple_of(GROUP) {
                self.minima.push(0);
            }
            self.counts.push(0);
            // After `clear` the slots are still there.
            if self.slots.len() < self.counts.len() {
                self.slots.push(Slot::default());
            }
            (self.counts.len() - 1, 0)
        } else {
            let (at, least) = self.smallest();
            let old = self.slots[at].hash;
            if let Ok(place) = self.table.find_entry(old, |&candidate| candidate == at) {
                place.remove();
            }
            (at, least)
        };
        self.slots[at].assign(hash, &key, inherited);
        self.set(at, inherited.saturating_add(hits));
        let slots = &self.slots;
        self.table.insert_unique(hash, at, |&other| slots[other].hash);
    }

    fn set(&mut self, at: usize, count: u64) {
        let old = std::mem::replace(&mut self.counts[at], count);
        let group = at / GROUP;
        if old == self.minima[group] || count < self.minima[group] {
            let members = self.counts[group * GROUP..].iter().take(GROUP);
            self.minima[group] = members.copied().min().unwrap_or(0);
        }
    }

    /// Place and value of the smallest count; the first of several.
    fn smallest(&self) -> (usize, u64) {
        let (group, least) = first_smallest(&self.minima);
        let start = group * GROUP;
        let members = &self.counts[start..self.counts.len().min(start + GROUP)];
        (start + first_smallest(members).0, least)
    }

    /// Forgets all keys; what they took stays allocated.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.counts.clear();
        self.minima.clear();
    }

    /// All keys, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.slots.iter().zip(&self.counts).map(|(slot, &hits)| Entry {
            slot,
            hash: slot.hash,
            hits,
            error: slot.error,
        })
    }
}

fn first_smallest(counts: &[u64]) -> (usize, u64) {
    counts.iter().copied().enumerate().min_by_key(|(_, count)| *count).unwrap_or((0, 0))
}
