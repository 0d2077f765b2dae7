//! An original of v2.13.0 beside one of v2.21.0 and ours.

use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsReq, RateLimitReq, RateLimitResp, Status};
use serde_json::json;
use tokio::runtime::Builder;
use tonic::transport::Endpoint;

use crate::global::hits_and_news_reach_everybody;
use crate::nodes::Kind::{self, Exact, Like, Old, Original};
use crate::nodes::{Cluster, item, with};

#[test]
fn an_old_original_with_gubernator_semantics() {
    beside_an_old_one(9, Like);
}

#[test]
fn an_old_original_with_exact_semantics() {
    beside_an_old_one(10, Exact);
}

fn beside_an_old_one(network: u8, ours: Kind) {
    let cluster = Cluster::start(network, &[Old, ours, Original, ours]);
    forwarding_both_ways(&cluster);
    for owner in [Old, ours] {
        hits_and_news_reach_everybody(&cluster, owner, ours, 0);
    }
    an_old_owner_is_recognised(&cluster, ours);
    bookings_pass_through_an_old_one(&cluster, ours);
}

fn forwarding_both_ways(cluster: &Cluster) {
    for owner in 0..cluster.nodes.len() {
        for (algorithm, behavior) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let key = cluster.key(owner, &format!("one-{algorithm}-{behavior}"));
            let hit = with(&item(&key), &json!({ "algorithm": algorithm, "behavior": behavior }));
            for (turn, node) in cluster.nodes.iter().enumerate() {
                let answer = node.ask(&hit);
                assert_eq!(answer.verdict(), ("UNDER_LIMIT", 9 - turn as i64), "{node}: {hit}");
                assert_eq!(cluster.owner_of(turn, &answer), owner, "{node}: {answer:?}");
            }
            let bad = with(&hit, &json!({ "algorithm": 7 }));
            for (place, node) in cluster.nodes.iter().enumerate().filter(|(place, _)| *place != owner) {
                let answer = node.ask(&bad);
                assert!(answer.error.contains("nvalid rate limit algorithm '7'"), "{node}: {answer:?}");
                assert_eq!(cluster.owner_of(place, &answer), owner, "{node}");
            }
        }
    }
}

/// It ignores `max_wait`: over the limit, and no hint when to come back.
fn an_old_owner_is_recognised(cluster: &Cluster, ours: Kind) {
    let leaky = with(&item(&cluster.key(cluster.place(Old), "booked")), &json!({ "algorithm": 1 }));
    let node = &cluster.nodes[cluster.place(ours)];
    assert_eq!(node.ask(&with(&leaky, &json!({ "hits": 10 }))).verdict(), ("UNDER_LIMIT", 0));
    let answer = node.ask(&with(&leaky, &json!({ "max_wait": 290_000 })));
    assert_eq!((answer.verdict(), answer.retry_after), (("OVER_LIMIT", 0), 0));
}

/// An old node keeps the fields it does not know, in both directions; over HTTP it drops them.
fn bookings_pass_through_an_old_one(cluster: &Cluster, ours: Kind) {
    let at = cluster.place(ours);
    let owner = &cluster.nodes[at];
    let leaky = with(&item(&cluster.key(at, "passed")), &json!({ "algorithm": 1 }));
    assert_eq!(owner.ask(&with(&leaky, &json!({ "hits": 10 }))).verdict(), ("UNDER_LIMIT", 0));
    let booking = RateLimitReq {
        name: "mixed".to_owned(),
        unique_key: leaky["unique_key"].as_str().unwrap().to_owned(),
        hits: 1,
        limit: 10,
        duration: 600_000,
        algorithm: 1,
        max_wait: 290_000,
        ..RateLimitReq::default()
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let old = format!("http://{}", cluster.nodes[cluster.place(Old)].address);
    let channel = runtime.block_on(Endpoint::from_shared(old).unwrap().connect()).unwrap();
    let mut client = V1Client::new(channel);
    let mut ask = |item: RateLimitReq| -> RateLimitResp {
        let request = GetRateLimitsReq { requests: vec![item] };
        runtime.block_on(client.get_rate_limits(request)).unwrap().into_inner().responses.remove(0)
    };
    for units in [1, 2] {
        let answer = ask(booking.clone());
        assert_eq!((answer.status(), answer.error.as_str()), (Status::Scheduled, ""), "{answer:?}");
        let wait = units * 60_000;
        assert!((wait - 20_000..=wait).contains(&answer.retry_after), "{units} units in {answer:?}");
        assert_eq!(answer.metadata["owner"], owner.address);
    }
    // It checks nothing; the owner does.
    let bad = ask(RateLimitReq { max_wait: -1, ..booking });
    assert_eq!(bad.error, "field 'max_wait' cannot be negative");
    assert_eq!(bad.metadata["owner"], owner.address);
}
