//! Scheduled admission: ten a minute in a bucket of ten unless said otherwise, so a unit every six seconds.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use flyball::pb::{RateLimitReq, Status};
use flyball::{Behavior, Key, Request, Rules, Semantics, StoreSettings};
use flyball_tests::in_process::InProcess;
use flyball_tests::node::{MINUTE, START, TestNode, flag, leaky, token};
use flyball_tests::script::run;

use Status::{NeverFits, OverLimit, Scheduled, UnderLimit};

const SCHEDULED: &str = "gubernator_scheduled_count";
const REFUSED_BY_CEILING: &str = "gubernator_scheduled_ceiling_refused_count";
const DEBT_RESET: &str = "gubernator_scheduled_debt_reset_count";
const OVER: &str = "gubernator_over_limit_counter";

/// Willing to wait two minutes.
fn waiting(key: &str) -> RateLimitReq {
    RateLimitReq { max_wait: 2 * MINUTE, ..leaky(key) }
}

fn with_ceiling(ms: i64) -> TestNode {
    let rules = Rules { semantics: Semantics::Gubernator, schedule_max_wait_ms: ms, ..Rules::default() };
    TestNode::new(rules, StoreSettings::default())
}

/// A bucket that is empty with so many units owed.
fn in_debt(node: &TestNode, key: &str, units: i64) {
    node.expect(RateLimitReq { hits: 10, ..waiting(key) }, UnderLimit, 0);
    node.expect(RateLimitReq { hits: units, ..waiting(key) }, Scheduled, 0);
}

#[test]
fn worked_example() {
    let node = TestNode::gubernator();
    for left in (0..10).rev() {
        assert_eq!(node.expect(waiting("worked"), UnderLimit, left).retry_after, 0);
    }
    for slot in 1..=20 {
        assert_eq!(node.expect(waiting("worked"), Scheduled, 0).retry_after, slot * 6_000);
    }
    for _ in 0..2 {
        assert_eq!(node.expect(waiting("worked"), OverLimit, 0).retry_after, 126_000);
    }
    assert_eq!(node.metric(SCHEDULED), 20.0);
    assert_eq!(node.metric(REFUSED_BY_CEILING), 0.0);
}

#[test]
fn boundary() {
    run(
        &TestNode::gubernator(),
        &leaky("boundary"),
        "h10 = U0 · mw5999 h1 = O0 ra6000 · mw6000 h1 = S0 ra6000",
    );
}

#[test]
fn ceiling() {
    let node = TestNode::gubernator();
    let ask = |max_wait| RateLimitReq { limit: 1, duration: 200_000, max_wait, ..leaky("ceiling") };
    node.expect(ask(1_000_000), UnderLimit, 0);
    assert_eq!(node.expect(ask(1_000_000), Scheduled, 0).retry_after, 200_000);
    for _ in 0..2 {
        assert_eq!(node.expect(ask(1_000_000), OverLimit, 0).retry_after, 400_000);
    }
    assert_eq!(node.metric(REFUSED_BY_CEILING), 2.0);
    assert_eq!(node.expect(ask(300_000), OverLimit, 0).retry_after, 400_000);
    assert_eq!(node.metric(REFUSED_BY_CEILING), 2.0);
    assert_eq!(node.metric(OVER), 3.0);
}

#[test]
fn configured_ceiling() {
    let node = with_ceiling(10_000);
    node.expect(RateLimitReq { hits: 10, ..waiting("c") }, UnderLimit, 0);
    assert_eq!(node.expect(waiting("c"), Scheduled, 0).retry_after, 6_000);
    assert_eq!(node.expect(waiting("c"), OverLimit, 0).retry_after, 12_000);
}

#[test]
fn ceiling_boundary() {
    for (ceiling, status) in [(12_000, Scheduled), (11_999, OverLimit)] {
        let node = with_ceiling(ceiling);
        in_debt(&node, "b", 1);
        assert_eq!(node.expect(waiting("b"), status, 0).retry_after, 12_000);
    }
}

/// Through the original's file format, which wins over the environment.
#[test]
fn ceiling_from_a_file() {
    let file = flyball_server::config::SourceFile {
        path: "node.conf".into(),
        text: "# comment\nGUBER_SCHEDULE_MAX_WAIT=90s\n".into(),
    };
    let env = vec![("GUBER_SCHEDULE_MAX_WAIT".to_owned(), "1s".to_owned())];
    let strings = flyball_server::config::Strings { env, files: vec![file], ..Default::default() };
    let loaded = flyball_server::config::from_strings(&strings).unwrap();
    assert_eq!(loaded.config.rules().schedule_max_wait_ms, 90_000);
}

