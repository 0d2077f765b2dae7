//! Calls that cross the cluster: large ones, callers that leave, who owns what, health.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use flyball_tests::cluster::{Item, Plan};
use flyball_tests::http::Request;
use flyball_tests::wait::poll;
use serde_json::{Value, json};

use crate::network;

/// P27: calls of 1000 items, all owned by another node, are regrouped on their way and none is refused or lost; one
/// of 1001 is refused by the node that is asked.
#[test]
fn p27_fifty_parallel_calls_of_1000_items_of_one_owner() {
    const CALLS: usize = 50;
    let cluster = Plan::new(network::REGROUPED, 3).patient().start().unwrap();
    let keys = cluster.keys_by_owner("large", 1000).unwrap().swap_remove(1);
    let items: Vec<Item> = keys.iter().map(|key| Item::new("large", key, 1_000)).collect();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(|| cluster.node(0).ask(&items))).collect();
        for call in calls {
            for answer in call.join().unwrap().unwrap() {
                assert!(answer.is_grant() && !answer.degraded, "{answer:?}");
                assert_eq!(answer.owner, Some(cluster.node(1).grpc().to_string()));
            }
        }
    });
    let looks: Vec<Item> = items.iter().map(|item| item.clone().hits(0)).collect();
    for node in cluster.nodes() {
        for (item, answer) in looks.iter().zip(node.ask(&looks).unwrap()) {
            assert_eq!(answer.remaining, 1_000 - CALLS as i64, "{}: {answer:?}", item.key);
        }
    }

    let items =
        vec![json!({"name": "large", "unique_key": "k", "hits": 1, "limit": 10, "duration": 1000}); 1001];
    let request = Request::post("/v1/GetRateLimits", json!({ "requests": items }).to_string());
    let refused = cluster.node(0).connect().send(&request).unwrap();
    assert_eq!((refused.status, &refused.json().unwrap()["code"]), (400, &json!(11)), "{}", refused.text());
}

/// P26: real nodes on the addresses of the recorded ring own the keys that the original's would, whichever is asked,
/// with either hash.
#[test]
fn p26_owners_are_the_recorded_ones() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../flyball-core/tests/testdata/ring.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let peers = json!(["127.0.7.1:1051", "127.0.7.2:1051", "127.0.7.3:1051"]);
    let mut cases = 0;
    for case in recorded["cases"].as_array().unwrap().iter().filter(|case| case["peers"] == peers) {
        let mut plan = Plan::new(0, 3).on([127, 0, 7]).patient();
        if case["hash"] == "fnv1a" {
            plan = plan.arguments(&["--peer-picker=replicated-hash", "--peer-picker-hash=fnv1a"]);
        }
        let cluster = plan.start().unwrap();
        let keys = recorded["keys"].as_array().unwrap().iter().zip(case["owners"].as_array().unwrap());
        // Where a key is cut into name and rest does not matter to the ring. A check has both.
        let (items, owners): (Vec<Item>, Vec<usize>) = keys
            .filter_map(|(key, owner)| {
                let (name, rest) = key.as_str().unwrap().split_once('_').unwrap();
                let usable = !name.is_empty() && !rest.is_empty() && name.len() + rest.len() <= 4_096;
                let item = Item::new(name, rest, 1).hits(0);
                usable.then(|| (item, usize::try_from(owner.as_u64().unwrap()).unwrap()))
            })
            .unzip();
        assert!(items.len() > 300, "{} keys", items.len());
        for (asked, node) in cluster.nodes().iter().enumerate() {
            for ((item, &owner), answer) in items.iter().zip(&owners).zip(node.ask(&items).unwrap()) {
                let expected = (owner != asked).then(|| cluster.node(owner).grpc().to_string());
                assert_eq!(answer.owner, expected, "{}_{}: {answer:?}", item.name, item.key);
            }
        }
        cases += 1;
    }
    assert_eq!(cases, 2);
}

