//! What must hold whatever the arithmetic.

use flyball_core::algorithm::{Bucket, decide};
use flyball_core::{Behavior, Request, Source, Status, Timestamp};
use proptest::prelude::*;

use crate::history::{KeyUnderTest, LEAKY, Step, TOKEN, request, step, steps};

/// Moments (Unix ms) and units of what was granted.
fn grants(key: &mut KeyUnderTest, steps: &[Step]) -> Vec<(i64, i64)> {
    let mut granted = Vec::new();
    for step in steps {
        let decision = key.ask(step);
        if step.request.hits > 0 && decision.status == Status::UnderLimit {
            granted.push((key.now, step.request.hits));
        }
    }
    granted
}

fn asks() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let after = prop_oneof![3 => Just(0_i64), 5 => 1..40_i64, 3 => 40..700_i64, 1 => 700..3_000_i64];
    prop::collection::vec((after, 0..6_i64), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// In any interval a leaky bucket grants at most its burst and what leaks in meanwhile.
    #[test]
    fn leaky_never_admits_beyond_its_bound(
        asks in asks(), limit in 1..40_i64, duration in 1..3_000_i64, burst in 0..60_i64,
    ) {
        let steps: Vec<_> = asks
            .iter()
            .map(|&(after, hits)| step(after, Request { burst, ..request(LEAKY, hits, limit, duration) }))
            .collect();
        let size = if burst == 0 { limit } else { burst };
        let granted = grants(&mut KeyUnderTest::new(), &steps);
        for (i, &(from, _)) in granted.iter().enumerate() {
            let mut units = 0;
            for &(to, hits) in &granted[i..] {
                units += hits;
                // units <= size + limit * elapsed / duration, in integers
                prop_assert!(
                    i128::from(units - size) * i128::from(duration) <= i128::from(limit) * i128::from(to - from),
                    "{units} of {size} + {limit} per {duration} within {} ms", to - from
                );
            }
        }
    }

    /// In any window a token bucket grants at most its limit.
    #[test]
    fn token_never_admits_beyond_its_bound(
        asks in asks(), limit in 0..40_i64, duration in 1..3_000_i64,
    ) {
        let steps: Vec<_> =
            asks.iter().map(|&(after, hits)| step(after, request(TOKEN, hits, limit, duration))).collect();
        let mut key = KeyUnderTest::new();
        let mut window = (0, 0);
        for step in &steps {
            let decision = key.ask(step);
            if decision.reset_time != window.0 {
                prop_assert!(key.now > window.0, "a new window before the old one ended");
                window = (decision.reset_time, 0);
            }
            if step.request.hits > 0 && decision.status == Status::UnderLimit {
                window.1 += step.request.hits;
            }
            prop_assert!(window.1 <= limit);
            prop_assert_eq!(decision.remaining, limit - window.1);
        }
    }

    /// Clients whose clocks differ from the node's within the tolerance gain at most what leaks in that time.
    #[test]
    fn skewed_clients_gain_no_more_than_the_tolerance(
        asks in prop::collection::vec((0..200_i64, 1..4_i64, -9_000..9_000_i64), 1..150),
        limit in 1..20_i64, duration in 100..5_000_i64,
    ) {
        let steps: Vec<_> = asks
            .iter()
            .map(|&(after, hits, skew)| Step { skew, ..step(after, request(LEAKY, hits, limit, duration)) })
            .collect();
        let mut key = KeyUnderTest::new();
        let tolerance = key.rules.created_at_tolerance_ms;
        let granted = grants(&mut key, &steps);
        let units: i64 = granted.iter().map(|grant| grant.1).sum();
        let (Some(first), Some(last)) = (granted.first(), granted.last()) else { return Ok(()) };
        let elapsed = last.0 - first.0 + 2 * tolerance;
        prop_assert!(i128::from(units - limit) * i128::from(duration) <= i128::from(limit) * i128::from(elapsed));
    }

    /// Calendar windows, asked by clocks that lag and lead within the tolerance, codes and algorithms alternating
    /// as the caller likes: at most a full bucket for each interval they may believe in.
    #[test]
    fn skewed_clients_gain_no_calendar_window(
        asks in prop::collection::vec((0..3_000_i64, 0..12_i64, -6_000..6_000_i64), 1..200),
        algorithm in 0..2_i32,
    ) {
        let limit = 10;
        let minute = Request { behavior: Behavior::DURATION_IS_GREGORIAN, ..request(algorithm, 0, limit, 0) };
        let steps: Vec<_> = asks
            .iter()
            .map(|&(after, hits, skew)| Step { skew, ..step(after, Request { hits, ..minute }) })
            .collect();
        let mut key = KeyUnderTest::new();
        let tolerance = key.rules.created_at_tolerance_ms;
        let granted = grants(&mut key, &steps);
        let units: i64 = granted.iter().map(|grant| grant.1).sum();
        let (Some(first), Some(last)) = (granted.first(), granted.last()) else { return Ok(()) };
        let minutes = (last.0 + tolerance) / 60_000 - (first.0 - tolerance) / 60_000 + 1;
        let leaked = if algorithm == LEAKY { (last.0 - first.0 + 2 * tolerance) * limit / 60_000 + 1 } else { 0 };
        prop_assert!(units <= minutes * limit + leaked, "{units} in {minutes} minutes");
    }

    /// A look at a live bucket, with its own parameters, changes no later answer.
    #[test]
    fn a_look_changes_nothing(
        asks in prop::collection::vec((0..900_i64, 1..5_i64, any::<bool>()), 2..60),
        limit in 1..12_i64, duration in 500..4_000_i64, burst in 0..15_i64, algorithm in 0..2_i32,
        max_wait in prop::sample::select(vec![0, 500, 5_000]),
    ) {
        let max_wait = if algorithm == LEAKY { max_wait } else { 0 };
        let ask = |after, hits| {
            step(after, Request { burst, max_wait, ..request(algorithm, hits, limit, duration) })
        };
        let (mut plain, mut looked_at) = (KeyUnderTest::new(), KeyUnderTest::new());
        for (index, &(after, hits, look)) in asks.iter().enumerate() {
            // A first look would open a token bucket's window, as in the original.
            if look && (index > 0 && looked_at.bucket.is_some_and(|b| looked_at.now + after / 2 <= b.expire_at)) {
                looked_at.ask(&ask(after / 2, 0));
                let rest = ask(after - after / 2, hits);
                prop_assert_eq!(looked_at.ask(&rest), plain.ask(&ask(after, hits)));
            } else {
                prop_assert_eq!(looked_at.ask(&ask(after, hits)), plain.ask(&ask(after, hits)));
            }
        }
    }

    /// A dead bucket and no bucket give the same answer, whatever was in it.
    #[test]
    fn expiry_equals_absence(
        before in steps(any_request(), 8), last in any_request(), late in 1..1_000_000_i64,
    ) {
        let mut key = KeyUnderTest::new();
        for step in &before {
            let _ = key.outcome(step);
        }
        let Some(bucket) = key.bucket else { return Ok(()) };
        let now = Timestamp(bucket.expire_at.max(key.now).saturating_add(late));
        let Ok(admitted) = key.rules.admit(&last, Source::Client, now) else { return Ok(()) };
        let with = decide(Some(&bucket), &admitted.check, now, &key.rules);
        let without = decide(None, &admitted.check, now, &key.rules);
        prop_assert_eq!(with.answer, without.answer);
        // A check that takes nothing leaves the dead bucket to those whose clocks lag.
        prop_assert_eq!(with.bucket, without.bucket.or(Some(bucket)));
        prop_assert!(!with.effects.hit);
    }

    /// An entry never expires while slots are promised.
    #[test]
    fn a_debt_never_expires(steps in steps(any_request(), 24)) {
        let mut key = KeyUnderTest::new();
        for step in &steps {
            let _ = key.outcome(step);
            if let Some(Bucket { expire_at, state: flyball_core::algorithm::State::Leaky(leaky) }) = key.bucket {
                prop_assert!(leaky.booked_ms <= (expire_at - leaky.updated_at) as f64);
            }
        }
    }

    /// What was used stays used when the limit moves, down and up again.
    #[test]
    fn limit_changes_keep_what_was_used(
        used in 1..50_i64, first in 50..100_i64, limits in prop::collection::vec(1..200_i64, 1..10),
        algorithm in 0..2_i32,
    ) {
        // A duration so long that nothing leaks meanwhile.
        let ask = |hits, limit| step(0, request(algorithm, hits, limit, 1_000_000_000));
        let mut key = KeyUnderTest::new();
        key.ask(&ask(used, first));
        for limit in limits {
            prop_assert_eq!(key.ask(&ask(0, limit)).remaining, (limit - used).max(0));
        }
    }
}