#[test]
fn negative_ceiling_fails_the_start() {
    let error = InProcess::with_env(&[("GUBER_SCHEDULE_MAX_WAIT", "-1s")]).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("GUBER_SCHEDULE_MAX_WAIT") && text.contains("-1s"), "{text}");
}

#[test]
fn never_fits() {
    let node = TestNode::gubernator();
    node.expect(RateLimitReq { hits: 3, ..leaky("there") }, UnderLimit, 7);
    node.expect(RateLimitReq { hits: 11, ..waiting("there") }, NeverFits, 7);
    node.expect(RateLimitReq { hits: 0, ..leaky("there") }, UnderLimit, 7);
    let size = node.metric("gubernator_cache_size");
    assert_eq!(node.expect(RateLimitReq { hits: 11, ..waiting("missing") }, NeverFits, 10).retry_after, 0);
    assert_eq!(node.metric("gubernator_cache_size"), size);
    assert_eq!(node.metric(OVER), 2.0);
}

#[test]
fn plain_requests_on_a_key_in_debt() {
    let node = TestNode::gubernator();
    in_debt(&node, "debt", 2);
    for request in [
        leaky("debt"),
        RateLimitReq { behavior: flag::DRAIN, ..leaky("debt") },
        RateLimitReq { burst: 20, ..leaky("debt") },
        RateLimitReq { burst: 10, ..leaky("debt") },
    ] {
        assert_eq!(node.expect(request, OverLimit, 0).retry_after, 0);
    }
    for hits in [-1, 0] {
        node.expect(RateLimitReq { hits, ..leaky("debt") }, UnderLimit, 0);
    }
    node.expect(RateLimitReq { hits: 0, ..waiting("debt") }, UnderLimit, 0);
    // None of that moved the queue.
    assert_eq!(node.expect(waiting("debt"), Scheduled, 0).retry_after, 18_000);
    assert_eq!(node.metric(DEBT_RESET), 0.0);
    for _ in 0..2 {
        node.expect(RateLimitReq { hits: 0, behavior: flag::RESET, ..leaky("debt") }, UnderLimit, 10);
        assert_eq!(node.metric(DEBT_RESET), 1.0);
    }
}

#[test]
fn a_burst_change_keeps_the_debt_cached() {
    run(
        &TestNode::gubernator(),
        &leaky("cached"),
        "h10 = U0 · mw120000 h2 = S0 ra12000 · b20 h0 = U0 · t131999 b20 h0 = U19 · t132001 b20 h0 = U20",
    );
}

#[test]
fn a_burst_raised_after_the_debt_is_repaid_adds_the_difference() {
    let node = TestNode::gubernator();
    let base = RateLimitReq { limit: 14, duration: 10_000, burst: 14, ..leaky("") };
    let ask = |key: &str, hits, burst, max_wait| {
        node.ask(RateLimitReq { unique_key: key.into(), hits, burst, max_wait, ..base.clone() })
    };
    ask("never", 14, 14, 0);
    ask("repaid", 14, 14, 0);
    assert_eq!(ask("repaid", 7, 14, 120_000).status(), Scheduled);
    // Seven owed are paid back in five seconds; the other key has seven by then, and takes them.
    node.advance(5_000);
    assert_eq!(ask("never", 7, 14, 0).remaining, 0);
    assert_eq!(ask("repaid", 0, 14, 0).remaining, 0);
    for key in ["never", "repaid"] {
        assert_eq!(ask(key, 0, 20, 0).remaining, 6, "{key}");
    }
}

#[test]
fn a_huge_wait_is_refused() {
    let node = TestNode::gubernator();
    let ask = |hits| RateLimitReq {
        hits,
        limit: 1,
        duration: 1_000_000_000_000_000,
        burst: 10_000_000,
        max_wait: i64::MAX,
        ..leaky("huge")
    };
    node.expect(ask(10_000_000), UnderLimit, 0);
    assert_eq!(node.expect(ask(10_000_000), OverLimit, 0).retry_after, i64::MAX);
    assert_eq!(node.metric(SCHEDULED), 0.0);
}

#[test]
fn a_rate_that_gives_nothing_never_fits() {
    for (limit, duration, second) in
        [(-10, MINUTE, NeverFits), (0, MINUTE, NeverFits), (10, 0, NeverFits), (10, -MINUTE, UnderLimit)]
    {
        let node = TestNode::gubernator();
        let ask = |hits| RateLimitReq { hits, limit, duration, burst: 5, ..waiting("rate") };
        assert_eq!(node.ask(ask(5)).status(), UnderLimit);
        // With a negative duration the bucket is dead when it is born.
        assert_eq!(node.ask(ask(1)).status(), second, "{limit} per {duration}");
    }
}

