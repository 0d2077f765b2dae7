//! What went wrong in the field, with this limiter's forerunner and with others: each report is a test with
//! the report's number, on one node with exact semantics and a clock that stands still until it is moved.
//! `docs/tests.md` says what each report was. P33 and P35 need the binary: `real_field_reports.rs`.
//!
//! Where a report asks for something else than the rules of exact semantics, the rules win; the test says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use flyball::pb::{RateLimitReq, Status};
use flyball::{Behavior, Key, Request};
use flyball_tests::http::Request as Http;
use flyball_tests::in_process::InProcess;
use flyball_tests::node::{DAY, HOUR, MINUTE, START, TestNode, flag, leaky, token};
use serde_json::{Value, json};

use Status::{OverLimit, UnderLimit};

/// Milliseconds.
const WEEK: i64 = 7 * DAY;

/// Both algorithms.
fn both(key: &str) -> [RateLimitReq; 2] {
    [token(&format!("{key}-token")), leaky(&format!("{key}-leaky"))]
}

#[test]
fn p01_leaky_gives_back_while_traffic_continues() {
    let node = TestNode::exact();
    let mut seen = Vec::new();
    for _ in 0..11 {
        let answer = node.ask(RateLimitReq { duration: 30_000, ..leaky("p01") });
        assert_eq!(answer.status(), UnderLimit);
        seen.push(answer.remaining);
        node.advance(1_000);
    }
    assert_eq!(seen, [9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2]);
}

#[test]
fn p02_leaky_never_leaps_to_full() {
    let node = TestNode::exact();
    let (mut admitted, mut before) = (0, 3);
    for _ in 0..100 {
        let answer = node.ask(RateLimitReq { limit: 3, duration: 1_000, ..leaky("p02") });
        admitted += i64::from(answer.status() == UnderLimit);
        assert!(answer.remaining <= before + 1, "from {before} to {}", answer.remaining);
        before = answer.remaining;
        node.advance(100);
    }
    assert!((30..=34).contains(&admitted), "{admitted} admitted in ten seconds at three a second");
}

#[test]
fn p03_leaky_remaining_never_exceeds_the_bucket() {
    for burst in [0, 4, 25] {
        let node = TestNode::exact();
        let ask = |hits| RateLimitReq { hits, duration: 1_000, burst, ..leaky("p03") };
        let size = if burst == 0 { 10 } else { burst };
        node.ask(ask(5));
        for idle in [700, 3_000, HOUR] {
            node.advance(idle);
            let answer = node.ask(ask(0));
            assert!((0..=size).contains(&answer.remaining), "{answer:?} after {idle} ms");
        }
        node.expect(ask(0), UnderLimit, size);
    }
}

/// Every answer but one: a reset of a token bucket says 0, as the original's own tests demand.
#[test]
fn p04_every_answer_carries_a_reset_time() {
    for request in both("p04") {
        let node = TestNode::exact();
        for number in 0..12 {
            let answer = node.ask(RateLimitReq { limit: 10, ..request.clone() });
            assert!(answer.reset_time > node.now(), "hit {number}: {answer:?}");
            node.advance(7);
        }
        let look = node.ask(RateLimitReq { hits: 0, ..request.clone() });
        assert!(look.reset_time > node.now(), "{look:?}");
        node.advance(HOUR);
        let fresh = node.ask(RateLimitReq { hits: 0, ..request });
        assert!(fresh.reset_time >= node.now(), "{fresh:?}");
    }
}

#[test]
fn p05_a_new_limit_applies_at_once_and_used_stays_used() {
    let node = TestNode::exact();
    let ask = |hits, limit| RateLimitReq { hits, limit, ..token("p05") };
    node.expect(ask(1, 100), UnderLimit, 99);
    node.expect(ask(1, 10), UnderLimit, 8);
    node.expect(ask(1, 200), UnderLimit, 197);
    node.expect(ask(1, 1), OverLimit, 0);
    // What was used is not forgotten by showing nothing for a while.
    node.expect(ask(0, 10), UnderLimit, 7);
}

