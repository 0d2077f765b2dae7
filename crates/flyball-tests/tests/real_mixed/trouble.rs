//! A node of either kind dies: what the other kind says of it, to callers and in its health.

use flyball_tests::wait::poll;
use serde_json::json;

use crate::nodes::Kind::{Exact, Like, Original};
use crate::nodes::{Cluster, Node, SOON, item, with};

fn refused(dead: &str) -> String {
    format!(
        "Error in client.GetPeerRateLimits: rpc error: code = Unavailable desc = connection error: desc = \
         \"transport: Error while dialing: dial tcp {dead}: connect: connection refused\""
    )
}

/// Health while a peer is dead, and nothing else wrong, in the original's words.
#[track_caller]
pub(crate) fn assert_unhealthy_about(node: &Node, dead: &str) {
    let text = format!("error returned from local peer.GetLastErr: from host {dead}: {}", refused(dead));
    let sick = poll(SOON, || {
        let (status, body) = node.health();
        // Other errors of the same death may be remembered too, each in its own words.
        let message = body["message"].as_str().unwrap_or_default();
        (status == 503 && body["code"] == 14 && message.split('|').any(|one| one == text)).then_some(())
    });
    assert!(sick.is_some(), "{node} says {:?}, not {text:?}", node.health());
}

/// Asks for a key of a dead peer until the answer is what it is from then on.
#[track_caller]
pub(crate) fn assert_refused_by(node: &Node, dead: &str, key: &str) {
    for (behavior, step) in [(0, "getPeerRateLimitsBatch"), (1, "getPeerRateLimitSingle")] {
        let expected = format!(
            "while fetching rate limit 'mixed_{key}' from peer: Error in {step}: Request error: {}",
            refused(dead)
        );
        let hit = with(&item(key), &json!({ "behavior": behavior }));
        let said = poll(SOON, || {
            let answer = node.ask(&hit);
            assert_ne!(answer.error, "", "{node}: {answer:?}");
            (answer.error == expected).then_some(answer)
        });
        let answer = said.unwrap_or_else(|| panic!("{node}: not {expected:?} but {:?}", node.ask(&hit)));
        assert_eq!(
            (answer.status.as_str(), answer.limit, answer.remaining, answer.reset_time),
            ("UNDER_LIMIT", 0, 0, 0)
        );
        assert_eq!(answer.metadata, json!({}));
    }
}

#[test]
fn a_dead_peer_of_either_kind_is_told_in_the_same_words() {
    let mut cluster = Cluster::start(7, &[Original, Like, Original, Like]);
    let back = [Original, Like].map(|kind| cluster.key(cluster.place(kind), "back"));
    for kind in [Original, Like] {
        let at = cluster.place(kind);
        let key = cluster.key(at, "dead");
        // A connection is there when it dies.
        for survivor in [Original, Like].map(|kind| &cluster.nodes[cluster.second(kind)]) {
            assert_eq!(survivor.ask(&item(&key)).error, "", "{survivor}");
        }
        cluster.nodes[at].kill();
        let dead = &cluster.nodes[at].address;
        for survivor in [Original, Like].map(|kind| &cluster.nodes[cluster.second(kind)]) {
            assert_refused_by(survivor, dead, &key);
            assert_unhealthy_about(survivor, dead);
            let live = survivor.send(&flyball_tests::http::Request::get("/v1/LiveCheck"));
            assert_eq!((live.status, live.text().as_str()), (200, "{}"), "{survivor}");
            // A copy is still answered for, in the owner's name.
            let global = survivor.ask(&with(&item(&key), &json!({ "behavior": 2, "name": "mixed" })));
            assert_eq!((global.error.as_str(), global.owner.as_ref()), ("", Some(dead)), "{survivor}");
        }
    }
    // Back under its address, each is asked again by the other kind.
    for ((kind, other), key) in [(Original, Like), (Like, Original)].into_iter().zip(&back) {
        let at = cluster.place(kind);
        cluster.nodes[at].start_again(4);
        let survivor = &cluster.nodes[cluster.second(other)];
        let asked = poll(SOON, || {
            let answer = survivor.ask(&item(key));
            (answer.error.is_empty() && answer.owner.as_ref() == Some(&cluster.nodes[at].address))
                .then_some(())
        });
        assert!(asked.is_some(), "{survivor}: {:?}", survivor.ask(&item(key)));
    }
    // With these semantics errors are remembered for minutes.
    for kind in [Original, Like] {
        assert_eq!(cluster.nodes[cluster.second(kind)].health().0, 503);
    }
}

/// With exact semantics ours stand in for a dead original, with their share of the limit, and say so.
#[test]
fn ours_stand_in_for_a_dead_original() {
    let mut cluster = Cluster::start(8, &[Original, Exact, Exact]);
    let at = cluster.place(Original);
    let key = cluster.key(at, "dead");
    cluster.nodes[at].kill();
    for node in cluster.nodes.iter().filter(|node| node.kind == Exact) {
        // A third of 10, rounded up; and healthy keys in the same call go on.
        for left in [3, 2, 1, 0] {
            let answers = node.ask_all(&[item(&key), item(&cluster.key(1, "alive"))]);
            assert_eq!(answers[0].verdict(), ("UNDER_LIMIT", left), "{node}");
            assert_eq!(answers[0].metadata["degraded"], "owner-unreachable", "{node}");
            assert_eq!(answers[1].error, "", "{node}");
        }
        assert_eq!(node.ask(&item(&key)).verdict(), ("OVER_LIMIT", 0), "{node}");
        assert_unhealthy_about(node, &cluster.nodes[at].address);
    }
    // It is back: it decides again, and as health is about now, all is well within ten seconds.
    cluster.nodes[at].start_again(3);
    let dead = cluster.nodes[at].address.clone();
    for (turn, node) in cluster.nodes.iter().filter(|node| node.kind == Exact).enumerate() {
        let back = poll(SOON, || {
            let answer = node.ask(&with(&item(&key), &json!({ "hits": 0 })));
            (answer.metadata == json!({ "owner": dead })).then_some(())
        });
        assert!(back.is_some(), "{node}: {:?}", node.ask(&item(&key)));
        assert_eq!(node.ask(&item(&key)).verdict(), ("UNDER_LIMIT", 9 - turn as i64), "{node}");
        let healthy = poll(SOON, || (node.health().0 == 200).then_some(()));
        assert!(healthy.is_some(), "{node}: {:?}", node.health());
    }
}
