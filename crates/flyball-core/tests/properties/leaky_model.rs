//! A leaky bucket as one moment: `full_at`, when it will be full. Free units at t are
//! `burst - (full_at - t) / rate`. Nothing is credited; time does it. In rationals, so nothing is rounded.

use flyball_core::{Decision, Request, Status};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

type Ratio = BigRational;

fn int(x: i64) -> Ratio {
    Ratio::from_integer(BigInt::from(x))
}

fn parts(one_in: i64) -> Ratio {
    Ratio::new(BigInt::one(), BigInt::from(one_in))
}

fn saturate(x: &Ratio) -> i64 {
    x.to_integer().to_i64().unwrap_or(if x.is_negative() { i64::MIN } else { i64::MAX })
}

/// Whole units, up to the tolerance of the specification.
fn whole(units: &Ratio) -> i64 {
    saturate(&(units + parts(1_000_000_000)).floor())
}

/// Whole milliseconds, rounded up, up to the tolerance of the specification.
fn millis_up(ms: &Ratio) -> i64 {
    saturate(&(ms - parts(1_000_000)).ceil())
}

#[derive(Clone, Debug)]
struct State {
    full_at: Ratio,
    rate: Ratio,
    burst: i64,
    last: i64,
    booked_until: Ratio,
}

impl State {
    fn free(&self, t: i64) -> Ratio {
        int(self.burst) - (&self.full_at - int(t)) / &self.rate
    }

    fn set_free(&mut self, t: i64, free: &Ratio) {
        self.full_at = int(t) + (int(self.burst) - free) * &self.rate;
    }
}

/// The model: one key with positive limits and durations.
#[derive(Debug)]
pub(crate) struct Model {
    state: Option<State>,
    ceiling: i64,
}

impl Model {
    pub(crate) fn new(ceiling: i64) -> Self {
        Self { state: None, ceiling }
    }

    /// Flags as booleans, so that the model does not lean on the product's bit set.
    pub(crate) fn ask(&mut self, request: &Request<'_>, reset: bool, drain: bool, now: i64) -> Decision {
        assert!(request.limit > 0 && request.duration > 0 && request.burst >= 0, "outside the model");
        let burst = if request.burst == 0 { request.limit } else { request.burst };
        let rate = Ratio::new(BigInt::from(request.duration), BigInt::from(request.limit));
        // Expiry equals absence: over once the bucket is full, in whole milliseconds.
        let stored = self.state.take();
        let alive = stored.clone().filter(|state| {
            let until = millis_up(&(&state.full_at - int(state.last))).max(0) + state.last;
            now <= until.max(saturate(&state.booked_until.ceil()))
        });
        let fresh = alive.is_none();
        let mut state = alive.unwrap_or_else(|| State {
            full_at: int(now),
            rate: rate.clone(),
            burst,
            last: now,
            booked_until: Ratio::zero(),
        });
        let t = now.max(state.last);

        // A new rate counts from the last request on, or from the end of what was promised.
        let since = state.booked_until.clone().max(int(state.last)).min(int(t));
        if state.rate != rate {
            let free_then = int(state.burst) - (&state.full_at - &since) / &state.rate;
            let owed = (&state.booked_until - int(t)).max(Ratio::zero());
            let missing = int(state.burst) - free_then - &owed / &state.rate;
            state.full_at = &since + missing * &rate + owed;
            state.rate = rate;
        }
        state.last = t;
        if state.booked_until <= int(t) {
            state.booked_until = Ratio::zero();
        }
        let booked = state.booked_until.is_positive();
        // A changed burst adds or removes its difference, which is to say: the bucket is full when it would
        // have been. Raised while slots are promised, all of it lies behind them.
        if burst > state.burst && booked {
            let behind_promises = &state.booked_until + int(burst) * &state.rate;
            state.full_at = state.full_at.max(behind_promises);
        }
        if state.full_at <= int(t) {
            state.full_at = int(t);
        }
        state.burst = burst;
        if reset {
            state.full_at = int(t);
            state.booked_until = Ratio::zero();
        }
        let booked = state.booked_until.is_positive();

        let mut decision = Decision { limit: request.limit, ..Decision::default() };
        let free = state.free(t);
        let wait = (int(request.hits) - &free) * &state.rate;
        if request.hits < 0 {
            if !booked {
                let more = (free + int(request.hits).abs()).min(int(burst));
                state.set_free(t, &more);
            }
        } else if request.hits > 0 {
            let late = t - now;
            if request.max_wait > 0 && request.hits > burst {
                decision.status = Status::NeverFits;
            } else if request.hits <= whole(&free) {
                state.set_free(t, &(free - int(request.hits)));
            } else if request.max_wait > 0 {
                let wait_ms = millis_up(&(&wait + int(late))).max(1);
                decision.retry_after = wait_ms;
                if wait_ms > request.max_wait.min(self.ceiling) {
                    decision.status = Status::OverLimit;
                } else {
                    decision.status = Status::Scheduled;
                    state.booked_until = int(t) + wait;
                    state.set_free(t, &(free - int(request.hits)));
                }
            } else {
                decision.status = Status::OverLimit;
                if drain && free.is_positive() {
                    state.set_free(t, &Ratio::zero());
                }
                // What was drained is gone before the wait is told.
                let wait = (int(request.hits) - state.free(t)) * &state.rate;
                decision.plain_retry_after =
                    (request.hits <= burst).then(|| (millis_up(&wait) + late).max(1));
            }
        }
        decision.remaining = whole(&state.free(t)).clamp(0, burst);
        decision.reset_time = t + millis_up(&(&state.full_at - int(t))).max(0);
        // A first request that takes nothing changes nothing: the old bucket may still count for clocks that lag.
        let untouched = fresh && state.full_at <= int(t);
        self.state = if untouched { stored } else { Some(state) };
        decision
    }
}
