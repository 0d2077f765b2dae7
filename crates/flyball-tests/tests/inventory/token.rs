//! Token buckets: windows, hits of every size, changed limits and durations, the remembered refusal.

use flyball::pb::{RateLimitReq, Status};
use flyball_tests::node::{MINUTE, START, TestNode, flag, token};
use flyball_tests::script::run;

use Status::{OverLimit, UnderLimit};

#[test]
fn over_the_limit() {
    let node = TestNode::gubernator();
    for (status, left) in [(UnderLimit, 1), (UnderLimit, 0), (OverLimit, 0), (OverLimit, 0)] {
        let answer = node.expect(RateLimitReq { limit: 2, ..token("over") }, status, left);
        assert_eq!((answer.limit, answer.reset_time), (2, START + MINUTE));
        assert!(answer.metadata.is_empty());
    }
}

#[test]
fn a_window_ends_and_the_next_is_full() {
    let node = TestNode::gubernator();
    let ask = || RateLimitReq { limit: 2, duration: 5, ..token("window") };
    node.expect(ask(), UnderLimit, 1);
    node.expect(ask(), UnderLimit, 0);
    node.advance(5);
    node.expect(ask(), OverLimit, 0);
    node.advance(1);
    node.expect(ask(), UnderLimit, 1);
    node.advance(100);
    assert_eq!(node.expect(ask(), UnderLimit, 1).reset_time, START + 111);
}

#[test]
fn negative_hits_exceed_the_limit() {
    let node = TestNode::gubernator();
    run(
        &node,
        &RateLimitReq { limit: 2, ..token("new") },
        "h-1 = U3 · h-1 = U4 · h4 = U0 · h1 = O0 · h-1 = U1 · h0 = U1",
    );
    run(&node, &RateLimitReq { limit: 2, ..token("used") }, "h2 = U0 · h-1 = U1 · h-1 = U2 · h2 = U0");
}

#[test]
fn drain_over_limit() {
    run(
        &TestNode::gubernator(),
        &token("drain"),
        "drain h0 = U10 · drain h9 = U1 · drain h100 = O0 · drain h0 = U0",
    );
}

#[test]
fn status_follows_admission() {
    let node = TestNode::gubernator();
    // A raised limit admits.
    run(
        &node,
        &token("raised"),
        "h10 = U0 · h1 = O0 · l15 h1 = U4 · l15 h0 = U4 · l15 h4 = U0 · l15 h0 = U0",
    );
    // A shorter duration starts a new window, and the hit is the first of it.
    run(&node, &token("shorter"), "h10 = U0 · h1 = O0 · t30000 d30000 h1 = U9 r60000 · d30000 h0 = U9");
}

#[test]
fn admits_after_a_refusal() {
    let node = TestNode::gubernator();
    run(&node, &token("smaller"), "h8 = U2 · h3 = O2 · h1 = U1 · h2 = O1 · h1 = U0 · h1 = O0");
    run(&node, &token("first"), "h11 = O10 · h10 = U0");
    run(&node, &token("drained"), "h1 = U9 · drain h15 = O0 · l15 h1 = U4");
    run(&node, &token("restart"), "h10 = U0 · h1 = O0 · t30000 d30000 h11 = O10 r60000 · d30000 h10 = U0");
}

#[test]
fn a_look_after_a_raised_and_lowered_limit_is_like_one_without_refusal() {
    let node = TestNode::gubernator();
    run(&node, &token("refused"), "h10 = U0 · h1 = O0 · h0 = O0 · l15 h0 = U5 · l10 h0 = U0");
    run(&node, &token("never refused"), "h10 = U0 · l15 h0 = U5 · l10 h0 = U0");
}

#[test]
fn request_more_than_available() {
    let request = RateLimitReq { limit: 2_000, ..token("more") };
    run(
        &TestNode::gubernator(),
        &request,
        "h1000 = U1000 · h1500 = O1000 · h500 = U500 · h400 = U100 · h100 = U0 · h1 = O0",
    );
}

#[test]
fn missing_fields() {
    let node = TestNode::gubernator();
    node.expect(RateLimitReq { duration: 0, ..token("no duration") }, UnderLimit, 9);
    node.expect(RateLimitReq { limit: 0, ..token("no limit") }, OverLimit, 0);
    for (request, text) in [
        (RateLimitReq { name: String::new(), ..token("no name") }, "field 'namespace' cannot be empty"),
        (token(""), "field 'unique_key' cannot be empty"),
        (RateLimitReq { name: String::new(), ..token("") }, "field 'unique_key' cannot be empty"),
    ] {
        let answer = node.ask(request);
        assert_eq!((answer.error.as_str(), answer.status()), (text, UnderLimit));
        assert_eq!((answer.limit, answer.remaining, answer.reset_time), (0, 0, 0));
    }
}

#[test]
fn change_limit_and_algorithm() {
    let node = TestNode::gubernator();
    run(
        &node,
        &RateLimitReq { limit: 100, ..token("change") },
        "h1 = U99 · h1 = U98 · l10 h1 = U7 · l10 h1 = U6 · l200 h1 = U195 \
         · leaky h1 = U99 · leaky l10 h1 = U8 · leaky l10 h1 = U7",
    );
}

#[test]
fn reset_remaining_refills_and_ignores_hits() {
    let request = RateLimitReq { limit: 100, ..token("reset") };
    run(&TestNode::gubernator(), &request, "h1 = U99 · h1 = U98 · reset h1 = U100 r@0 · h1 = U99");
}

#[test]
fn flags_that_mean_nothing_on_a_lone_node_change_nothing() {
    for behavior in [0, flag::NO_BATCHING, flag::MULTI_REGION, flag::GLOBAL, 64, -128] {
        let node = TestNode::gubernator();
        let ask = || RateLimitReq { limit: 2, behavior, ..token("flags") };
        for (status, left) in [(UnderLimit, 1), (UnderLimit, 0), (OverLimit, 0)] {
            let answer = node.expect(ask(), status, left);
            // A node that is its own owner names none.
            assert!(answer.metadata.is_empty(), "{answer:?}");
        }
    }
}
