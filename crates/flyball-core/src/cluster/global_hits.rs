//! What a node has granted of GLOBAL keys it does not own, and their owners do not know yet.
//!
//! A GLOBAL check is answered from the copy at hand, and its hits are noted here. After the sync interval they go
//! to the owner, summed by key; the owner counts them and tells everybody how the bucket stands
//! (`global_broadcast.rs`). Each owner has an [outbox](super::outbox) of its own, so that a slow one delays nobody
//! else's hits.
//!
//! A copy shows what the owner said last, less what this node has granted since and the owner had not counted when it
//! said it. Otherwise a broadcast that crosses a batch of hits would give units back for a moment, and be it
//! the only moment in which a caller asks.
//!
//! # The lock
//! The shell guards this machine by one mutex, and holds it while a replica's check is applied to its bucket and
//! while a broadcast replaces that bucket. So "what was granted" and "what the bucket says" never differ. It
//! is held for as long as a decision takes, once for all GLOBAL checks of a call.
//!
//! Bounds: `keys_max` pending keys in all; beyond, the newest key of the fullest outbox makes room and its hits are
//! counted as dropped. (The oldest would be as good, but taking it moves all others.) One batch under way per owner.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::global_settings::GlobalSettings;
use super::health::Failure;
use super::key::OwnedKey;
use super::outbox::{Cut, HitsBatch, Outbox, Unconfirmed};
use super::pending::{Pending, SentHits, Undelivered};
use super::view::{Member, View};
use crate::check::{Key, Request};
use crate::time::{Instant, Timestamp};

/// What became of hits, in keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitsStats {
    /// Keys with hits that wait for their owner.
    pub pending: u64,
    /// Keys whose hits are under way.
    pub under_way: u64,
    /// Sent, not answered, and given up, because the owner would not know them again.
    pub lost: u64,
    /// Given up because their window ended before they could be delivered.
    pub ended: u64,
    /// Given up to make room.
    pub dropped: u64,
}

/// See [the module](self).
#[derive(Debug)]
pub struct GlobalHits {
    settings: GlobalSettings,
    /// By the owner's address.
    outboxes: BTreeMap<Box<str>, Outbox>,
    /// Of the next batch, whoever gets it. One count for all owners: an owner that leaves takes its outbox along, and
    /// when it comes back it still remembers the numbers it has seen.
    next_sequence: u64,
    /// Pending keys of all outboxes.
    pending: usize,
    undelivered: Undelivered,
    dropped: u64,
}

impl GlobalHits {
    /// Nothing granted yet.
    pub const fn new(settings: GlobalSettings) -> Self {
        Self {
            settings,
            outboxes: BTreeMap::new(),
            next_sequence: 1,
            pending: 0,
            undelivered: Undelivered { lost: 0, ended: 0 },
            dropped: 0,
        }
    }

    /// Notes a check that was granted here. `ends_at` is when its window ends. Tells whether a batch is due at once.
    pub fn record(
        &mut self,
        owner: &str,
        request: &Request<'_>,
        created_at: Timestamp,
        ends_at: Timestamp,
        now: Instant,
    ) -> bool {
        let hits = Pending::of(SentHits::new(request, created_at, ends_at));
        self.add(owner, request.key, hits, now)
    }

    fn add(&mut self, owner: &str, key: Key<'_>, hits: Pending, now: Instant) -> bool {
        let GlobalSettings { sync_wait, items_max, keys_max, seed, .. } = self.settings;
        let outbox = match self.outboxes.get_mut(owner) {
            Some(outbox) => outbox,
            None => self.outboxes.entry(owner.into()).or_insert_with(|| Outbox::new(seed)),
        };
        let first = outbox.pending.is_empty();
        if outbox.add(key, hits, now, sync_wait, &mut self.undelivered) {
            self.pending += 1;
        }
        let due = first || outbox.pending.len() == items_max;
        if self.pending > keys_max {
            self.make_room();
        }
        due
    }

    fn make_room(&mut self) {
        while self.pending > self.settings.keys_max {
            let fullest = self.outboxes.values_mut().max_by_key(|outbox| outbox.pending.len());
            if fullest.and_then(|outbox| outbox.pending.pop()).is_none() {
                return;
            }
            self.pending -= 1;
            self.dropped += 1;
        }
    }

