//! What was observed of three originals, asked of three nodes of ours with their semantics. Bodies are compared
//! whole; when news of GLOBAL limits arrive is not.

use flyball_tests::conformance::attempt::now_ms;
use flyball_tests::http::Request;
use flyball_tests::wait::poll;
use serde_json::{Value, json};

use crate::nodes::Kind::Like;
use crate::nodes::{Cluster, Node, SOON, item, with};
use crate::trouble::{assert_refused_by, assert_unhealthy_about};

const THREE: [crate::nodes::Kind; 3] = [Like, Like, Like];
const UNDER: &str = "UNDER_LIMIT";

fn body(node: &Node, items: &[Value]) -> Value {
    let response = node.send(&Request::post("/v1/GetRateLimits", json!({ "requests": items }).to_string()));
    assert_eq!(response.status, 200, "{node}: {}", response.text());
    response.json().unwrap()
}

fn under(remaining: i64, reset_time: i64, metadata: &Value) -> Value {
    json!({
        "status": UNDER, "limit": "10", "remaining": remaining.to_string(),
        "reset_time": reset_time.to_string(), "error": "", "metadata": metadata, "retry_after": "0",
    })
}

fn owner(cluster: &Cluster, at: usize, asked: usize) -> Value {
    if at == asked { json!({}) } else { json!({ "owner": cluster.nodes[at].address }) }
}

#[test]
fn health_forwarding_and_the_order_of_items() {
    let cluster = Cluster::start(11, &THREE);
    for node in &cluster.nodes {
        let (status, mut health) = node.health();
        assert_eq!(status, 200);
        // Their order is random.
        let mut peers = health["local_peers"].take().as_array().unwrap().clone();
        peers.sort_by_key(|peer| peer["grpc_address"].as_str().unwrap().to_owned());
        let peer = |node: &Node| json!({ "grpc_address": node.address, "data_center": "" });
        assert_eq!(peers, cluster.nodes.iter().map(peer).collect::<Vec<_>>());
        let expected = json!({
            "status": "healthy", "message": "", "peer_count": 3, "advertise_address": node.address,
            "local_peers": null, "region_peers": [],
        });
        assert_eq!(health, expected);
        assert_eq!(node.send(&Request::get("/v1/LiveCheck")).text(), "{}");
    }

    let date = now_ms();
    for behavior in [0, 1] {
        let key = cluster.key(1, &format!("same-{behavior}"));
        let fields =
            json!({ "created_at": date, "behavior": behavior, "metadata": { "mine": "not echoed" } });
        let hit = with(&item(&key), &fields);
        for (asked, node) in cluster.nodes.iter().enumerate() {
            let expected = under(9 - asked as i64, date + 600_000, &owner(&cluster, 1, asked));
            assert_eq!(body(node, std::slice::from_ref(&hit)), json!({ "responses": [expected] }), "{node}");
        }
    }

    let keys: Vec<_> = (0..3).map(|at| cluster.key(at, "spread")).collect();
    let keys = [&keys[0], &keys[1], &keys[2], ""].map(|key| with(&item(key), &json!({ "created_at": date })));
    let answer = |at| under(9, date + 600_000, &owner(&cluster, at, 0));
    let nameless = json!({
        "status": UNDER, "limit": "0", "remaining": "0", "reset_time": "0",
        "error": "field 'unique_key' cannot be empty", "metadata": {}, "retry_after": "0",
    });
    let expected = json!({ "responses": [answer(0), answer(1), answer(2), nameless] });
    assert_eq!(body(&cluster.nodes[0], &keys), expected);
}