/// The half that one node can show: whoever comes when, no slot is promised twice.
#[test]
fn concurrent_callers_get_distinct_slots() {
    let node = TestNode::gubernator();
    let request = Request {
        key: Key { name: "test", unique_key: "slots" },
        hits: 1,
        limit: 10,
        duration: MINUTE,
        algorithm: 1,
        behavior: Behavior::default(),
        burst: 1,
        created_at: None,
        max_wait: 2 * MINUTE,
    };
    let waits = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let decision = node.node().check(&request).unwrap();
                waits.lock().unwrap().insert(decision.retry_after);
            });
        }
    });
    assert_eq!(waits.into_inner().unwrap(), (0..20).map(|slot| slot * 6_000).collect());
}

/// Dust below zero that floats leave behind is no debt.
#[test]
fn repaid_debt_is_no_debt() {
    let node = TestNode::gubernator();
    let ask = |hits, max_wait| RateLimitReq { hits, limit: 3, duration: 1_000, max_wait, ..leaky("dust") };
    node.expect(ask(3, 0), UnderLimit, 0);
    assert_eq!(node.expect(ask(3, 5_000), Scheduled, 0).retry_after, 1_000);
    for _ in 0..10 {
        node.advance(100);
        node.expect(ask(0, 0), UnderLimit, 0);
    }
    node.expect(ask(-1, 0), UnderLimit, 1);
    node.expect(RateLimitReq { behavior: flag::RESET, ..ask(0, 0) }, UnderLimit, 3);
    assert_eq!(node.metric(DEBT_RESET), 0.0);
}

#[test]
fn debt_keeps_the_key_cached() {
    run(
        &TestNode::gubernator(),
        &leaky("kept"),
        "h10 = U0 · mw120000 h10 = S0 ra60000 · mw120000 h1 = S0 ra66000 \
         · t125999 h0 = U9 · t126000 h0 = U10",
    );
}

#[test]
fn plain_requests_keep_working() {
    for behavior in [0, flag::NO_BATCHING, flag::DRAIN, flag::RESET] {
        let node = TestNode::gubernator();
        for number in 1..=12 {
            let answer = node.ask(RateLimitReq { behavior, ..leaky("plain") });
            let (status, left) = match behavior {
                flag::RESET => (UnderLimit, 9),
                _ if number > 10 => (OverLimit, 0),
                _ => (UnderLimit, 10 - number),
            };
            assert_eq!((answer.status(), answer.remaining, answer.retry_after), (status, left, 0));
        }
    }
}

#[test]
fn errors() {
    let node = TestNode::gubernator();
    let ask = || waiting("errors");
    for (request, text) in [
        (RateLimitReq { max_wait: -1, ..ask() }, "field 'max_wait' cannot be negative"),
        (RateLimitReq { max_wait: -1, ..token("errors") }, "field 'max_wait' cannot be negative"),
        (RateLimitReq { algorithm: 0, ..ask() }, "max_wait is only supported by LEAKY_BUCKET"),
        (RateLimitReq { algorithm: 5, ..ask() }, "max_wait is only supported by LEAKY_BUCKET"),
        (RateLimitReq { behavior: flag::GLOBAL, ..ask() }, "max_wait cannot be combined with GLOBAL"),
        (
            RateLimitReq { behavior: flag::GREGORIAN, ..ask() },
            "max_wait cannot be combined with DURATION_IS_GREGORIAN",
        ),
        (
            RateLimitReq { behavior: flag::DRAIN, ..ask() },
            "max_wait cannot be combined with DRAIN_OVER_LIMIT",
        ),
        (RateLimitReq { behavior: flag::RESET, ..ask() }, "max_wait cannot be combined with RESET_REMAINING"),
        (RateLimitReq { hits: -1, ..ask() }, "max_wait cannot be combined with negative hits"),
        // Also for a look, and the first row that matches is the one that is named.
        (RateLimitReq { hits: 0, behavior: 62, ..ask() }, "max_wait cannot be combined with GLOBAL"),
        (
            RateLimitReq { hits: -1, behavior: 60, ..ask() },
            "max_wait cannot be combined with DURATION_IS_GREGORIAN",
        ),
    ] {
        let answer = node.ask(request);
        assert_eq!(answer.error, text);
        assert_eq!((answer.limit, answer.remaining, answer.reset_time, answer.retry_after), (0, 0, 0, 0));
    }
    node.expect(RateLimitReq { hits: 0, ..leaky("errors") }, UnderLimit, 10);

    let forced = Rules { semantics: Semantics::Gubernator, force_global: true, ..Rules::default() };
    let answer = TestNode::new(forced, StoreSettings::default()).ask(ask());
    assert_eq!(answer.error, "max_wait cannot be combined with GLOBAL");
}

