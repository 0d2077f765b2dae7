//! `flyball ring`: owners, shares and moves from addresses alone, and from a node's peers.

use std::io::Write as _;
use std::process::Stdio;

use super::responder::{answer, responder};
use super::support::{Ended, Node, flyball, run};

/// The peers of a recorded cluster, and owners it gave.
const PEERS: &str = "127.0.0.11:31101,127.0.0.12:31101,127.0.0.13:31101";
const OWNERS: [(&str, &str, &str); 3] = [
    ("n0", "key:0:a", "127.0.0.11:31101"),
    ("n1", "key:919:b", "127.0.0.12:31101"),
    ("n2", "key:838:c", "127.0.0.13:31101"),
];

fn ring(args: &str) -> Ended {
    run(flyball(["ring"]).args(args.split_whitespace()))
}

#[test]
fn owners_are_the_originals() {
    for (name, key, owner) in OWNERS {
        for line in [format!("{name} {key}"), format!("--key {name}_{key}")] {
            let ended = ring(&format!("owner --peers {PEERS} {line}"));
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
            assert_eq!(ended.out, format!("{owner}  {name}_{key}\n"));
        }
    }
    let several = ring(&format!("owner --peers {PEERS} n0 key:0:a other --key n1_key:919:b --json"));
    let keys: Vec<serde_json::Value> =
        several.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert_eq!((&keys[0]["key"], &keys[0]["owner"]), (&"n1_key:919:b".into(), &"127.0.0.12:31101".into()));
    assert_eq!(keys[1]["owner"], "127.0.0.11:31101");
    assert_eq!(keys[1]["place"].as_str().unwrap().len(), 16);
    // The picker's options count, under the daemon's names too.
    let place =
        |flags: &str| ring(&format!("owner --peers {PEERS} --json {flags} a b")).json()["place"].clone();
    assert_ne!(place(""), place("--picker-hash fnv1a"));
    assert_eq!(place("--peer-picker-hash fnv1a --replicated-hash-replicas 7"), place("--picker-hash fnv1a"));
}

