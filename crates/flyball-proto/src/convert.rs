//! Wire to core and back: the only place that knows both.
//!
//! Going in, nothing is copied and nothing is judged: a [`Request`] borrows the message, whatever its fields
//! hold; [`Rules::admit`](flyball_core::Rules::admit) decides what makes sense. Going out, an answer becomes
//! a message, and an item's error becomes the sentence clients know. The sentences are a contract: some
//! clients match them.

use flyball_core::algorithm::{Bucket, LeakyBucket, State, TokenBucket};
use flyball_core::cluster::{Dirty, News, OwnedKey, SentHits, Stamp};
use flyball_core::{Answer, Behavior, CheckError, Decision, Key, Request, Source, Status, Timestamp};

use crate::pb;

/// Metadata entry of a refused plain check: milliseconds until it would be granted if nobody else came.
pub const RETRY_AFTER_MS: &str = "retry_after_ms";

/// What one item of a call asks. Borrows the message.
#[inline]
pub fn request(item: &pb::RateLimitReq) -> Request<'_> {
    Request {
        key: Key { name: &item.name, unique_key: &item.unique_key },
        hits: item.hits,
        limit: item.limit,
        duration: item.duration,
        algorithm: item.algorithm,
        behavior: Behavior(item.behavior),
        burst: item.burst,
        created_at: item.created_at,
        max_wait: item.max_wait,
    }
}

/// How much a client hung on an item: entries, and the bytes of their names and values.
#[inline]
pub fn metadata_size(item: &pb::RateLimitReq) -> (usize, usize) {
    (item.metadata.len(), item.metadata.iter().map(|(name, value)| name.len() + value.len()).sum())
}

/// Where an item was judged: an error says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// By the owner, whom the client asked.
    Owner,
    /// By the owner, for a peer, which passes the text on to its own client.
    OwnerForPeer,
    /// On a copy of a GLOBAL bucket.
    Replica,
}

impl From<Source> for Judge {
    fn from(source: Source) -> Self {
        match source {
            Source::Client => Self::Owner,
            Source::Peer => Self::OwnerForPeer,
        }
    }
}

/// What one item of a call is told.
#[inline]
pub fn answer(answer: &Answer, key: Key<'_>, judge: impl Into<Judge>) -> pb::RateLimitResp {
    match answer {
        Ok(made) => decision(made),
        Err(error) => item_error(error_text(*error, key, judge.into())),
    }
}

/// A decision as a message. Metadata stays empty unless there is a wait to tell, so granted checks allocate
/// nothing.
#[inline]
pub fn decision(made: &Decision) -> pb::RateLimitResp {
    let mut message = pb::RateLimitResp {
        status: made.status as i32,
        limit: made.limit,
        remaining: made.remaining,
        reset_time: made.reset_time,
        retry_after: made.retry_after,
        ..Default::default()
    };
    if let Some(wait) = made.plain_retry_after {
        message.metadata.insert(RETRY_AFTER_MS.to_owned(), wait.to_string());
    }
    message
}

/// An item that could not be judged: only the text is set.
pub fn item_error(text: String) -> pb::RateLimitResp {
    pb::RateLimitResp { error: text, ..Default::default() }
}

/// The sentence for an item's error. What is wrong with the request itself stands alone; what went wrong
/// while it was applied says where that happened.
pub fn error_text(error: CheckError, key: Key<'_>, judge: Judge) -> String {
    if error.is_validation() {
        return error.to_string();
    }
    match judge {
        Judge::Owner => {
            format!("Error while apply rate limit for '{key}': during workerPool.GetRateLimit: {error}")
        }
        Judge::OwnerForPeer => format!("Error in getLocalRateLimit: during workerPool.GetRateLimit: {error}"),
        Judge::Replica => format!(
            "Error in getGlobalRateLimit: during in getLocalRateLimit: during workerPool.GetRateLimit: {error}"
        ),
    }
}

/// Hits on a GLOBAL key for its owner.
pub fn hits(key: &OwnedKey, sent: &SentHits) -> pb::RateLimitReq {
    pb::RateLimitReq {
        name: key.name.to_string(),
        unique_key: key.unique_key.to_string(),
        hits: sent.hits,
        limit: sent.limit,
        duration: sent.duration,
        algorithm: sent.algorithm,
        behavior: sent.behavior.0,
        burst: sent.burst,
        created_at: Some(sent.created_at.ms()),
        ..Default::default()
    }
}

