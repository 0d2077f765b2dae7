//! GLOBAL limits whose hits and broadcasts travel between originals and ours.

use serde_json::json;

use crate::nodes::Kind::{self, Exact, Like, Original};
use crate::nodes::{Cluster, item, with};

const UNDER: &str = "UNDER_LIMIT";
const OVER: &str = "OVER_LIMIT";
const GLOBAL: i32 = 2;
const RESET: i32 = 8;

#[test]
fn global_with_gubernator_semantics() {
    global(3, Like);
}

#[test]
fn global_with_exact_semantics() {
    global(4, Exact);
}

fn global(network: u8, ours: Kind) {
    let cluster = Cluster::start(network, &[Original, ours, Original, ours]);
    for owner in [Original, ours] {
        for algorithm in [0, 1] {
            hits_and_news_reach_everybody(&cluster, owner, ours, algorithm);
        }
        too_much_at_once_drains_to_zero(&cluster, owner, ours);
        a_reset_is_one_everywhere(&cluster, owner, ours);
        errors_are_worded_as_global_ones(&cluster, owner);
    }
}

/// Hits at every node, each told to all before the next.
pub(crate) fn hits_and_news_reach_everybody(cluster: &Cluster, owner: Kind, ours: Kind, algorithm: i32) {
    let at = cluster.place(owner);
    let key = cluster.key(at, &format!("told-{algorithm}"));
    let hit = with(&item(&key), &json!({ "algorithm": algorithm, "behavior": GLOBAL }));
    let look = with(&hit, &json!({ "hits": 0 }));
    let theirs = cluster.nodes.iter().position(|node| !node.kind.is_ours()).unwrap();
    let mut left = 10;
    // Non-owners of both kinds, and the owner itself.
    for place in [cluster.second(ours), theirs, cluster.place(ours), at, cluster.second(Original)] {
        let answer = cluster.nodes[place].ask(&hit);
        left -= 1;
        assert_eq!(answer.verdict(), (UNDER, left), "{}: {hit}", cluster.nodes[place]);
        assert_eq!(cluster.owner_of(place, &answer), at, "{}", cluster.nodes[place]);
        cluster.converges(&look, (UNDER, left));
    }
    let resets: Vec<_> = cluster.nodes.iter().map(|node| node.ask(&look).reset_time).collect();
    // A leaky copy counts from when it was told.
    let apart = if algorithm == 0 { 0 } else { 2_000 };
    let spread = resets.iter().max().unwrap() - resets.iter().min().unwrap();
    assert!(spread <= apart, "{look}: {resets:?}");
    // Without GLOBAL everybody forwards to the owner's bucket, which is the same.
    for node in &cluster.nodes {
        assert_eq!(node.ask(&with(&look, &json!({ "behavior": 0 }))).verdict(), (UNDER, left), "{node}");
    }
}

/// Two nodes grant what only one could have: the owner counts all it has, and everybody refuses afterwards.
fn too_much_at_once_drains_to_zero(cluster: &Cluster, owner: Kind, ours: Kind) {
    let at = cluster.place(owner);
    let (one, other) = (cluster.second(ours), cluster.second(Original));
    let key = cluster.key(at, "drained");
    let hit = with(&item(&key), &json!({ "behavior": GLOBAL, "hits": 6 }));
    for place in [one, other] {
        let answer = cluster.nodes[place].ask(&hit);
        assert_eq!(answer.verdict(), (UNDER, 4), "{}", cluster.nodes[place]);
    }
    cluster.converges(&with(&hit, &json!({ "hits": 0 })), (UNDER, 0));
    for node in &cluster.nodes {
        assert_eq!(node.ask(&with(&hit, &json!({ "hits": 1 }))).verdict(), (OVER, 0), "{node}");
    }
}

fn a_reset_is_one_everywhere(cluster: &Cluster, owner: Kind, ours: Kind) {
    let at = cluster.place(owner);
    for (number, place) in [cluster.second(ours), cluster.second(Original)].into_iter().enumerate() {
        let key = cluster.key(at, &format!("reset-{number}"));
        let hit = with(&item(&key), &json!({ "behavior": GLOBAL, "hits": 5 }));
        let look = with(&hit, &json!({ "hits": 0 }));
        cluster.nodes[place].ask(&hit);
        cluster.converges(&look, (UNDER, 5));
        let reset = with(&hit, &json!({ "behavior": GLOBAL | RESET, "hits": 1 }));
        let answer = cluster.nodes[place].ask(&reset);
        assert_eq!(answer.verdict().0, UNDER, "{}", cluster.nodes[place]);
        cluster.converges(&look, (UNDER, 10));
    }
}

fn errors_are_worded_as_global_ones(cluster: &Cluster, owner: Kind) {
    let at = cluster.place(owner);
    let bad = with(&item(&cluster.key(at, "bad")), &json!({ "behavior": GLOBAL, "algorithm": 9 }));
    let cause = "during workerPool.GetRateLimit: Invalid rate limit algorithm '9'";
    for (place, node) in cluster.nodes.iter().enumerate().filter(|(place, _)| *place != at) {
        let answer = node.ask(&bad);
        let expected = format!("Error in getGlobalRateLimit: during in getLocalRateLimit: {cause}");
        assert_eq!(answer.error, expected, "{node}");
        assert_eq!(cluster.owner_of(place, &answer), at, "{node}");
    }
}
