//! Token bucket: a fixed allowance that comes back all at once when its window ends.
//!
//! The first check of a key opens a window of `duration` milliseconds (or up to the end of a calendar
//! interval) with `limit` units in it. Checks take units while there are enough; a check that does not fit
//! takes nothing. When the window is over the bucket is forgotten, and the next check opens a new one.
//!
//! Stored is `remaining = limit - used`. A changed limit moves it by the difference, so what was used stays
//! used. With exact semantics it may go below zero that way (10 with 9 used, limit lowered to 3: -6, shown as
//! 0) and comes back when the limit rises; the original stops at zero and so gives units away. Whoever is
//! refused at an empty bucket leaves a mark, and a look at the empty bucket shows it.
//!
//! `burst` means nothing here. RESET_REMAINING forgets an existing bucket and answers full, whatever the hits
//! and with `reset_time` 0; on a missing one it does nothing and the hits count (oddity A3, kept).

use super::{Bucket, Effects, Outcome, State, TokenBucket, calendar_error};
use crate::check::{Behavior, Check, Rules, Semantics};
use crate::decision::{Decision, Status};
use crate::time::Timestamp;

const NAME: &str = "tokenBucket";

/// Applies a token bucket check to the live bucket of its key, if there is one.
pub(super) fn decide(live: Option<&Bucket>, check: &Check<'_>, now: Timestamp, rules: &Rules) -> Outcome {
    let Some(bucket) = live else {
        return open(None, check, now, rules, Effects::default());
    };
    let mut effects = Effects { hit: true, ..Effects::default() };
    if check.behavior.has(Behavior::RESET_REMAINING) {
        effects.debt_dropped = bucket.in_debt(now);
        let full = Decision { limit: check.limit, remaining: check.limit, ..Decision::default() };
        return Outcome { bucket: None, answer: Ok(full), effects };
    }
    match bucket.state {
        State::Token(token) => hit(bucket, token, check, now, rules, effects),
        State::Leaky(_) => open(Some(bucket), check, now, rules, effects),
    }
}

/// Opens a window, in place of another algorithm's bucket if there is one.
fn open(
    replaced: Option<&Bucket>,
    check: &Check<'_>,
    now: Timestamp,
    rules: &Rules,
    mut effects: Effects,
) -> Outcome {
    let exact = rules.semantics == Semantics::Exact;
    let t = check.created_at.ms();
    let calendar = check.behavior.has(Behavior::DURATION_IS_GREGORIAN);
    let end = if calendar {
        match calendar_end(check, None, now, rules) {
            Some(end) => end,
            // The original has already dropped the other algorithm's bucket when it finds the error.
            None => return calendar_error(replaced.filter(|_| exact).copied(), NAME, effects),
        }
    } else if exact {
        t.saturating_add(check.duration)
    } else {
        t.wrapping_add(check.duration)
    };
    effects.debt_dropped = replaced.is_some_and(|bucket| bucket.in_debt(now));
    let (status, remaining) = if check.hits > check.limit {
        effects.over_limit = true;
        // Token exact 3: DRAIN_OVER_LIMIT works on the first check too.
        let drained = exact && check.behavior.has(Behavior::DRAIN_OVER_LIMIT);
        (Status::OverLimit, if drained { 0 } else { check.limit })
    } else if exact {
        (Status::UnderLimit, check.limit.saturating_sub(check.hits).min(check.limit))
    } else {
        (Status::UnderLimit, check.limit.wrapping_sub(check.hits))
    };
    let token = TokenBucket {
        limit: check.limit,
        remaining,
        duration: check.duration,
        created_at: t,
        calendar,
        over_limit: false,
    };
    let decision = Decision { status, limit: check.limit, remaining, reset_time: end, ..Decision::default() };
    Outcome {
        bucket: Some(Bucket { expire_at: end, state: State::Token(token) }),
        answer: Ok(decision),
        effects,
    }
}

