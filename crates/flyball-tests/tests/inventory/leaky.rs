//! Leaky buckets: the shown remainder, the cap, and the exact reset time, step by step.

use flyball::pb::{RateLimitReq, Status};
use flyball_tests::node::{DAY, TestNode, leaky};
use flyball_tests::script::run;

/// A schedule of (milliseconds before it, hits, status, remaining); the reset time is due when `limit` units
/// are free.
fn schedule(request: &RateLimitReq, steps: &[(i64, i64, Status, i64)]) {
    let node = TestNode::gubernator();
    let rate = request.duration / request.limit;
    for (wait, hits, status, remaining) in steps {
        node.advance(*wait);
        let answer = node.expect(RateLimitReq { hits: *hits, ..request.clone() }, *status, *remaining);
        assert_eq!(answer.reset_time - node.now(), (request.limit - remaining) * rate, "{answer:?}");
    }
}

use Status::{OverLimit, UnderLimit};

#[test]
fn twelve_steps() {
    schedule(
        &RateLimitReq { duration: 30_000, ..leaky("twelve") },
        &[
            (0, 1, UnderLimit, 9),
            (0, 1, UnderLimit, 8),
            (1_000, 1, UnderLimit, 7),
            (1_000, 0, UnderLimit, 7),
            (999, 0, UnderLimit, 7),
            (1, 0, UnderLimit, 8),
            (0, 9, OverLimit, 8),
            (0, 8, UnderLimit, 0),
            (0, 1, OverLimit, 0),
            (3_000, 0, UnderLimit, 1),
            (27_000, 0, UnderLimit, 10),
            (60_000, 1, UnderLimit, 9),
        ],
    );
}

#[test]
fn twelve_steps_with_burst() {
    schedule(
        &RateLimitReq { duration: 30_000, burst: 20, ..leaky("burst") },
        &[
            (0, 1, UnderLimit, 19),
            (0, 1, UnderLimit, 18),
            (1_000, 1, UnderLimit, 17),
            (1_000, 0, UnderLimit, 17),
            (999, 0, UnderLimit, 17),
            (1, 0, UnderLimit, 18),
            (0, 19, OverLimit, 18),
            (0, 18, UnderLimit, 0),
            (0, 1, OverLimit, 0),
            (3_000, 0, UnderLimit, 1),
            (27_000, 0, UnderLimit, 10),
            (30_000, 0, UnderLimit, 20),
        ],
    );
}

#[test]
fn drain_over_limit() {
    run(
        &TestNode::gubernator(),
        &leaky("drain"),
        "drain h0 = U10 · drain h9 = U1 · drain h100 = O0 · drain h0 = U0",
    );
}

#[test]
fn negative_hits_give_back() {
    run(
        &TestNode::gubernator(),
        &RateLimitReq { duration: 30_000, ..leaky("negative") },
        "h1 = U9 r3000 · h-1 = U10 r0 · h10 = U0 r30000 · h-1 = U1 r27000 · h0 = U1 · h1 = U0 · h1 = O0",
    );
}

#[test]
fn request_more_than_available() {
    run(
        &TestNode::gubernator(),
        &RateLimitReq { limit: 2_000, duration: 2_000_000, ..leaky("more") },
        "h1000 = U1000 · h1500 = O1000 · h500 = U500 · h400 = U100 · h100 = U0 · h1 = O0",
    );
}

/// More units than milliseconds.
#[test]
fn limit_larger_than_duration() {
    run(
        &TestNode::gubernator(),
        &RateLimitReq { limit: 2_000, duration: 1_000, ..leaky("div") },
        "h1 = U1999 r0 · h100 = U1899 r0 · t1 h100 = U1801",
    );
}

#[test]
fn a_reset_refills_to_the_burst_and_counts_hits() {
    run(
        &TestNode::gubernator(),
        &RateLimitReq { burst: 15, ..leaky("reset") },
        "h12 = U3 · reset h1 = U14 · reset h0 = U15",
    );
}

/// A first request of extreme negative hits. The original then owes 2^63 units, and after one more refund its
/// key never expires; here it does, though the answers are the original's. Exact semantics simply saturate.
#[test]
fn extreme_first_hits_leave_no_monster_behind() {
    for hits in [i64::MIN, i64::MIN + 1, -1] {
        let node = TestNode::exact();
        node.expect(RateLimitReq { hits, ..leaky("extreme") }, UnderLimit, 10);
        node.expect(leaky("extreme"), UnderLimit, 9);
        node.expect(RateLimitReq { hits: i64::MIN, ..leaky("extreme") }, UnderLimit, 10);

        let node = TestNode::gubernator();
        for _ in 0..3 {
            node.ask(RateLimitReq { hits, ..leaky("extreme") });
        }
        node.advance(DAY);
        node.expect(leaky("extreme"), UnderLimit, 9);
    }
}
