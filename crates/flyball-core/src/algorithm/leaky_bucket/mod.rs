//! Leaky bucket: an allowance that comes back steadily, one unit per `rate = duration / limit` milliseconds.
//!
//! Stored is the balance of free units with its fraction, as of `updated_at`. Every check first credits the
//! time that has passed, then takes what it asks for if the whole units are there. `burst` is the size of the
//! bucket: how much a caller who was idle may take at once.
//!
//! **Scheduled admission.** A check with `max_wait` that does not fit now is told *when* it would, and if that
//! is soon enough its units are charged at once: the balance goes below zero and the caller acts later,
//! without asking again. That is a **debt**, a queue of promised slots that pays itself off by leaking. Plain
//! checks are refused while it lasts; looks show 0; refunds are dropped. Checks with `max_wait`, and all checks
//! of a key in debt, go by the node's clock, so no client can move another's slot.
//!
//! **What differs with exact semantics** (numbers of the specification in the code):
//! - a debt has its own field, `booked_ms`. The balance may be negative without one, when a burst was
//!   lowered below what is used; that is not a debt. Promised slots keep their times whatever happens to
//!   limit, duration and burst.
//! - the entry lives until the bucket is full, and a missing bucket is a full one, so nothing is stored for a
//!   first check that takes nothing.
//! - `reset_time` is when the bucket is full again, from the true rate.
//!
//! Rejected: GCRA's single timestamp in place of the balance. It cannot hold a change of burst or limit
//! without the old parameters, and the recorded answers need the float balance anyway.

mod exact;
mod gubernator;

use super::{Bucket, Effects, LeakyBucket, Outcome, State, calendar_error};
use crate::check::{Behavior, Check, Rules, Semantics};
use crate::time::Timestamp;

const NAME: &str = "leakyBucket";

/// Applies a leaky bucket check to the live bucket of its key, if there is one.
pub(super) fn decide(live: Option<&Bucket>, check: &Check<'_>, now: Timestamp, rules: &Rules) -> Outcome {
    let effects = Effects { hit: live.is_some(), ..Effects::default() };
    let exact = rules.semantics == Semantics::Exact;
    let found = live.and_then(|bucket| match bucket.state {
        State::Leaky(leaky) => Some((leaky, bucket.expire_at)),
        State::Token(_) => None,
    });
    let Some(pace) = Pace::of(check, found.as_ref().map(|(leaky, _)| leaky), now, rules) else {
        // The original has already dropped another algorithm's bucket when it finds the error.
        let kept = live.filter(|_| found.is_some() || exact);
        return calendar_error(kept.copied(), NAME, effects);
    };
    match found {
        found if exact => exact::decide(found, check, &pace, rules, effects),
        Some((leaky, expire_at)) => gubernator::hit(leaky, expire_at, check, &pace, rules, effects),
        None => gubernator::open(check, &pace, effects),
    }
}

/// The time of a check, and how fast it says the bucket leaks.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The check's time. With exact semantics never before the bucket's last one: going back is standing still.
    t: i64,
    /// How far `t` was moved forward for that, in milliseconds.
    behind: i64,
    /// Milliseconds per unit; may be anything a float can be.
    rate: f64,
    /// Milliseconds a bucket lives after a hit (original).
    span: i64,
    /// End of the calendar interval, if the duration is one.
    calendar_end: Option<i64>,
    /// Units were promised when the check arrived (before any credit).
    in_debt: bool,
}

impl Pace {
    /// `None`: the duration is no calendar interval.
    fn of(check: &Check<'_>, stored: Option<&LeakyBucket>, now: Timestamp, rules: &Rules) -> Option<Self> {
        let exact = rules.semantics == Semantics::Exact;
        let in_debt = stored.is_some_and(|leaky| match exact {
            true => leaky.in_debt(now),
            false => leaky.balance < 0.0,
        });
        let claimed = if check.max_wait > 0 || in_debt { now } else { check.created_at };
        let t = match stored {
            Some(leaky) if exact => claimed.ms().max(leaky.updated_at),
            _ => claimed.ms(),
        };
        let mut length = check.duration;
        let mut span = check.duration;
        let mut calendar_end = None;
        if check.behavior.has(Behavior::DURATION_IS_GREGORIAN) {
            // Of the bucket's time, not the caller's: a clock that lags must not see the interval before.
            let moment = if exact { Timestamp(t) } else { now };
            let end = rules.calendar.end(check.duration, moment, rules.semantics)?;
            span = end.wrapping_sub(now.ms());
            calendar_end = Some(end);
            // A11: the original's first check takes the code for the length.
            if exact || stored.is_some() {
                length = rules.calendar.length(check.duration, moment, rules.semantics)?;
            }
        }
        Some(Self {
            t,
            behind: t.saturating_sub(claimed.ms()),
            // Nothing comes back at limit 0, in no time either.
            rate: if exact && check.limit == 0 { f64::INFINITY } else { length as f64 / check.limit as f64 },
            span,
            calendar_end,
            in_debt,
        })
    }

    /// Units come back, and not all at once.
    fn is_usable(&self) -> bool {
        self.rate > 0.0 && self.rate.is_finite()
    }
}