#[test]
fn p06_hits_given_back_count_from_zero_too() {
    for request in both("p06") {
        let node = TestNode::exact();
        let ask = |hits| RateLimitReq { hits, limit: 2, ..request.clone() };
        node.expect(ask(2), UnderLimit, 0);
        node.expect(ask(1), OverLimit, 0);
        node.expect(ask(-1), UnderLimit, 1);
        node.expect(ask(1), UnderLimit, 0);
        node.expect(ask(1), OverLimit, 0);
    }
}

#[test]
fn p07_calendar_windows_do_not_refill_before_their_end() {
    // Hour and minute ends by plain arithmetic: both are counted from the epoch in UTC.
    for (code, length) in [(1, HOUR), (0, MINUTE)] {
        let node = TestNode::exact();
        let end = START - START.rem_euclid(length) + length - 1;
        for used in 1..=20 {
            let ask = RateLimitReq { limit: 60, duration: code, behavior: flag::GREGORIAN, ..token("p07") };
            let answer = node.expect(ask, UnderLimit, 60 - used);
            assert_eq!(answer.reset_time, end);
            node.advance(50);
        }
    }
}

/// For a leaky bucket the reset is when it is full, at the latest the end of the week.
#[test]
fn p08_calendar_weeks_end_on_sunday_night() {
    const MONDAY: i64 = 1_800_230_400_000; // 2027-01-18 00:00:00 UTC
    for request in both("p08") {
        let node = TestNode::exact();
        let ask = |hits| RateLimitReq { hits, duration: 3, behavior: flag::GREGORIAN, ..request.clone() };
        let answer = node.expect(ask(10), UnderLimit, 0);
        assert_eq!(answer.reset_time, MONDAY - 1, "{request:?}");
        node.set(MONDAY - 1);
        assert!(node.ask(ask(0)).remaining < 10);
        node.set(MONDAY);
        let answer = node.expect(ask(10), UnderLimit, 0);
        assert_eq!(answer.reset_time, MONDAY + WEEK - 1, "{request:?}");
    }
}

#[test]
fn p09_calendar_months_and_years_leak_at_their_own_length() {
    for (code, days) in [(4, 32), (5, 367)] {
        let node = TestNode::exact();
        for _ in 0..2 {
            let ask = RateLimitReq { duration: code, behavior: flag::GREGORIAN, ..leaky("p09") };
            let answer = node.ask(ask);
            assert_eq!(answer.error, "");
            assert!((node.now()..node.now() + days * DAY).contains(&answer.reset_time), "{answer:?}");
        }
    }
}

#[test]
fn p10_leaky_reset_time_comes_from_the_true_rate() {
    for limit in [600, 2_000] {
        let node = TestNode::exact();
        let ask = |hits| RateLimitReq { hits, limit, duration: 1_000, ..leaky("p10") };
        assert_eq!(node.expect(ask(limit), UnderLimit, 0).reset_time, START + 1_000);
        node.advance(500);
        assert_eq!(node.expect(ask(0), UnderLimit, limit / 2).reset_time, START + 1_000);
    }
}

#[test]
fn p11_pairs_that_join_to_the_same_text_are_two_limits() {
    for request in [token(""), leaky("")] {
        let node = TestNode::exact();
        let ask = |name: &str, unique_key: &str| RateLimitReq {
            name: name.into(),
            unique_key: unique_key.into(),
            limit: 5,
            ..request.clone()
        };
        node.expect(ask("a_b", "c"), UnderLimit, 4);
        node.expect(ask("a", "b_c"), UnderLimit, 4);
        node.expect(ask("a_b", "c"), UnderLimit, 3);
    }
}

