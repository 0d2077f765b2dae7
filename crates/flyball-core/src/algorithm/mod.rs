//! `decide(stored bucket, check, now) -> (next bucket, decision)`: one pure function, no lock, no clock.
//!
//! Each algorithm is one file with its story on top. The two [`Semantics`] share the arithmetic; where they
//! differ there is one named branch.
//!
//! [`Semantics`]: crate::Semantics

pub mod calendar;
mod float;
mod leaky_bucket;
mod token_bucket;

use crate::check::{Algorithm, Check, Rules, Semantics};
use crate::decision::Answer;
use crate::error::CheckError;
use crate::time::Timestamp;

/// What is stored for one key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The last moment, in Unix milliseconds, at which the bucket still counts. After it, it is as if it had
    /// never been.
    pub expire_at: i64,
    /// The algorithm's own state.
    pub state: State,
}

/// The algorithm's own state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// See [`TokenBucket`].
    Token(TokenBucket),
    /// See [`LeakyBucket`].
    Leaky(LeakyBucket),
}

/// State of a token bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// Units per window, from the last check.
    pub limit: i64,
    /// `limit` minus what was used: negative after a limit was lowered below what is used (exact).
    pub remaining: i64,
    /// Length of the window in milliseconds, or a calendar code.
    pub duration: i64,
    /// Start of the window, Unix milliseconds.
    pub created_at: i64,
    /// `duration` is a calendar code.
    pub calendar: bool,
    /// The last check that asked for units found none at all; shown to looks while nothing remains.
    pub over_limit: bool,
}

/// State of a leaky bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeakyBucket {
    /// Units per duration, from the last check.
    pub limit: i64,
    /// Milliseconds, or a calendar code, from the last check.
    pub duration: i64,
    /// Size of the bucket.
    pub burst: i64,
    /// Free units with their fraction. Negative: booked in advance, or the burst was lowered below what is
    /// used.
    pub balance: f64,
    /// Up to when the leak has been credited, Unix milliseconds.
    pub updated_at: i64,
    /// Milliseconds per unit at which the leak was last credited.
    pub rate: f64,
    /// Milliseconds after `updated_at` until the last unit promised to a `max_wait` check has come back; 0 when
    /// nothing is booked. (Relative, because a float that counts from 1970 has no digits left for fractions.)
    pub booked_ms: f64,
}

impl LeakyBucket {
    /// Units promised for later to `max_wait` checks are still owed at `now`.
    pub fn in_debt(&self, now: Timestamp) -> bool {
        self.booked_ms > now.ms().saturating_sub(self.updated_at) as f64 && self.booked_ms > 0.0
    }
}

impl Bucket {
    /// Units promised for later to `max_wait` checks are still owed at `now`.
    pub fn in_debt(&self, now: Timestamp) -> bool {
        match self.state {
            State::Token(_) => false,
            State::Leaky(leaky) => leaky.in_debt(now),
        }
    }

    /// How full the bucket is at `now`, 0.0 (empty or in debt) to 1.0: what eviction goes by. The fullest
    /// bucket is the cheapest to forget.
    pub fn fullness(&self, now: Timestamp) -> f64 {
        let (free, size) = match &self.state {
            State::Token(token) => (token.remaining as f64, token.limit as f64),
            State::Leaky(leaky) => {
                let leaked = (now.ms().saturating_sub(leaky.updated_at)).max(0) as f64 / leaky.rate;
                let size = leaky.limit.max(leaky.burst) as f64;
                ((leaky.balance + leaked).min(leaky.burst as f64), size)
            }
        };
        let full = free / size;
        // A bucket of no size holds nothing that could be forgotten.
        if full.is_nan() { 1.0 } else { full.clamp(0.0, 1.0) }
    }

    /// A node's clock that shows `now` finds something here: a bucket that counts, or that owes units.
    #[inline]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.is_alive(now) || self.in_debt(now)
    }

    /// The bucket still counts at `moment`.
    #[inline]
    pub const fn is_alive(&self, moment: Timestamp) -> bool {
        moment.ms() <= self.expire_at
    }
}

/// What a decision did besides answering, for the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A live bucket was found.
    pub hit: bool,
    /// The answer counts as over the limit.
    pub over_limit: bool,
    /// A slot was booked.
    pub scheduled: bool,
    /// The caller would have waited, but the node's own ceiling refused.
    pub ceiling_refused: bool,
    /// A debt ended by a reset or by a change of algorithm.
    pub debt_dropped: bool,
}

/// The next bucket (`None`: nothing is stored), the answer, and what happened on the way.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// What to store.
    pub bucket: Option<Bucket>,
    /// What to tell the caller.
    pub answer: Answer,
    /// What to count.
    pub effects: Effects,
}

/// Applies `check` to the stored bucket, dead or alive. `now` is the node's clock.
///
/// A dead bucket is as good as none: expiry equals absence.
#[inline]
pub fn decide(stored: Option<&Bucket>, check: &Check<'_>, now: Timestamp, rules: &Rules) -> Outcome {
    let live = stored.filter(|bucket| bucket.is_alive(moment(bucket, check, now, rules.semantics)));
    let mut outcome = match check.algorithm {
        Algorithm::TokenBucket => token_bucket::decide(live, check, now, rules),
        Algorithm::LeakyBucket => leaky_bucket::decide(live, check, now, rules),
    };
    if live.is_none() && outcome.bucket.is_none() && rules.semantics == Semantics::Exact {
        // Nothing was taken. The bucket may be dead only for this check's clock, so it is left to those who lag.
        outcome.bucket = stored.copied();
    }
    outcome
}

/// The time by which a bucket's life is judged. With exact semantics the check's own, so that a client whose
/// clock lags does not find a new window with every call; the node's for scheduled checks and for keys in
/// debt. With Gubernator's always the node's.
fn moment(bucket: &Bucket, check: &Check<'_>, now: Timestamp, semantics: Semantics) -> Timestamp {
    if semantics == Semantics::Gubernator || check.max_wait > 0 || bucket.in_debt(now) {
        now
    } else {
        check.created_at
    }
}

/// The duration is no calendar interval.
fn calendar_error(kept: Option<Bucket>, algorithm: &'static str, effects: Effects) -> Outcome {
    Outcome { bucket: kept, answer: Err(CheckError::InvalidCalendar(algorithm)), effects }
}
