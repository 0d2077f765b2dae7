//! What is owed to an owner of one key: hits, summed, and a reset that wiped what was before.

use crate::check::{Behavior, Request};
use crate::time::Timestamp;

use super::key::OwnedKey;

/// The sum of a key's hits, with the newest of everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentHits {
    /// Units, summed.
    pub hits: i64,
    /// Units per duration.
    pub limit: i64,
    /// Milliseconds or calendar code.
    pub duration: i64,
    /// As on the wire.
    pub algorithm: i32,
    /// Flags.
    pub behavior: Behavior,
    /// Size of a leaky bucket, 0 for the limit.
    pub burst: i64,
    /// Of the first hit.
    pub created_at: Timestamp,
    /// After this moment the hits mean nothing to anybody.
    pub ends_at: Timestamp,
}

impl SentHits {
    pub(super) fn new(request: &Request<'_>, created_at: Timestamp, ends_at: Timestamp) -> Self {
        Self {
            hits: request.hits,
            limit: request.limit,
            duration: request.duration,
            algorithm: request.algorithm,
            behavior: request.behavior,
            burst: request.burst,
            created_at,
            ends_at,
        }
    }

    /// The hits as one request on `key`.
    pub fn request<'a>(&self, key: &'a OwnedKey) -> Request<'a> {
        Request {
            key: key.as_key(),
            hits: self.hits,
            limit: self.limit,
            duration: self.duration,
            algorithm: self.algorithm,
            behavior: self.behavior,
            burst: self.burst,
            created_at: Some(self.created_at.ms()),
            max_wait: 0,
        }
    }

    /// These, and then `later` ones. When they end the newest knows best: the copy may have opened a window of its own before it
    /// heard of the owner's.
    fn then(self, later: Self) -> Self {
        Self { hits: self.hits.saturating_add(later.hits), created_at: self.created_at, ..later }
    }
}

/// What is known of one key: a reset that wiped all before it, and the hits since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub(super) reset: Option<SentHits>,
    pub(super) hits: Option<SentHits>,
}

impl Pending {
    pub(super) fn of(hits: SentHits) -> Self {
        if hits.behavior.has(Behavior::RESET_REMAINING) {
            Self { reset: Some(hits), hits: None }
        } else {
            Self { reset: None, hits: Some(hits) }
        }
    }

    /// This, and then `later`. When the window of the first was over before the second began, only that is left:
    /// summed under the first one's time they would be counted in a window that is gone.
    pub(super) fn then(self, later: Self, undelivered: &mut Undelivered) -> Self {
        if later.parts().next().is_some_and(|first| self.has_ended(first.created_at)) {
            undelivered.ended += 1;
            return later;
        }
        if later.reset.is_some() {
            return later;
        }
        let hits = match (self.hits, later.hits) {
            (Some(first), Some(second)) => Some(first.then(second)),
            (first, second) => first.or(second),
        };
        Self { reset: self.reset, hits }
    }

    /// Makes this what it was and then `later`.
    pub(super) fn add(&mut self, later: Self, undelivered: &mut Undelivered) {
        match (later.reset, later.hits, self.reset, &mut self.hits) {
            // More hits on a key that has some: nearly always, and so in place.
            (None, Some(second), None, Some(sum)) if sum.ends_at >= second.created_at => {
                *sum = sum.then(second);
            }
            _ => *self = self.then(later, undelivered),
        }
    }

    pub(super) fn parts(self) -> impl Iterator<Item = SentHits> {
        self.reset.into_iter().chain(self.hits)
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.parts().all(|part| part.ends_at < now)
    }
}

/// What became of hits that were not delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Undelivered {
    /// Given up: sent, and nobody knows whether they were counted.
    pub(super) lost: u64,
    /// Given up: their window ended.
    pub(super) ended: u64,
}