/// Takes from an open window.
fn hit(
    bucket: &Bucket,
    mut token: TokenBucket,
    check: &Check<'_>,
    now: Timestamp,
    rules: &Rules,
    mut effects: Effects,
) -> Outcome {
    let exact = rules.semantics == Semantics::Exact;
    let t = check.created_at.ms();
    let mut end = bucket.expire_at;

    if token.limit != check.limit {
        token.remaining = if exact {
            // Token exact 1: what was used stays used, without a floor.
            token.remaining.saturating_add(check.limit.saturating_sub(token.limit)).min(check.limit)
        } else {
            token.remaining.wrapping_add(check.limit.wrapping_sub(token.limit)).max(0)
        };
        token.limit = check.limit;
    }

    let calendar = check.behavior.has(Behavior::DURATION_IS_GREGORIAN);
    // Token exact 4: a switch between calendar and plain duration is noticed even when the numbers are equal.
    if token.duration != check.duration || (exact && token.calendar != calendar) {
        if calendar {
            let Some(calendar_end) = calendar_end(check, Some(&token), now, rules) else {
                // The original keeps the new limit after such an error (A20).
                let kept =
                    if exact { *bucket } else { Bucket { expire_at: end, state: State::Token(token) } };
                return calendar_error(Some(kept), NAME, effects);
            };
            end = calendar_end;
        } else if exact {
            end = token.created_at.saturating_add(check.duration);
        } else {
            end = token.created_at.wrapping_add(check.duration);
        }
        // With exact semantics a calendar interval around t is never over, so it never restarts the window
        // and always ends at its boundary (token exact 4).
        if end <= t && !(exact && calendar) {
            end = if exact { t.saturating_add(check.duration) } else { t.wrapping_add(check.duration) };
            token.created_at = t;
            token.remaining = token.limit;
        }
        token.duration = check.duration;
        token.calendar = calendar;
    }

    let shown = if exact { token.remaining.max(0) } else { token.remaining };
    let mut status = Status::UnderLimit;
    if check.hits == 0 {
        if shown != 0 {
            token.over_limit = false;
        } else if token.over_limit {
            status = Status::OverLimit;
        }
    } else if shown == 0 && check.hits > 0 {
        token.over_limit = true;
        effects.over_limit = true;
        status = Status::OverLimit;
    } else {
        token.over_limit = false;
        // A refund always fits. (In the original one on a bucket below zero may not.)
        if check.hits > token.remaining && !(exact && check.hits < 0) {
            effects.over_limit = true;
            status = Status::OverLimit;
            if check.behavior.has(Behavior::DRAIN_OVER_LIMIT) {
                token.remaining = 0;
            }
        } else if exact {
            // Refunds stop at full.
            token.remaining = token.remaining.saturating_sub(check.hits).min(token.limit);
        } else {
            token.remaining = token.remaining.wrapping_sub(check.hits);
        }
    }

    let remaining = if exact { token.remaining.max(0) } else { token.remaining };
    let mut decision =
        Decision { status, limit: check.limit, remaining, reset_time: end, ..Decision::default() };
    if exact && effects.over_limit && check.hits <= check.limit {
        // Scheduled 4. At least 1: the bucket still counts in its last millisecond.
        decision.plain_retry_after = Some(end.saturating_sub(t).max(1));
    }
    let bucket = Bucket { expire_at: end, state: State::Token(token) };
    Outcome { bucket: Some(bucket), answer: Ok(decision), effects }
}

/// The end of the check's calendar interval: around the check's own time with exact semantics (never before the
/// window's start: a clock that lags must not see the interval before), around the node's clock with Gubernator's.
fn calendar_end(
    check: &Check<'_>,
    window: Option<&TokenBucket>,
    now: Timestamp,
    rules: &Rules,
) -> Option<i64> {
    let moment = match rules.semantics {
        Semantics::Exact => {
            window.map_or(check.created_at, |w| check.created_at.max(Timestamp(w.created_at)))
        }
        Semantics::Gubernator => now,
    };
    rules.calendar.end(check.duration, moment, rules.semantics)
}
