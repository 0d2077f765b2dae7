//! Who is asked makes no difference but for `metadata.owner`.

use std::collections::HashMap;
use std::thread;

use flyball_tests::conformance::attempt::now_ms;
use serde_json::json;

use crate::nodes::Kind::{self, Exact, Like, Original};
use crate::nodes::{Cluster, Node, item, with};

const OVER: &str = "OVER_LIMIT";
const UNDER: &str = "UNDER_LIMIT";

#[test]
fn forwarding_with_gubernator_semantics() {
    forwarding(1, Like);
}

#[test]
fn forwarding_with_exact_semantics() {
    forwarding(2, Exact);
}

fn forwarding(network: u8, ours: Kind) {
    let cluster = Cluster::start(network, &[Original, ours, Original, ours]);
    owners_agree(&cluster);
    everybody_counts_in_one_bucket(&cluster);
    batches_keep_their_order(&cluster);
    parallel_callers_lose_nothing(&cluster);
    errors_are_worded_by_whoever_applied(&cluster);
}

fn owners_agree(cluster: &Cluster) {
    let items: Vec<_> = (0..300).map(|number| item(&format!("{number}-owned"))).collect();
    let mut owners: Option<Vec<usize>> = None;
    for (place, node) in cluster.nodes.iter().enumerate() {
        let answers = node.ask_all(&items);
        let said: Vec<_> = answers.iter().map(|answer| cluster.owner_of(place, answer)).collect();
        assert_eq!(*owners.get_or_insert_with(|| said.clone()), said, "{node}");
        // It is not only who they name: each hit so far is in the one bucket.
        for answer in &answers {
            assert_eq!(answer.verdict(), (UNDER, 9 - place as i64), "{node}");
        }
    }
    let mut shares = HashMap::new();
    for owner in owners.unwrap() {
        *shares.entry(owner).or_insert(0) += 1;
    }
    assert_eq!(shares.len(), cluster.nodes.len(), "{shares:?}");
}

/// Of every node through every node, with and without batching, dated and not, both algorithms.
fn everybody_counts_in_one_bucket(cluster: &Cluster) {
    for owner in 0..cluster.nodes.len() {
        for (algorithm, behavior) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let key = cluster.key(owner, &format!("one-{algorithm}-{behavior}"));
            let date = now_ms();
            let hit = with(
                &item(&key),
                &json!({ "algorithm": algorithm, "behavior": behavior, "created_at": date }),
            );
            let mut reset = None;
            for (turn, node) in cluster.nodes.iter().cycle().take(10).enumerate() {
                let answer = node.ask(&hit);
                let place = turn % cluster.nodes.len();
                assert_eq!(answer.verdict(), (UNDER, 9 - turn as i64), "{node}: {hit}");
                assert_eq!(cluster.owner_of(place, &answer), owner, "{node}: {answer:?}");
                let metadata =
                    if place == owner { json!({}) } else { json!({ "owner": cluster.nodes[owner].address }) };
                assert_eq!(answer.metadata, metadata, "{node}");
                assert_eq!(answer.limit, 10);
                // A leaky bucket is full again the later the less is left in it.
                let expected = if algorithm == 0 { 600_000 } else { 60_000 * (1 + turn as i64) };
                assert_eq!(answer.reset_time - date, expected, "{node}: {hit}");
                assert!(algorithm == 1 || *reset.get_or_insert(answer.reset_time) == answer.reset_time);
            }
            for node in &cluster.nodes {
                assert_eq!(node.ask(&hit).verdict(), (OVER, 0), "{node}: {hit}");
            }
        }
    }
}

