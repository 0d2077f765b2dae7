//! How copies of GLOBAL buckets are asked, and brought up to date.
//!
//! Three moments meet here. A check on a node that does not own its key is decided on the copy, and what it was granted
//! is noted for the owner ([`Replica::apply`]). The owner reads its buckets for a broadcast, as a look would and
//! without changing anything ([`news_of`]). And a node takes what an owner told it, less what the owner could not
//! know ([`take_news`]).

use super::global_broadcast::Dirty;
use super::global_hits::GlobalHits;
use super::outbox::Unconfirmed;
use crate::algorithm::{Bucket, State, decide};
use crate::check::{Algorithm, Behavior, Check, Key, Request, Rules, Semantics, Source};
use crate::decision::{Answer, Decision, Status};
use crate::store::{KeyGuard, Role, Store, StoredKey};
use crate::time::{Instant, Timestamp};

/// A node's means to answer for another owner's keys.
#[derive(Debug)]
pub struct Replica<'a> {
    /// How checks are judged.
    pub rules: &'a Rules,
    /// Locked for as long as this lives; see [`GlobalHits`], "The lock".
    pub hits: &'a mut GlobalHits,
    /// The node's wall clock.
    pub wall: Timestamp,
    /// The node's other clock.
    pub now: Instant,
}

/// What became of a check on a copy.
#[derive(Clone, Copy, Debug)]
pub struct Replied {
    /// For the caller.
    pub answer: Answer,
    /// Hits are due to be sent at another time than before.
    pub due: bool,
    /// The client's time was moved.
    pub clamped: bool,
}

impl Replica<'_> {
    /// Decides a client's GLOBAL check whose owner is `owner`, on this node's copy.
    ///
    /// What was granted is told to the owner. With exact semantics what was refused is not: it took nothing here, so
    /// it must take nothing there (unless it asked to drain, which empties the bucket on every node). The original
    /// tells everything.
    pub fn apply(&mut self, bucket: &mut KeyGuard<'_>, request: &Request<'_>, owner: &str) -> Replied {
        let admitted = match self.rules.admit(request, Source::Client, self.wall) {
            Ok(admitted) => admitted,
            Err(error) => return Replied { answer: Err(error), due: false, clamped: false },
        };
        let asked = admitted.check;
        let plain = Behavior(asked.behavior.0 & !Behavior::GLOBAL.0).with(Behavior::NO_BATCHING);
        let check = Check { behavior: plain, ..asked };
        let answer = bucket.apply(&check, self.wall, self.rules, Role::Replica);
        let due = match answer {
            Ok(decision) if asked.hits != 0 && self.is_told(&asked, &decision) => {
                let told = Request { behavior: asked.behavior, ..*request };
                self.hits.record(owner, &told, asked.created_at, self.ends_at(&asked, &decision), self.now)
            }
            _ => false,
        };
        Replied { answer, due, clamped: admitted.clamped }
    }

    fn is_told(&self, asked: &Check<'_>, decision: &Decision) -> bool {
        self.rules.semantics == Semantics::Gubernator
            || decision.status != Status::OverLimit
            || asked.behavior.has(Behavior::DRAIN_OVER_LIMIT)
            || asked.behavior.has(Behavior::RESET_REMAINING)
    }

    /// When the hits of this check mean nothing any more. A token bucket says itself when its window ends, unless it
    /// was just reset.
    fn ends_at(&self, check: &Check<'_>, decision: &Decision) -> Timestamp {
        if check.algorithm == Algorithm::TokenBucket && decision.reset_time != 0 {
            Timestamp(decision.reset_time)
        } else if check.behavior.has(Behavior::DURATION_IS_GREGORIAN) {
            let end = self.rules.calendar.end(check.duration, check.created_at, self.rules.semantics);
            Timestamp(end.unwrap_or(check.created_at.ms()))
        } else {
            check.created_at.saturating_add(check.duration)
        }
    }
}

/// How a bucket stands, for the peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct News {
    /// The bucket itself; `None` after a reset left none.
    pub bucket: Option<Bucket>,
    /// What a look at it says: all that an original understands.
    pub status: Decision,
}

/// Reads an owner's bucket for a broadcast. `None` when there is nothing to tell: the bucket has expired here, as it
/// will have everywhere.
///
/// Nothing is stored. The original applies the last check once more, flags included, and so may reset twice,
/// undo a change of limits, or bring expired buckets back to life.
pub fn news_of(store: &Store, dirty: &Dirty, rules: &Rules, wall: Timestamp) -> Option<News> {
    let was_reset = dirty.behavior.has(Behavior::RESET_REMAINING);
    let bucket = in_force(store, StoredKey::Pair(dirty.key.as_key()), wall);
    if bucket.is_none() && !was_reset {
        return None;
    }
    let plain = Behavior(dirty.behavior.0 & !(Behavior::RESET_REMAINING.0 | Behavior::GLOBAL.0));
    let look = Request { behavior: plain, ..dirty.look() };
    let look = rules.admit(&look, Source::Peer, wall).ok()?.check;
    let status = decide(bucket.as_ref(), &look, wall, rules).answer.ok()?;
    Some(News { bucket, status })
}