fn any_request() -> impl Strategy<Value = Request<'static>> {
    (
        0..2_i32,
        -3..20_i64,
        prop::sample::select(vec![0, 1, 5, 10, 20]),
        prop::sample::select(vec![0, 5, 1_000, 60_000]),
        prop::sample::select(vec![0, 0, 3, 10, 30]),
        prop::sample::select(vec![0, 0, 0, 4, 8, 32, 36]),
        prop::sample::select(vec![0, 0, 1_000, 100_000]),
    )
        .prop_map(|(algorithm, hits, limit, duration, burst, flags, max_wait)| Request {
            burst,
            behavior: Behavior(flags),
            max_wait,
            ..request(algorithm, hits, limit, duration)
        })
}

/// Polled at any interval, a leaky bucket gives its configured rate within 0.1 %.
#[test]
fn the_long_run_rate_is_the_configured_rate() {
    for (limit, duration, every, polls) in [
        (1_i64, 1_000_i64, 1_i64, 1_200_000_i64),
        (3, 1_000, 7, 200_000),
        (10, 30_000, 1_000, 100_000),
        (600, 1_000, 1, 20_000),
        (7, 60_000, 13, 900_000),
        (14, 10_000, 333, 40_000),
        (1_000_000, 86_400_000, 1, 400_000),
        // A burst so large that a millisecond's leak vanishes beside it.
        (1_000_000_000, 31_536_000_000_000, 1, 3_000_000),
    ] {
        let mut key = KeyUnderTest::new();
        // Start empty, so that only the leak is measured.
        key.ask(&step(0, request(LEAKY, limit, limit, duration)));
        let mut granted = 0_i64;
        for _ in 0..polls {
            key.now += every;
            // Asks for all it can get, one unit at a time.
            while key.ask(&step(0, request(LEAKY, 1, limit, duration))).status == Status::UnderLimit {
                granted += 1;
            }
        }
        let fair = limit as f64 * (polls * every) as f64 / duration as f64;
        assert!(
            (granted as f64 - fair).abs() <= (fair * 1e-3).max(1.0),
            "{limit} per {duration} ms polled every {every} ms: {granted} granted, {fair} fair"
        );
    }
}