/// The limit of an item tells which one was answered.
fn batches_keep_their_order(cluster: &Cluster) {
    for behavior in [0, 1] {
        // Unbatched, every item is a call.
        let count = if behavior == 0 { 1_000 } else { 100 };
        let items: Vec<_> = (0..count)
            .map(|number| {
                let fields = json!({ "limit": 1_000 + number, "behavior": behavior });
                with(&item(&format!("batch-{behavior}-{number}")), &fields)
            })
            .collect();
        for (turn, node) in cluster.nodes.iter().enumerate() {
            for (number, answer) in node.ask_all(&items).iter().enumerate() {
                let limit = 1_000 + number as i64;
                assert_eq!(answer.verdict(), (UNDER, limit - 1 - turn as i64), "{node}, item {number}");
                assert_eq!(answer.limit, limit, "{node}, item {number}");
            }
        }
    }
}

fn parallel_callers_lose_nothing(cluster: &Cluster) {
    const CALLS: i64 = 50;
    let mut items = Vec::new();
    for owner in 0..cluster.nodes.len() {
        for key in cluster.keys(owner, "parallel", 2) {
            items.push(with(&item(&key), &json!({ "limit": 1_000 })));
        }
    }
    thread::scope(|scope| {
        for caller in cluster.nodes.iter().map(Node::another_caller) {
            let items = &items;
            scope.spawn(move || {
                for _ in 0..CALLS {
                    for answer in caller.ask_all(items) {
                        assert_eq!(answer.verdict().0, UNDER);
                    }
                }
            });
        }
    });
    let expected = 1_000 - CALLS * cluster.nodes.len() as i64;
    for node in &cluster.nodes {
        for item in &items {
            let look = with(item, &json!({ "hits": 0 }));
            assert_eq!(node.ask(&look).verdict(), (UNDER, expected), "{node}: {item}");
        }
    }
}

fn errors_are_worded_by_whoever_applied(cluster: &Cluster) {
    let gregorian = "behavior DURATION_IS_GREGORIAN is set; but `Duration` is not a valid gregorian interval";
    let cases = [
        (json!({ "algorithm": 7 }), "Invalid rate limit algorithm '7'".to_owned()),
        (json!({ "algorithm": 7, "behavior": 1 }), "Invalid rate limit algorithm '7'".to_owned()),
        (json!({ "behavior": 4, "duration": 99 }), format!("Error in tokenBucket: {gregorian}")),
        (
            json!({ "algorithm": 1, "behavior": 4, "duration": 99 }),
            format!("Error in leakyBucket: {gregorian}"),
        ),
    ];
    for owner in 0..cluster.nodes.len() {
        let key = cluster.key(owner, "bad");
        for (place, node) in cluster.nodes.iter().enumerate() {
            for (fields, cause) in &cases {
                // A good item beside it is not harmed.
                let answers =
                    node.ask_all(&[with(&item(&key), fields), item(&format!("good-{owner}-{place}"))]);
                let expected = if place == owner {
                    format!(
                        "Error while apply rate limit for 'mixed_{key}': during workerPool.GetRateLimit: {cause}"
                    )
                } else {
                    format!("Error in getLocalRateLimit: during workerPool.GetRateLimit: {cause}")
                };
                assert_eq!(answers[0].error, expected, "{node} about a key of {}", cluster.nodes[owner]);
                assert_eq!(cluster.owner_of(place, &answers[0]), owner, "{node}: {:?}", answers[0]);
                assert_eq!(answers[1].verdict().0, UNDER);
            }
            // Found where it is asked, so nobody's address is told.
            for (fields, expected) in [
                (json!({ "unique_key": "" }), "field 'unique_key' cannot be empty"),
                (json!({ "name": "" }), "field 'namespace' cannot be empty"),
                (json!({ "max_wait": 5 }), "max_wait is only supported by LEAKY_BUCKET"),
                (json!({ "max_wait": -1 }), "field 'max_wait' cannot be negative"),
            ] {
                let answer = node.ask(&with(&item(&key), &fields));
                assert_eq!((answer.error.as_str(), &answer.metadata), (expected, &json!({})), "{node}");
            }
        }
    }
}
