//! The GLOBAL keys whose owner has news for everybody.
//!
//! Whoever owns a key and counts hits on it marks it here. A sync interval after the first mark every peer is told how
//! the marked buckets stand *then*: many hits on a key are one line, and the latest state wins by itself, since
//! nothing but the key is kept.
//!
//! Marks are numbered, and each peer has a place in their sequence up to which it was told. A peer that answers moves on;
//! one that does not is told again, and whatever else was marked meanwhile, without anybody else waiting for
//! it. Marks that everybody was told of are forgotten.
//!
//! Peers that stand at the same place get the same message, so it is read and encoded once.
//!
//! Bounds: `keys_max` marks; beyond, the oldest are forgotten and counted, and who had not been told of them
//! hears of those keys with their next hit. One message under way per peer.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::global_settings::GlobalSettings;
use super::key::{KeyMap, OwnedKey, key_map};
use crate::check::{Behavior, Check, Request};
use crate::time::{Instant, Timestamp};

/// The wait before a message is tried again is doubled so often.
const DOUBLINGS_MAX: u32 = 4;

/// A key with news, and the newest check that was applied to it: how the bucket is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// The key.
    pub key: OwnedKey,
    /// Units per duration.
    pub limit: i64,
    /// Milliseconds or calendar code.
    pub duration: i64,
    /// As on the wire.
    pub algorithm: i32,
    /// Flags.
    pub behavior: Behavior,
    /// Size of a leaky bucket.
    pub burst: i64,
    /// The check's time.
    pub created_at: Timestamp,
}

impl Dirty {
    /// Of an applied check.
    pub fn new(check: &Check<'_>) -> Self {
        Self::of(check.key.into(), check)
    }

    fn of(key: OwnedKey, check: &Check<'_>) -> Self {
        Self {
            key,
            limit: check.limit,
            duration: check.duration,
            algorithm: check.algorithm as i32,
            behavior: check.behavior,
            burst: check.burst,
            created_at: check.created_at,
        }
    }

    /// The check again, without its hits.
    pub fn look(&self) -> Request<'_> {
        Request {
            key: self.key.as_key(),
            hits: 0,
            limit: self.limit,
            duration: self.duration,
            algorithm: self.algorithm,
            behavior: self.behavior,
            burst: self.burst,
            created_at: Some(self.created_at.ms()),
            max_wait: 0,
        }
    }
}

/// One message and who is to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// Addresses, each with the number of this message, which rises among those to it.
    pub peers: Vec<(Box<str>, u64)>,
    /// What to tell.
    pub keys: Vec<Dirty>,
}

#[derive(Debug, Default)]
struct Place {
    /// Told up to this mark.
    told: u64,
    /// The message under way: its number, and up to which mark it tells.
    under_way: Option<(u64, u64)>,
    failures: u32,
    not_before: Instant,
}

/// See [the module](self).
#[derive(Debug)]
pub struct GlobalBroadcast {
    settings: GlobalSettings,
    /// The mark of each key.
    keys: KeyMap<u64>,
    marks: BTreeMap<u64, Dirty>,
    last_mark: u64,
    /// Marks up to this one have waited long enough.
    ripe: u64,
    /// No message has told anything beyond this mark.
    told_max: u64,
    peers: BTreeMap<Box<str>, Place>,
    /// Of the last message, to whomever. One count for all: a peer that leaves and comes back remembers the numbers it
    /// has seen, and its place here is gone.
    sequence: u64,
    /// When the marks that are not ripe will be.
    deadline: Option<Instant>,
    forgotten: u64,
}

impl GlobalBroadcast {
    /// No news, and nobody to tell.
    pub fn new(settings: GlobalSettings) -> Self {
        Self {
            settings,
            keys: key_map(settings.seed),
            marks: BTreeMap::new(),
            last_mark: 0,
            ripe: 0,
            told_max: 0,
            peers: BTreeMap::new(),
            sequence: 0,
            deadline: None,
            forgotten: 0,
        }
    }