/// A bucket nearly full, looked at every millisecond: the looks must not swallow the leak.
#[test]
fn looks_do_not_swallow_a_small_leak_beside_a_large_balance() {
    let (limit, duration) = (4_000_000_000_000_i64, 400_000_000_000_000_000_i64);
    let ask = |after, hits| step(after, request(LEAKY, hits, limit, duration));
    let mut key = KeyUnderTest::new();
    key.ask(&ask(0, 1_000));
    for _ in 0..1_000_000 {
        key.ask(&ask(1, 0));
    }
    // One unit comes back every 100 000 ms.
    assert_eq!(key.ask(&ask(0, 0)).remaining, limit - 1_000 + 10);
}

/// 10 with 9 used, limit 3, limit 10: the original gives 7, what was used says 1.
#[test]
fn alternating_limits_earn_nothing() {
    for algorithm in [TOKEN, LEAKY] {
        let mut key = KeyUnderTest::new();
        let ask = |hits, limit| step(0, request(algorithm, hits, limit, 60_000));
        assert_eq!(key.ask(&ask(9, 10)).remaining, 1);
        assert_eq!(key.ask(&ask(0, 3)).remaining, 0);
        assert_eq!(key.ask(&ask(0, 10)).remaining, 1);
        for _ in 0..20 {
            assert_eq!(key.ask(&ask(0, 20)).remaining, 11);
            assert_eq!(key.ask(&ask(0, 10)).remaining, 1);
        }
        // A limit of 0 for a moment is no way out either.
        key.ask(&ask(1, 0));
        key.ask(&ask(0, 0));
        assert_eq!(key.ask(&step(1, request(algorithm, 0, 10, 60_000))).remaining, 1);
    }
}

