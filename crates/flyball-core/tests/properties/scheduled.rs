//! Promised slots are kept.

use flyball_core::{Behavior, Request, Status};
use proptest::prelude::*;

use crate::history::{KeyUnderTest, LEAKY, START, Step, TOKEN, request, step, steps};

fn ask(hits: i64, max_wait: i64) -> Step {
    step(0, Request { max_wait, ..request(LEAKY, hits, 10, 60_000) })
}

fn any_request() -> impl Strategy<Value = Request<'static>> {
    (
        prop_oneof![2 => Just(0_i64), 8 => 1..5_i64, 1 => -5..0_i64],
        prop::sample::select(vec![0, 1, 5, 10, 10, 10, 100]),
        prop::sample::select(vec![0, 1_000, 60_000, 60_000, 600_000]),
        prop::sample::select(vec![0, 0, 5, 10, 10, 30]),
        prop::sample::select(vec![0, 0, 0, 32, 4]),
        prop::sample::select(vec![0, 100_000, 100_000]),
    )
        .prop_map(|(hits, limit, duration, burst, flags, max_wait)| {
            let excluded = flags & (32 | 4) != 0 || hits < 0;
            let duration = if flags & 4 != 0 { 1 } else { duration };
            Request {
                burst,
                behavior: Behavior(flags),
                max_wait: if excluded { 0 } else { max_wait },
                ..request(LEAKY, hits, limit, duration)
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// Whatever happens to limit, duration and burst, and whoever drains or refunds: nobody gets a unit, now or
    /// by a booking, before the slots that were promised earlier.
    #[test]
    fn nobody_overtakes_a_promise(steps in steps(any_request(), 30)) {
        let mut key = KeyUnderTest::new();
        let mut promised = 0;
        for (index, step) in steps.iter().enumerate() {
            let decision = key.ask(step);
            if step.request.hits <= 0 {
                continue;
            }
            let acts_at = match decision.status {
                Status::UnderLimit => key.now,
                Status::Scheduled => key.now + decision.retry_after,
                _ => continue,
            };
            // Half a millisecond is what rounding up may hide.
            prop_assert!(acts_at >= promised, "step {index}: acts at {} before {}\n{:#?}",
                acts_at - START, promised - START, &steps[..=index]);
            if decision.status == Status::Scheduled {
                promised = promised.max(acts_at);
            }
        }
    }

    /// Concurrent callers of a steady limit act at least a unit's time apart.
    #[test]
    fn slots_are_spaced(
        asks in prop::collection::vec(0..9_000_i64, 1..200), limit in 1..10_i64,
    ) {
        let mut key = KeyUnderTest::new();
        let rate = 60_000.0 / limit as f64;
        let mut last: Option<i64> = None;
        for after in asks {
            let step = step(after, Request { burst: 1, max_wait: 250_000, ..request(LEAKY, 1, limit, 60_000) });
            let decision = key.ask(&step);
            let acts_at = match decision.status {
                Status::UnderLimit => key.now,
                Status::Scheduled => key.now + decision.retry_after,
                _ => continue,
            };
            if let Some(last) = last {
                prop_assert!((acts_at - last) as f64 > rate - 1.0, "{} ms apart", acts_at - last);
            }
            last = Some(acts_at);
        }
    }
}

/// A29: a raised limit fills the time behind the promised slots, not between them.
#[test]
fn promised_slots_keep_their_times_when_the_limit_rises() {
    let mut key = KeyUnderTest::new();
    key.ask(&ask(10, 0));
    assert_eq!(key.ask(&ask(2, 120_000)).retry_after, 12_000);
    let raised = Request { burst: 10, max_wait: 120_000, ..request(LEAKY, 1, 100, 60_000) };
    let decision = key.ask(&step(0, raised));
    assert_eq!((decision.status, decision.retry_after), (Status::Scheduled, 12_600));
}

/// A29: a lowered limit makes the entry no shorter-lived than its promises.
#[test]
fn a_lowered_limit_does_not_forget_the_debt() {
    let mut key = KeyUnderTest::new();
    let fixed =
        |hits, limit, max_wait| Request { burst: 10, max_wait, ..request(LEAKY, hits, limit, 60_000) };
    key.ask(&step(0, fixed(10, 10, 0)));
    key.ask(&step(0, fixed(2, 10, 120_000)));
    assert_eq!(key.ask(&step(0, fixed(1, 1, 0))).status, Status::OverLimit);
    let later = key.ask(&step(72_001, fixed(0, 1, 0)));
    assert_eq!(later.remaining, 1, "12 s of debt, then one unit a minute: {later:?}");
}

/// A duration of 0 is no way to have a debt forgiven.
#[test]
fn a_useless_rate_leaves_the_old_one_in_force() {
    for (limit, duration) in [(10, 0), (0, 60_000)] {
        let mut key = KeyUnderTest::new();
        key.ask(&ask(10, 0));
        key.ask(&ask(2, 120_000));
        let odd = Request { burst: 10, ..request(LEAKY, 0, limit, duration) };
        key.ask(&step(1, odd));
        key.ask(&step(1, odd));
        let decision = key.ask(&step(0, Request { max_wait: 120_000, ..request(LEAKY, 1, 10, 60_000) }));
        assert_eq!(decision.retry_after, 18_000 - 2, "limit {limit}, duration {duration}");
    }
}

#[test]
fn resets_and_algorithm_switches_drop_a_debt_and_say_so() {
    for last in [
        Request { behavior: Behavior::RESET_REMAINING, ..request(LEAKY, 3, 10, 60_000) },
        request(TOKEN, 3, 10, 60_000),
    ] {
        let mut key = KeyUnderTest::new();
        key.ask(&ask(10, 0));
        key.ask(&ask(2, 120_000));
        let outcome = key.outcome(&step(0, last)).unwrap();
        assert!(outcome.effects.debt_dropped);
        assert_eq!(outcome.answer.unwrap().remaining, 7);
        assert!(!key.outcome(&step(0, last)).unwrap().effects.debt_dropped, "only once");
    }
}

#[test]
fn a_first_request_above_the_burst_leaves_the_bucket_full() {
    let mut key = KeyUnderTest::new();
    let decision = key.ask(&step(0, request(LEAKY, 11, 10, 60_000)));
    assert_eq!((decision.status, decision.remaining), (Status::OverLimit, 10));
    assert_eq!(key.bucket, None);
    let drained = Request { behavior: Behavior::DRAIN_OVER_LIMIT, ..request(LEAKY, 11, 10, 60_000) };
    let decision = key.ask(&step(0, drained));
    assert_eq!((decision.status, decision.remaining), (Status::OverLimit, 0));
}
