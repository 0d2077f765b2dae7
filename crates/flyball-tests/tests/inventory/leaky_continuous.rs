//! Leaky buckets leak continuously: nothing waits for a whole unit, nothing is thrown away.

use flyball::pb::{RateLimitReq, Status};
use flyball_tests::node::{START, TestNode, leaky};
use flyball_tests::script::run;

fn script(request: &RateLimitReq, text: &str) {
    run(&TestNode::gubernator(), request, text);
}

/// Seven a minute in a bucket of three: a unit takes 8571.43 ms.
#[test]
fn looks_do_not_change_what_later_requests_get() {
    let node = TestNode::gubernator();
    let ask = |key: &str, hits| RateLimitReq { hits, limit: 7, burst: 3, ..leaky(key) };
    node.expect(ask("control", 3), Status::UnderLimit, 0);
    node.expect(ask("polled", 3), Status::UnderLimit, 0);
    for second in 1..=60 {
        node.advance(1_000);
        let polled = node.ask(ask("polled", 0));
        assert_eq!(polled.status(), Status::UnderLimit);
        // Units so far, 7/60 a second, never more than the bucket holds.
        assert_eq!(polled.remaining, (second * 7 / 60).min(3), "after {second} s");
        if second == 9 || second == 20 {
            let (control, polled) = (node.ask(ask("control", 1)), node.ask(ask("polled", 1)));
            assert_eq!(control, polled);
            assert_eq!(control.status(), Status::UnderLimit);
            node.ask(ask("control", -1));
            node.ask(ask("polled", -1));
        }
    }
}

#[test]
fn polling_equals_control_at_any_interval() {
    for interval in [1, 7, 100, 999, 2_500, 6_001] {
        let node = TestNode::gubernator();
        node.ask(RateLimitReq { hits: 10, ..leaky("control") });
        node.ask(RateLimitReq { hits: 10, ..leaky("polled") });
        while node.now() < START + 30_000 {
            node.advance(interval);
            node.ask(RateLimitReq { hits: 0, ..leaky("polled") });
        }
        let look = |key| node.ask(RateLimitReq { hits: 0, ..leaky(key) });
        assert_eq!(look("control"), look("polled"), "every {interval} ms");
    }
}

#[test]
fn looks_in_one_instant_add_nothing() {
    script(
        &leaky("instant"),
        "h10 = U0 · t5999 h0 = U0 · h0 = U0 · h0 = U0 · t6000 h0 = U1 · h0 = U1 · h0 = U1",
    );
}

#[test]
fn an_exact_hit_keeps_the_fraction() {
    script(&leaky("exact"), "h10 = U0 · t9000 h1 = U0 · t12000 h1 = U0 · t15000 h1 = O0");
}

#[test]
fn a_refused_hit_keeps_the_fraction() {
    script(&leaky("refused"), "h10 = U0 · t3000 h1 = O0 · t5999 h1 = O0 · t6000 h1 = U0");
}

#[test]
fn an_oversized_hit_keeps_the_fraction() {
    script(&leaky("oversized"), "h10 = U0 · t9000 h11 = O1 · t12000 h2 = U0");
}

#[test]
fn a_burst_above_the_limit_is_filled_by_the_limits_rate() {
    script(&RateLimitReq { burst: 15, ..leaky("above") }, "h15 = U0 · t30000 h0 = U5 · t60000 h0 = U10");
}

#[test]
fn what_exceeds_the_burst_is_lost() {
    script(&RateLimitReq { burst: 3, ..leaky("excess") }, "h3 = U0 · t60000 h0 = U3 · h3 = U0 · h1 = O0");
}

#[test]
fn fourteen_in_ten_seconds_give_seven_in_five() {
    script(
        &RateLimitReq { limit: 14, duration: 10_000, ..leaky("14") },
        "h14 = U0 · t4999 h0 = U6 · t5000 h7 = U0 · h1 = O0",
    );
}

#[test]
fn refunds_stop_at_the_burst() {
    let request = RateLimitReq { burst: 3, ..leaky("existing") };
    script(&request, "h1 = U2 · h-1 = U3 · h-5 = U3 · h3 = U0 · h-2 = U2");
    script(&RateLimitReq { burst: 3, ..leaky("new") }, "h-5 = U3 · h3 = U0 · h1 = O0");
}

#[test]
fn a_drain_drops_the_fraction() {
    // Below one unit and above.
    script(&leaky("below"), "h10 = U0 · t3000 drain h1 = O0 · t6000 h1 = O0 · t9000 h1 = U0");
    script(&leaky("above"), "h10 = U0 · t9000 drain h2 = O0 · t12000 h1 = O0 · t15000 h1 = U0");
}

#[test]
fn a_reset_leaves_no_fraction() {
    script(&leaky("reset"), "h10 = U0 · t3000 reset h10 = U0 · t6000 h1 = O0 · t9000 h1 = U0");
}

#[test]
fn a_raised_burst_adds_the_difference() {
    script(&leaky("1"), "b10 h9 = U1 · b11 h0 = U2");
    script(&leaky("3"), "b10 h9 = U1 · b13 h0 = U4 · b13 h5 = O4 · b13 h4 = U0");
    script(&leaky("limit"), "h10 = U0 · l20 h0 = U10 · l20 h10 = U0");
}

#[test]
fn a_lowered_burst_subtracts_the_difference() {
    // It keeps the fraction …
    script(&leaky("fraction"), "b10 h8 = U2 · t3000 b9 h0 = U1 · t6000 b9 h0 = U2");
    // … counts what leaked before …
    script(&leaky("leak first"), "b10 h10 = U0 · t12000 b9 h0 = U1");
    // … stops at zero …
    script(&leaky("floor"), "b10 h8 = U2 · b5 h0 = U0 · t6000 b5 h1 = U0");
    // … and caps at once and later.
    script(&leaky("cap"), "b10 h1 = U9 · b5 h0 = U4 · t6000 b5 h0 = U5 · t12000 b5 h0 = U5");
}

#[test]
fn a_reset_with_a_lower_burst_fills_to_it() {
    script(&leaky("reset lower"), "b10 h8 = U2 · b4 reset h0 = U4 · t60000 b4 h0 = U4");
}

#[test]
fn reset_time_counts_whole_missing_units() {
    let request = RateLimitReq { duration: 10_000, ..leaky("reset time") };
    script(&request, "h10 = U0 r10000 · t3000 h0 = U3 r10000 · h2 = U1 r12000 · t3500 h0 = U1 r12500");
}