fn from_input(input: &[u8]) -> Ended {
    let mut command = flyball(["ring", "owner", "--peers", PEERS, "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // Fails when the command has seen enough.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn keys_may_come_from_standard_input() {
    let ended = from_input(b"n0_key:0:a\r\n\nn1_key:919:b\nn2_key:838:c");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected: String =
        OWNERS.iter().map(|(name, key, owner)| format!("{owner}  {name}_{key}\n")).collect();
    assert_eq!(ended.out, expected);
    let hostile = from_input("a_\u{1b}[2J\n".as_bytes());
    assert!(hostile.out.ends_with("  a_\\u{1b}[2J\n"), "{hostile:?}");
    let latin = from_input(b"a_b\na_\xfc\n");
    assert_eq!((latin.code, latin.out.lines().count()), (Some(1), 1), "{latin:?}");
    assert!(latin.error_line().starts_with("error: line 2 of standard input is not UTF-8"), "{latin:?}");
    let endless = from_input(&vec![b'x'; (1 << 20) + 1]);
    assert!(endless.error_line().contains("line 1 of standard input is longer than"), "{}", endless.err);
}

#[test]
fn shares_of_the_ring_and_of_a_sample() {
    let ended = ring(&format!("share --peers {PEERS} --sample 10000"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.out.lines().count(), 5, "{ended:?}");
    assert!(ended.out.lines().last().unwrap().starts_with("max/mean"), "{ended:?}");
    for form in ["account", "address", "uuid"] {
        let json = ring(&format!("share --peers {PEERS} --sample 10000 --sample-keys {form} --json")).json();
        let peers = json["peers"].as_array().unwrap();
        let shares: f64 = peers.iter().map(|peer| peer["share"].as_f64().unwrap()).sum();
        let sampled: u64 = peers.iter().map(|peer| peer["sampled"].as_u64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9 && sampled == 10_000, "{json}");
        let most = json["max_over_mean"]["ring"].as_f64().unwrap();
        assert!((1.0..1.25).contains(&most) && json["max_over_mean"]["sample"].is_number(), "{json}");
    }
    let alone = ring("share --peers a:1051,a:1051 --json").json();
    assert_eq!(alone["peers"], serde_json::json!([{"address": "a:1051", "share": 1.0, "sampled": null}]));
}

#[test]
fn a_new_peer_takes_and_the_others_only_give() {
    let json = ring("diff --peers a:1,b:1,c:1 --to d:1,c:1,b:1,a:1 --json").json();
    let moved = json["moved"].as_array().unwrap();
    assert_eq!(moved.len(), 3, "{json}");
    assert!(moved.iter().all(|moved| moved["to"] == "d:1"), "{json}");
    let share = ring("share --peers a:1,b:1,c:1,d:1 --json").json()["peers"][3]["share"].as_f64().unwrap();
    assert!((json["share"].as_f64().unwrap() - share).abs() < 1e-9, "{json}");
    let ended = ring("diff --peers a:1,b:1 --to b:1,c:1");
    assert!(ended.out.ends_with(" of all keys change their owner; peers: 1 new, 1 gone\n"), "{ended:?}");
    let same = ring("diff --peers a:1,b:1 --to b:1,a:1");
    assert_eq!(same.out, "  0.0 %  of all keys change their owner; peers: 0 new, 0 gone\n");
}

#[test]
fn peers_may_come_from_a_node() {
    let node = Node::start();
    let ended = ring(&format!("owner --http http://{}/ a b", node.http));
    assert_eq!(ended.out, format!("{}  a_b\n", node.grpc), "{ended:?}");
    let peer = |address| format!(r#"{{"grpc_address":"{address}","data_center":""}}"#);
    let body = format!(
        r#"{{"status":"healthy","local_peers":[{},{}],"region_peers":[{}]}}"#,
        peer("a:1"),
        peer("b:1"),
        peer("z:1")
    );
    let http = responder("/v1/HealthCheck", vec![answer("200 OK", &body)]);
    let json = ring(&format!("diff --http {http} --to a:1,b:1,c:1 --json")).json();
    assert_eq!(json, ring("diff --peers a:1,b:1 --to a:1,b:1,c:1 --json").json());
    for (given, expected) in [
        (answer("503 Service Unavailable", r#"{"code":14}"#), "use --peers"),
        (answer("200 OK", r#"{"status":"healthy"}"#), "use --peers"),
        (answer("200 OK", r#"{"local_peers":[]}"#), "it has no peers"),
        (answer("404 Not Found", "{}"), "is this the HTTP address of a node?"),
    ] {
        let ended = ring(&format!("share --http {}", responder("/v1/HealthCheck", vec![given])));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        let line = ended.error_line();
        assert!(line.starts_with("error: no peers from the node at ") && line.contains(expected), "{line}");
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for (line, names) in [
        ("share", "--peers"),
        ("share --peers a:1 --http b:1", "--http"),
        ("share --peers a,b:0", "'b:0': '0' is not a port"),
        ("share --peers a:1 --replicas 0", "--replicas"),
        ("share --peers a:1 --sample 0", "--sample"),
        ("share --peers a:1 --sample-keys uuid", "--sample"),
        ("owner --peers a:1", "no key"),
        ("owner --peers a:1 name", "a name alone is no key"),
        ("diff --peers a:1", "--to"),
        ("diff --peers a:1 --to ,", "no address"),
    ] {
        let ended = ring(line);
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        assert!(ended.err.contains(names), "{line}: {ended:?}");
    }
    let many: Vec<String> = (0..1_025).map(|n| format!("a:{}", n + 1)).collect();
    let ended = ring(&format!("share --peers {} --replicas 65536", many.join(",")));
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("67174400 points"), "{}", ended.err);
}
