//! What one owner still has to be told, and what it may or may not know.
//!
//! Hits on GLOBAL keys wait here, summed by key. One batch is under way at a time, with a number. A batch
//! that certainly never left is poured back. One that was sent and not answered, be it once, is sent *again as it was*, under
//! the same number, by which the owner knows it (`senders.rs`); an owner that does not speak of numbers, an original,
//! might count it twice, so for that one it is given up and counted as lost.
//!
//! Batches that were answered are kept a little longer, for their numbers: until a broadcast says that it includes
//! them, they are part of what a copy has to subtract ([`Outbox::unconfirmed`]).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::key::{KeyMap, OwnedKey, key_map};
use super::pending::{Pending, SentHits, Undelivered};
use crate::check::Key;
use crate::time::{Instant, Timestamp};

/// Answered batches that are remembered each by itself.
const ANSWERED_MAX: usize = 8;
/// The wait before a batch is tried again is doubled so often.
const DOUBLINGS_MAX: u32 = 4;

/// What a copy has to take from what the owner says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconfirmed {
    /// So many hits.
    Hits(i64),
    /// The key was reset here and the owner does not know: what it says is older than that.
    Reset,
}

/// Hits on their way to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitsBatch {
    /// The owner's address.
    pub owner: Box<str>,
    /// Rises from one batch to this owner to the next, with gaps; the same number is the same batch.
    pub sequence: u64,
    /// In this order.
    pub items: Vec<(OwnedKey, SentHits)>,
}

#[derive(Debug)]
struct Sent {
    sequence: u64,
    keys: KeyMap<Pending>,
    state: SentState,
    /// An attempt was not answered: whatever becomes of later ones, this batch may have been counted.
    uncertain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentState {
    UnderWay,
    /// To be sent again at this moment.
    Again(Instant),
    Answered,
}

/// Bounds of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) items_max: usize,
    pub(super) bytes_max: usize,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) pending: KeyMap<Pending>,
    /// When the pending leave at the latest.
    deadline: Option<Instant>,
    /// The oldest first; at most the last is not answered.
    sent: VecDeque<Sent>,
    /// Of the owner's run that answered last; none if it does not recognise a batch by its number.
    session: Option<u64>,
    failures: u32,
    not_before: Instant,
    /// The owner has left the ring, or some of its keys have, while a batch is under way: if that comes back, its keys
    /// have to be brought to their owners.
    moved: bool,
    /// The owner has left the ring: nothing is sent to it again.
    departed: bool,
    seed: u64,
}