/// P28: a healthy cluster of three says so, and names all three.
#[test]
fn p28_a_healthy_cluster_counts_its_peers() {
    let cluster = Plan::new(network::HEALTH, 3).start().unwrap();
    for node in cluster.nodes() {
        let health = node.health().unwrap();
        assert_eq!(health["status"], "healthy", "{health}");
        assert_eq!(health["message"], "", "{health}");
        assert_eq!(health["peer_count"], 3, "{health}");
        assert_eq!(health["advertise_address"], node.grpc().to_string(), "{health}");
        let mut peers: Vec<_> = health["local_peers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|peer| peer["grpc_address"].clone())
            .collect();
        peers.sort_by_key(Value::to_string);
        let all: Vec<_> = cluster.nodes().iter().map(|node| json!(node.grpc().to_string())).collect();
        assert_eq!(peers, all);
    }
}

/// P29: health over HTTP is answered by the node that is asked, whatever its ports are.
#[test]
fn p29_health_does_not_depend_on_default_ports() {
    let plan = Plan::new(network::OTHER_PORTS, 3).ports(24_051, 24_080);
    let cluster = plan.start().unwrap();
    for node in cluster.nodes() {
        assert_eq!(node.health().unwrap()["peer_count"], 3);
    }
}

/// Callers that leave and callers in a hurry are not their peers' fault: nothing is remembered against the owner and
/// every node stays healthy, also while the owner is slow.
#[test]
fn callers_that_leave_do_not_make_a_peer_look_sick() {
    let cluster = Plan::new(network::CALLERS_LEAVE, 3).patient().start().unwrap();
    let keys = cluster.keys_by_owner("hurry", 20).unwrap().swap_remove(1);
    let (asked, owner) = (cluster.node(0), cluster.node(1));
    let items: Vec<Item> = keys.iter().map(|key| Item::new("hurry", key, 1_000_000)).collect();
    let body = json!({ "requests": keys.iter().map(|key| {
        json!({"name": "hurry", "unique_key": key, "hits": 1, "limit": 1_000_000, "duration": 3_600_000})
    }).collect::<Vec<_>>() })
    .to_string();
    let head = format!(
        "POST /v1/GetRateLimits HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let leave = || {
        let mut stream = TcpStream::connect(asked.http()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
    };
    let hurry = |timeout: &str| {
        let request = Request::post("/v1/GetRateLimits", body.clone()).header("grpc-timeout", timeout);
        asked.connect().send(&request).unwrap()
    };
    for round in 0..100 {
        leave();
        // Nobody waits so short a time that it may not be enough: both answers are right.
        let status = hurry(["1u", "100u", "1m", "3m"][round % 4]).status;
        assert!(matches!(status, 200 | 504), "{status}");
    }
    // Now the owner certainly does not answer in time.
    cluster.freeze(1).unwrap();
    for _ in 0..20 {
        leave();
        let late = hurry("10m");
        // The call ends late, or with its items late: both come due in the same moment.
        if late.status != 504 {
            let answers = late.json().unwrap()["responses"].as_array().unwrap().clone();
            let refused = |answer: &Value| {
                let error = answer["error"].as_str().unwrap_or_default();
                error.starts_with("caller gave up") && answer["status"] == "OVER_LIMIT"
            };
            assert!(late.status == 200 && answers.iter().all(refused), "{} {}", late.status, late.text());
        }
    }
    cluster.thaw(1).unwrap();

    let answered = poll(Duration::from_secs(10), || {
        let answers = asked.ask(&items).unwrap();
        answers.iter().all(|answer| answer.is_grant() && !answer.degraded).then_some(())
    });
    assert!(answered.is_some(), "{}", cluster.logs());
    let label = format!("{{peerAddr=\"{}\"}}", owner.grpc());
    let metric = |name: &str| asked.metric(&format!("{name}{label}")).unwrap();
    assert!(metric("flyball_peer_calls_total") > 0.0);
    assert!((metric("flyball_peer_up") - 1.0).abs() < f64::EPSILON);
    assert!(metric("flyball_peer_failures_total") < 1.0, "{}", cluster.logs());
    assert!(metric("flyball_peer_fallbacks_total") < 1.0, "{}", cluster.logs());
    for node in cluster.nodes() {
        assert_eq!(node.health().unwrap()["message"], "");
    }
}