#[test]
fn p12_misspelt_names_in_json_are_refused_by_name() {
    let daemon = InProcess::with_env(&[]).unwrap();
    let mut connection = daemon.connect();
    let mut post = |field: &str, value: Value| {
        let mut item = json!({"name": "p12", "unique_key": "k", "hits": 1, "limit": 10, "duration": MINUTE});
        item[field] = value;
        let body = json!({"requests": [item]}).to_string();
        let response = connection.send(&Http::post("/v1/GetRateLimits", body)).unwrap();
        (response.status, response.json().unwrap())
    };
    for (field, value, named) in [
        ("algorithm", json!("GCRA"), "GCRA"),
        ("algorithm", json!("token_bucket"), "token_bucket"),
        ("behavior", json!("GLOBAL|NOPE"), "NOPE"),
        ("behavior", json!(["GLOBAL", "NOPE"]), "NOPE"),
    ] {
        let (status, body) = post(field, value);
        assert_eq!((status, &body["code"]), (400, &json!(3)), "{body}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(field) && message.contains(named), "{message}");
    }
    // Refused requests counted nothing. Combined flags have three spellings; with GLOBAL and RESET_REMAINING
    // a new bucket still counts the hit, and a bucket that is there is refilled.
    let combined = [json!(10), json!("GLOBAL|RESET_REMAINING"), json!(["GLOBAL", "RESET_REMAINING"])];
    for (number, spelling) in combined.into_iter().enumerate() {
        let (status, body) = post("behavior", spelling);
        assert_eq!(status, 200, "{body}");
        let want = if number == 0 { "9" } else { "10" };
        assert_eq!(body["responses"][0]["remaining"], want, "{body}");
        let (_, body) = post("hits", json!(if number == 0 { 2 } else { 3 }));
        assert_eq!(body["responses"][0]["remaining"], "7", "{body}");
    }
}

/// Eight callers at once, ten hits in each millisecond, for five seconds.
#[test]
fn p13_large_limits_over_short_periods_hold() {
    for (request, limit, duration) in
        [(token("p13"), 6_000, 1_000), (leaky("p13"), 6_000, 1_000), (leaky("slow"), 1_000, MINUTE)]
    {
        let node = TestNode::exact();
        let admitted = AtomicI64::new(0);
        for _ in 0..5_000 {
            let call = vec![RateLimitReq { limit, duration, ..request.clone() }; 10];
            for answer in node.call(call).unwrap() {
                assert!((0..=limit).contains(&answer.remaining), "{answer:?}");
                admitted.fetch_add(i64::from(answer.status() == UnderLimit), Ordering::Relaxed);
            }
            node.advance(1);
        }
        let admitted = admitted.into_inner();
        // A token bucket gives the limit in each window; a leaky one also what it held at first.
        let right = limit * 5_000 / duration + if request.algorithm == 0 { 0 } else { limit };
        assert!((right * 99 / 100..=right).contains(&admitted), "{admitted} instead of {right}");
        assert_eq!(node.metric("gubernator_cache_size"), 1.0);
    }
}

/// The same at one instant, from threads: nobody slips through between two others.
#[test]
fn p13_parallel_callers_get_exactly_the_limit() {
    for algorithm in [0, 1] {
        let node = TestNode::exact();
        let request = Request {
            key: Key { name: "p13", unique_key: "threads" },
            hits: 1,
            limit: 6_000,
            duration: 1_000,
            algorithm,
            behavior: Behavior::default(),
            burst: 0,
            created_at: None,
            max_wait: 0,
        };
        let admitted = AtomicI64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let decision = node.node().check(&request).unwrap();
                        let granted = decision.status == flyball::Status::UnderLimit;
                        admitted.fetch_add(i64::from(granted), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 6_000);
    }
}

/// Negative limits, durations and bursts are errors of their item in exact semantics.
#[test]
fn p14_zero_and_negative_values_harm_nothing() {
    for request in both("p14") {
        let node = TestNode::exact();
        for limit in [10, 0, -5] {
            for duration in [MINUTE, 0, -1_000] {
                for burst in [5, 0, -1] {
                    let field = [("limit", limit), ("duration", duration), ("burst", burst)]
                        .into_iter()
                        .find_map(|(field, value)| (value < 0).then_some(field));
                    for hits in [1, 1, 0, 100, -1] {
                        let unique_key = format!("{limit} {duration} {burst}");
                        let ask =
                            RateLimitReq { unique_key, limit, duration, burst, hits, ..request.clone() };
                        let answer = node.ask(ask);
                        match field {
                            Some(field) => {
                                assert_eq!(answer.error, format!("field '{field}' cannot be negative"));
                            }
                            None => {
                                assert_eq!(answer.error, "");
                                assert!(answer.remaining >= 0 && answer.reset_time >= 0, "{answer:?}");
                                if limit == 0 && hits > 0 {
                                    assert_eq!((answer.status(), answer.remaining), (OverLimit, 0));
                                }
                            }
                        }
                    }
                }
            }
        }
        node.expect(request, UnderLimit, 9);
    }
}

#[test]
fn p15_any_idle_time_and_any_duration_are_safe() {
    for request in both("p15") {
        for idle in [12 * HOUR, 30 * DAY, 3_650 * DAY, i64::MAX / 2] {
            let node = TestNode::exact();
            node.expect(request.clone(), UnderLimit, 9);
            node.advance(idle);
            node.expect(request.clone(), UnderLimit, 9);
        }
        for duration in [i64::MAX, i64::MAX - START, i64::MAX / 2, 1 << 53] {
            let node = TestNode::exact();
            let ask = |hits| RateLimitReq { duration, hits, ..request.clone() };
            assert!(node.expect(ask(1), UnderLimit, 9).reset_time > START);
            // All ten are used, so both kinds of bucket are full again after the whole duration.
            let answer = node.expect(ask(9), UnderLimit, 0);
            let due = START.saturating_add(duration);
            // A leaky bucket counts in doubles: what lies beyond 2^53 is rounded.
            assert!(answer.reset_time.abs_diff(due) <= due.unsigned_abs() >> 50, "{answer:?}, not {due}");
            node.advance(12 * HOUR);
            node.expect(ask(1), OverLimit, 0);
        }
    }
}

#[test]
fn p16_the_whole_limit_may_come_at_once() {
    for request in both("p16") {
        let node = TestNode::exact();
        for left in (0..6).rev() {
            node.expect(RateLimitReq { limit: 6, ..request.clone() }, UnderLimit, left);
        }
        node.expect(RateLimitReq { limit: 6, ..request }, OverLimit, 0);
    }
}

/// The half that one node can show: a call within the bound always works, whoever else calls.
#[test]
fn p27_a_call_of_1000_items_works_and_1001_are_refused() {
    let daemon = InProcess::with_env(&[]).unwrap();
    let body = |items: usize| {
        let item = json!({"name": "p27", "unique_key": "k", "hits": 1, "limit": 100_000, "duration": HOUR});
        json!({ "requests": vec![item; items] }).to_string()
    };
    let refused = daemon.connect().send(&Http::post("/v1/GetRateLimits", body(1_001))).unwrap();
    let error = refused.json().unwrap();
    assert_eq!((refused.status, &error["code"]), (400, &json!(11)), "{error}");
    assert_eq!(error["message"], "Requests.RateLimits list too large; max size is '1000'");
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let response = daemon.connect().send(&Http::post("/v1/GetRateLimits", body(1_000))).unwrap();
                assert_eq!(response.status, 200, "{}", response.text());
                assert_eq!(response.json().unwrap()["responses"].as_array().unwrap().len(), 1_000);
            });
        }
    });
    let one = daemon.connect().send(&Http::post("/v1/GetRateLimits", body(1))).unwrap();
    // The refused call counted nothing, each of the others all its hits.
    assert_eq!(one.json().unwrap()["responses"][0]["remaining"], "49999");
}

/// The half that one node can show. Dead entries linger for callers whose clock lags: the tolerance for
/// `created_at` and a second, by the rules of exact semantics.
#[test]
fn p40_expired_keys_leave_memory() {
    let node = TestNode::exact();
    for call in 0..100 {
        let keys = (0..1_000).map(|key| RateLimitReq {
            duration: 1_000,
            algorithm: key % 2,
            behavior: if key % 4 < 2 { 0 } else { flag::GLOBAL },
            ..token(&format!("p40 {call} {key}"))
        });
        node.call(keys.collect()).unwrap();
    }
    assert_eq!(node.metric("flyball_store_resident"), 100_000.0);
    // No longer counted within a tick of the expiry wheel …
    node.advance(1_000 + 64 + 1);
    assert_eq!(node.metric("gubernator_cache_size"), 0.0);
    // … and gone within one sweep of the moment nobody may ask for them any more.
    node.advance(5_000 + 1_000);
    node.rest(300);
    assert_eq!(node.metric("flyball_store_resident"), 0.0);
    assert_eq!(node.metric("flyball_store_bytes"), 0.0);
    assert_eq!(node.metric("flyball_expired_total"), 100_000.0);
}