impl Outbox {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            pending: key_map(seed),
            deadline: None,
            sent: VecDeque::new(),
            session: None,
            failures: 0,
            not_before: Instant(0),
            moved: false,
            departed: false,
            seed,
        }
    }

    /// Adds to what is pending. Tells whether the key is new there.
    pub(super) fn add(
        &mut self,
        key: Key<'_>,
        later: Pending,
        now: Instant,
        sync_wait: Duration,
        undelivered: &mut Undelivered,
    ) -> bool {
        if self.deadline.is_none() || self.pending.is_empty() {
            self.deadline = Some(now.saturating_add(sync_wait));
        }
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.add(later, undelivered);
            return false;
        }
        self.pending.insert(key.into(), later);
        true
    }

    pub(super) fn poll_timeout(&self, items_max: usize) -> Option<Instant> {
        match self.unanswered() {
            Some(SentState::UnderWay) => None,
            Some(SentState::Again(at)) => Some(at),
            // Its keys may have gone to other owners, or made room.
            _ if self.pending.is_empty() => None,
            _ if self.pending.len() >= items_max => Some(self.not_before),
            _ => self.deadline.map(|deadline| deadline.max(self.not_before)),
        }
    }

    /// The next batch, if one is due. `all` does not wait for the sync interval.
    #[allow(clippy::too_many_arguments)] // one step, taken in one place
    pub(super) fn due(
        &mut self,
        owner: &str,
        now: Instant,
        wall: Timestamp,
        cut: Cut,
        all: bool,
        next_sequence: &mut u64,
        undelivered: &mut Undelivered,
    ) -> Option<HitsBatch> {
        match self.unanswered() {
            Some(SentState::UnderWay) => return None,
            Some(SentState::Again(at)) if at > now && !all => return None,
            Some(SentState::Again(_)) => {
                let sent = self.sent.back_mut()?;
                if sent.keys.values().all(|pending| pending.has_ended(wall)) {
                    undelivered.lost += sent.keys.len() as u64;
                    self.sent.pop_back();
                } else {
                    sent.state = SentState::UnderWay;
                    let items = items(&sent.keys);
                    return Some(HitsBatch { owner: owner.into(), sequence: sent.sequence, items });
                }
            }
            _ => {}
        }
        let full = self.pending.len() >= cut.items_max;
        let is_time = all || full || self.deadline.is_some_and(|deadline| deadline <= now);
        if self.pending.is_empty() || !is_time || (self.not_before > now && !all) {
            return None;
        }
        let mut keys = self.cut(wall, cut, undelivered);
        while keys.is_empty() && !self.pending.is_empty() {
            keys = self.cut(wall, cut, undelivered);
        }
        self.deadline = (!self.pending.is_empty()).then_some(now);
        if keys.is_empty() {
            return None;
        }
        let sequence = *next_sequence;
        *next_sequence += 1;
        let items = items(&keys);
        self.sent.push_back(Sent { sequence, keys, state: SentState::UnderWay, uncertain: false });
        if self.sent.len() > ANSWERED_MAX + 1 {
            self.fold(cut.items_max.saturating_mul(ANSWERED_MAX));
        }
        Some(HitsBatch { owner: owner.into(), sequence, items })
    }

    /// Puts the oldest batch into the one after it: a copy may then subtract hits that the owner has told of, for a moment, but
    /// gives none back. Keys beyond `keys_max` are forgotten, which gives theirs back early.
    fn fold(&mut self, keys_max: usize) {
        let (Some(oldest), Some(next)) = (self.sent.pop_front(), self.sent.front_mut()) else { return };
        // These were delivered, whatever becomes of them here.
        let mut uncounted = Undelivered::default();
        for (key, earlier) in oldest.keys {
            let fits = next.keys.len() < keys_max;
            match next.keys.get_mut(&key) {
                Some(later) => *later = earlier.then(*later, &mut uncounted),
                None if fits => {
                    next.keys.insert(key, earlier);
                }
                None => {}
            }
        }
    }

    /// Takes the first pending keys that fit into one message.
    fn cut(&mut self, wall: Timestamp, cut: Cut, undelivered: &mut Undelivered) -> KeyMap<Pending> {
        let (mut items, mut bytes, mut count) = (0, 0, 0);
        for (key, pending) in &self.pending {
            let parts = pending.parts().count();
            // Numbers of a message take at most ten bytes each.
            let size = parts * (key.as_key().joined_len() + 100);
            if count > 0 && (items + parts > cut.items_max || bytes + size > cut.bytes_max) {
                break;
            }
            (items, bytes, count) = (items + parts, bytes + size, count + 1);
        }
        let mut keys = key_map(self.seed);
        let mut left = Vec::new();
        for (key, pending) in self.pending.drain(..count) {
            if pending.has_ended(wall) {
                undelivered.ended += 1;
            } else if let (false, Some(hits), Some(_)) = (self.session.is_some(), pending.hits, pending.reset)
            {
                // An original applies the items of a message in any order: the hits follow with the next.
                left.push((key.clone(), Pending { reset: None, hits: Some(hits) }));
                keys.insert(key, Pending { hits: None, ..pending });
            } else {
                keys.insert(key, pending);
            }
        }
        self.pending.extend(left);
        keys
    }

    /// The batch was answered, in this run of an owner that knows numbers, or by one that does not.
    pub(super) fn answered(&mut self, sequence: u64, session: Option<u64>, now: Instant) {
        self.spoke(session);
        self.session = session;
        self.failures = 0;
        self.not_before = now;
        if let Some(sent) = self.sent.back_mut().filter(|sent| sent.sequence == sequence) {
            sent.state = SentState::Answered;
        }
    }

    /// This attempt certainly was not applied. If no earlier one may have been, the batch is poured back. Tells whether its
    /// keys may have other owners by now.
    pub(super) fn returned(
        &mut self,
        sequence: u64,
        now: Instant,
        sync_wait: Duration,
        undelivered: &mut Undelivered,
    ) -> bool {
        if self.unanswered_sequence() == Some(sequence) && self.sent.back().is_some_and(|sent| sent.uncertain)
        {
            self.unanswered_for(sequence, now, sync_wait, undelivered);
            return false;
        }
        self.back_off(now, sync_wait);
        if self.unanswered_sequence() != Some(sequence) {
            return false;
        }
        let Some(sent) = self.sent.pop_back() else { return false };
        for (key, earlier) in sent.keys {
            match self.pending.get_mut(&key) {
                Some(pending) => *pending = earlier.then(*pending, undelivered),
                None => {
                    self.pending.insert(key, earlier);
                }
            }
        }
        self.deadline = self.deadline.or(Some(now));
        core::mem::take(&mut self.moved)
    }

    /// Nobody knows whether the batch was applied.
    pub(super) fn unanswered_for(
        &mut self,
        sequence: u64,
        now: Instant,
        sync_wait: Duration,
        undelivered: &mut Undelivered,
    ) {
        self.back_off(now, sync_wait);
        if self.unanswered_sequence() != Some(sequence) {
            return;
        }
        let (again, at) = (self.session.is_some() && !self.departed, self.not_before);
        let Some(sent) = self.sent.back_mut() else { return };
        if again {
            (sent.state, sent.uncertain) = (SentState::Again(at), true);
        } else {
            undelivered.lost += sent.keys.len() as u64;
            self.sent.pop_back();
        }
    }

    /// A broadcast of the owner includes all batches up to this one.
    pub(super) fn confirmed(&mut self, applied: u64) {
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.sequence <= applied && sent.state == SentState::Answered)
        {
            self.sent.pop_front();
        }
    }

    /// This run of the owner says something. If another one answered what was sent, what that had counted is gone with it:
    /// nothing of it is missing in what this one says.
    pub(super) fn spoke(&mut self, session: Option<u64>) {
        if self.session != session {
            self.sent.retain(|sent| sent.state != SentState::Answered);
        }
    }

    /// What the owner does not know of `key`, when what it says includes all batches up to `applied` (not told:
    /// all that it answered). Hits that ended before `since` belong to an earlier window and are no part of it.
    pub(super) fn unconfirmed(&self, key: Key<'_>, applied: Option<u64>, since: Timestamp) -> Unconfirmed {
        let is_open = |sent: &&Sent| match applied {
            Some(applied) => sent.sequence > applied,
            None => sent.state != SentState::Answered,
        };
        let open = self.sent.iter().filter(is_open).filter_map(|sent| sent.keys.get(&key));
        let mut hits = 0_i64;
        for pending in open.chain(self.pending.get(&key)).filter(|pending| !pending.has_ended(since)) {
            if pending.reset.is_some() {
                return Unconfirmed::Reset;
            }
            hits = hits.saturating_add(pending.hits.map_or(0, |sum| sum.hits));
        }
        Unconfirmed::Hits(hits)
    }

    /// The owner is gone: what was sent and not answered is lost, what is pending is handed over.
    pub(super) fn close(&mut self, undelivered: &mut Undelivered) -> KeyMap<Pending> {
        if let Some(SentState::Again(_)) = self.unanswered() {
            undelivered.lost += self.sent.pop_back().map_or(0, |sent| sent.keys.len() as u64);
        }
        (self.deadline, self.departed, self.moved) = (None, true, true);
        core::mem::replace(&mut self.pending, key_map(self.seed))
    }

    /// The owner is on the ring, but some of the keys under way to it may have gone to others.
    pub(super) fn stays(&mut self) {
        (self.departed, self.moved) = (false, self.is_under_way());
    }

    /// The owner has left, and nothing waits for its answer.
    pub(super) fn is_over(&self) -> bool {
        self.departed && self.is_idle()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.is_under_way()
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.unanswered(), Some(SentState::UnderWay | SentState::Again(_)))
    }

    /// Keys that were sent and not answered.
    pub(super) fn keys_under_way(&self) -> usize {
        if self.is_under_way() { self.sent.back().map_or(0, |sent| sent.keys.len()) } else { 0 }
    }

    /// The number of the batch that was sent and not answered.
    fn unanswered_sequence(&self) -> Option<u64> {
        self.sent.back().filter(|sent| sent.state != SentState::Answered).map(|sent| sent.sequence)
    }

    fn unanswered(&self) -> Option<SentState> {
        self.sent.back().map(|sent| sent.state)
    }

    fn back_off(&mut self, now: Instant, sync_wait: Duration) {
        self.not_before = now.saturating_add(sync_wait.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX)));
        self.failures = self.failures.saturating_add(1);
    }
}

fn items(keys: &KeyMap<Pending>) -> Vec<(OwnedKey, SentHits)> {
    keys.iter().flat_map(|(key, pending)| pending.parts().map(|part| (key.clone(), part))).collect()
}