/// A36: an old `created_at` must not age the bucket of everybody else.
#[test]
fn a_client_with_an_old_clock_does_not_revive_a_bucket() {
    for algorithm in [TOKEN, LEAKY] {
        let ask = |hits, skew| Step { skew, ..step(0, request(algorithm, hits, 10, 1_000)) };
        let mut key = KeyUnderTest::new();
        let mut granted = 0;
        for _ in 0..50 {
            for skew in [0, -5_000, -60_001, 0] {
                granted += if key.ask(&ask(10, skew)).status == Status::UnderLimit { 10 } else { 0 };
            }
        }
        assert!(granted <= 20, "algorithm {algorithm}: {granted} of 10 granted in one instant");
    }
}

/// A clock that lags over the boundary of an interval must not see the interval before: its end would lie before
/// the bucket's last use, and the bucket be forgotten.
#[test]
fn a_lagging_look_does_not_end_a_calendar_bucket() {
    let ask = |algorithm, hits, skew, code| Step {
        skew,
        ..step(0, Request { behavior: Behavior::DURATION_IS_GREGORIAN, ..request(algorithm, hits, 10, code) })
    };
    for algorithm in [TOKEN, LEAKY] {
        let mut key = KeyUnderTest::new();
        key.now += 61_000;
        assert_eq!(key.ask(&ask(algorithm, 10, 0, 0)).remaining, 0);
        for code in [0, 1, 0] {
            let look = key.ask(&ask(algorithm, 0, -3_000, code));
            assert!(look.reset_time >= key.now, "a reset time in the past: {look:?}");
        }
        assert_eq!(key.ask(&ask(algorithm, 10, 0, 0)).status, Status::OverLimit, "algorithm {algorithm}");
    }
}

/// Scheduled 4 and P16: what a refused caller is told to wait is enough, and not a millisecond too much.
#[test]
fn the_told_wait_is_when_it_is_granted() {
    for (limit, duration, hits) in [(10, 60_000, 1), (3, 1_000, 2), (2_000, 1_000, 5), (7, 60_000, 7)] {
        let ask = |after, hits| step(after, request(LEAKY, hits, limit, duration));
        let mut key = KeyUnderTest::new();
        key.ask(&ask(0, limit));
        let wait = key.ask(&ask(0, hits)).plain_retry_after.expect("a wait helps");
        if wait > 1 {
            assert_eq!(key.ask(&ask(wait - 1, hits)).status, Status::OverLimit);
            assert_eq!(key.ask(&ask(1, hits)).status, Status::UnderLimit);
        } else {
            assert_eq!(key.ask(&ask(wait, hits)).status, Status::UnderLimit);
        }
    }
    let never = request(LEAKY, 11, 10, 60_000);
    assert_eq!(KeyUnderTest::new().ask(&step(0, never)).plain_retry_after, None);
}
