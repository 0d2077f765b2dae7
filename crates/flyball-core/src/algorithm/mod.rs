//! `decide(stored bucket, check, now) -> (next bucket, decision)`: one pure function, no lock, no clock.
//!
//! Each algorithm is one file with its story on top. The two [`Semantics`] share the arithmetic; where they
//! differ there is one named branch.
//!
//! [`Semantics`]: crate::Semantics

pub mod calendar;

use crate::check::{Check, Rules};
use crate::decision::Answer;
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
    /// When the last unit promised to a `max_wait` check has come back, Unix milliseconds with a fraction.
    /// 0 when nothing is booked.
    pub booked_until: f64,
}

impl Bucket {
    /// Units promised for later to `max_wait` checks are still owed at `now`.
    pub fn in_debt(&self, now: Timestamp) -> bool {
        match self.state {
            State::Token(_) => false,
            State::Leaky(leaky) => leaky.booked_until > now.ms() as f64,
        }
    }

    /// How full the bucket is, 0.0 (empty or in debt) to 1.0: what eviction goes by. The fullest bucket is
    /// the cheapest to forget.
    pub fn fullness(&self, now: Timestamp) -> f64 {
        let _ = now;
        0.0
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

/// Applies `check` to the stored bucket. `now` is the node's clock.
pub fn decide(stored: Option<&Bucket>, check: &Check<'_>, now: Timestamp, rules: &Rules) -> Outcome {
    let _ = (now, rules, check);
    Outcome { bucket: stored.copied(), answer: Ok(crate::decision::Decision::default()), effects: Effects::default() }
}
