//! Answers of a lone node that depend on nothing but how it is asked: health, order, GLOBAL on its owner.

use flyball::pb::{RateLimitReq, Status};
use flyball_tests::node::{TestNode, flag, leaky, token};

use Status::{OverLimit, UnderLimit};

#[test]
fn a_lone_node_is_healthy_and_lists_itself() {
    let node = TestNode::gubernator();
    let health = node.node().health().unwrap();
    assert_eq!((health.status.as_str(), health.message.as_str(), health.peer_count), ("healthy", "", 1));
    assert_eq!(health.local_peers.len(), 1);
    assert_eq!(health.local_peers[0].grpc_address, health.advertise_address);
    assert!(health.region_peers.is_empty());
}

/// The owner of a GLOBAL key answers as for any other key: from its own bucket, naming nobody.
#[test]
fn global_on_its_owner_is_plain() {
    for request in [token("global"), leaky("global")] {
        let node = TestNode::gubernator();
        let ask = |hits| RateLimitReq { hits, behavior: flag::GLOBAL, ..request.clone() };
        for (hits, status, left) in
            [(1, UnderLimit, 9), (10, OverLimit, 9), (9, UnderLimit, 0), (1, OverLimit, 0)]
        {
            let answer = node.expect(ask(hits), status, left);
            assert!(answer.metadata.is_empty(), "{answer:?}");
        }
        // The same bucket as without the flag.
        node.expect(
            RateLimitReq { hits: 0, ..request.clone() },
            if request.algorithm == 0 { OverLimit } else { UnderLimit },
            0,
        );
    }
}

/// A peer's GLOBAL hits were granted elsewhere already: what does not fit empties the bucket.
#[test]
fn global_hits_from_a_peer_drain() {
    for request in [token("peer"), leaky("peer")] {
        let node = TestNode::gubernator();
        node.expect(RateLimitReq { hits: 4, ..request.clone() }, UnderLimit, 6);
        let ask = RateLimitReq { hits: 250, behavior: flag::GLOBAL, ..request.clone() };
        let answers = node.peer_call(vec![ask]).unwrap();
        assert_eq!((answers[0].status(), answers[0].remaining), (OverLimit, 0));
        node.expect(RateLimitReq { hits: 1, ..request }, OverLimit, 0);
    }
}

#[test]
fn answers_come_in_the_order_of_the_items() {
    let node = TestNode::gubernator();
    for size in [1, 2, 5, 10, 100, 1_000] {
        let items: Vec<RateLimitReq> = (0..size)
            .map(|number| RateLimitReq { limit: number + 1, ..token(&format!("order {size} {number}")) })
            .collect();
        for answers in [node.call(items.clone()).unwrap(), node.peer_call(items).unwrap()] {
            let limits: Vec<i64> = answers.iter().map(|answer| answer.limit).collect();
            assert_eq!(limits, (1..=size).collect::<Vec<i64>>());
        }
    }
    // The same key over and over: applied in the order of the list.
    let answers = node.call(vec![RateLimitReq { limit: 1_000, ..token("same") }; 1_000]).unwrap();
    let left: Vec<i64> = answers.iter().map(|answer| answer.remaining).collect();
    assert_eq!(left, (0..1_000).rev().collect::<Vec<i64>>());
}

#[test]
fn a_call_of_more_than_1000_items_counts_nothing() {
    let node = TestNode::gubernator();
    let items = vec![RateLimitReq { limit: 5_000, ..token("many") }; 1_001];
    let error = node.call(items.clone()).unwrap_err();
    assert_eq!(error.to_string(), "Requests.RateLimits list too large; max size is '1000'");
    let error = node.peer_call(items).unwrap_err();
    assert_eq!(error.to_string(), "'PeerRequest.rate_limits' list too large; max size is '1000'");
    node.expect(RateLimitReq { hits: 0, limit: 5_000, ..token("many") }, UnderLimit, 5_000);
    assert_eq!(node.call(Vec::new()).unwrap(), []);
}