/// Whether hits that this node noted for an owner, which it has become itself, are part of what it has stored: of its copy
/// they were taken when they were granted. Without one they are still to be counted.
pub fn has_taken(store: &Store, key: Key<'_>, wall: Timestamp) -> bool {
    in_force(store, StoredKey::Pair(key), wall).is_some()
}

fn in_force(store: &Store, key: StoredKey<'_>, wall: Timestamp) -> Option<Bucket> {
    store.get(key, wall).filter(|bucket| bucket.is_in_force(wall))
}

/// What an owner told of one key.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Who told it.
    pub owner: &'a str,
    /// The key; an original tells its joined text only.
    pub key: StoredKey<'a>,
    /// How the bucket stands, or that there is none.
    pub bucket: Option<Bucket>,
    /// It includes this node's batches of hits up to this one; see [`GlobalHits::unconfirmed`].
    pub applied: Option<u64>,
}

/// Takes what an owner told, less what it could not know. The caller holds the lock that guards `hits`.
pub fn take_news(store: &Store, hits: &GlobalHits, told: Told<'_>, wall: Timestamp) {
    let Told { owner, key, bucket, applied } = told;
    if bucket.is_some_and(|told| !told.is_in_force(wall)) && in_force(store, key, wall).is_some() {
        // By this node's clock the owner tells of a window that is over, and the copy is of the next: to take it would
        // open that one a second time.
        return;
    }
    let since = bucket.map_or(Timestamp(i64::MIN), |bucket| began(&bucket));
    let open = match key {
        StoredKey::Pair(pair) => hits.unconfirmed(owner, pair, applied, since),
        StoredKey::Joined(text) => unconfirmed_of_joined(hits, owner, text, applied, since),
    };
    match (open, bucket) {
        (Unconfirmed::Reset, _) => {}
        (Unconfirmed::Hits(open), Some(bucket)) => {
            if matches!(key, StoredKey::Joined(_)) && bucket.is_in_force(wall) {
                // A pair's own copy that was asked in this very millisecond would seem newer, and keep the news from
                // view. Nobody asks between this and the next line: that takes the lock of `hits` too.
                store.remove(key);
            }
            store.insert(key, less(bucket, open), wall);
        }
        (Unconfirmed::Hits(0), None) => {
            store.remove(key);
        }
        // A new bucket would forget what is still to be counted: the copy goes on until the owner has it.
        (Unconfirmed::Hits(_), None) => {}
    }
}

/// Before this moment nothing happened that the bucket knows of.
fn began(bucket: &Bucket) -> Timestamp {
    match bucket.state {
        State::Token(token) => Timestamp(token.created_at),
        // It has no beginning: what was taken long ago has leaked back, by the time that the bucket itself counts.
        State::Leaky(_) => Timestamp(i64::MIN),
    }
}

/// The same for a key of which only the joined text is known: of all pairs that it may mean. Nobody who has a use for it
/// puts more than a few underscores into a key; what is behind the bound is given back a little early.
fn unconfirmed_of_joined(
    hits: &GlobalHits,
    owner: &str,
    text: &str,
    applied: Option<u64>,
    since: Timestamp,
) -> Unconfirmed {
    const SPLITS_MAX: usize = 64;
    let mut sum = 0_i64;
    for (at, _) in text.match_indices('_').take(SPLITS_MAX) {
        let pair = Key { name: &text[..at], unique_key: &text[at + 1..] };
        match hits.unconfirmed(owner, pair, applied, since) {
            Unconfirmed::Hits(open) => sum = sum.saturating_add(open),
            Unconfirmed::Reset => return Unconfirmed::Reset,
        }
    }
    Unconfirmed::Hits(sum)
}

/// The bucket with so many units fewer in it, and no fewer than none: the owner cannot take more than there are. What
/// the owner says may lie outside of a full bucket (with Gubernator's semantics refunds go beyond it), and then stays
/// what it is.
fn less(bucket: Bucket, hits: i64) -> Bucket {
    if hits == 0 {
        return bucket;
    }
    let state = match bucket.state {
        State::Token(mut token) => {
            let (floor, full) = (token.remaining.min(0), token.limit.max(token.remaining));
            token.remaining = token.remaining.saturating_sub(hits).clamp(floor, full);
            State::Token(token)
        }
        State::Leaky(mut leaky) => {
            let (floor, full) = (leaky.balance.min(0.0), leaky.balance.max(leaky.burst as f64));
            leaky.balance = (leaky.balance - hits as f64).max(floor).min(full);
            State::Leaky(leaky)
        }
    };
    Bucket { state, ..bucket }
}

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