#[test]
fn global_limits() {
    let cluster = Cluster::start(12, &THREE);
    let date = now_ms();
    let global =
        |key: &str, hits: i64| with(&item(key), &json!({ "behavior": 2, "hits": hits, "created_at": date }));

    // One hit, told to everybody; before that others have buckets of their own.
    let key = cluster.key(2, "told");
    let look = global(&key, 0);
    let first = body(&cluster.nodes[0], &[global(&key, 3)]);
    assert_eq!(first["responses"][0], under(7, date + 600_000, &owner(&cluster, 2, 0)));
    cluster.converges(&look, (UNDER, 7));
    for (asked, node) in cluster.nodes.iter().enumerate() {
        // Dated later, and still the owner's reset time.
        let later = with(&look, &json!({ "created_at": date + 50 }));
        let expected = under(7, date + 600_000, &owner(&cluster, 2, asked));
        assert_eq!(body(node, &[later])["responses"][0], expected, "{node}");
        let plain = with(&look, &json!({ "behavior": 0 }));
        assert_eq!(body(node, &[plain])["responses"][0], expected, "{node} forwards to the same bucket");
    }

    // Hits of one window travel as their sum, dated like the first.
    let key = cluster.key(1, "summed");
    for after in [0, 1_000, 2_000] {
        cluster.nodes[0].ask(&with(&global(&key, 2), &json!({ "created_at": date + after })));
    }
    cluster.converges(&global(&key, 0), (UNDER, 4));
    for node in &cluster.nodes {
        assert_eq!(node.ask(&global(&key, 0)).reset_time, date + 600_000, "{node}");
    }

    // What was granted too often leaves nothing; the status says so when somebody hits again.
    let key = cluster.key(1, "drained");
    for asked in [0, 2] {
        let answer = body(&cluster.nodes[asked], &[global(&key, 6)]);
        assert_eq!(answer["responses"][0], under(4, date + 600_000, &owner(&cluster, 1, asked)));
    }
    cluster.converges(&global(&key, 0), (UNDER, 0));
    for (asked, node) in cluster.nodes.iter().enumerate() {
        let mut expected = under(0, date + 600_000, &owner(&cluster, 1, asked));
        assert_eq!(body(node, &[global(&key, 0)])["responses"][0], expected, "{node}");
        expected["status"] = json!("OVER_LIMIT");
        assert_eq!(body(node, &[global(&key, 1)])["responses"][0], expected, "{node}");
    }

    // A reset answers as it does on one node, and fills all.
    let key = cluster.key(1, "reset");
    cluster.nodes[0].ask(&global(&key, 5));
    cluster.converges(&global(&key, 0), (UNDER, 5));
    let reset = with(&global(&key, 1), &json!({ "behavior": 10 }));
    let answer = body(&cluster.nodes[0], &[reset]);
    assert_eq!(answer["responses"][0], under(10, 0, &owner(&cluster, 1, 0)));
    cluster.converges(&global(&key, 0), (UNDER, 10));
    for (asked, node) in cluster.nodes.iter().enumerate() {
        let expected = under(10, date + 600_000, &owner(&cluster, 1, asked));
        assert_eq!(body(node, &[global(&key, 0)])["responses"][0], expected, "{node}");
    }
}

#[test]
fn a_node_that_is_killed() {
    let mut cluster = Cluster::start(13, &THREE);
    let key = cluster.key(2, "dead");
    let fresh = item(&cluster.key(2, "back"));
    // Its hit is kept for the owner and told when that is back.
    let copied = item(&cluster.key(2, "copied"));
    for node in &cluster.nodes {
        assert_eq!(node.ask(&item(&key)).error, "");
    }
    cluster.nodes[2].kill();
    let dead = &cluster.nodes[2].address;
    assert_refused_by(&cluster.nodes[0], dead, &key);
    assert_unhealthy_about(&cluster.nodes[0], dead);
    assert_eq!(cluster.nodes[1].health().0, 200, "it did not meet the error");
    // Answered from its own copy, in the dead owner's name.
    let global = cluster.nodes[0].ask(&with(&copied, &json!({ "behavior": 2 })));
    assert_eq!((global.error.as_str(), global.owner.as_ref()), ("", Some(dead)));
    // Healthy keys beside it are not harmed.
    let answers = cluster.nodes[0].ask_all(&[item(&key), item(&cluster.key(0, "alive"))]);
    assert_ne!(answers[0].error, "");
    assert_eq!(answers[1].error, "");

    // Back under its address with nothing in it. The error is remembered for minutes.
    cluster.nodes[2].start_again(3);
    let node = &cluster.nodes[0];
    let back = poll(SOON, || node.ask(&fresh).error.is_empty().then_some(()));
    assert!(back.is_some(), "{:?}", node.ask(&fresh));
    assert_eq!(node.ask(&item(&key)).verdict(), (UNDER, 9));
    assert_eq!(node.health().0, 503);
}

#[test]
fn a_node_that_is_frozen() {
    let cluster = Cluster::start(14, &THREE);
    let key = cluster.key(2, "frozen");
    let node = &cluster.nodes[0];
    assert_eq!(node.ask(&item(&key)).verdict(), (UNDER, 9));
    cluster.nodes[2].freeze();
    let answer = node.ask(&item(&key));
    cluster.nodes[2].thaw();
    let expected = format!(
        "while fetching rate limit 'mixed_{key}' from peer: Error in getPeerRateLimitsBatch: Request error: Error in \
         client.GetPeerRateLimits: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    );
    assert_eq!((answer.error.as_str(), &answer.metadata), (expected.as_str(), &json!({})));
    // It is asked again soon; and what was given up was sent once.
    let back = poll(SOON, || {
        let answer = node.ask(&with(&item(&key), &json!({ "hits": 0 })));
        answer.error.is_empty().then_some(answer)
    });
    assert!(back.unwrap().remaining >= 8);
}
