//! Any `i64` anywhere: no panic, no wrap-around, sane numbers.

use flyball_core::{Behavior, CheckError, Request, Semantics, Status};
use proptest::prelude::*;

use crate::history::{KeyUnderTest, LEAKY, START, Step, TOKEN, request, step};

fn any_i64() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => any::<i64>(),
        4 => prop::sample::select(vec![
            i64::MIN, i64::MIN + 1, -(1 << 53), -60_000, -10, -1, 0, 1, 2, 10, 60_000, 1 << 53, (1 << 53) + 3,
            1 << 60, i64::MAX - 512, i64::MAX - 1, i64::MAX,
        ]),
        2 => -20..100_i64,
    ]
}

fn any_request() -> impl Strategy<Value = Request<'static>> {
    (
        -1..3_i32,
        any_i64(),
        any_i64(),
        any_i64(),
        any_i64(),
        0..128_i32,
        prop::option::of(any_i64()),
        prop_oneof![3 => Just(0), 1 => any_i64()],
    )
        .prop_map(|(algorithm, hits, limit, duration, burst, flags, created_at, max_wait)| Request {
            burst,
            behavior: Behavior(flags),
            created_at,
            max_wait,
            ..request(algorithm, hits, limit, duration)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn exact_answers_are_sane(
        steps in prop::collection::vec((any_i64(), any_request()), 1..16),
    ) {
        let mut key = KeyUnderTest::new();
        for (after, request) in steps {
            // The clock itself stays in a range a machine can show.
            key.now = key.now.saturating_add(after % 100_000_000_000).clamp(0, 1 << 45);
            let Ok(outcome) = key.outcome(&step(0, request)) else { continue };
            let Ok(decision) = outcome.answer else { continue };
            let size = request.limit.max(request.burst);
            prop_assert!((0..=size).contains(&decision.remaining), "{request:?}\n{decision:?}");
            prop_assert_eq!(decision.limit, request.limit);
            prop_assert!(decision.reset_time >= 0, "{request:?}\n{decision:?}");
            prop_assert!(decision.retry_after >= 0);
            prop_assert!(decision.plain_retry_after.is_none_or(|wait| wait >= 1));
            let scheduled_only = matches!(decision.status, Status::Scheduled | Status::NeverFits);
            prop_assert!(!scheduled_only || request.max_wait > 0);
            prop_assert_eq!(
                decision.retry_after > 0,
                request.max_wait > 0 && matches!(decision.status, Status::Scheduled | Status::OverLimit),
                "{:?}\n{:?}", request, decision
            );
            if decision.status == Status::Scheduled {
                prop_assert!(decision.retry_after <= request.max_wait.min(key.rules.schedule_max_wait_ms));
            }
        }
    }

    #[test]
    fn gubernator_answers_never_panic(
        steps in prop::collection::vec((any_i64(), any_request()), 1..16),
    ) {
        let mut key = KeyUnderTest::new();
        key.rules.semantics = Semantics::Gubernator;
        for (after, request) in steps {
            key.now = key.now.saturating_add(after % 100_000_000_000).clamp(0, 1 << 45);
            let _ = key.outcome(&step(0, request));
        }
    }
}

/// A15, P15: whatever the idle time, one hit leaves limit - 1, and nothing overflows.
#[test]
fn any_idle_time_is_safe() {
    for algorithm in [TOKEN, LEAKY] {
        for idle in [12 * 3_600_000, 30 * 86_400_000, 10 * 365 * 86_400_000_i64] {
            let mut key = KeyUnderTest::new();
            let hit = request(algorithm, 1, 10, 60_000);
            assert_eq!(key.ask(&step(0, hit)).remaining, 9);
            let decision = key.ask(&step(idle, hit));
            assert_eq!((decision.status, decision.remaining), (Status::UnderLimit, 9));
        }
        let endless = KeyUnderTest::new().ask(&step(0, request(algorithm, 10, 10, i64::MAX)));
        assert_eq!(endless.reset_time, i64::MAX, "reset_time saturates");
    }
}

/// A24: a full bucket of 2^63-1 units is full.
#[test]
fn a_huge_leaky_bucket_is_full_and_grants() {
    let mut key = KeyUnderTest::new();
    let hit = request(LEAKY, 1, i64::MAX, 60_000);
    for _ in 0..3 {
        let decision = key.ask(&step(0, hit));
        assert_eq!(decision.status, Status::UnderLimit);
        assert!(decision.remaining > i64::MAX - 2_000, "{decision:?}");
    }
}

/// A26: the first request cannot make a debt out of an overflow.
#[test]
fn a_huge_refund_fills_and_no_more() {
    for algorithm in [TOKEN, LEAKY] {
        let mut key = KeyUnderTest::new();
        assert_eq!(key.ask(&step(0, request(algorithm, i64::MIN, 10, 60_000))).remaining, 10);
        assert_eq!(key.ask(&step(0, request(algorithm, 4, 10, 60_000))).remaining, 6);
        assert_eq!(key.ask(&step(0, request(algorithm, i64::MIN, 10, 60_000))).remaining, 10);
    }
}

/// Both 4.
#[test]
fn negative_parameters_are_refused_by_name() {
    let ask = |limit, duration, burst| {
        let request = Request { burst, ..request(LEAKY, 1, limit, duration) };
        KeyUnderTest::new().outcome(&step(0, request)).map(|_| ())
    };
    assert_eq!(ask(-1, -1, -1), Err(CheckError::Negative("limit")));
    assert_eq!(ask(1, -1, -1), Err(CheckError::Negative("duration")));
    assert_eq!(ask(1, 1, -1), Err(CheckError::Negative("burst")));
    assert_eq!(ask(0, 0, 0), Ok(()));
}

/// Both 2: a claim outside the tolerance is moved to its edge.
#[test]
fn a_far_off_clock_is_clamped() {
    let hit = request(TOKEN, 1, 10, 60_000);
    for (skew, believed) in [(-3_600_000, -5_000), (3_600_000, 5_000), (4_999, 4_999), (-5_000, -5_000)] {
        let decision = KeyUnderTest::new().ask(&Step { skew, ..step(0, hit) });
        assert_eq!(decision.reset_time, START + believed + 60_000, "{skew}");
    }
}

/// Leaky exact 5, A32.
#[test]
fn limit_zero_refuses_every_hit() {
    for (algorithm, burst) in [(TOKEN, 0), (LEAKY, 0), (LEAKY, 5)] {
        let ask = |hits| step(0, Request { burst, ..request(algorithm, hits, 0, 60_000) });
        let mut key = KeyUnderTest::new();
        for hits in [1, 1, 0, 1, -1, 1] {
            let decision = key.ask(&ask(hits));
            assert_eq!(decision.remaining, 0);
            assert_eq!(decision.status == Status::OverLimit, hits > 0 || (algorithm == TOKEN && hits == 0));
            assert_eq!(decision.plain_retry_after, None);
        }
    }
    let booked = Request { burst: 5, max_wait: 1_000, ..request(LEAKY, 1, 0, 60_000) };
    let mut key = KeyUnderTest::new();
    assert_eq!(key.ask(&step(0, booked)).status, Status::NeverFits);
    assert_eq!(key.ask(&step(0, booked)).status, Status::NeverFits);
}
