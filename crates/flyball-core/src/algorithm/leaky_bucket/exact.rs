//! The leaky bucket with exact semantics: the numbers of the specification ("leaky exact", "scheduled") in the
//! code.

use super::Pace;
use crate::algorithm::float::{EPSILON, ceil, millis};
use crate::algorithm::{Bucket, Effects, LeakyBucket, Outcome, State};
use crate::check::{Behavior, Check, Rules};
use crate::decision::{Decision, Status};

/// Units that leak in `ms` milliseconds at `rate`; none at a rate that is no number.
fn leaked(ms: f64, rate: f64) -> f64 {
    let units = ms / rate;
    if ms <= 0.0 || units.is_nan() { 0.0 } else { units }
}

/// Applies a check. `found`: the live bucket and its expiry.
pub(super) fn decide(
    found: Option<(LeakyBucket, i64)>,
    check: &Check<'_>,
    pace: &Pace,
    rules: &Rules,
    mut effects: Effects,
) -> Outcome {
    let fresh = found.is_none();
    // Leaky exact 4: a missing bucket is a full one.
    let (leaky, expire_at) = found.unwrap_or_else(|| (LeakyBucket::full(check, pace), pace.t));
    let (bucket, decision) = apply(leaky, expire_at, fresh, check, pace, rules, &mut effects);
    let stored = if fresh && bucket.is_full() { None } else { Some(bucket) };
    Outcome { bucket: stored, answer: Ok(decision), effects }
}

impl LeakyBucket {
    fn full(check: &Check<'_>, pace: &Pace) -> Self {
        Self {
            limit: check.limit,
            duration: check.duration,
            burst: check.burst,
            balance: check.burst as f64,
            updated_at: pace.t,
            rate: pace.rate,
            booked_ms: 0.0,
        }
    }

    /// Units are promised, as of the last credit.
    fn is_booked(&self) -> bool {
        self.booked_ms > 0.0
    }

    /// Whole units, as shown and as taken.
    fn whole(&self) -> i64 {
        ((self.balance + EPSILON) as i64).min(self.burst)
    }

    /// What an answer shows.
    fn shown(&self) -> i64 {
        if self.limit == 0 { 0 } else { self.whole().max(0) }
    }

    /// Milliseconds until `units` are there; infinite when they never will be.
    fn wait_for(&self, units: f64) -> f64 {
        (units - self.balance) * self.rate
    }

    /// Leaky exact 3: when the bucket is full again.
    fn full_at(&self) -> i64 {
        let wait = ceil(self.wait_for(self.burst as f64) - 1e-6);
        // Not a number: nothing missing, or nothing ever comes back.
        if self.limit == 0 || wait.is_nan() || wait <= 0.0 {
            return self.updated_at;
        }
        self.updated_at.saturating_add(millis(wait))
    }

    /// Credits the leak up to `pace.t` and adopts the check's rate.
    fn credit(&mut self, pace: &Pace) {
        // Scheduled 2: while booked, time counts at the old rate; the rest at the new one. Out of debt the new
        // rate applies to all of it (A23).
        let elapsed = pace.t.saturating_sub(self.updated_at) as f64;
        let at_old_rate = elapsed.min(self.booked_ms);
        self.balance += leaked(at_old_rate, self.rate) + leaked(elapsed - at_old_rate, pace.rate);
        self.updated_at = pace.t;
        self.booked_ms -= at_old_rate;
        if self.booked_ms < 1e-6 {
            self.booked_ms = 0.0;
            self.rate = pace.rate;
        } else if pace.is_usable() && pace.rate != self.rate {
            // Promised slots keep their times: the same milliseconds are so many units at the new rate.
            self.balance += self.booked_ms / self.rate - self.booked_ms / pace.rate;
            self.rate = pace.rate;
        }
    }

    /// Leaky exact 6 and scheduled 1: the difference, no more and no less, but promised slots stay promised.
    fn change_burst(&mut self, burst: i64) {
        let raised = burst > self.burst;
        self.balance += burst as f64 - self.burst as f64;
        self.burst = burst;
        if raised && self.is_booked() {
            self.balance = self.balance.min(-self.booked_ms / self.rate);
        }
    }

    /// Drops float dust below zero, so that a repaid bucket owes nothing. Dust above zero stays: it is the
    /// leak of a slow bucket that is asked often.
    fn settle(&mut self) {
        self.balance = self.balance.min(self.burst as f64);
        if self.balance < 0.0 && self.balance > -EPSILON {
            self.balance = 0.0;
        }
    }
}

impl Bucket {
    fn is_full(&self) -> bool {
        matches!(self.state, State::Leaky(leaky) if !leaky.is_booked() && leaky.balance >= leaky.burst as f64)
    }
}

