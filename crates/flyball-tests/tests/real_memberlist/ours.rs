//! What only ours do, and what they do among themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_tests::http::{Connection, Request};
use flyball_tests::wait::poll;
use serde_json::json;

use super::nodes::{FORMED, Kind, Plan, at};

const SOON: Duration = Duration::from_secs(20);

/// D11: the original waits for its seeds before it serves anything.
#[test]
fn d11_a_node_without_its_seeds_serves_and_says_what_is_missing() {
    let plan = Plan { network: 4, ..Plan::default() };
    let folder = tempfile::tempdir().unwrap();
    let lonely = plan.node(2, Kind::Ours, folder.path().join("log"), &[]);
    let get = |path| {
        let answer = poll(SOON, || Connection::new(lonely.http).send(&Request::get(path)).ok());
        answer.unwrap_or_else(|| panic!("no answer:\n{}", lonely.log()))
    };
    assert_eq!(get("/healthz").status, 200);
    let says = poll(SOON, || lonely.log().contains("none of 2 known nodes answers to gossip").then_some(()));
    assert!(says.is_some(), "{}", lonely.log());
    // Whoever asks it is answered meanwhile.
    let item = json!({ "name": "a", "unique_key": "b", "hits": 1, "limit": 9, "duration": 60_000 });
    let body = json!({ "requests": [item] }).to_string();
    let answer = Connection::new(lonely.http).send(&Request::post("/v1/GetRateLimits", body)).unwrap();
    assert!(answer.text().contains("\"remaining\":\"8\""), "{}", answer.text());
    // It keeps trying, and one seed is enough.
    let seed = plan.node(0, Kind::Original, folder.path().join("seed.log"), &[]);
    let joined = poll(FORMED, || (lonely.peers() == Some(2) && seed.peers() == Some(2)).then_some(()));
    assert!(joined.is_some(), "{}\n{}", lonely.log(), seed.log());
}

/// D1: with the original each of them would replace the one before.
#[test]
fn d1_several_nodes_on_one_address() {
    let plan = Plan { network: 5, ..Plan::default() };
    let folder = tempfile::tempdir().unwrap();
    let start = |number: u16| {
        let [grpc, http, gossip] = [1_051, 2_051, 7_946].map(|port| at(5, 0, port + number * 10).to_string());
        let name = format!("node-{number}");
        let settings = [
            ("GUBER_GRPC_ADDRESS", grpc.as_str()),
            ("GUBER_HTTP_ADDRESS", http.as_str()),
            ("GUBER_MEMBERLIST_BIND_ADDRESS", gossip.as_str()),
            ("GUBER_MEMBERLIST_ADDRESS", gossip.as_str()),
            ("GUBER_MEMBERLIST_NODE_NAME", name.as_str()),
        ];
        let mut node = plan.node(0, Kind::Ours, folder.path().join(&name), &settings);
        node.http = at(5, 0, 2_051 + number * 10);
        node
    };
    let nodes: Vec<_> = (0..3).map(start).collect();
    for node in &nodes {
        let formed = poll(FORMED, || (node.peers() == Some(3)).then_some(()));
        assert!(formed.is_some(), "{}", node.log());
    }
}

/// P22 with discovery: whoever asks others while one ends gracefully sees no error, and P28: peers are counted.
#[test]
fn p22_p28_a_graceful_stop_under_gossip_costs_no_error() {
    let cluster = Plan { network: 6, ..Plan::default() }.start(&[Kind::Ours; 3]);
    let ended = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut connection = Connection::new(cluster.nodes[0].http);
            let (mut after, mut number) = (0, 0_u64);
            // Some time after the end, so that whoever still dialled it would be seen.
            while after < 400 {
                let item = |key: u64| {
                    json!({ "name": "p22", "unique_key": format!("{key}"), "hits": 1, "limit": 1_000_000, "duration": 60_000 })
                };
                let items: Vec<_> = (number..number + 20).map(|key| item(key % 500)).collect();
                number += 20;
                let body = json!({ "requests": items }).to_string();
                let answer = connection.send(&Request::post("/v1/GetRateLimits", body)).unwrap();
                let body = answer.json().unwrap();
                for answer in body["responses"].as_array().unwrap() {
                    assert_eq!(answer["error"], "", "{answer}");
                    assert!(answer["metadata"]["degraded"].is_null(), "{answer}");
                }
                after += u64::from(ended.load(Ordering::Relaxed));
                flyball_tests::wait::sleep_ms(5);
            }
            number
        });
        flyball_tests::wait::sleep_ms(500);
        cluster.nodes[1].end();
        let left = cluster.without(&[1]);
        let took = cluster.wait(SOON, &left);
        println!("it has left: {took:?}");
        ended.store(true, Ordering::Relaxed);
        caller.join().unwrap()
    });
    println!("{asked} items were asked for");
}

/// A node with another key, or with none, is nobody.
#[test]
fn strangers_stay_out_of_an_encrypted_cluster() {
    let plan = Plan { network: 7, keys: Some("MDEyMzQ1Njc4OWFiY2RlZg=="), ..Plan::default() };
    let cluster = plan.start(&[Kind::Original, Kind::Ours]);
    let other = ("GUBER_MEMBERLIST_SECRET_KEYS", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    let none = ("GUBER_MEMBERLIST_SECRET_KEYS", "");
    for (place, key) in [(2, other), (3, none)] {
        let stranger = cluster.another(place, Kind::Ours, &[key]);
        let refused = poll(SOON, || stranger.log().contains("known nodes answers to gossip").then_some(()));
        assert!(refused.is_some(), "{}", stranger.log());
    }
    for node in &cluster.nodes {
        assert_eq!(node.peers(), Some(2));
    }
}
