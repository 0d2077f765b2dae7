//! The leaky bucket of Gubernator v2.21.0, bit for bit, oddities included.

use super::Pace;
use crate::algorithm::float::{EPSILON, amd64, ceil, fmax, fmin, millis};
use crate::algorithm::{Bucket, Effects, LeakyBucket, Outcome, State};
use crate::check::{Behavior, Check, Rules};
use crate::decision::{Decision, Status};

/// Float dust is zero.
fn snap(balance: f64) -> f64 {
    if balance.abs() < EPSILON { 0.0 } else { balance }
}

/// What an answer shows of a balance.
fn shown(balance: f64) -> i64 {
    amd64(balance + EPSILON).max(0)
}

/// When the balance is back at burst.
fn full_at(leaky: &LeakyBucket, rate: f64) -> i64 {
    millis(ceil(leaky.updated_at as f64 + (leaky.burst as f64 - leaky.balance) * rate))
}

/// The original's reset time out of debt: from the truncated rate and from the limit, not the burst (A13).
fn reset_time(t: i64, limit: i64, whole: i64, rate: f64) -> i64 {
    t.wrapping_add(limit.wrapping_sub(whole).wrapping_mul(amd64(rate)))
}

/// A check on a live bucket.
pub(super) fn hit(
    mut leaky: LeakyBucket,
    mut expire_at: i64,
    check: &Check<'_>,
    pace: &Pace,
    rules: &Rules,
    mut effects: Effects,
) -> Outcome {
    let Pace { t, rate, span, .. } = *pace;
    let reset = check.behavior.has(Behavior::RESET_REMAINING);
    let was_debt = pace.in_debt && !reset;
    let burst_changed = leaky.burst != check.burst;
    leaky.limit = check.limit;
    leaky.duration = check.duration;
    if check.hits != 0 && !was_debt {
        expire_at = t.wrapping_add(span);
    }
    if t > leaky.updated_at {
        let leak = t.wrapping_sub(leaky.updated_at) as f64 / rate;
        if !leak.is_nan() {
            leaky.balance += leak;
        }
        leaky.updated_at = t;
    }
    if burst_changed {
        if snap(leaky.balance) >= 0.0 {
            let difference = check.burst.wrapping_sub(leaky.burst);
            leaky.balance = fmax(0.0, leaky.balance + difference as f64);
        }
        leaky.burst = check.burst;
    }
    if reset {
        effects.debt_dropped = snap(leaky.balance) < 0.0;
        leaky.balance = check.burst as f64;
    }
    leaky.balance = snap(fmin(leaky.burst as f64, leaky.balance));

    let whole = amd64(leaky.balance + EPSILON);
    let mut decision = Decision {
        limit: check.limit,
        remaining: whole.max(0),
        reset_time: reset_time(t, leaky.limit, whole, rate),
        ..Decision::default()
    };
    if leaky.balance < 0.0 {
        decision.reset_time = full_at(&leaky, rate);
    }
    // Makes a key in debt outlive its debt; never shortens. A debt beyond all time (A26) does not keep the key
    // for ever: that would be a leak of memory.
    let extend = |leaky: &LeakyBucket, expire_at: i64| {
        let full = Some(full_at(leaky, rate)).filter(|&ms| ms != i64::MAX);
        expire_at.max(t.wrapping_add(span)).max(full.unwrap_or(i64::MIN))
    };
    let mut extended = was_debt && burst_changed;

    if check.hits == 0 {
        // A look.
    } else if check.max_wait > 0 {
        let usable = rate > 0.0 && rate != f64::INFINITY;
        if check.hits > leaky.burst || !usable {
            effects.over_limit = true;
            decision.status = Status::NeverFits;
        } else if check.hits <= whole {
            leaky.balance = snap(leaky.balance - check.hits as f64);
            decision.remaining = shown(leaky.balance);
            decision.reset_time = reset_time(t, leaky.limit, decision.remaining, rate);
            extended |= was_debt;
        } else {
            let ahead = leaky.updated_at.max(t).wrapping_sub(t) as f64;
            let wait = millis(ceil(ahead + (check.hits as f64 - leaky.balance) * rate - 1e-6)).max(1);
            decision.retry_after = wait;
            if wait > check.max_wait.min(rules.schedule_max_wait_ms) {
                effects.over_limit = true;
                effects.ceiling_refused = wait <= check.max_wait;
                decision.status = Status::OverLimit;
            } else {
                leaky.balance -= check.hits as f64;
                effects.scheduled = true;
                extended = true;
                decision.status = Status::Scheduled;
                decision.remaining = 0;
                decision.reset_time = full_at(&leaky, rate);
            }
        }
    } else if check.hits < 0 && leaky.balance < 0.0 {
        extended = true;
    } else if check.hits > whole {
        effects.over_limit = true;
        decision.status = Status::OverLimit;
        if check.behavior.has(Behavior::DRAIN_OVER_LIMIT) {
            leaky.balance = fmin(leaky.balance, 0.0);
            decision.remaining = 0;
        }
    } else {
        leaky.balance = snap(fmin(leaky.burst as f64, leaky.balance - check.hits as f64));
        decision.remaining = amd64(leaky.balance + EPSILON);
        decision.reset_time = reset_time(t, leaky.limit, decision.remaining, rate);
        extended |= was_debt;
    }
    if extended {
        expire_at = extend(&leaky, expire_at);
    }
    leaky.rate = rate;
    // Not used by the original's arithmetic: tells eviction which keys owe something.
    leaky.booked_ms = if leaky.balance < 0.0 { -leaky.balance * rate } else { 0.0 };
    Outcome { bucket: Some(Bucket { expire_at, state: State::Leaky(leaky) }), answer: Ok(decision), effects }
}

/// A key's first check.
pub(super) fn open(check: &Check<'_>, pace: &Pace, mut effects: Effects) -> Outcome {
    let Pace { t, rate, span, .. } = *pace;
    if check.max_wait > 0 && check.hits > check.burst {
        effects.over_limit = true;
        let decision = Decision {
            status: Status::NeverFits,
            limit: check.limit,
            remaining: check.burst,
            reset_time: reset_time(t, check.limit, check.burst, rate),
            ..Decision::default()
        };
        return Outcome { bucket: None, answer: Ok(decision), effects };
    }
    // Refunds stop at burst.
    let left = check.burst.min(check.burst.wrapping_sub(check.hits));
    let mut decision = Decision {
        limit: check.limit,
        remaining: left,
        reset_time: reset_time(t, check.limit, left, rate),
        ..Decision::default()
    };
    let mut balance = left as f64;
    if check.hits > check.burst {
        // A5: the original's leaky bucket starts empty after such a check.
        effects.over_limit = true;
        balance = 0.0;
        decision.status = Status::OverLimit;
        decision.remaining = 0;
        decision.reset_time = reset_time(t, check.limit, 0, rate);
    }
    let leaky = LeakyBucket {
        limit: check.limit,
        duration: span,
        burst: check.burst,
        balance,
        updated_at: t,
        rate,
        booked_ms: 0.0,
    };
    let bucket = Bucket { expire_at: t.wrapping_add(span), state: State::Leaky(leaky) };
    Outcome { bucket: Some(bucket), answer: Ok(decision), effects }
}