/// One line of a broadcast: the plain fields for everybody, the bucket itself for peers of our own kind.
pub fn news(dirty: &Dirty, news: &News) -> pb::UpdatePeerGlobal {
    let status = pb::RateLimitResp {
        // A look cannot be SCHEDULED; nothing else may leak into a plain answer (W13).
        status: i32::from(news.status.status == Status::OverLimit),
        limit: news.status.limit,
        remaining: news.status.remaining,
        reset_time: news.status.reset_time,
        ..Default::default()
    };
    pb::UpdatePeerGlobal {
        key: dirty.key.as_key().to_string(),
        status: Some(status),
        algorithm: dirty.algorithm,
        duration: dirty.duration,
        created_at: dirty.created_at.ms(),
        bucket: Some(pb::ExactBucket {
            name: dirty.key.name.to_string(),
            unique_key: dirty.key.unique_key.to_string(),
            expire_at: news.bucket.map_or(0, |bucket| bucket.expire_at),
            state: news.bucket.map(|bucket| state(&bucket.state)),
        }),
    }
}

fn state(state: &State) -> pb::exact_bucket::State {
    match *state {
        State::Token(TokenBucket { limit, remaining, duration, created_at, calendar, over_limit }) => {
            let token = pb::TokenState { limit, remaining, duration, created_at, calendar, over_limit };
            pb::exact_bucket::State::Token(token)
        }
        State::Leaky(LeakyBucket { limit, duration, burst, balance, updated_at, rate, booked_ms }) => {
            let leaky = pb::LeakyState { limit, duration, burst, balance, updated_at, rate, booked_ms };
            pb::exact_bucket::State::Leaky(leaky)
        }
    }
}

/// The bucket that a peer of our own kind told; `None` inside when it has none.
pub fn exact_bucket(told: &pb::ExactBucket) -> (Key<'_>, Option<Bucket>) {
    let state = told.state.as_ref().map(|state| match *state {
        pb::exact_bucket::State::Token(token) => {
            let pb::TokenState { limit, remaining, duration, created_at, calendar, over_limit } = token;
            State::Token(TokenBucket { limit, remaining, duration, created_at, calendar, over_limit })
        }
        pb::exact_bucket::State::Leaky(leaky) => {
            let pb::LeakyState { limit, duration, burst, balance, updated_at, rate, booked_ms } = leaky;
            State::Leaky(LeakyBucket { limit, duration, burst, balance, updated_at, rate, booked_ms })
        }
    });
    let key = Key { name: &told.name, unique_key: &told.unique_key };
    (key, state.map(|state| Bucket { expire_at: told.expire_at, state }))
}

/// A stamp on the wire.
pub fn stamp(sender: &str, stamp: Stamp) -> pb::PeerStamp {
    pb::PeerStamp { sender: sender.to_owned(), session: stamp.session, sequence: stamp.sequence }
}

/// What an owner's broadcast says about one key, `name + "_" + unique_key`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update<'a> {
    /// The bucket stands like this; it replaces what is stored.
    Replace(&'a str, Bucket),
    /// A reset that left no bucket, or an algorithm nobody here knows: what is stored no longer holds, and the next
    /// check starts fresh.
    Forget(&'a str),
}

/// Reads one item of a broadcast, received at `now`. `None` when the status is missing: there is nothing to
/// store, and the item is skipped.
///
/// The message says less than a bucket holds. The window starts at `now`, a leaky bucket's burst is its
/// limit, its fraction is lost, and whether `duration` is a calendar code is not told. Codes are 0 to 5, and
/// a real window of so few milliseconds is over before its broadcast arrives, so these numbers are taken as
/// codes.
///
/// A token bucket without a reset time is none: the original's broadcast read resets once more, and what a reset
/// leaves has no window.
pub fn update(item: &pb::UpdatePeerGlobal, now: Timestamp) -> Option<Update<'_>> {
    let status = item.status.as_ref()?;
    let state = match item.algorithm {
        0 if status.reset_time == 0 => return Some(Update::Forget(&item.key)),
        0 => State::Token(TokenBucket {
            limit: status.limit,
            remaining: status.remaining,
            duration: item.duration,
            created_at: now.ms(),
            calendar: (0..=5).contains(&item.duration),
            // Any other number, SCHEDULED included, must not reach a plain look at the empty bucket (W13).
            over_limit: status.status == Status::OverLimit as i32,
        }),
        1 => State::Leaky(LeakyBucket {
            limit: status.limit,
            duration: item.duration,
            burst: status.limit,
            balance: status.remaining as f64,
            updated_at: now.ms(),
            rate: item.duration as f64 / status.limit as f64,
            booked_ms: 0.0,
        }),
        _ => return Some(Update::Forget(&item.key)),
    };
    Some(Update::Replace(&item.key, Bucket { expire_at: status.reset_time, state }))
}
