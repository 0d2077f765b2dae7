//! Calendar durations: where each interval ends, and how a leaky bucket fills over one.

use flyball::pb::{RateLimitReq, Status};
use flyball::{Rules, Semantics, StoreSettings};
use flyball_tests::node::{DAY, HOUR, MINUTE, TestNode, flag, leaky, token};

use Status::{OverLimit, UnderLimit};

/// Unix milliseconds of a moment in UTC, such as `2019-11-11T00:00:30Z`.
fn utc(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

fn calendar(code: i64, request: RateLimitReq) -> RateLimitReq {
    RateLimitReq { duration: code, behavior: request.behavior | flag::GREGORIAN, ..request }
}

/// Where the window of a token bucket ends that is asked for at `now`.
fn end(node: &TestNode, code: i64, now: i64) -> i64 {
    node.set(now);
    let answer = node.ask(calendar(code, token(&format!("end {code} {now}"))));
    assert_eq!(answer.error, "");
    answer.reset_time
}

#[test]
fn token_minute() {
    let node = TestNode::gubernator();
    let ask = |hits| calendar(0, RateLimitReq { hits, limit: 60, ..token("minute") });
    node.expect(ask(1), UnderLimit, 59);
    node.expect(ask(1), UnderLimit, 58);
    node.expect(ask(58), UnderLimit, 0);
    node.expect(ask(1), OverLimit, 0);
    node.advance(MINUTE + 1_000);
    node.expect(ask(0), UnderLimit, 60);
}

#[test]
fn token_week() {
    let node = TestNode::gubernator();
    let ask = |hits| calendar(3, RateLimitReq { hits, limit: 60, ..token("week") });
    node.expect(ask(1), UnderLimit, 59);
    node.expect(ask(59), UnderLimit, 0);
    node.expect(ask(1), OverLimit, 0);
    node.advance(8 * DAY);
    node.expect(ask(0), UnderLimit, 60);
}

#[test]
fn leaky_minute() {
    let node = TestNode::gubernator();
    let ask = |hits| calendar(0, RateLimitReq { hits, limit: 60, ..leaky("minute") });
    let expect = |hits, status, left| {
        let answer = node.expect(ask(hits), status, left);
        assert!(answer.reset_time >= node.now(), "{answer:?}");
    };
    // The very first answer's reset time comes from the code instead of the length: about now.
    expect(1, UnderLimit, 59);
    expect(1, UnderLimit, 58);
    node.advance(1_200);
    expect(0, UnderLimit, 59);
    expect(59, UnderLimit, 0);
    expect(1, OverLimit, 0);
    node.advance(10_000);
    expect(0, UnderLimit, 10);
}

#[test]
fn leaky_week() {
    let node = TestNode::gubernator();
    let ask = |hits| calendar(3, RateLimitReq { hits, limit: 60, ..leaky("week") });
    node.set(utc("2027-01-18T00:00:00Z")); // a Monday
    node.expect(ask(60), UnderLimit, 0);
    node.advance(168 * MINUTE - 1);
    node.expect(ask(1), OverLimit, 0);
    node.advance(1);
    node.expect(ask(1), UnderLimit, 0);
    node.advance(168 * MINUTE);
    node.expect(ask(1), UnderLimit, 0);
}

#[test]
fn leaky_week_boundary() {
    let node = TestNode::gubernator();
    let ask = |hits| calendar(3, RateLimitReq { hits, limit: 60, ..leaky("boundary") });
    node.set(utc("2027-01-17T23:59:59.998Z")); // a Sunday
    node.expect(ask(60), UnderLimit, 0);
    node.advance(1);
    node.expect(ask(0), UnderLimit, 0);
    node.advance(1);
    node.expect(ask(0), UnderLimit, 60);
}

#[test]
fn leaky_months_and_years_give_a_quarter_back_in_a_quarter() {
    for (code, begin, length) in
        [(4, "2027-04-01T00:00:00Z", 30 * DAY), (5, "2027-01-01T00:00:00Z", 365 * DAY)]
    {
        let node = TestNode::gubernator();
        let ask = |hits| calendar(code, RateLimitReq { hits, limit: 400, ..leaky("quarter") });
        let begin = utc(begin);
        node.set(begin);
        node.expect(ask(400), UnderLimit, 0);
        node.advance(length / 4);
        let answer = node.expect(ask(0), UnderLimit, 100);
        assert!((node.now()..=begin + length + length / 4).contains(&answer.reset_time), "{answer:?}");
    }
}

#[test]
fn leaky_period_lengths() {
    for (code, begin, length) in [
        (0, "2027-01-13T12:30:00Z", MINUTE),
        (1, "2027-01-13T12:00:00Z", HOUR),
        (2, "2027-01-13T00:00:00Z", DAY),
        (3, "2027-01-11T00:00:00Z", 7 * DAY),
        (4, "2027-02-01T00:00:00Z", 28 * DAY),
        (4, "2028-02-01T00:00:00Z", 29 * DAY),
        (4, "2027-06-01T00:00:00Z", 30 * DAY),
        (4, "2027-07-01T00:00:00Z", 31 * DAY),
        (5, "2027-01-01T00:00:00Z", 365 * DAY),
        (5, "2028-01-01T00:00:00Z", 366 * DAY),
    ] {
        let node = TestNode::gubernator();
        let ask = |hits| calendar(code, RateLimitReq { hits, limit: 1_000, ..leaky("half") });
        node.set(utc(begin));
        node.expect(ask(1_000), UnderLimit, 0);
        node.advance(length / 2 - 1);
        node.expect(ask(0), UnderLimit, 499);
        node.advance(1);
        node.expect(ask(0), UnderLimit, 500);
    }
}

#[test]
fn leaky_large_burst_does_not_wrap_the_reset_time() {
    for code in [4, 5] {
        let node = TestNode::gubernator();
        let ask = |hits| calendar(code, RateLimitReq { hits, burst: 1_000_000, ..leaky("large") });
        for hits in [1, 1, 999_998] {
            let answer = node.ask(ask(hits));
            assert_eq!((answer.error.as_str(), answer.status()), ("", UnderLimit));
            assert!(
                answer.reset_time.abs_diff(node.now()) < 1_000_000 * 366 * DAY.unsigned_abs(),
                "{answer:?}"
            );
        }
    }
}

#[test]
fn ends_of_intervals() {
    let node = TestNode::gubernator();
    for (code, nows, expected) in [
        (
            0,
            &["2019-11-11T00:00:00Z", "2019-11-11T00:00:30Z", "2019-11-11T00:00:59.999Z"][..],
            1_573_430_459_999,
        ),
        (
            1,
            &["2019-11-11T00:00:00Z", "2019-11-11T00:20:01.213Z", "2019-11-11T00:59:59.999Z"],
            1_573_433_999_999,
        ),
        (
            2,
            &["2019-11-11T00:00:00Z", "2019-11-11T12:10:09.002Z", "2019-11-11T23:59:59.999Z"],
            1_573_516_799_999,
        ),
        (4, &["2019-11-01T00:00:00Z", "2019-11-11T22:02:23Z", "2019-11-30T23:59:59.999Z"], 1_575_158_399_999),
        (4, &["2019-01-01T00:00:00Z", "2019-01-31T23:59:59.999Z"], 1_548_979_199_999),
        (5, &["2019-01-01T00:00:00Z", "2019-03-01T20:30:00Z", "2019-12-31T23:59:59.999Z"], 1_577_836_799_999),
    ] {
        for now in nows {
            assert_eq!(end(&node, code, utc(now)), expected, "{code} at {now}");
        }
    }
}

#[test]
fn weeks_end_on_the_coming_sunday() {
    let node = TestNode::gubernator();
    let sunday = 1_574_035_199_999; // 2019-11-17 23:59:59.999
    for now in
        ["2019-11-13T00:00:00Z", "2019-11-13T20:01:02Z", "2019-11-17T00:00:00Z", "2019-11-17T23:59:59.999Z"]
    {
        assert_eq!(end(&node, 3, utc(now)), sunday, "{now}");
    }
    assert_eq!(end(&node, 3, utc("2019-11-18T00:00:00Z")), sunday + 7 * DAY);
    assert_eq!(end(&node, 3, utc("2026-11-30T08:00:00Z")), 1_796_601_599_999);
}

#[test]
fn unknown_codes_are_item_errors() {
    let node = TestNode::gubernator();
    for (request, bucket) in [(token("x"), "tokenBucket"), (leaky("x"), "leakyBucket")] {
        for code in [99, 6, -1, i64::MAX, i64::MIN] {
            let answer = node.ask(calendar(code, request.clone()));
            let text = format!(
                "Error while apply rate limit for 'test_x': during workerPool.GetRateLimit: Error in {bucket}: \
                 behavior DURATION_IS_GREGORIAN is set; but `Duration` is not a valid gregorian interval"
            );
            assert_eq!(answer.error, text);
            assert_eq!((answer.limit, answer.remaining, answer.reset_time), (0, 0, 0));
        }
    }
}

/// One line of `calendar.json`, recorded from the original: end and length, or why there are none.
#[derive(serde::Deserialize)]
struct Recorded {
    zone: String,
    now: String,
    now_ms: i64,
    interval: i64,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Outcome {
    Interval { end_ms: i64, length: i64 },
    Error { error: String },
}

#[test]
fn recorded_ends_and_lengths() {
    let file = std::fs::read_to_string(flyball_tests::conformance::data().join("calendar.json")).unwrap();
    let all: Vec<Recorded> = serde_json::from_str(&file).unwrap();
    assert_eq!(all.len(), 195);
    for Recorded { zone, now, now_ms, interval, outcome } in all {
        let said = format!("{interval} at {now} in {zone}");
        let zone = flyball_core::Calendar::new(jiff::tz::TimeZone::get(&zone).unwrap());
        let rules = Rules { semantics: Semantics::Gubernator, calendar: zone, ..Rules::default() };
        let node = TestNode::new(rules, StoreSettings::default());
        node.set(now_ms);
        let ask = |hits| calendar(interval, RateLimitReq { hits, limit: 1, ..leaky("length") });
        match outcome {
            Outcome::Interval { end_ms, length } => {
                assert_eq!(end(&node, interval, now_ms), end_ms, "{said}");
                // An existing leaky bucket of one unit is full again a length after it was emptied. In the
                // repeated hour of a clock change the interval may be over already: then there is none.
                node.expect(ask(1), UnderLimit, 0);
                if end_ms >= now_ms {
                    assert_eq!(node.expect(ask(0), UnderLimit, 0).reset_time - now_ms, length, "{said}");
                }
            }
            Outcome::Error { error } => {
                for request in [ask(1), calendar(interval, token("error"))] {
                    let answer = node.ask(request).error;
                    assert!(answer.ends_with(&error), "{said}: {answer}");
                }
            }
        }
    }
}

/// Days, weeks, months and years end where the node's zone says, those with a clock change included.
#[test]
fn ends_follow_the_time_zone() {
    for semantics in [Semantics::Gubernator, Semantics::Exact] {
        for (zone, code, now, expected) in [
            ("Europe/Berlin", 2, "2026-11-30T12:00:00Z", "2026-11-30T22:59:59.999Z"),
            ("Europe/Berlin", 2, "2026-11-30T23:30:00Z", "2026-12-01T22:59:59.999Z"),
            ("Europe/Berlin", 2, "2026-03-29T00:30:00Z", "2026-03-29T21:59:59.999Z"), // 23 hours
            ("Europe/Berlin", 2, "2026-10-25T12:00:00Z", "2026-10-25T22:59:59.999Z"), // 25 hours
            ("America/New_York", 4, "2026-11-15T00:00:00Z", "2026-12-01T04:59:59.999Z"),
            ("Asia/Kathmandu", 1, "2026-11-30T12:00:00Z", "2026-11-30T12:14:59.999Z"),
            ("Asia/Kathmandu", 5, "2026-12-31T18:14:59Z", "2026-12-31T18:14:59.999Z"),
            ("Pacific/Apia", 3, "2026-11-30T12:00:00Z", "2026-12-06T10:59:59.999Z"),
        ] {
            let zone = jiff::tz::TimeZone::get(zone).unwrap();
            let rules = Rules { semantics, calendar: flyball_core::Calendar::new(zone), ..Rules::default() };
            let node = TestNode::new(rules, StoreSettings::default());
            assert_eq!(end(&node, code, utc(now)), utc(expected), "{semantics:?} {code} at {now}");
        }
    }
}