/// Seven a minute, one at a time: 300 requests at random moments.
#[test]
fn spacing() {
    let node = TestNode::gubernator();
    let rate = 60_000.0 / 7.0;
    let mut seed = 20_270_113_u64;
    let mut random = |below: i64| {
        // xorshift: any spread will do, as long as it is the same every time.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        i64::try_from(seed >> 1).unwrap() % below
    };
    let mut grants = Vec::new();
    for _ in 0..300 {
        node.advance(random(9_000));
        let max_wait = 1 + random(60_000);
        let answer = node.ask(RateLimitReq { limit: 7, burst: 1, max_wait, ..leaky("spacing") });
        match answer.status() {
            UnderLimit => grants.push(node.now()),
            Scheduled => {
                assert!((1..=max_wait).contains(&answer.retry_after));
                grants.push(node.now() + answer.retry_after);
            }
            other => assert_eq!((other, answer.retry_after > max_wait), (OverLimit, true)),
        }
    }
    assert!(grants.len() > 100 && grants.len() < 300, "{} of 300", grants.len());
    grants.sort_unstable();
    for pair in grants.windows(2) {
        assert!((pair[1] - pair[0]) as f64 >= rate - 1.0, "{pair:?}");
    }
    for (number, grant) in grants.iter().enumerate() {
        let within = grants[number..].iter().take_while(|later| **later < grant + MINUTE).count();
        assert!(within <= 7, "{within} in a minute");
    }
}

#[test]
fn combines_with_flags_that_mean_nothing_here() {
    for behavior in [flag::NO_BATCHING, flag::MULTI_REGION, flag::NO_BATCHING | flag::MULTI_REGION] {
        let node = TestNode::gubernator();
        in_debt(&node, "flags", 1);
        assert_eq!(
            node.expect(RateLimitReq { behavior, ..waiting("flags") }, Scheduled, 0).retry_after,
            12_000
        );
    }
}

#[test]
fn a_plain_request_that_never_fits_is_over_the_limit() {
    run(&TestNode::gubernator(), &leaky("plain never"), "h11 = O0 r60000 · h0 = U0");
}

#[test]
fn an_owner_validates_what_a_peer_forwards() {
    let node = TestNode::gubernator();
    for (request, text) in [
        (RateLimitReq { algorithm: 0, ..waiting("peer") }, "max_wait is only supported by LEAKY_BUCKET"),
        (
            RateLimitReq { behavior: flag::GLOBAL, ..waiting("peer") },
            "max_wait cannot be combined with GLOBAL",
        ),
        (
            RateLimitReq { behavior: flag::RESET, ..waiting("peer") },
            "max_wait cannot be combined with RESET_REMAINING",
        ),
        (RateLimitReq { hits: -1, ..waiting("peer") }, "max_wait cannot be combined with negative hits"),
    ] {
        assert_eq!(node.peer_call(vec![request]).unwrap()[0].error, text);
    }
    node.expect(RateLimitReq { hits: 0, ..leaky("peer") }, UnderLimit, 10);
}

/// With exact semantics a changed limit leaves promised slots where they are; the original moves them.
#[test]
fn a_changed_rate_in_debt_keeps_promised_slots_in_exact_semantics() {
    let promised = |node: &TestNode, limit| {
        in_debt(node, "rate", 2);
        node.expect(RateLimitReq { limit, burst: 10, ..waiting("rate") }, Scheduled, 0).retry_after
    };
    // Ten times faster from the end of the queue on, 12 s from now; the original rates the queue anew.
    assert_eq!(promised(&TestNode::exact(), 100), 12_600);
    assert_eq!(promised(&TestNode::gubernator(), 100), 1_800);
}

#[test]
fn an_algorithm_switch_in_debt_is_counted() {
    for node in [TestNode::exact(), TestNode::gubernator()] {
        in_debt(&node, "switch", 2);
        node.expect(token("switch"), UnderLimit, 9);
        assert_eq!(node.metric(DEBT_RESET), 1.0);
        assert_eq!(node.now(), START);
    }
}