fn apply(
    stored: LeakyBucket,
    stored_expiry: i64,
    fresh: bool,
    check: &Check<'_>,
    pace: &Pace,
    rules: &Rules,
    effects: &mut Effects,
) -> (Bucket, Decision) {
    let mut leaky = stored;
    leaky.credit(pace);
    let lossy = {
        // A leak so small beside the balance that adding it loses digits would be lost for good if looks
        // wrote it back; then they do not.
        let leak = leaked(pace.t.saturating_sub(stored.updated_at) as f64, pace.rate);
        leak > 0.0 && ((stored.balance + leak) - stored.balance - leak).abs() > leak * 1e-4
    };
    if leaky.burst != check.burst {
        leaky.change_burst(check.burst);
    }
    if check.behavior.has(Behavior::RESET_REMAINING) {
        effects.debt_dropped = leaky.is_booked();
        leaky.booked_ms = 0.0;
        leaky.rate = pace.rate;
        leaky.balance = check.burst as f64;
    }
    leaky.limit = check.limit;
    leaky.duration = check.duration;
    leaky.settle();

    let mut decision = Decision { limit: check.limit, ..Decision::default() };
    let mut taken = false;
    if check.hits < 0 {
        // A35: while something is booked a refund is dropped; it must not pay a debt.
        if !leaky.is_booked() {
            leaky.balance -= check.hits as f64;
            leaky.settle();
            taken = true;
        }
    } else if check.hits > 0 {
        // Leaky exact 5: nothing fits a limit of 0, whatever the burst.
        let fits = check.limit > 0 && check.hits <= leaky.whole();
        if check.max_wait > 0 {
            taken = schedule(&mut leaky, fits, fresh, check, pace, rules, effects, &mut decision);
        } else if fits {
            leaky.balance -= check.hits as f64;
            leaky.settle();
            taken = true;
        } else {
            effects.over_limit = true;
            decision.status = Status::OverLimit;
            if check.behavior.has(Behavior::DRAIN_OVER_LIMIT) {
                taken = leaky.balance > 0.0;
                leaky.balance = leaky.balance.min(0.0);
            }
            decision.plain_retry_after = plain_retry_after(&leaky, check, pace);
        }
    }

    decision.remaining = leaky.shown();
    let full_at = leaky.full_at();
    let booked = leaky.is_booked();
    decision.reset_time = match pace.calendar_end {
        Some(end) if !booked => full_at.min(end),
        _ => full_at,
    };
    if !taken && lossy && leaky.burst == stored.burst && leaky.rate == stored.rate && !fresh {
        let kept = LeakyBucket { limit: leaky.limit, duration: leaky.duration, ..stored };
        return (Bucket { expire_at: stored_expiry, state: State::Leaky(kept) }, decision);
    }
    let expire_at = if booked {
        // Never in debt, even if the times do not match to the last digit.
        full_at.max(leaky.updated_at.saturating_add(millis(ceil(leaky.booked_ms))))
    } else if leaky.rate == f64::INFINITY {
        // Limit 0: nothing comes back, so the bucket would never be full. It is forgotten when it would have
        // been before, and a client that sends limit 0 earns nothing by it.
        stored_expiry.max(pace.t)
    } else {
        decision.reset_time
    };
    (Bucket { expire_at, state: State::Leaky(leaky) }, decision)
}

/// Scheduled 4: how long a refused plain check would have to wait, if any wait helps.
fn plain_retry_after(leaky: &LeakyBucket, check: &Check<'_>, pace: &Pace) -> Option<i64> {
    if check.hits > check.burst || check.limit == 0 {
        return None;
    }
    let wait = millis(ceil(leaky.wait_for(check.hits as f64) - 1e-6));
    let wait = match pace.calendar_end {
        // The end of the interval brings a full bucket.
        Some(end) if !leaky.is_booked() => wait.min(end.saturating_sub(pace.t).saturating_add(1)),
        _ => wait,
    };
    Some(wait.saturating_add(pace.behind).max(1))
}

/// A check with `max_wait` that asks for units. Returns whether any were taken.
#[allow(clippy::too_many_arguments)] // one decision, read in one place
fn schedule(
    leaky: &mut LeakyBucket,
    fits: bool,
    fresh: bool,
    check: &Check<'_>,
    pace: &Pace,
    rules: &Rules,
    effects: &mut Effects,
    decision: &mut Decision,
) -> bool {
    // A first check that fits is served even when nothing would ever come back (duration 0), as the original.
    let usable = pace.is_usable() || (fresh && fits);
    if check.hits > check.burst || check.limit == 0 || !usable {
        effects.over_limit = true;
        decision.status = Status::NeverFits;
        return false;
    }
    if fits {
        leaky.balance -= check.hits as f64;
        leaky.settle();
        return true;
    }
    let wait_ms = leaky.wait_for(check.hits as f64);
    let wait = millis(ceil(pace.behind as f64 + wait_ms - 1e-6)).max(1);
    if wait > check.max_wait.min(rules.schedule_max_wait_ms) {
        effects.over_limit = true;
        effects.ceiling_refused = wait <= check.max_wait;
        decision.status = Status::OverLimit;
        decision.retry_after = wait;
        return false;
    }
    leaky.balance -= check.hits as f64;
    leaky.booked_ms = wait_ms;
    effects.scheduled = true;
    decision.status = Status::Scheduled;
    decision.retry_after = wait;
    true
}
