//! Wire to core and back: the only place that knows both.
//!
//! Going in, nothing is copied and nothing is judged: a [`Request`] borrows the message, whatever its fields
//! hold; [`Rules::admit`](flyball_core::Rules::admit) decides what makes sense. Going out, an answer becomes
//! a message, and an item's error becomes the sentence clients know. The sentences are a contract: some
//! clients match them.

use flyball_core::algorithm::{Bucket, LeakyBucket, State, TokenBucket};
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

/// What one item of a call is told. `source` is who asked: errors are worded differently for a peer, which
/// passes them on to its own client.
#[inline]
pub fn answer(answer: &Answer, key: Key<'_>, source: Source) -> pb::RateLimitResp {
    match answer {
        Ok(made) => decision(made),
        Err(error) => item_error(error_text(*error, key, source)),
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
pub fn error_text(error: CheckError, key: Key<'_>, source: Source) -> String {
    if error.is_validation() {
        return error.to_string();
    }
    match source {
        Source::Client => {
            format!("Error while apply rate limit for '{key}': during workerPool.GetRateLimit: {error}")
        }
        Source::Peer => format!("Error in getLocalRateLimit: during workerPool.GetRateLimit: {error}"),
    }
}

/// What an owner's broadcast says about one key, `name + "_" + unique_key`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update<'a> {
    /// The bucket stands like this; it replaces what is stored.
    Replace(&'a str, Bucket),
    /// An algorithm nobody here knows: what is stored no longer holds, and the next check starts fresh.
    Forget(&'a str),
}

/// Reads one item of a broadcast, received at `now`. `None` when the status is missing: there is nothing to
/// store, and the item is skipped.
///
/// The message says less than a bucket holds. The window starts at `now`, a leaky bucket's burst is its
/// limit, its fraction is lost, and whether `duration` is a calendar code is not told. Codes are 0 to 5, and
/// a real window of so few milliseconds is over before its broadcast arrives, so these numbers are taken as
/// codes.
pub fn update(item: &pb::UpdatePeerGlobal, now: Timestamp) -> Option<Update<'_>> {
    let status = item.status.as_ref()?;
    let state = match item.algorithm {
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