    /// Who is to be told: all of the own data center but this node itself. A new peer is told what comes from here on,
    /// and what nobody was told of yet.
    pub fn set_peers<'a>(&mut self, peers: impl IntoIterator<Item = &'a str>) {
        let mut old = core::mem::take(&mut self.peers);
        // A mark that nobody was told of keeps its number when its key is marked again.
        let forgotten = self.marks.keys().next().map_or(self.last_mark, |first| first - 1);
        let told = self.told_max.max(forgotten);
        for address in peers {
            let place = old.remove(address).unwrap_or(Place { told, ..Place::default() });
            self.peers.insert(address.into(), place);
        }
        self.forget_told();
        if self.peers.values().all(|peer| peer.told == self.last_mark) {
            // Whom the deadline was for has left. The next mark must set its own, and tell so.
            (self.ripe, self.deadline) = (self.last_mark, None);
        }
    }

    /// A check with hits was applied to a key this node owns. Tells whether a message is due at another time than it was.
    pub fn mark(&mut self, check: &Check<'_>, now: Instant) -> bool {
        if self.peers.is_empty() {
            return false;
        }
        if let Some(mark) = self.keys.get_mut(&check.key) {
            if let (true, Some(dirty)) = (*mark > self.told_max, self.marks.get_mut(mark)) {
                // Nobody was told of this mark yet: only how the bucket is read may be new.
                *dirty = Dirty::of(core::mem::take(&mut dirty.key), check);
                return false;
            }
            self.marks.remove(mark);
            self.last_mark += 1;
            *mark = self.last_mark;
        } else {
            self.last_mark += 1;
            self.keys.insert(check.key.into(), self.last_mark);
        }
        self.marks.insert(self.last_mark, Dirty::new(check));
        if self.marks.len() > self.settings.keys_max
            && let Some((_, dirty)) = self.marks.pop_first()
        {
            self.keys.swap_remove(&dirty.key);
            self.forgotten += 1;
        }
        let first = self.deadline.is_none();
        if first {
            self.deadline = Some(now.saturating_add(self.settings.sync_wait));
        }
        first || self.last_mark - self.ripe == self.settings.items_max as u64
    }

    /// When [`due`](Self::due) is wanted.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waiting =
            self.peers.values().filter(|peer| peer.under_way.is_none() && peer.told < self.last_mark);
        let when = waiting.filter_map(|peer| {
            let is_ripe = peer.told < self.ripe || self.is_full();
            let ripe = if is_ripe { Some(peer.not_before) } else { None };
            ripe.or(self.deadline.map(|deadline| deadline.max(peer.not_before)))
        });
        when.min()
    }

    /// So many marks wait that they leave at once.
    fn is_full(&self) -> bool {
        self.last_mark - self.ripe >= self.settings.items_max as u64
    }

    /// The next message to be sent; call until there is none. With `all`, waits are over: the node stops.
    pub fn due(&mut self, now: Instant, all: bool) -> Option<Broadcast> {
        if all || self.is_full() || self.deadline.is_some_and(|deadline| deadline <= now) {
            (self.ripe, self.deadline) = (self.last_mark, None);
        }
        let ripe = self.ripe;
        let is_due =
            |peer: &Place| peer.under_way.is_none() && (all || peer.not_before <= now) && peer.told < ripe;
        loop {
            let from = self.peers.values().filter(|peer| is_due(peer)).map(|peer| peer.told).min()?;
            let (keys, upto) = self.cut(from);
            let sequence = self.sequence + 1;
            let mut peers = Vec::new();
            for (address, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.told == from && is_due(peer))
            {
                if keys.is_empty() {
                    // What was marked there is forgotten, or marked anew.
                    peer.told = upto;
                    continue;
                }
                peer.under_way = Some((sequence, upto));
                peers.push((address.clone(), sequence));
            }
            if !keys.is_empty() {
                self.sequence = sequence;
                self.told_max = self.told_max.max(upto);
                return Some(Broadcast { peers, keys });
            }
            self.forget_told();
        }
    }

    /// The ripe keys after a mark that fit into one message, and up to which mark that is.
    fn cut(&self, from: u64) -> (Vec<Dirty>, u64) {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for (&mark, dirty) in self.marks.range(from + 1..=self.ripe) {
            // An exact bucket beside the plain fields, each number at most ten bytes.
            let size = 3 * dirty.key.as_key().joined_len() + 200;
            let full = keys.len() == self.settings.items_max || bytes + size > self.settings.bytes_max;
            if full && !keys.is_empty() {
                return (keys, mark - 1);
            }
            keys.push(dirty.clone());
            bytes += size;
        }
        (keys, self.ripe)
    }

    /// The peer has the message.
    pub fn succeeded(&mut self, peer: &str, sequence: u64, now: Instant) {
        let Some(place) = self.peers.get_mut(peer) else { return };
        let Some((_, upto)) = place.under_way.take_if(|(number, _)| *number == sequence) else { return };
        (place.told, place.failures, place.not_before) = (upto, 0, now);
        self.forget_told();
    }

    /// The peer may have the message or not: it will be told again.
    pub fn failed(&mut self, peer: &str, sequence: u64, now: Instant) {
        let Some(place) = self.peers.get_mut(peer) else { return };
        if place.under_way.take_if(|(number, _)| *number == sequence).is_none() {
            return;
        }
        let wait = self.settings.sync_wait.saturating_mul(1 << place.failures.min(DOUBLINGS_MAX));
        place.not_before = now.saturating_add(wait);
        place.failures = place.failures.saturating_add(1);
    }

    /// Marks that somebody was not told of.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Everybody was told everything.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Marks that had to make room before everybody was told.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn forget_told(&mut self) {
        let told = self.peers.values().map(|peer| peer.told).min().unwrap_or(self.last_mark);
        while let Some(first) = self.marks.first_entry().filter(|first| *first.key() <= told) {
            let dirty = first.remove();
            self.keys.swap_remove(&dirty.key);
        }
    }
}

#[cfg(test)]
#[path = "global_broadcast_tests.rs"]
mod tests;