    /// When [`due`](Self::due) is wanted.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.outboxes.values().filter_map(|outbox| outbox.poll_timeout(self.settings.items_max)).min()
    }

    /// The next batch that is to be sent; call until there is none. With `all`, waits are over: the node stops.
    pub fn due(&mut self, now: Instant, wall: Timestamp, all: bool) -> Option<HitsBatch> {
        let cut = Cut { items_max: self.settings.items_max, bytes_max: self.settings.bytes_max };
        let mut batch = None;
        for (owner, outbox) in &mut self.outboxes {
            let before = outbox.pending.len();
            batch = outbox.due(owner, now, wall, cut, all, &mut self.next_sequence, &mut self.undelivered);
            self.pending -= before - outbox.pending.len();
            if batch.is_some() {
                break;
            }
        }
        batch
    }

    /// The owner has counted the batch. `session`: its own, if it is no original, so it would know the batch again for as
    /// long as that lasts.
    pub fn succeeded(&mut self, owner: &str, sequence: u64, session: Option<u64>, now: Instant) {
        if let Some(outbox) = self.outboxes.get_mut(owner) {
            outbox.answered(sequence, session, now);
            if outbox.is_over() {
                self.outboxes.remove(owner);
            }
        }
    }

    /// The batch was not answered well. Tells whether owners have changed since it was cut: then
    /// [`rehome`](Self::rehome) is to be called once more, for the keys that came back.
    #[must_use = "hits of a batch that came back wait for who owned them then, until they are rehomed"]
    pub fn failed(&mut self, owner: &str, sequence: u64, failure: Failure, now: Instant) -> bool {
        let sync_wait = self.settings.sync_wait;
        let Some(outbox) = self.outboxes.get_mut(owner) else { return false };
        let mut moved = false;
        match failure {
            Failure::NotSent | Failure::NotTaken | Failure::Answered => {
                let before = outbox.pending.len();
                moved = outbox.returned(sequence, now, sync_wait, &mut self.undelivered);
                self.pending += outbox.pending.len() - before;
            }
            Failure::Unanswered => {
                outbox.unanswered_for(sequence, now, sync_wait, &mut self.undelivered);
            }
        }
        if outbox.is_over() {
            self.outboxes.remove(owner);
        }
        self.make_room();
        moved
    }

    /// What `owner` does not know of `key` in a window that began at `since`. See [`Unconfirmed`].
    pub fn unconfirmed(
        &self,
        owner: &str,
        key: Key<'_>,
        applied: Option<u64>,
        since: Timestamp,
    ) -> Unconfirmed {
        match self.outboxes.get(owner) {
            Some(outbox) => outbox.unconfirmed(key, applied, since),
            None => Unconfirmed::Hits(0),
        }
    }

    /// A broadcast of `owner` includes all batches up to this one.
    pub fn confirmed(&mut self, owner: &str, applied: u64) {
        if let Some(outbox) = self.outboxes.get_mut(owner) {
            outbox.confirmed(applied);
        }
    }

    /// `owner` tells something in this session of its own. To be called before that is taken: an owner that has started anew
    /// has forgotten what it answered before, and a copy would subtract that for as long as it has nothing new to send.
    pub fn spoke(&mut self, owner: &str, session: u64) {
        if let Some(outbox) = self.outboxes.get_mut(owner) {
            outbox.spoke(Some(session));
        }
    }

    /// Brings every key to who owns it now. Hits whose owner this node has become are handed back, to be applied here.
    pub fn rehome(&mut self, view: &View, now: Instant) -> Vec<(OwnedKey, SentHits)> {
        let mut own = Vec::new();
        let owners: Vec<Box<str>> = self.outboxes.keys().cloned().collect();
        for owner in owners {
            let Some(outbox) = self.outboxes.get_mut(&owner) else { continue };
            let stays = view.ring().contains(&owner) && *owner != *view.own_address();
            let mut moved = Vec::new();
            if stays {
                outbox.stays();
                let is_elsewhere = |key: &OwnedKey| match view.owner(key.as_key()) {
                    Member::Peer(index) => view.local()[index].grpc_address != *owner,
                    Member::Own => true,
                    Member::None => false,
                };
                moved.extend(outbox.pending.extract_if(.., |key, _| is_elsewhere(key)));
            } else {
                moved.extend(outbox.close(&mut self.undelivered));
            }
            self.pending -= moved.len();
            if !stays && outbox.is_idle() {
                self.outboxes.remove(&owner);
            }
            for (key, hits) in moved {
                match view.owner(key.as_key()) {
                    Member::Own => own.extend(hits.parts().map(|part| (key.clone(), part))),
                    Member::Peer(index) => {
                        let address = &view.local()[index].grpc_address;
                        self.add(address, key.as_key(), hits, now);
                    }
                    Member::None => self.dropped += 1,
                }
            }
        }
        own
    }

    /// Whether everything is delivered, given up or waiting for nobody.
    pub fn is_idle(&self) -> bool {
        self.outboxes.values().all(Outbox::is_idle)
    }

    /// Whether a batch is under way, or will be sent again.
    pub fn is_under_way(&self) -> bool {
        self.outboxes.values().any(Outbox::is_under_way)
    }

    /// How much waits for `owner`, in keys: pending and under way.
    pub fn waiting_for(&self, owner: &str) -> (usize, usize) {
        self.outboxes.get(owner).map_or((0, 0), |outbox| (outbox.pending.len(), outbox.keys_under_way()))
    }

    /// Counts.
    pub fn stats(&self) -> HitsStats {
        HitsStats {
            pending: self.pending as u64,
            under_way: self.outboxes.values().map(|outbox| outbox.keys_under_way() as u64).sum(),
            lost: self.undelivered.lost,
            ended: self.undelivered.ended,
            dropped: self.dropped,
        }
    }
}

#[cfg(test)]
#[path = "global_hits_tests.rs"]
mod tests;
