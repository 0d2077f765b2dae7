//! A token bucket as a list of what was taken in this window. Random histories give its answers.

use flyball_core::{Behavior, Decision, Request, Status};
use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};
use proptest::prelude::*;

use crate::history::{KeyUnderTest, Step, TOKEN, request, step, steps};

#[derive(Clone, Debug)]
struct Window {
    start: i64,
    end: i64,
    duration: i64,
    /// Units taken, one entry per check that took; refunds are negative.
    taken: Vec<BigInt>,
    refused_at_empty: bool,
}

impl Window {
    fn open(at: i64, duration: i64) -> Self {
        Self { start: at, end: at + duration, duration, taken: Vec::new(), refused_at_empty: false }
    }

    /// What is used: the sum, but a refund never lifts the bucket above full.
    fn used(&self) -> BigInt {
        self.taken.iter().fold(BigInt::zero(), |used, units| (used + units).max(BigInt::zero()))
    }

    fn left(&self, limit: i64) -> i64 {
        (BigInt::from(limit) - self.used()).max(BigInt::zero()).to_i64().expect("at most the limit")
    }
}

#[derive(Debug, Default)]
struct Model {
    window: Option<Window>,
}

impl Model {
    fn ask(&mut self, request: &Request<'_>, now: i64) -> Decision {
        let (limit, duration) = (request.limit, request.duration);
        let has = |flag| request.behavior.has(flag);
        let mut window = match self.window.take().filter(|window| now <= window.end) {
            Some(_) if has(Behavior::RESET_REMAINING) => {
                return Decision { limit, remaining: limit, ..Decision::default() };
            }
            Some(mut window) if window.duration != duration => {
                window.end = window.start + duration;
                window.duration = duration;
                if window.end <= now {
                    // The mark stays; with a limit above 0 there is something left again, so nobody sees it.
                    Window { refused_at_empty: window.refused_at_empty, ..Window::open(now, duration) }
                } else {
                    window
                }
            }
            Some(window) => window,
            None => {
                let mut window = Window::open(now, duration);
                let mut decision = Decision { limit, reset_time: window.end, ..Decision::default() };
                if request.hits > limit {
                    decision.status = Status::OverLimit;
                    if has(Behavior::DRAIN_OVER_LIMIT) {
                        window.taken.push(BigInt::from(limit));
                    }
                } else {
                    window.taken.push(BigInt::from(request.hits));
                }
                decision.remaining = window.left(limit);
                self.window = Some(window);
                return decision;
            }
        };
        let mut status = Status::UnderLimit;
        let left = window.left(limit);
        if request.hits == 0 {
            window.refused_at_empty &= left == 0;
            if window.refused_at_empty {
                status = Status::OverLimit;
            }
        } else if request.hits > left {
            status = Status::OverLimit;
            window.refused_at_empty = left == 0;
            if has(Behavior::DRAIN_OVER_LIMIT) && left > 0 {
                window.taken.push(BigInt::from(left));
            }
        } else {
            window.refused_at_empty = false;
            window.taken.push(BigInt::from(request.hits));
        }
        let refused = status == Status::OverLimit && request.hits > 0;
        let decision = Decision {
            status,
            limit,
            remaining: window.left(limit),
            reset_time: window.end,
            retry_after: 0,
            plain_retry_after: (refused && request.hits <= limit).then(|| (window.end - now).max(1)),
        };
        self.window = Some(window);
        decision
    }
}

fn any_request() -> impl Strategy<Value = Request<'static>> {
    let hits = prop_oneof![3 => Just(0_i64), 10 => 1..4_i64, 3 => 1..25_i64, 2 => -6..0_i64];
    let limit = prop::sample::select(vec![0, 1, 2, 3, 5, 10, 10, 10, 20, 100]);
    let duration = prop::sample::select(vec![0, 1_000, 1_000, 6_000, 60_000, 60_000, 60_000]);
    let flags = prop::sample::select(vec![0, 0, 0, 0, 0, 1, 16, 32, 32, 8, 40]);
    (hits, limit, duration, flags).prop_map(|(hits, limit, duration, flags)| Request {
        behavior: Behavior(flags),
        ..request(TOKEN, hits, limit, duration)
    })
}

fn compare(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut key = KeyUnderTest::new();
    let mut model = Model::default();
    for (index, step) in steps.iter().enumerate() {
        let got = key.ask(step);
        let want = model.ask(&step.request, key.now);
        prop_assert_eq!(got, want, "step {} of {:#?}", index, &steps[..=index]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_the_models_answers(steps in steps(any_request(), 24)) {
        compare(&steps)?;
    }

    #[test]
    fn a_clock_that_steps_back_gives_the_models_answers(
        asks in prop::collection::vec((-2_000..3_000_i64, any_request()), 1..24),
    ) {
        let steps: Vec<_> = asks.into_iter().map(|(after, request)| step(after, request)).collect();
        compare(&steps)?;
    }
}
